//! A root for a confined process: an empty file system in memory, into which the visible folders of the machine are
//! mounted.
//!
//! All mounts are in a mount namespace of the process's own, so they end with it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use super::mount_list::unescaped;
use super::server_plan::{Access, files_of_place_max};
use super::step::{PROGRAM_FOLDERS, Step, StepFailure, quoted};

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];
/// The cache of libraries' paths. It is copied, since the mount of a single file would appear in the list of mounts.
const LIBRARIES: &str = "/etc/ld.so.cache";
/// The accounts, as in container images. In a sandbox, Python's `pwd` also knows an account for the code's user.
pub(super) const ACCOUNTS: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";
/// Folders that every machine has. The new root is built on one of them.
const BASES: [&str; 4] = ["/tmp", "/mnt", "/run", "/var"];
/// The mount options of the root, with space for its few own files.
const ROOT_OPTIONS: &str = "size=4m,mode=755";
/// The mount options of an empty folder that covers a folder of the kernel.
const EMPTY_OPTIONS: &str = "size=4k,mode=555";

/// The files of the machine in every root. They are opened before the root is built, which may cover them.
pub struct Machine {
    programs: Vec<(&'static str, Program)>,
    devices: Vec<(&'static str, File)>,
    libraries: Option<Vec<u8>>,
}

enum Program {
    Link(PathBuf),
    Folder(File),
}

impl Machine {
    /// Opens the machine's folders of programs and its devices.
    ///
    /// # Errors
    /// Names what could not be opened.
    pub fn open() -> Result<Self, StepFailure> {
        let mut programs = Vec::new();
        for path in PROGRAM_FOLDERS {
            if let Ok(target) = fs::read_link(path) {
                programs.push((path, Program::Link(target)));
            } else if Path::new(path).is_dir() {
                programs.push((path, Program::Folder(place(path)?)));
            }
        }
        let devices =
            DEVICES.iter().map(|path| Ok((*path, place(path)?))).collect::<Result<_, StepFailure>>()?;
        Ok(Self { programs, devices, libraries: fs::read(LIBRARIES).ok() })
    }
}

/// Opens a place of the machine by its real path, without reading it.
///
/// # Errors
/// It cannot be opened, or a part of its path is a symlink. Somebody else may have put the symlink there after the path
/// was resolved.
pub fn place(path: &str) -> Result<File, StepFailure> {
    opened(Path::new(path)).step(format!("open {}, without following symlinks", quoted(path)))
}

/// Opens a path without following symlinks, part by part, since kernels before 5.6 have no `openat2`.
fn opened(path: &Path) -> nix::Result<File> {
    let root = open("/", OF_PLACES, Mode::empty())?;
    Ok(File::from(parts(path)?.into_iter().try_fold(root, |place, part| part_of(&place, part))?))
}

const OF_PLACES: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

fn part_of(place: &OwnedFd, part: &OsStr) -> nix::Result<OwnedFd> {
    let place = openat(place, part, OF_PLACES, Mode::empty())?;
    let kind = SFlag::from_bits_truncate(fstat(&place)?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFLNK { Err(Errno::ELOOP) } else { Ok(place) }
}

/// The parts of an absolute path without `..`.
fn parts(path: &Path) -> nix::Result<Vec<&OsStr>> {
    let part = |part| match part {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(part) => Some(Ok(part)),
        Component::ParentDir | Component::Prefix(_) => Some(Err(Errno::EINVAL)),
    };
    path.components().filter_map(part).collect()
}

/// A root that is being built.
pub struct Root {
    base: PathBuf,
}

const INERT: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);
const SHUT: MsFlags = INERT.union(MsFlags::MS_NOEXEC);
/// The size of the memory for a process's changes in a layer, in MiB.
const LAYER_MIB: u64 = 512;

impl Root {
    /// Separates the mounts of this process from the machine's, and mounts an empty root.
    ///
    /// # Errors
    /// The error names the step that failed. The other functions return errors of the same form.
    pub fn new() -> Result<Self, StepFailure> {
        let all = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, all, None::<&str>)
            .namespace_step("part its mounts from the machine's")?;
        let base = base(BASES).ok_or(Errno::ENOENT).step("find a folder for its root")?;
        mount(Some("tmpfs"), &base, Some("tmpfs"), SHUT, Some(ROOT_OPTIONS))
            .namespace_step("mount its root")?;
        let root = Self { base };
        for path in ["/etc", "/dev", "/proc", "/sys", "/mnt"] {
            fs::create_dir(root.at(path)).step(format!("make {path}"))?;
        }
        Ok(root)
    }

    /// Adds the machine's programs and devices, and the few files that programs need.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn machine(&self, machine: Machine) -> Result<(), StepFailure> {
        for (path, program) in machine.programs {
            match program {
                Program::Link(target) => symlink(target, self.at(path)).step(format!("make {path}"))?,
                Program::Folder(folder) => self.show(&folder, path, Access::Execute)?,
            }
        }
        self.files(machine.libraries.as_deref())?;
        for (path, device) in machine.devices {
            fs::write(self.at(path), "").step(format!("make {path}"))?;
            self.device(&device, path)?;
        }
        for (path, target) in DEVICE_LINKS {
            symlink(target, self.at(path)).step(format!("make {path}"))?;
        }
        Ok(())
    }

