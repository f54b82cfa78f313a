//! Commands that are killed at each of their changes of files: what was there or was acknowledged is whole, and the same can be done
//! again.
//!
//! The bridge itself, with its runs, is killed so by the test of the same name that has engines.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::support::each_write::{Scenario, is_one_of, names, printed, short};
use crate::support::home::Output;
use crate::support::{Bridge, Home, PATIENCE};

/// Does one command after the other, until one is killed; says how many have succeeded.
fn done(home: &Home, commands: &[&[&str]]) -> usize {
    for (done, command) in commands.iter().enumerate() {
        let output = home.run(command);
        match output.code {
            Some(0) => {}
            Some(_) => panic!("{command:?}: {output:?}"),
            None => return done,
        }
    }
    commands.len()
}

#[test]
fn files_that_the_user_puts_in_takes_out_and_removes_are_whole_wherever_belljar_is_killed() {
    const FILES: [&str; 4] = ["--workspace", "sales", "files", "a.txt"];
    let [workspace, sales, files, a] = FILES;
    let (old, new, other) = ("old ".repeat(9_000), "new ".repeat(300_000), "other");
    let home = || {
        let home = Home::new().file("a.txt", &old).file("b.txt", other).file("deep/a.txt", &new);
        std::fs::create_dir(home.path().join("out")).unwrap();
        done(&home, &[&[files, workspace, sales, "put", a]]);
        home
    };
    let commands: [&[&str]; 5] = [
        &[files, workspace, sales, "put", "deep/a.txt"],
        &[files, workspace, sales, "put", "b.txt", "in/b.txt"],
        &[files, workspace, sales, "get", a, "out/a.txt"],
        &[files, workspace, sales, "rm", a],
        &[files, workspace, sales, "rm", "in/b.txt"],
    ];
    let [before, after, beside] = [short(&old), short(&new), short(other)].map(Some);
    let states = [
        vec![before, None, None],
        vec![after.clone(), None, None],
        vec![after.clone(), beside.clone(), None],
        vec![after.clone(), beside.clone(), after.clone()],
        vec![None, beside, after.clone()],
        vec![None, None, after],
    ];
    let check = |home: &Home, acknowledged: &usize| {
        let listed = printed(home, &[files, "ls", workspace, sales]);
        let kept = |path: &str| {
            let is_there = listed.lines().any(|line| line.ends_with(&format!("  {path}")));
            is_there.then(|| short(printed(home, &[files, workspace, sales, "get", path, "-"])))
        };
        let out = std::fs::read_to_string(home.path().join("out/a.txt")).ok().map(short);
        is_one_of(&vec![kept(a), kept("in/b.txt"), out], &states, *acknowledged);
        // The next one is kept, and takes with it what was not whole.
        printed(home, &[files, workspace, sales, "put", "b.txt", "next.txt"]);
        assert_eq!(printed(home, &[files, workspace, sales, "get", "next.txt", "-"]), other);
        assert_eq!(names(&home.path().join("MCPs/workspaces/sales")), ["files", "incoming", "lock"]);
        assert_eq!(names(&home.path().join("MCPs/workspaces/sales/incoming")), [""; 0]);
    };
    Scenario {
        name: "files",
        below: &["MCPs", "out"],
        home: &home,
        act: &|home| done(home, &commands),
        check: &check,
    }
    .killed_at_each_write();
}

