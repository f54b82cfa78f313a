//! What a workspace keeps, gives back and refuses, with real folders.

use std::os::unix::fs::symlink;

use super::*;

fn location(root: &Path, name: Option<&str>) -> WorkspaceLocation {
    WorkspaceLocation { root: root.to_owned(), name: name.map(|name| WorkspaceName::new(name).unwrap()) }
}

fn open(root: &Path, name: &str) -> Workspace {
    Workspace::open(&location(root, Some(name)), &Limits::default()).unwrap()
}

fn piece(path: &str, offset: u64, bytes: &[u8], is_last: bool) -> Piece {
    Piece {
        path: FilePath::new(path).unwrap(),
        is_folder: false,
        is_executable: false,
        modified_us: 1_700_000_000_123_456,
        offset,
        bytes: bytes.to_vec(),
        is_last,
    }
}

fn folder(path: &str) -> Piece {
    Piece { is_folder: true, ..piece(path, 0, b"", true) }
}

fn shown(workspace: &Workspace) -> Vec<String> {
    let all = workspace.view().all().unwrap();
    all.iter().map(|kept| format!("{}{}", kept.path, if kept.is_folder { "/" } else { "" })).collect()
}

fn bytes(workspace: &Workspace, path: &str) -> Vec<u8> {
    let pieces = workspace.view().pieces(&FilePath::new(path).unwrap()).unwrap();
    pieces.flat_map(|piece| piece.unwrap().bytes).collect()
}

