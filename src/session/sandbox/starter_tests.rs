//! Claims about the check of a folder directly before it is mounted.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A folder for the test, by its real path.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

fn folder(host: &Path) -> Folder {
    Folder { host: host.display().to_string(), guest: "/mnt/data".into(), writable: false, identity: None }
}

fn identity(path: &Path) -> FileIdentity {
    let found = fs::metadata(path).unwrap();
    FileIdentity(found.dev(), found.ino())
}

#[test]
fn a_folder_is_known_by_its_device_and_inode_and_is_refused_if_a_link_leads_to_it() {
    let (_dir, place) = place();
    let (plain, linked) = (place.join("plain"), place.join("linked"));
    fs::create_dir_all(plain.join("below")).unwrap();
    symlink("plain", &linked).unwrap();
    let (found, opened) = checked(&folder(&plain)).unwrap();
    assert_eq!(found, Folder { identity: Some(identity(&plain)), ..folder(&plain) });
    let opened = opened.metadata().unwrap();
    assert_eq!(FileIdentity(opened.dev(), opened.ino()), identity(&plain));
    for path in [&linked, &linked.join("below")] {
        let refused = checked(&folder(path)).unwrap_err();
        assert_eq!(refused.to_string(), "the path has a link");
    }
    fs::write(place.join("file"), "").unwrap();
    assert!(checked(&folder(&place.join("file"))).is_err());
    assert!(checked(&folder(&place.join("missing"))).is_err());
}

#[test]
fn a_folder_that_another_user_can_replace_is_refused() {
    let (_dir, place) = place();
    let (above, plain) = (place.join("above"), place.join("above/plain"));
    fs::create_dir_all(&plain).unwrap();
    for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
        fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
        let refused = checked(&folder(&plain)).err().map(|error| error.to_string());
        let expected = is_refused.then(|| "another user can choose what is there".to_owned());
        assert_eq!(refused, expected, "{mode:o}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_takes_the_place_of_a_folder_during_the_check_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

    let (_dir, place) = place();
    let (above, link) = (place.join("above"), place.join("link"));
    for name in ["above/plain", "elsewhere/plain"] {
        fs::create_dir_all(place.join(name)).unwrap();
    }
    symlink("elsewhere", &link).unwrap();
    let asked = folder(&above.join("plain"));
    let own = identity(&above.join("plain"));
    let is_over = AtomicBool::new(false);
    let (mut passed, mut wrong, mut refused, mut replaced) = (0, 0, 0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat2(AT_FDCWD, &above, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE).unwrap();
            }
        });
        // The last one shows that the link has come between two steps of the check.
        while wrong == 0 && (passed == 0 || replaced < 10) && passed + refused < 1_000_000 {
            match checked(&asked) {
                Ok((found, _)) => {
                    passed += 1;
                    wrong += usize::from(found.identity != Some(own));
                }
                Err(error) => {
                    refused += 1;
                    replaced += usize::from(error.to_string() == "the path was replaced");
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong, 0);
    assert!(passed > 0 && replaced >= 10, "{passed} {refused} {replaced}");
}
