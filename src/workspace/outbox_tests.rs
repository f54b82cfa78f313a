//! What the outbox keeps, removes and refuses, with real folders.

use std::io::Write;
use std::os::unix::fs::symlink;

use super::*;

fn session(number: u8) -> WorkspaceName {
    WorkspaceName::new(&format!("{number:02x}").repeat(16)).unwrap()
}

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

/// An open file of so many bytes.
fn file(bytes: usize) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![b'x'; bytes]).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

/// One file of a session that ends with it, so many seconds after 1970.
fn ended(outbox: &Outbox, number: u8, bytes: usize, seconds: i64) {
    let mut own = outbox.of(&session(number)).unwrap();
    outbox.take(&mut own, &path("f"), file(bytes)).unwrap();
    let lock = File::options().write(true).open(lock_path(own.folder())).unwrap();
    let time = nix::sys::time::TimeSpec::new(seconds, 0);
    nix::sys::stat::futimens(&lock, &time, &time).unwrap();
}

fn sessions(outbox: &Outbox) -> Vec<WorkspaceName> {
    outbox.all().unwrap().into_iter().map(|of| of.session).collect()
}

fn files(view: &View) -> Vec<String> {
    view.all().unwrap().iter().map(|kept| kept.path.to_string()).collect()
}

#[test]
fn what_was_handed_over_is_there_after_its_session_and_found_by_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::new(dir.path().join("outbox"), &Limits::default());
    assert_eq!((sessions(&outbox), outbox.last_with(&path("f"))), (vec![], None));
    ended(&outbox, 1, 3, 10);
    ended(&outbox, 2, 4, 20);
    let all = outbox.all().unwrap();
    assert_eq!(sessions(&outbox), [session(1), session(2)]);
    assert_eq!(all[1].view.read(&path("f"), 9).unwrap(), b"xxxx");
    assert_eq!(outbox.last_with(&path("f")), Some(session(2)));
    assert_eq!(outbox.last_with(&path("g")), None);
    outbox.of(&session(2)).unwrap().discard();
    assert_eq!(outbox.last_with(&path("f")), Some(session(1)));
}

#[test]
fn the_oldest_sessions_go_when_there_are_too_many_and_none_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { outbox_sessions_max: 3, ..Limits::default() };
    let outbox = Outbox::new(dir.path().into(), &limits);
    ended(&outbox, 9, 1, 10);
    let goes_on = outbox.of(&session(9)).unwrap();
    for number in 1..=4 {
        ended(&outbox, number, 1, 20 + i64::from(number));
    }
    assert_eq!(sessions(&outbox), [session(9), session(3), session(4)]);
    drop(goes_on);
    ended(&outbox, 5, 1, 30);
    assert_eq!(sessions(&outbox), [session(3), session(4), session(5)]);
}

#[test]
fn the_oldest_go_when_all_are_too_large_and_then_the_oldest_files_of_the_session_itself() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { outbox_bytes_max: 100, ..Limits::default() };
    let outbox = Outbox::new(dir.path().into(), &limits);
    for number in 1..=3 {
        ended(&outbox, number, 30, i64::from(number));
    }
    let mut own = outbox.of(&session(4)).unwrap();
    outbox.take(&mut own, &path("a/b/first"), file(40)).unwrap();
    assert_eq!(sessions(&outbox), [session(2), session(3), session(4)]);
    outbox.take(&mut own, &path("second"), file(50)).unwrap();
    assert_eq!(sessions(&outbox), [session(4)]);
    outbox.take(&mut own, &path("third"), file(20)).unwrap();
    assert_eq!(files(&own.view()), ["second", "third"], "neither the oldest file nor its empty folders");
    let error = outbox.take(&mut own, &path("fourth"), file(101)).unwrap_err();
    assert!(matches!(error, WorkspaceError::Full { .. }), "{error}");
    assert_eq!(files(&own.view()), ["second", "third"], "nothing goes for it");
}

#[test]
fn one_session_has_no_more_files_than_a_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { workspace_files_max: 2, workspace_bytes_max: 10, ..Limits::default() };
    let outbox = Outbox::new(dir.path().into(), &limits);
    let mut own = outbox.of(&session(1)).unwrap();
    for name in ["a", "b", "c"] {
        outbox.take(&mut own, &path(name), file(1)).unwrap();
    }
    assert_eq!(files(&own.view()), ["b", "c"]);
    outbox.take(&mut own, &path("d"), file(9)).unwrap();
    assert_eq!(files(&own.view()), ["c", "d"]);
    outbox.take(&mut own, &path("d"), file(2)).unwrap();
    let error = outbox.take(&mut own, &path("e"), file(11)).unwrap_err();
    assert!(matches!(error, WorkspaceError::Full { .. }), "{error}");
}

#[test]
fn nothing_leads_out_of_the_folder_and_nothing_of_others_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (dir.path().join("outbox"), dir.path().join("elsewhere"));
    let outbox = Outbox::new(root.clone(), &Limits { outbox_sessions_max: 1, ..Limits::default() });
    let mut own = outbox.of(&session(1)).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, own.folder().join("files/out")).unwrap();
    let error = outbox.take(&mut own, &path("out/f"), file(1)).unwrap_err().to_string();
    assert!(error.ends_with("a link in its path leads elsewhere"), "{error}");
    // In the place of a link, not through it.
    fs::write(elsewhere.join("kept"), "theirs").unwrap();
    symlink(elsewhere.join("kept"), own.folder().join("files/link")).unwrap();
    outbox.take(&mut own, &path("link"), file(1)).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("kept")).unwrap(), "theirs");
    let error = outbox.take(&mut own, &path("folder"), File::open(&elsewhere).unwrap()).unwrap_err();
    assert!(error.to_string().ends_with("it is no plain file"), "{error}");
    drop(own);
    // Neither a link in the place of a session nor what somebody else has put there is a session.
    fs::create_dir_all(elsewhere.join("files")).unwrap();
    fs::write(elsewhere.join("lock"), "").unwrap();
    symlink(&elsewhere, root.join(session(2).as_str())).unwrap();
    fs::create_dir_all(root.join("mine/files")).unwrap();
    fs::write(root.join("mine/lock"), "").unwrap();
    ended(&outbox, 3, 1, 1);
    assert_eq!(sessions(&outbox), [session(3)]);
    assert!(elsewhere.join("kept").exists() && root.join("mine/files").exists());
}
