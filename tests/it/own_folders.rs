//! Folders in which belljar stores something, where another user has made one of them or a symlink in one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use crate::support::Home;

/// Each folder that belljar stores something in, below the scratch folder that all variables name.
const STORES: [&str; 7] = [
    "belljar",
    "belljar/environments",
    "belljar/sessions",
    "belljar/catalog",
    "state/workspaces",
    "state/outbox/20260101-120000-0000000a",
    "state/tools",
];
/// Verbs that use no saved functions, workspaces or handed-over files.
const WITHOUT_SAVED: [&[&str]; 4] = [
    &["config", "trust"],
    &["import", "--yes"],
    &["install", "--client", "cursor"],
    &["uninstall", "--client", "cursor"],
];
/// The other verbs that read, list, use or remove what is stored.
const VERBS: [&[&str]; 14] = [
    &[],
    &["doctor", "--ask"],
    &["files", "ls"],
    &["files", "--workspace", "w", "get", "f"],
    &["image", "ls"],
    &["image", "rm", "site"],
    &["log"],
    &["run", "-c", "print(1)"],
    &["serve"],
    &["session", "ls"],
    &["session", "rm", "last"],
    &["skill", "ls"],
    &["token", "ls"],
    &["uninstall", "--all", "--yes"],
];
/// A user who is neither this one nor root.
const OTHER: u32 = 4242;

/// A home whose state, data and cache are in a folder with this mode.
fn home(mode: u32) -> Home {
    let home = Home::new().file("precious/site.d/a", "").env("MCP_BRIDGE_RUNTIME", "process");
    let scratch = home.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::set_permissions(&scratch, fs::Permissions::from_mode(mode)).unwrap();
    let named = |below: &str| scratch.join(below).to_str().unwrap().to_owned();
    let (scratch, state) = (named(""), named("state"));
    ["XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"]
        .into_iter()
        .fold(home, |home, variable| home.env(variable, &scratch))
        .env("MCP_BRIDGE_STATE_DIR", &state)
}

/// Fails unless each verb refuses to go on for this reason and has changed nothing.
fn assert_nothing_is_used(home: &Home, store: &str, why: &str) {
    let others = WITHOUT_SAVED.iter().filter(|_| !store.starts_with("state"));
    for verb in VERBS.iter().chain(others) {
        let output = home.run(verb);
        let said = format!("{verb:?} with {store}: {}{}", output.stdout, output.stderr);
        assert!(output.code != Some(0) && output.stderr.contains(why), "{said}");
        assert!(home.path().join("precious/site.d/a").exists(), "{said}");
    }
}

#[test]
fn no_verb_uses_a_folder_that_another_user_has_made_or_leads_to() {
    if !nix::unistd::geteuid().is_root() {
        return; // Only root gives a file to another user.
    }
    for store in STORES {
        let home = home(0o1777);
        let place = home.path().join("scratch").join(store);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(home.path().join("precious"), &place).unwrap();
        lchown(&place, Some(OTHER), None).unwrap();
        assert_nothing_is_used(&home, store, "another user has made");
        fs::remove_file(&place).unwrap();
        if Path::new(store).parent() == Some(Path::new("")) {
            fs::create_dir(&place).unwrap();
            chown(&place, Some(OTHER), None).unwrap();
            assert_nothing_is_used(&home, store, "another user has made");
            fs::remove_dir(&place).unwrap();
        }
        assert_eq!(home.run(&["session", "ls"]).code, Some(0), "the control");
    }
}

#[test]
fn a_folder_that_another_user_could_make_is_made_first() {
    let home = home(0o1777);
    assert_eq!(home.run(&["session", "ls"]).code, Some(0));
    for store in ["belljar", "state"] {
        let mode = fs::metadata(home.path().join("scratch").join(store)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{store}");
    }
}

#[test]
fn no_folder_is_used_that_another_user_can_replace() {
    // Whoever can write such a folder can rename what is in it, also the user's own symlinks.
    assert_nothing_is_used(&home(0o777), "no link", "another user can replace it by way of ");
    let home = home(0o700);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(home.run(&["session", "ls"]).code, Some(0), "in HOME, its owner answers for that");
}

#[test]
fn where_locks_could_be_replaced_they_are_in_the_state_folder_and_no_folder_is_no_danger() {
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "process").without_env("XDG_RUNTIME_DIR");
    let team = home.path().join("team");
    fs::create_dir(&team).unwrap();
    fs::set_permissions(&team, fs::Permissions::from_mode(0o777)).unwrap();
    let home = home.env("TMPDIR", team.to_str().unwrap()).env("XDG_CACHE_HOME", "/dev/null");
    let output = home.run(&["session", "ls"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(fs::read_dir(&team).unwrap().count(), 0);
}

#[test]
fn no_symlink_is_followed_that_another_user_can_rename() {
    let home = Home::new().file("private", "print('SECRET')").env("MCP_BRIDGE_RUNTIME", "process");
    let team = home.path().join("team");
    fs::create_dir(&team).unwrap();
    fs::create_dir(team.join("own")).unwrap();
    symlink("../../private", team.join("own/link")).unwrap();
    for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o700, false)] {
        fs::set_permissions(&team, fs::Permissions::from_mode(mode)).unwrap();
        let output = home.run(&["run", "team/own/link"]);
        assert_eq!(
            output.stderr.contains("somebody else may have made"),
            is_refused,
            "{mode:o}: {}",
            output.stderr
        );
    }
}
