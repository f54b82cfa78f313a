//! Sessions over HTTP: owners see nothing of each other, and a client without sessions of the protocol goes on with its own.

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::web::{Served, WebClient};
use crate::support::{Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    owners_and_sessions_see_nothing_of_each_other,
    each_owner_has_the_accounts_that_its_table_names,
    as_many_sandboxes_wait_as_are_set,
    a_session_that_begins_after_an_edit_has_no_sandbox_of_the_former_settings,
    a_session_that_begins_after_a_mounted_folder_was_replaced_has_the_new_one,
    sessions_that_go_on_from_the_last_one_are_not_made_ahead,
    a_client_without_sessions_of_the_protocol_goes_on_with_the_one_that_it_names,
    sessions_go_on_after_the_bridge_was_killed_and_say_so,
);

const SERVER: &str = "import mcp.servers.one as one\nprint(await one.pid())";
const SEEN: &str =
    "import os\nprint('x' in globals(), os.listdir('/workspace'), dict(runtime.state), runtime.skills)";

fn token(home: &Home, arguments: &[&str]) -> String {
    home.run(&[&["token", "add", "--quiet"], arguments].concat()).stdout.trim().to_owned()
}

/// The reply without the notes of the first run.
#[track_caller]
fn said(client: &mut WebClient<'_>, code: &str) -> String {
    client.ok(code).lines().next().unwrap_or_default().to_owned()
}

fn owners_and_sessions_see_nothing_of_each_other(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry());
    let (mine, theirs) = (token(&home, &["mine"]), token(&home, &["theirs"]));
    let served = Served::start(&home, &[]);
    let (mut first, mut second) = (served.client(&mine), served.client(&mine));
    let mut stranger = served.client(&theirs);
    let nothing = said(&mut stranger, SEEN);
    assert!(nothing.starts_with("False [] {}"), "{nothing}");
    first.ok("x = 1\nopen('/workspace/x', 'w').write('x')\nruntime.state['x'] = 1");
    first.ok(
        "def twice(n: int) -> int:\n    \"\"\"Doubles a number.\"\"\"\n    return 2 * n\nsave_tool(twice)",
    );
    // A function that was saved is the owner's, and all else is the session's.
    let of_second = said(&mut second, SEEN);
    assert!(of_second.starts_with("False [] {}") && of_second.contains("twice"), "{of_second}");
    assert_eq!(said(&mut stranger, SEEN), nothing);
    let server = said(&mut first, SERVER);
    assert_eq!(said(&mut second, SERVER), server, "one process for the sessions of an owner");
    assert_ne!(said(&mut stranger, SERVER), server);
    let log = home.run(&["log"]).stdout;
    assert!(log.contains(" mine run ") && log.contains(" theirs run "), "{log}");
    // The policy is the token's.
    let careful = token(&home, &["careful", "--policy", "careful"]);
    let (reply, is_error) = served.client(&careful).run(json!({"code": SERVER}));
    assert!(is_error && reply.contains("profile careful"), "{reply}");
}

fn each_owner_has_the_accounts_that_its_table_names(engine: &Engine) {
    let one = Fixture::new(&[]);
    let mut entry = one.entry();
    entry["env"]["ACCOUNT"] = json!("${ACCOUNT}");
    entry["env_inherit"] = json!(["OTHER_ACCOUNT"]);
    entry["env"]["PRINTED_ACCOUNT"] = json!("${cmd:printenv ACCOUNT}");
    let config = "[policy]\nallow_cmd = true\n[owners.ann.env]\nACCOUNT = \"${OF_ANN}\"\nOTHER_ACCOUNT = \"other-of-ann\"\n";
    let home = Home::on(engine).server("one", entry).file(".config/belljar/config.toml", config);
    let home = home.env("ACCOUNT", "own").env("OTHER_ACCOUNT", "other-own").env("OF_ANN", "of-ann");
    let (ann, bob) = (token(&home, &["ann"]), token(&home, &["bob"]));
    let served = Served::start(&home, &[]);
    for (token, account, other) in [(&ann, "of-ann", "other-of-ann"), (&bob, "own", "other-own")] {
        let pid = said(&mut served.client(token), SERVER);
        let environment = std::fs::read(format!("/proc/{}/environ", pid.trim())).unwrap();
        let has = |text: String| environment.split(|byte| *byte == 0).any(|one| one == text.as_bytes());
        assert!(has(format!("ACCOUNT={account}")) && has(format!("OTHER_ACCOUNT={other}")), "{account}");
        let all = String::from_utf8_lossy(&environment);
        assert!(has(format!("PRINTED_ACCOUNT={account}")), "{account}: {all}");
    }
}