    /// Mounts a writable place in memory, of `mib` MiB.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn writable(&self, path: &str, mib: u64) -> Result<(), StepFailure> {
        let files = files_of_place_max(mib);
        self.memory(path, &format!("size={mib}m,nr_inodes={files},mode=1777"), SHUT)
    }

    /// Mounts a writable place in memory, of `mib` MiB, in which files can be executed.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn private(&self, path: &str, mib: u64, mode: &str) -> Result<(), StepFailure> {
        let files = files_of_place_max(mib);
        self.memory(path, &format!("size={mib}m,nr_inodes={files},mode={mode}"), INERT)
    }

    /// Writes a file of the root itself.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn file(&self, path: &str, content: &[u8]) -> Result<(), StepFailure> {
        self.parent_of(path)?;
        fs::write(self.at(path), content).step(format!("write {}", quoted(path)))
    }

    /// Creates a symlink, unless something exists there already.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn link(&self, path: &str, target: &str) -> Result<(), StepFailure> {
        self.parent_of(path)?;
        match symlink(target, self.at(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made.step(format!("make {}", quoted(path))),
        }
    }

    fn parent_of(&self, path: &str) -> Result<(), StepFailure> {
        let at = self.at(path);
        at.parent().map_or(Ok(()), fs::create_dir_all).step(format!("make the folder of {}", quoted(path)))
    }

    /// The place of a path while the root is built.
    fn at(&self, path: &str) -> PathBuf {
        self.base.join(path.trim_start_matches('/'))
    }

    fn files(&self, libraries: Option<&[u8]>) -> Result<(), StepFailure> {
        let files = [
            ("/etc/passwd", ACCOUNTS),
            ("/etc/group", GROUPS),
            ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
            ("/etc/hostname", "sandbox\n"),
            ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ];
        for (path, text) in files {
            fs::write(self.at(path), text).step(format!("write {path}"))?;
        }
        match libraries {
            Some(libraries) => fs::write(self.at(LIBRARIES), libraries).step(format!("write {LIBRARIES}")),
            None => Ok(()),
        }
    }

    /// Mounts a file or folder of the machine, with the mounts inside it.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn show(&self, place: &File, path: &str, access: Access) -> Result<(), StepFailure> {
        let is_folder = place.metadata().step(format!("look at {}", quoted(path)))?.is_dir();
        let at = made(&self.base, Path::new(path), is_folder).step(format!("make {}", quoted(path)))?;
        if access == Access::Layer && is_folder && self.layer(place, (path, &at)).is_ok() {
            return Ok(());
        }
        self.bind(place, (path, &at))?;
        let flags = match access {
            Access::Execute | Access::Layer => MsFlags::MS_RDONLY | INERT,
            Access::Read => MsFlags::MS_RDONLY | SHUT,
            Access::Write => SHUT,
            Access::Change => INERT,
        };
        for mounted in self.mounts_below(path)? {
            restrict(&mounted, flags).step(format!("restrict {}", quoted(path)))?;
        }
        Ok(())
    }

    /// Mounts a folder of the machine under a layer in memory that takes all changes. Kernels before 5.11 refuse it to
    /// ordinary users.
    fn layer(&self, folder: &File, (path, at): (&str, &OwnedFd)) -> Result<(), StepFailure> {
        const LAYER: &str = "/dev/layer";
        self.private(LAYER, LAYER_MIB, "700")?;
        let [upper, work] = ["upper", "work"].map(|name| self.at(LAYER).join(name));
        let made =
            [&upper, &work].into_iter().try_for_each(fs::create_dir).step("make a layer").and_then(|()| {
                let [upper, work] = [&upper, &work].map(|path| path.display());
                let lower = folder.as_raw_fd();
                let options =
                    format!("lowerdir=/proc/self/fd/{lower},upperdir={upper},workdir={work},userxattr");
                mount(Some("overlay"), named(at).as_str(), Some("overlay"), INERT, Some(options.as_str()))
                    .step(format!("mount a layer on {}", quoted(path)))
            });
        // The layer continues to exist through its mounted folder.
        umount2(&self.at(LAYER), MntFlags::MNT_DETACH).step("hide the layer")?;
        fs::remove_dir(self.at(LAYER)).step("remove the folder of the layer")?;
        made
    }

    /// Mounts a device read-only. Programs can still write to the device, since the kernel applies read-only mounts to
    /// ordinary files. They cannot change its mode.
    fn device(&self, device: &File, path: &str) -> Result<(), StepFailure> {
        let at = made(&self.base, Path::new(path), false).step(format!("make {}", quoted(path)))?;
        self.bind(device, (path, &at))?;
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        restrict(&self.at(path), flags).step(format!("restrict {}", quoted(path)))
    }

    fn bind(&self, source: &File, (path, at): (&str, &OwnedFd)) -> Result<(), StepFailure> {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(named(source).as_str()), named(at).as_str(), None::<&str>, flags, None::<&str>)
            .step(format!("mount {}", quoted(path)))
    }

    /// Mounts an empty file system in memory.
    fn memory(&self, path: &str, options: &str, flags: MsFlags) -> Result<(), StepFailure> {
        fs::create_dir_all(self.at(path)).step(format!("make {}", quoted(path)))?;
        mount(Some("tmpfs"), &self.at(path), Some("tmpfs"), flags, Some(options))
            .step(format!("mount {}", quoted(path)))
    }

    /// Mounts a /proc of the process's own PID namespace, without these files of the machine.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn processes(&self, masked: &[String]) -> Result<(), StepFailure> {
        self.own_processes()?;
        self.mask(masked.iter().filter(|path| path.starts_with("/proc/")).map(String::as_str))
    }

    /// Mounts a /proc of the process's own PID namespace, with only these of the machine's files.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn processes_and(&self, shown: &[&str]) -> Result<(), StepFailure> {
        self.own_processes()?;
        let entries = fs::read_dir(self.at("/proc")).step("list /proc")?;
        let names = entries.filter_map(|entry| {
            let entry = entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))?;
            entry.file_name().into_string().ok()
        });
        let hidden = names.filter(|name| !shown.contains(&name.as_str()) && name.parse::<u32>().is_err());
        let hidden: Vec<String> = hidden.map(|name| format!("/proc/{name}")).collect();
        self.mask(hidden.iter().map(String::as_str))
    }

    fn own_processes(&self) -> Result<(), StepFailure> {
        mount(Some("proc"), &self.at("/proc"), Some("proc"), SHUT, None::<&str>).namespace_step("mount /proc")
    }

    fn mask<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Result<(), StepFailure> {
        let null = place("/dev/null")?;
        for path in paths {
            let at = self.at(path);
            if at.is_dir() {
                self.memory(path, EMPTY_OPTIONS, SHUT | MsFlags::MS_RDONLY)?;
            } else if at.exists() {
                self.device(&null, path)?;
            }
        }
        Ok(())
    }

    /// The mount points at a path and below it. The path itself must be one of them.
    fn mounts_below(&self, path: &str) -> Result<Vec<PathBuf>, StepFailure> {
        let mounts = fs::read("/proc/self/mountinfo").step("list its mounts")?;
        mounts_at(&String::from_utf8_lossy(&mounts), &self.at(path))
            .step(format!("find {} among its mounts", quoted(path)))
    }

    /// Makes this the root of the process's namespace, and hides the machine's root.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn enter(self) -> Result<(), StepFailure> {
        chdir(&self.base).step("enter its root")?;
        pivot_root(".", ".").namespace_step("change its root")?;
        umount2(".", MntFlags::MNT_DETACH).namespace_step("unmount the machine's root")?;
        chdir("/").step("enter its root")?;
        restrict(Path::new("/"), SHUT | MsFlags::MS_RDONLY).namespace_step("close its root")
    }
}