#[test]
fn files_come_back_as_they_were_also_to_the_next_holder() {
    let root = tempfile::tempdir().unwrap();
    let big = vec![7_u8; 600_000];
    {
        let mut workspace = open(root.path(), "w");
        workspace.take(&piece("a.csv", 0, b"1,2", false)).unwrap();
        assert_eq!(shown(&workspace), [] as [&str; 0], "it is not whole");
        workspace.take(&piece("a.csv", 3, b",3", true)).unwrap();
        workspace.take(&folder("out")).unwrap();
        workspace.take(&Piece { is_executable: true, ..piece("deep/er/run.sh", 0, &big, true) }).unwrap();
        workspace.take(&piece("empty", 0, b"", true)).unwrap();
    }
    let workspace = open(root.path(), "w");
    assert_eq!(shown(&workspace), ["a.csv", "deep/", "deep/er/", "deep/er/run.sh", "empty", "out/"]);
    assert_eq!(bytes(&workspace, "a.csv"), b"1,2,3");
    assert_eq!(bytes(&workspace, "deep/er/run.sh"), big);
    let pieces = |path| workspace.view().pieces(&FilePath::new(path).unwrap()).unwrap().map(Result::unwrap);
    assert_eq!(pieces("a.csv").next(), Some(piece("a.csv", 0, b"1,2,3", true)));
    assert!(pieces("deep/er/run.sh").all(|piece| piece.is_executable));
    assert_eq!(pieces("empty").count(), 1);
    assert!(pieces("out").next().unwrap().is_folder);
    let about = fs::metadata(root.path().join("w/files/a.csv")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(root.path().join("w")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_takes_the_place_of_something_else_replaces_it() {
    let root = tempfile::tempdir().unwrap();
    let mut workspace = open(root.path(), "w");
    workspace.take(&piece("a", 0, b"old", true)).unwrap();
    workspace.take(&piece("a", 0, b"new", true)).unwrap();
    assert_eq!(bytes(&workspace, "a"), b"new");
    workspace.take(&folder("a")).unwrap();
    workspace.take(&piece("a/b", 0, b"b", true)).unwrap();
    assert_eq!(shown(&workspace), ["a/", "a/b"]);
    assert!(workspace.take(&piece("a", 0, b"file", true)).is_err(), "the folder is not empty");
    workspace.remove(&FilePath::new("a/b").unwrap()).unwrap();
    workspace.take(&piece("a", 0, b"file", true)).unwrap();
    assert_eq!(shown(&workspace), ["a"]);
    workspace.remove(&FilePath::new("a").unwrap()).unwrap();
    workspace.remove(&FilePath::new("a").unwrap()).unwrap();
    assert_eq!(shown(&workspace), [] as [&str; 0]);
}

#[test]
fn a_file_whose_pieces_do_not_follow_each_other_stays_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let mut workspace = open(root.path(), "w");
    workspace.take(&piece("a", 0, b"whole", true)).unwrap();
    workspace.take(&piece("a", 0, b"ha", false)).unwrap();
    let error = workspace.take(&piece("a", 3, b"lf", true)).unwrap_err();
    assert_eq!(error.to_string(), "a came in pieces that do not fit together");
    workspace.take(&piece("a", 0, b"ha", false)).unwrap();
    assert!(workspace.take(&piece("b", 2, b"lf", true)).is_err());
    workspace.take(&piece("a", 0, b"ha", false)).unwrap();
    drop(workspace);
    let workspace = open(root.path(), "w");
    assert_eq!((shown(&workspace), bytes(&workspace, "a")), (vec!["a".to_owned()], b"whole".to_vec()));
}

#[test]
fn more_than_a_workspace_holds_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { workspace_bytes_max: 10, workspace_files_max: 2, ..Limits::default() };
    let mut workspace = Workspace::open(&location(root.path(), Some("w")), &limits).unwrap();
    workspace.take(&piece("a", 0, b"123456", true)).unwrap();
    let error = workspace.take(&piece("b", 0, b"12345", true)).unwrap_err();
    assert_eq!(error.to_string(), "there is room for at most 10 bytes in 2 files and folders");
    assert!(matches!(workspace.take(&piece("a", 0, &[0; 11], true)), Err(WorkspaceError::Full { .. })));
    workspace.take(&piece("a", 0, b"1234567890", true)).unwrap();
    workspace.take(&folder("b")).unwrap();
    assert!(workspace.take(&folder("c")).is_err() && workspace.take(&piece("c", 0, b"", true)).is_err());
    workspace.remove(&FilePath::new("b").unwrap()).unwrap();
    workspace.take(&piece("c", 0, b"", true)).unwrap();
    drop(workspace);
    let mut workspace = Workspace::open(&location(root.path(), Some("w")), &limits).unwrap();
    assert!(workspace.take(&piece("d", 0, b"", true)).is_err(), "what was there before counts");
    assert_eq!(shown(&workspace), ["a", "c"]);
}

#[test]
fn a_file_of_the_hosts_is_put_in_whole_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let limits = Limits { workspace_bytes_max: 10, workspace_files_max: 3, ..Limits::default() };
    let mut workspace = Workspace::open(&location(root.path(), Some("w")), &limits).unwrap();
    let mut put = |path: &str, text: &str| {
        let host = root.path().join("host");
        fs::write(&host, text).unwrap();
        workspace.put(&FilePath::new(path).unwrap(), File::open(host).unwrap())
    };
    put("in/a", "12345").unwrap();
    put("in/a", "1234567890").unwrap();
    assert!(matches!(put("b", "1"), Err(WorkspaceError::Full { .. })));
    assert!(matches!(put("in/a", "12345678901"), Err(WorkspaceError::Full { .. })));
    put("in/a", "123").unwrap();
    put("b", "4").unwrap();
    assert!(put("in", "1").unwrap_err().to_string().contains("there is a folder of that name"));
    assert_eq!(
        (shown(&workspace), bytes(&workspace, "in/a")),
        (vec!["b".into(), "in/".into(), "in/a".into()], b"123".to_vec())
    );
}