fn as_many_sandboxes_wait_as_are_set(engine: &Engine) {
    for (count, sessions) in [("0", 1), ("1", 2), ("3", 4)] {
        let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", count);
        let owner = token(&home, &["mine"]);
        let served = Served::start(&home, &[]);
        let mut client = served.client(&owner);
        client.ok("print(1)");
        eventually("as many sessions as wait, and the used one", PATIENCE, || {
            home.run(&["serve", "status"]).stdout.contains(&format!("serves {sessions} "))
        });
        assert_eq!(said(&mut served.client(&owner), "print(2)"), "2");
    }
}

fn a_session_that_begins_after_an_edit_has_no_sandbox_of_the_former_settings(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "2").file("data/x", "precious");
    let mount = home.path().join("data");
    let home =
        home.file(".config/belljar/config.toml", &format!("[[mount]]\nhost = \"{}\"\n", mount.display()));
    let owner = token(&home, &["mine"]);
    let served = Served::start(&home, &[]);
    let code = "import os\nprint(os.path.exists('/mnt/data/x'))";
    assert_eq!(said(&mut served.client(&owner), code), "True");
    eventually("two sessions wait, beside the used one", PATIENCE, || {
        home.run(&["serve", "status"]).stdout.contains("serves 3 ")
    });
    let home = home.file(".config/belljar/config.toml", "[run]\ntimeout = 20\n");
    for _ in 0..3 {
        assert_eq!(said(&mut served.client(&owner), code), "False");
    }
    drop(home);
}

fn a_session_that_begins_after_a_mounted_folder_was_replaced_has_the_new_one(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "2").file("data/former", "");
    let mount = home.path().join("data");
    let config = format!("[[mount]]\nhost = \"{}\"\n", mount.display());
    let home = home.file(".config/belljar/config.toml", &config);
    let owner = token(&home, &["mine"]);
    let served = Served::start(&home, &[]);
    let code = "import os\nprint(*os.listdir('/mnt/data'))";
    assert_eq!(said(&mut served.client(&owner), code), "former");
    eventually("two sessions wait, beside the used one", PATIENCE, || {
        home.run(&["serve", "status"]).stdout.contains("serves 3 ")
    });
    std::fs::rename(&mount, home.path().join("moved")).unwrap();
    let home = home.file("data/present", "");
    for _ in 0..3 {
        assert_eq!(said(&mut served.client(&owner), code), "present");
    }
    drop(home);
}

fn sessions_that_go_on_from_the_last_one_are_not_made_ahead(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_RESUME", "last").env("MCP_BRIDGE_PREWARM", "2");
    let owner = token(&home, &["mine"]);
    let served = Served::start(&home, &[]);
    for expected in ["1", "2"] {
        // Each goes on from the one before, which has ended.
        let mut client = served.client(&owner);
        assert_eq!(said(&mut client, "x = globals().get('x', 0) + 1\nprint(x)"), expected);
        drop(client.delete());
        eventually("the session's end", PATIENCE, || {
            home.run(&["serve", "status"]).stdout.contains("serves 0 ")
        });
    }
}