/// Opens a file or folder below another, and creates it if it does not exist. Symlinks are not followed, since mounted
/// folders above may be changed meanwhile.
fn made(base: &Path, path: &Path, is_folder: bool) -> nix::Result<OwnedFd> {
    let parts = parts(path)?;
    let mut place = OwnedFd::from(opened(base)?);
    for (number, part) in parts.iter().enumerate() {
        place = match part_of(&place, part) {
            Err(Errno::ENOENT) => {
                if is_folder || number + 1 < parts.len() {
                    mkdirat(&place, *part, Mode::from_bits_truncate(0o755))?;
                } else {
                    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
                    drop(openat(&place, *part, flags, Mode::from_bits_truncate(0o644))?);
                }
                part_of(&place, part)?
            }
            found => found?,
        };
    }
    Ok(place)
}

/// The path by which an open file can be named.
fn named(open: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", open.as_raw_fd())
}

/// The real path of the first of these that is a folder, since the kernel lists mounts by real paths.
fn base<T: AsRef<Path>>(paths: impl IntoIterator<Item = T>) -> Option<PathBuf> {
    paths.into_iter().filter_map(|path| fs::canonicalize(path).ok()).find(|path| path.is_dir())
}

/// The mount points in this list at a path and below it.
fn mounts_at(list: &str, place: &Path) -> Result<Vec<PathBuf>, Errno> {
    let places = list.lines().filter_map(|line| Some(unescaped(line.split(' ').nth(4)?.as_bytes())));
    let found: Vec<_> = places.filter(|mounted| mounted.starts_with(place)).collect();
    if found.iter().any(|mounted| mounted == place) { Ok(found) } else { Err(Errno::ENOENT) }
}