#[test]
fn skills_that_the_user_accepts_restores_and_removes_are_whole_wherever_belljar_is_killed() {
    let changed = "def twice(x):\n    'Twice.'\n    return x + x\n";
    let home = || Home::new().file("MCPs/tools/twice.py", changed);
    let commands: [&[&str]; 6] = [
        &["skill", "trust", "twice"],
        &["skill", "rm", "twice"],
        &["skill", "restore", "twice"],
        &["skill", "restore", "twice", "--version", "1"],
        &["skill", "rm", "twice"],
        &["skill", "rm", "twice", "--purge"],
    ];
    // What `ls` says of it, and the least number of versions in its history.
    let ready = |version: u32| format!("twice(x)  # Twice.; version {version}\n");
    let states =
        [("NOT LOADED", 0), (&*ready(1), 1), ("", 1), (&*ready(2), 2), (&*ready(3), 3), ("", 3), ("", 0)];
    let check = |home: &Home, acknowledged: &usize| {
        let listed = home.run(&["skill", "ls"]).stdout;
        let is = |state: &str| match state {
            "NOT LOADED" => listed.contains(state),
            state => listed == state,
        };
        let may = &states[*acknowledged..states.len().min(acknowledged + 2)];
        assert!(may.iter().any(|(state, _)| is(state)), "{listed:?} is none of {may:?}");
        let history = home.run(&["skill", "history", "twice"]);
        let versions = history.stdout.lines().count();
        let least = may.iter().map(|(_, versions)| *versions).min().unwrap();
        assert!(versions >= least && history.stderr.is_empty() == (history.code == Some(0)), "{history:?}");
        let kept = names(&home.path().join("MCPs/tools/.history/twice"));
        let kept = kept.iter().filter(|name| name.ends_with(".py")).count();
        assert_eq!(kept, versions, "each of them is whole: {history:?}");
        // The next one is kept, and nothing is left of what was not whole.
        std::fs::write(home.path().join("MCPs/tools/twice.py"), changed).unwrap();
        let private = Permissions::from_mode(0o600);
        std::fs::set_permissions(home.path().join("MCPs/tools/twice.py"), private).unwrap();
        let trusted = printed(home, &["skill", "trust", "twice"]);
        assert!(trusted.contains("accepted as version "), "{trusted}");
        assert_eq!(names(&home.path().join("MCPs/tools")), [".history", "twice.py"]);
        let kept = names(&home.path().join("MCPs/tools/.history/twice"));
        assert!(kept.iter().all(|name| name.ends_with(".py")), "{kept:?}");
    };
    Scenario {
        name: "skills",
        below: &["MCPs"],
        home: &home,
        act: &|home| done(home, &commands),
        check: &check,
    }
    .killed_at_each_write();
}

/// A session with runs that have found no engine; its name.
fn session(home: &Home, code: &str) -> String {
    let sessions = home.path().join(".local/state/belljar/sessions");
    let before = names(&sessions);
    let mut bridge = Bridge::start(home);
    for _ in 0..2 {
        assert!(bridge.run(code).is_error);
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let name = names(&sessions).into_iter().find(|name| !before.contains(name)).expect("it is kept");
    name.trim_end_matches(".jsonl").to_owned()
}

#[test]
fn sessions_that_the_user_exports_and_removes_are_whole_wherever_belljar_is_killed() {
    let template = Home::new();
    let code = format!("x = '{}'", "y".repeat(20_000));
    let (one, other) = (session(&template, &code), session(&template, "1"));
    let sessions = ".local/state/belljar/sessions";
    let home = || {
        let copied = |home: Home, id: &str| {
            let name = format!("{sessions}/{id}.jsonl");
            home.file(&name, &std::fs::read_to_string(template.path().join(&name)).unwrap())
        };
        let home = copied(copied(Home::new(), &one), &other);
        std::fs::set_permissions(home.path().join(sessions), Permissions::from_mode(0o700)).unwrap();
        home
    };
    let exported = |format: &str| {
        let Output { stdout, .. } = template.run(&["session", "export", &one, "--format", format]);
        assert!(stdout.contains(&"y".repeat(20_000)));
        Some(short(stdout))
    };
    let (py, ipynb) = (exported("py"), exported("ipynb"));
    let commands: [&[&str]; 4] = [
        &["session", "export", &one, "-o", "out/a.py"],
        &["session", "export", &one, "--format", "ipynb", "-o", "out/a.ipynb"],
        &["session", "rm", &one],
        &["session", "rm", &other],
    ];
    let (here, gone) = (true, false);
    let states = [
        (None, None, here, here),
        (py.clone(), None, here, here),
        (py.clone(), ipynb.clone(), here, here),
        (py.clone(), ipynb.clone(), gone, here),
        (py.clone(), ipynb.clone(), gone, gone),
    ];
    let check = |home: &Home, acknowledged: &usize| {
        let listed = home.run(&["session", "ls"]).stdout;
        let written =
            |name: &str| std::fs::read_to_string(home.path().join("out").join(name)).ok().map(short);
        let is_there = |id: &str| {
            let is_listed = listed.lines().any(|line| line.contains(&id[..8]));
            if is_listed {
                let shown = printed(home, &["session", "show", id]);
                assert_eq!(shown.matches("not_started").count(), 2, "{shown}");
            }
            is_listed
        };
        let found = (written("a.py"), written("a.ipynb"), is_there(&one), is_there(&other));
        is_one_of(&found, &states, *acknowledged);
        session(home, "2");
        printed(home, &["session", "export", "last", "-o", "out/next.py"]);
    };
    Scenario {
        name: "sessions",
        below: &[sessions, "out"],
        home: &|| {
            let home = home();
            std::fs::create_dir(home.path().join("out")).unwrap();
            home
        },
        act: &|home| done(home, &commands),
        check: &check,
    }
    .killed_at_each_write();
}