fn a_client_without_sessions_of_the_protocol_goes_on_with_the_one_that_it_names(engine: &Engine) {
    let home = Home::on(engine);
    let (mine, theirs) = (token(&home, &["mine"]), token(&home, &["theirs"]));
    let served = Served::start(&home, &[]);
    let mut client = served.stateless(&mine);
    let begun = |client: &mut WebClient<'_>, code: &str| {
        let (reply, _) = client.run(json!({"code": code}));
        let (_, name) = reply.split_once("\nsession: ").expect("the reply names the session");
        name.split(' ').next().unwrap().to_owned()
    };
    let (one, two) = (begun(&mut client, "x = 1"), begun(&mut client, "x = 2"));
    assert_ne!(one, two);
    for _ in 0..3 {
        for (session, expected) in [(&one, "1"), (&two, "2")] {
            let (reply, is_error) = client.run(json!({"code": "print(x)", "session": session}));
            assert_eq!((reply.as_str(), is_error), (expected, false), "the name is said once");
        }
    }
    // Another owner's session, one in capitals and none at all are the same.
    let mut stranger = served.stateless(&theirs);
    let foreign = stranger.run(json!({"code": "print(x)", "session": one}));
    assert_eq!(foreign, stranger.run(json!({"code": "print(x)", "session": "none"})));
    assert_eq!(foreign, client.run(json!({"code": "print(x)", "session": format!("{one}x")})));
    assert!(foreign.1 && foreign.0.starts_with("no session has this name"), "{foreign:?}");
    // A file is found by its address, whichever of the owner's sessions it is in.
    client.run(json!({"code": "open('/workspace/a.txt', 'w').write('hello')", "session": two}));
    let read = client.result("resources/read", json!({"uri": "workspace:///a.txt"}));
    assert_eq!(read["contents"][0]["text"], "hello");
    let of_stranger = stranger.send("resources/read", json!({"uri": "workspace:///a.txt"})).message();
    assert!(of_stranger.get("error").is_some(), "{of_stranger}");
}

fn sessions_go_on_after_the_bridge_was_killed_and_say_so(engine: &Engine) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry());
    let (mine, theirs) = (token(&home, &["mine"]), token(&home, &["theirs"]));
    let served = Served::start(&home, &[]);
    let (mut older, mut newer) = (served.client(&mine), served.stateless(&mine));
    older.ok("x = [1]\nopen('/workspace/x', 'w').write('x')");
    older.ok("import mcp.servers.one as one\nx.append(await one.pid())");
    let before = said(&mut older, "print(x)");
    let (reply, _) = newer.run(json!({"code": "y = 2"}));
    let name = reply.split_once("\nsession: ").unwrap().1.split(' ').next().unwrap().to_owned();
    let (session, ids) = (older.session.clone(), one.ledger().len());
    kill(served.pid(), Signal::SIGKILL).unwrap();
    drop(served);
    let served = Served::start(&home, &[]);
    let mut older = served.coming_back(&mine, session.clone());
    let (reply, is_error) = older.run(json!({"code": "import os\nprint(x, os.listdir('/workspace'))"}));
    assert!(!is_error && reply.starts_with(&format!("{before} ['x']")), "{reply}");
    assert!(reply.contains("this session goes on from "), "{reply}");
    assert_eq!(one.ledger().len(), ids, "no call was made twice");
    let mut newer = served.stateless(&mine);
    let (reply, is_error) = newer.run(json!({"code": "print(y)", "session": name}));
    assert!(!is_error && reply.starts_with("2\n") && reply.contains("this session goes on from "), "{reply}");
    // Nobody else comes back to them, nor does the same name with another token.
    assert_eq!(served.coming_back(&theirs, session.clone()).send("tools/list", json!({})).status, 404);
    let (_, is_error) = served.stateless(&theirs).run(json!({"code": "print(y)", "session": name}));
    assert!(is_error);
    home.run(&["token", "rm", "mine"]);
    let again = token(&home, &["mine"]);
    assert_eq!(served.coming_back(&again, session.clone()).send("tools/list", json!({})).status, 404);
    assert!(served.stateless(&again).run(json!({"code": "print(y)", "session": name})).1);
    // What cannot be made again is said, and the session goes on without it.
    let mut lost = served.client(&theirs);
    lost.ok("import threading\nz = 1");
    let session = lost.session.clone();
    kill(served.pid(), Signal::SIGKILL).unwrap();
    drop(served);
    for journal in std::fs::read_dir(home.path().join(".local/state/belljar/owners/theirs/sessions")).unwrap()
    {
        let path = journal.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen('\n', "\nno line of a journal\n", 1)).unwrap();
    }
    let served = Served::start(&home, &[]);
    let mut lost = served.coming_back(&theirs, session);
    let (reply, is_error) = lost.run(json!({"code": "print('z' in globals())"}));
    assert!(
        !is_error && reply.starts_with("False\n") && reply.contains("so its variables are gone"),
        "{reply}"
    );
}