/// Adds restrictions to a mount. Present restrictions must be repeated.
fn restrict(mounted: &Path, flags: MsFlags) -> nix::Result<()> {
    let has = statvfs(mounted)?.flags();
    let kept = [
        (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    let kept = kept.into_iter().filter(|(own, _)| has.contains(*own)).map(|(_, flag)| flag);
    let flags = kept.fold(flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT, MsFlags::union);
    mount(None::<&str>, mounted, None::<&str>, flags, None::<&str>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_path_that_is_opened_is_a_symlink() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("real/sub")).unwrap();
        fs::write(dir.join("real/sub/file"), "x").unwrap();
        symlink("real", dir.join("link")).unwrap();
        symlink("sub", dir.join("real/link")).unwrap();
        let opened = |path: &str| opened(&dir.join(path)).map(|file| file.metadata().unwrap().is_dir());
        assert_eq!(opened("real/sub"), Ok(true));
        assert_eq!(opened("real/sub/file"), Ok(false));
        for path in ["link", "link/sub", "real/link", "real/link/file"] {
            assert_eq!(opened(path), Err(Errno::ELOOP), "{path}");
        }
        assert_eq!(opened("real/nothing"), Err(Errno::ENOENT));
        let failed = place(&format!("{}/x: no. What to do: y", dir.display())).unwrap_err();
        let named = format!("open \"{}/x: no. What to do: y\", without following symlinks", dir.display());
        assert_eq!(failed.could_not, named);
        for (path, is_folder) in [("/new/folder", true), ("/real/file", false), ("/real/sub", true)] {
            made(&dir, Path::new(path), is_folder).unwrap();
            assert_eq!(dir.join(&path[1..]).is_dir(), is_folder);
        }
        for path in ["/link/new", "/real/link/new", "/real/../up"] {
            assert!(made(&dir, Path::new(path), true).is_err(), "{path}");
        }
        assert!(!dir.join("real/new").exists() && !dir.join("real/sub/new").exists());
    }

    #[test]
    fn the_root_is_built_at_a_real_path() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
        let [link, broken] = ["link", "broken"].map(|name| dir.path().join(name));
        symlink(&real, &link).unwrap();
        symlink("nowhere", &broken).unwrap();
        assert_eq!(base([&broken, &link]), Some(real));
        assert_eq!(base([&broken]), None);
    }

    #[test]
    fn a_mount_that_is_not_listed_is_an_error() {
        let list = "21 1 0:20 / /tmp/usr rw - ext4 /dev/a rw\n\
                    22 21 0:21 / /tmp/usr/local rw - ext4 /dev/b rw\n\
                    23 1 0:22 / /tmp/usrx rw - ext4 /dev/c rw\n";
        let found = mounts_at(list, Path::new("/tmp/usr")).unwrap();
        assert_eq!(found, ["/tmp/usr", "/tmp/usr/local"].map(PathBuf::from));
        assert_eq!(mounts_at(list, Path::new("/link/usr")), Err(Errno::ENOENT));
        assert_eq!(mounts_at(list, Path::new("/tmp")), Err(Errno::ENOENT));
    }
}