#[test]
fn links_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret"), "s").unwrap();
    let mut workspace = open(root.path(), "w");
    symlink(elsewhere.path().join("secret"), root.path().join("w/files/link")).unwrap();
    symlink(elsewhere.path(), root.path().join("w/files/folder")).unwrap();
    assert_eq!(shown(&workspace), [] as [&str; 0]);
    assert!(workspace.view().pieces(&FilePath::new("link").unwrap()).is_err());
    let below = FilePath::new("folder/secret").unwrap();
    assert!(workspace.view().pieces(&below).is_err() && workspace.remove(&below).is_err());
    assert!(workspace.take(&piece("folder/secret", 0, b"mine", true)).is_err());
    assert!(workspace.take(&piece("folder/new", 0, b"mine", true)).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    workspace.take(&piece("link", 0, b"mine", true)).unwrap();
    assert_eq!(fs::read(elsewhere.path().join("secret")).unwrap(), b"s");
    assert_eq!(bytes(&workspace, "link"), b"mine");
}

#[test]
fn one_has_a_workspace_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path(), "w");
    let error = Workspace::open(&location(root.path(), Some("w")), &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "the workspace \"w\" is in use by another belljar");
    drop(open(root.path(), "other"));
    drop(first);
    drop(open(root.path(), "w"));
}

#[test]
fn a_sessions_own_ends_with_it_or_with_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let folders = || fs::read_dir(root.path()).unwrap().count();
    let mut one = Workspace::open(&location(root.path(), None), &Limits::default()).unwrap();
    one.take(&piece("a", 0, b"a", true)).unwrap();
    let two = Workspace::open(&location(root.path(), None), &Limits::default()).unwrap();
    assert_eq!((folders(), shown(&one), shown(&two).len()), (2, vec!["a".to_owned()], 0));
    drop(two);
    assert_eq!(folders(), 1);
    // As after kill -9: the lock is free, and the folder is there.
    let left = one.folder().to_owned();
    drop(one);
    fs::create_dir_all(left.join(FILES)).unwrap();
    fs::write(left.join(LOCK), "").unwrap();
    drop(open(root.path(), "w"));
    assert!(!left.exists());
    // The same in the midst of its making, or when the lock was the first that was removed.
    fs::create_dir_all(left.join(FILES)).unwrap();
    drop(open(root.path(), "w"));
    assert!(!left.exists());
}

#[test]
fn no_folder_of_a_workspace_is_a_symlink() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("private"), "x").unwrap();
    for link in ["w", "w/files", "w/incoming"] {
        let at = root.path().join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(elsewhere.path(), &at).unwrap();
        let refused = Workspace::open(&location(root.path(), Some("w")), &Limits::default()).unwrap_err();
        assert!(refused.to_string().ends_with("a symlink has its name"), "{link}: {refused}");
        let view = View::named(root.path(), &WorkspaceName::new("w").unwrap());
        assert!(view.is_none_or(|view| view.all().unwrap().is_empty()), "{link}");
        fs::remove_file(at).unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "{link}");
    }
    assert!(Workspace::open(&location(root.path(), Some("w")), &Limits::default()).is_ok(), "the control");
}

#[cfg(target_os = "linux")]
#[test]
fn what_takes_the_place_of_an_open_workspace_is_neither_read_nor_written() {
    let base = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (base.path().join("root"), base.path().join("elsewhere"));
    let mut workspace = open(&root, "w");
    workspace.take(&piece("a", 0, b"one", true)).unwrap();
    fs::create_dir_all(elsewhere.join("w/files")).unwrap();
    fs::write(elsewhere.join("w/files/private"), "x").unwrap();
    fs::rename(&root, base.path().join("moved")).unwrap();
    symlink(&elsewhere, &root).unwrap();
    workspace.take(&piece("b", 0, b"two", true)).unwrap();
    assert_eq!((shown(&workspace), bytes(&workspace, "b")), (vec!["a".into(), "b".into()], b"two".to_vec()));
    assert_eq!(fs::read_dir(elsewhere.join("w/files")).unwrap().count(), 1);
    workspace.discard();
    assert!(elsewhere.join("w/files/private").exists() && !base.path().join("moved/w").exists());
}
