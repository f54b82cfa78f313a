//! The names that bind mounts give a file or folder, from the kernel's list of mounts.
//!
//! It opens nothing, follows no symlink and refuses nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mounts of this process's namespace; none where the system does not list them.
#[derive(Debug, Default)]
pub struct MountList(Vec<Mount>);

#[derive(Debug)]
struct Mount {
    device: Vec<u8>,
    /// The folder of the file system that is mounted.
    root: PathBuf,
    /// The path at which it is mounted.
    point: PathBuf,
}

impl MountList {
    /// The mounts that there are now.
    #[must_use]
    pub fn now() -> Self {
        Self::parsed(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parsed(list: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
            Some(Mount { device: device.to_owned(), root: unescaped(root), point: unescaped(point) })
        };
        Self(list.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// All paths of a real file or folder. A path at which another mount hides it may be among them.
    #[must_use]
    pub fn names_of(&self, real: &Path) -> BTreeSet<PathBuf> {
        let names = self.spots(real).flat_map(|(device, spot)| {
            let of_device = self.0.iter().filter(move |mount| mount.device == device);
            of_device.filter_map(move |mount| Some(mount.point.join(spot.strip_prefix(&mount.root).ok()?)))
        });
        [real.to_owned()].into_iter().chain(names).collect()
    }

    /// All paths at which a real folder, or something in it, is found: its own, and those of mounts of its parts.
    #[must_use]
    pub fn names_of_parts(&self, real: &Path) -> BTreeSet<PathBuf> {
        let inner = self.0.iter().filter(|mount| mount.point.starts_with(real));
        let inner = inner.map(|mount| (mount.device.as_slice(), mount.root.clone()));
        let parts = self.spots(real).chain(inner).flat_map(|(device, spot)| {
            let is_part = move |mount: &&Mount| mount.device == device && mount.root.starts_with(&spot);
            self.0.iter().filter(is_part).map(|mount| mount.point.clone())
        });
        self.names_of(real).into_iter().chain(parts).collect()
    }

    /// Whether a real path is this real folder, or lies in it, by whatever name.
    #[must_use]
    pub fn lies_in(&self, real: &Path, folder: &Path) -> bool {
        self.names_of_parts(folder).iter().any(|name| real.starts_with(name))
    }

    /// Where a path may lie in file systems: in that of the nearest mount above it, and in those that it may hide.
    fn spots(&self, real: &Path) -> impl Iterator<Item = (&[u8], PathBuf)> {
        let spot = |mount: &Mount| Some(mount.root.join(real.strip_prefix(&mount.point).ok()?));
        let spots: Vec<_> =
            self.0.iter().filter_map(|mount| Some((mount.device.as_slice(), spot(mount)?))).collect();
        spots.into_iter()
    }
}

/// A path from the list of mounts, in which the kernel writes some characters as octal numbers.
pub(super) fn unescaped(written: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(written.len()), written);
    while let [first, tail @ ..] = rest {
        let digits =
            tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read_as_the_kernel_writes_them() {
        for (written, path) in [
            ("/mnt/my\\040data", "/mnt/my data"),
            ("/usr", "/usr"),
            ("/a\\134b", "/a\\b"),
            ("/a\\134040", "/a\\040"),
            ("/a\\04", "/a\\04"),
        ] {
            assert_eq!(unescaped(written.as_bytes()), Path::new(path));
        }
    }

    #[test]
    fn a_folder_and_what_is_in_it_are_known_by_every_name() {
        let list = MountList::parsed(
            b"21 1 8:1 / / rw shared:1 - ext4 /dev/a rw\n\
              22 21 8:2 /@home /home rw - btrfs /dev/b rw\n\
              23 22 8:2 /@home/me/data /home/me/alias rw - btrfs /dev/b rw\n\
              24 22 8:2 /@home/me/data/a\\040b /home/me/part rw - btrfs /dev/b rw\n\
              25 22 8:3 / /home/me/data/disk rw - ext4 /dev/c rw\n\
              26 21 8:3 /x /media/disk rw - ext4 /dev/c rw\n",
        );
        let is_in = |path: &str, folder: &str| list.lies_in(Path::new(path), Path::new(folder));
        for path in [
            "data",
            "data/x",
            "alias",
            "alias/x",
            "part",
            "part/x",
            "data/a b/x",
            "alias/a b",
            "../../media/disk/x",
        ] {
            let path = path.strip_prefix("../..").map_or(format!("/home/me/{path}"), str::to_owned);
            assert!(is_in(&path, "/home/me/data"), "{path}");
            assert_eq!(is_in(&path, "/home/me/alias"), !path.starts_with("/media"), "{path}");
        }
        for path in ["/home/me", "/home/me/database", "/home/me/aliases", "/media", "/@home/me/data"] {
            assert!(!is_in(path, "/home/me/data"), "{path}");
        }
        for (path, folder, expected) in [
            ("/home/me/part/x", "/home/me/data/a b", true),
            ("/home/me/alias/a b/x", "/home/me/part", true),
            ("/home/me/alias/x", "/home/me/part", false),
            ("/home/me/part", "/home/me/data/a b/x", false),
            ("/media/disk", "/home/me/data/disk/x", true),
            ("/media/disk", "/home/me/data/disk/y", false),
        ] {
            assert_eq!(is_in(path, folder), expected, "{path} {folder}");
        }
        let names = list.names_of(Path::new("/home/me/part/x"));
        for name in ["/home/me/part/x", "/home/me/alias/a b/x", "/home/me/data/a b/x"] {
            assert!(names.contains(Path::new(name)), "{name}: {names:?}");
        }
        let none = MountList::default();
        assert!(
            none.lies_in(Path::new("/a/b"), Path::new("/a"))
                && !none.lies_in(Path::new("/ab"), Path::new("/a"))
        );
    }
}
