//! Files in /workspace outlive what they were written in: the interpreter, the container, the bridge.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Home, PATIENCE, eventually};

on_every_engine!(
    files_come_back_when_the_container_is_removed_while_idle,
    files_come_back_after_an_idle_stop,
    files_of_a_run_that_was_killed_are_kept,
    a_named_workspace_outlives_a_killed_bridge_and_a_sessions_own_does_not,
    a_workspace_that_is_in_use_is_said_and_nothing_runs_without_it,
    much_comes_back_to_the_byte,
    a_bridge_that_is_killed_while_it_keeps_files_leaves_each_whole,
    what_cannot_be_kept_is_said_and_leads_nowhere,
    a_run_that_changes_no_file_writes_nothing_on_the_host,
    files_are_resources_that_are_listed_read_and_subscribed_to,
    files_that_are_handed_over_are_links_in_the_reply,
    files_that_are_handed_over_outlive_their_session,
    the_user_takes_files_out_of_a_workspace_and_puts_some_in,
    a_run_from_the_shell_is_given_files,
    state_survives_what_variables_do_not,
);

fn workspaces(home: &Home) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.path().join("MCPs/workspaces")) else { return vec![] };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn lose_the_container(engine: &Engine, home: &Home, bridge: &mut Bridge) {
    engine.remove_container(&engine.containers_of(&home.owners())[0]);
    // The bridge may notice only now.
    if bridge.run("None").is_error {
        bridge.ok("None");
    }
}

fn files_come_back_when_the_container_is_removed_while_idle(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("import os\nos.makedirs('out/deep')\nopen('out/deep/a.txt', 'w').write('one')\nopen('b', 'w').close()");
    bridge.ok("open('out/deep/a.txt', 'a').write(' two')\nos.remove('b')\nopen('run.sh', 'w').close(); os.chmod('run.sh', 0o755)");
    engine.remove_container(&engine.containers_of(&home.owners())[0]);
    let code = "import os\nprint(open('out/deep/a.txt').read(), sorted(os.listdir()), oct(os.stat('run.sh').st_mode))";
    let mut reply = bridge.run(code);
    if reply.is_error {
        assert!(reply.text.contains("the sandbox went away"), "{}", reply.text);
        reply = bridge.run(code);
    }
    let begins = "one two ['out', 'run.sh'] 0o100700\nstate: fresh interpreter";
    assert!(reply.text.starts_with(begins), "{}", reply.text);
    assert!(reply.text.contains("note: /workspace has 2 files that were kept, 7 bytes"), "{}", reply.text);
}

fn files_come_back_after_an_idle_stop(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "1");
    let mut bridge = Bridge::start(&home);
    // The second is written when the run is over.
    bridge.first(
        "import subprocess\nopen('a', 'w').write('1')\n\
         _ = subprocess.Popen(['sh', '-c', 'sleep 0.3; echo 2 > late'])",
    );
    eventually("the idle container goes", PATIENCE, || engine.containers_of(&home.owners()).is_empty());
    let reply = bridge.ok("print(open('a').read(), open('late').read())");
    assert!(reply.starts_with("1 2\n"), "{reply}");
}

fn files_of_a_run_that_was_killed_are_kept(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen('a', 'w').write('kept')\nwhile True: pass";
    let reply = bridge.run_with(json!({"code": code, "timeout": 1}));
    assert!(reply.text.starts_with("status: timeout"), "{}", reply.text);
    bridge.run("open('b', 'w').write('kept too')\nimport os\nos.kill(os.getpid(), 9)");
    let reply = bridge.ok("open('a').read() + ' ' + open('b').read()");
    assert!(reply.starts_with("'kept kept too'"), "{reply}");
    lose_the_container(engine, &home, &mut bridge);
    let reply = bridge.ok("open('a').read() + ' ' + open('b').read()");
    assert!(reply.starts_with("'kept kept too'"), "{reply}");
}

fn a_named_workspace_outlives_a_killed_bridge_and_a_sessions_own_does_not(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("open('a', 'w').write('1')");
    // What is acknowledged is kept, whatever is half done.
    let id = bridge.send_run(
        json!({"code": "f = open('a', 'w')\nf.write('half')\nf.flush()\nimport time\ntime.sleep(60)"}),
    );
    eventually("the run is under way", PATIENCE, || bridge.stderr().is_empty() && id > 0);
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    drop(bridge);
    let mut bridge = Bridge::start(&home);
    assert_eq!(bridge.first("open('a').read()"), "'1'");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    drop(bridge);
    assert_eq!(workspaces(&home), [home.path().join("MCPs/workspaces/sales")]);

    let home = home.without_env("MCP_BRIDGE_WORKSPACE");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("open('a', 'w').write('1')");
    assert_eq!(workspaces(&home).len(), 2);
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    drop(bridge);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("import os\nos.listdir()"), "[]");
    bridge.ok("open('b', 'w').write('1')");
    assert_eq!(workspaces(&home).len(), 2, "the killed bridge's is gone, this one's is there");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    assert_eq!(workspaces(&home).len(), 1);
}

fn a_workspace_that_is_in_use_is_said_and_nothing_runs_without_it(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales");
    let mut first = Bridge::start(&home).warm();
    first.ok("open('a', 'w').write('1')");
    let mut second = Bridge::start(&home);
    let reply = second.run("1");
    assert!(
        reply.is_error && reply.text.contains("the workspace \"sales\" is in use by another belljar"),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("MCP_BRIDGE_WORKSPACE"), "{}", reply.text);
    first.hang_up();
    first.wait(PATIENCE);
    assert_eq!(second.first("open('a').read()"), "'1'");
    let mut wrong = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "../other"));
    let reply = wrong.run("1");
    assert!(reply.is_error && reply.text.contains("MCP_BRIDGE_WORKSPACE"), "{}", reply.text);
}

fn much_comes_back_to_the_byte(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let hash = "import hashlib, os\n\
                def digest():\n    \
                    names = sorted(os.path.join(at, f) for at, _, fs in os.walk('.') for f in fs)\n    \
                    return len(names), hashlib.sha256(b''.join(open(n, 'rb').read() for n in names)).hexdigest()\n";
    let code = "import os\nopen('big', 'wb').write(os.urandom(40_000_000))\nos.mkdir('many')\n\
                for n in range(1_000): open(f'many/{n}', 'wb').write(os.urandom(n))";
    let id = bridge.send_run(json!({"code": code}));
    let late = Duration::from_secs(60);
    assert!(!bridge.late_reply(id, late).is_error);
    let before = bridge.ok(&format!("{hash}digest()"));
    lose_the_container(engine, &home, &mut bridge);
    let after = bridge.ok(&format!("{hash}digest()"));
    assert!(after.starts_with(&before), "{after}");
    assert!(before.starts_with("(1001, "), "{before}");
}

fn a_bridge_that_is_killed_while_it_keeps_files_leaves_each_whole(engine: &Engine) {
    const ROUNDS: u8 = 4;
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales");
    let write = |version: u8| {
        format!("for name in 'abc': open(name, 'wb').write(bytes([{version}]) * 3_000_000)\nprint('written')")
    };
    let look = "[(set(data), len(data)) for data in (open(name, 'rb').read() for name in 'abc')]";
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(&write(0));
    let mut before = 0;
    let mut was_in_the_middle = 0;
    for version in 1..=ROUNDS {
        bridge.send_run(json!({"code": write(version)}));
        if version % 2 == 0 {
            let kept = home.path().join("MCPs/workspaces/sales/files");
            let first_byte = |name| {
                let mut byte = [0];
                std::fs::File::open(kept.join(name))
                    .and_then(|mut file| file.read_exact(&mut byte))
                    .map(|()| byte[0])
            };
            let has_come =
                || ["a", "b", "c"].iter().any(|name| first_byte(name).is_ok_and(|byte| byte == version));
            eventually("one file is kept", PATIENCE, has_come);
        } else {
            // Before the files come, or after the reply.
            std::thread::park_timeout(Duration::from_millis(30) * u32::from(version));
        }
        bridge.signal(Signal::SIGKILL);
        bridge.wait(PATIENCE);
        let mut is_acknowledged = false;
        while let Ok((_, message)) = bridge.next(PATIENCE) {
            is_acknowledged |= message["result"]["content"].is_array();
        }
        drop(bridge);
        bridge = Bridge::start(&home);
        let found = bridge.first(look);
        let (old, new) = (format!("({{{before}}}, 3000000)"), format!("({{{version}}}, 3000000)"));
        let count = |state: &str| found.matches(state).count();
        assert_eq!(count(&old) + count(&new), 3, "round {version}: {found}");
        assert!(!is_acknowledged || count(&new) == 3, "round {version}: {found}");
        was_in_the_middle += usize::from(count(&old) > 0 && count(&new) > 0);
        // All are of one version again.
        bridge.ok(&write(version));
        before = version;
    }
    println!("killed between files: {was_in_the_middle} of {ROUNDS}");
}

fn what_cannot_be_kept_is_said_and_leads_nowhere(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let reply = bridge.ok("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'folder')\n\
         open(b'\\xff', 'w').close()\nopen('..a', 'w').write('x')");
    for says in ["not kept: ", "link: a link", "folder: a link", "\\udcff"] {
        assert!(reply.contains(says), "{says}: {reply}");
    }
    assert!(!bridge.ok("open('b', 'w').close()").contains("not kept"), "it is said once");
    let kept = workspaces(&home).pop().unwrap().join("files");
    let mut names: Vec<_> =
        std::fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["..a", "b"]);
}

fn a_run_that_changes_no_file_writes_nothing_on_the_host(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("open('/tmp/a', 'w').write('1')");
    assert_eq!(workspaces(&home), [] as [PathBuf; 0]);
}

fn addresses(bridge: &mut Bridge) -> Vec<String> {
    let mut found = vec![];
    let mut cursor = None;
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({"cursor": cursor}));
        let page = bridge.request("resources/list", params).unwrap();
        let listed = page["resources"].as_array().unwrap();
        found.extend(listed.iter().map(|one| one["uri"].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    found.retain(|uri| uri.starts_with("workspace:"));
    found
}

fn files_are_resources_that_are_listed_read_and_subscribed_to(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(addresses(&mut bridge), [] as [&str; 0]);
    bridge.request("resources/subscribe", json!({"uri": "workspace:///out/a%20b.csv"})).unwrap();
    bridge.ok("import os\nos.mkdir('out')\nopen('out/a b.csv', 'w').write('x,é')\nopen('c.bin', 'wb').write(b'\\xff\\x00')");
    bridge.notification("notifications/resources/list_changed");
    let told = bridge.notification("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "workspace:///out/a%20b.csv");
    assert_eq!(addresses(&mut bridge), ["workspace:///c.bin", "workspace:///out/a%20b.csv"]);
    let mut read = |uri: &str| bridge.request("resources/read", json!({"uri": uri}));
    let text = read("workspace:///out/a%20b.csv").unwrap();
    assert_eq!(
        (&text["contents"][0]["text"], &text["contents"][0]["mimeType"]),
        (&json!("x,é"), &json!("text/csv"))
    );
    assert_eq!(read("workspace:///c.bin").unwrap()["contents"][0]["blob"], "/wA=");
    for wrong in [
        "workspace:///nothing",
        "workspace:///out",
        "workspace:///../../servers.json",
        "workspace:///a%2F..%2F..%2Fx",
    ] {
        let error = read(wrong).unwrap_err();
        assert_eq!(error["code"], -32002, "{error}");
    }
    let error = bridge.request("resources/list", json!({"cursor": "x"})).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("cursor"), "{error}");
    bridge.ok("for n in range(1_200): open(f'out/{n}', 'w').close()");
    assert_eq!(addresses(&mut bridge).len(), 1_202);
    // Nobody is told of what has not changed, or is no longer wanted.
    bridge.request("resources/unsubscribe", json!({"uri": "workspace:///out/a%20b.csv"})).unwrap();
    bridge.rest();
    bridge.ok("open('out/a b.csv', 'w').write('y')");
    bridge.ok("1");
    let methods: Vec<_> = bridge.rest().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, [json!("notifications/resources/list_changed")]);
}

fn files_that_are_handed_over_are_links_in_the_reply(engine: &Engine) {
    let code = "from mcp import runtime\nopen('/tmp/fig 1.svg', 'w').write('<svg/>')\nruntime.save('/tmp/fig 1.svg')";
    for (version, has_link) in [("2025-06-18", true), ("2025-03-26", false)] {
        let home = Home::on(engine);
        let mut bridge = Bridge::spawn(&home);
        bridge.initialize(version);
        bridge.notify("notifications/initialized", json!({}));
        let result =
            bridge.request("tools/call", json!({"name": "run_python", "arguments": {"code": code}})).unwrap();
        let blocks = result["content"].as_array().unwrap();
        let text = blocks[0]["text"].as_str().unwrap();
        assert!(text.contains("'/workspace/fig 1.svg'"), "{text}");
        assert!(text.contains("\nfile: workspace:///fig%201.svg"), "{text}");
        let link = blocks.iter().find(|block| block["type"] == "resource_link");
        assert_eq!(link.is_some(), has_link, "{result}");
        if let Some(link) = link {
            assert_eq!(
                (&link["uri"], &link["mimeType"]),
                (&json!("workspace:///fig%201.svg"), &json!("image/svg+xml"))
            );
        }
        let read = bridge.request("resources/read", json!({"uri": "workspace:///fig%201.svg"})).unwrap();
        assert_eq!(read["contents"][0]["text"], "<svg/>");
    }
}

fn files_that_are_handed_over_outlive_their_session(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let said = bridge.ok(
        "from mcp import runtime\nimport os\nos.mkdir('report')\nopen('report/report.md', 'w').write('one')\n\
         open('other', 'w').write('x')\nruntime.save('report/report.md');",
    );
    let command =
        said.split("note: kept for the user after this session: `belljar files --session ").nth(1).unwrap();
    let (id, get) = command.split_once(' ').unwrap();
    assert_eq!((id.len(), get.split_once('`').unwrap().0), (8, "get 'report/report.md'"));
    // As it was when it was handed over, and again when it is once more; two have one note.
    bridge.ok("open('report/report.md', 'w').write('two')");
    let files = |arguments: &[&str]| home.run(&[&["files", "--session", id][..], arguments].concat());
    assert_eq!(files(&["get", "report/report.md", "-"]).stdout, "one");
    let said = bridge.ok("runtime.save('report/report.md')\nruntime.save('/etc/hostname', 'name');");
    assert!(
        said.contains("note: kept for the user after this session, each by its own path: `belljar files"),
        "{said}"
    );
    assert_eq!(files(&["get", "report/report.md", "-"]).stdout, "two");
    let in_use = files(&["rm", "name"]);
    assert!(in_use.code == Some(1) && in_use.stderr.contains("is in use by another belljar"), "{in_use:?}");
    let hyphen = bridge.ok("open('-x', 'w').write('x')\nruntime.save('-x');");
    assert!(hyphen.contains(&format!("`belljar files --session {id} get -- '-x'`")), "{hyphen}");
    assert_eq!(files(&["get", "--", "-x", "-"]).stdout, "x");
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    drop(bridge);
    // The next session has none of it in its workspace, and says where it is.
    let mut bridge = Bridge::start(&home);
    bridge.first("import os\nos.listdir()");
    let mut read = |uri: &str| bridge.request("resources/read", json!({"uri": uri})).unwrap_err();
    let error = read("workspace:///report/report.md");
    let says = format!(
        "there is no file report/report.md in /workspace of this session; another one handed such a file over, which the \
         user gets by `belljar files --session {id} get 'report/report.md'`"
    );
    assert_eq!((&error["code"], error["message"].as_str().unwrap()), (&json!(-32002), says.as_str()));
    assert!(!read("workspace:///other")["message"].as_str().unwrap().contains("belljar files"));
    let listed = files(&["ls"]).stdout;
    assert!(
        listed.contains("  name\n")
            && listed.ends_with("              report/\n           3  report/report.md\n"),
        "{listed}"
    );
    let rows = files(&["ls", "--json"]).stdout;
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.contains(&json!({"path": "report/report.md", "folder": false, "bytes": 3})), "{rows:?}");
    let row = home.run(&["files", "ls", "--json"]).stdout;
    let row: Value = serde_json::from_str(row.trim()).unwrap();
    assert!(row["session"].as_str().unwrap().starts_with(id) && row["files"] == 3, "{row}");
    let all = home.run(&["files", "ls"]).stdout;
    assert!(all.starts_with(&format!("session {id}  3 files, ")), "{all}");
    for (arguments, says) in [
        (&["get", "report/reprot.md"][..], "did you mean report/report.md?"),
        (&["get", "../lock"], "\"..\""),
        (&["put", "x"], "--workspace NAME takes some in"),
        (&["--workspace", "w", "ls"], "cannot be used with"),
    ] {
        let refused = files(arguments);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{arguments:?}: {refused:?}");
    }
    let unknown = home.run(&["files", "--session", "zz", "ls"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("`belljar files ls` lists"), "{unknown:?}");
    assert_eq!(files(&["rm", "name"]).code, Some(0));
    assert_eq!(files(&["rm", "--all"]).code, Some(0));
    assert_eq!(std::fs::read_dir(home.path().join("MCPs/outbox")).unwrap().count(), 0);
}

fn the_user_takes_files_out_of_a_workspace_and_puts_some_in(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales").file("data.csv", "x,y\n1,2\n");
    let at = |name: &str| home.path().join(name).display().to_string();
    let put = home.run(&["files", "put", &at("data.csv"), "in/data.csv"]);
    assert_eq!((put.code, put.stdout.as_str()), (Some(0), "/workspace/in/data.csv\n"), "{}", put.stderr);
    let mut bridge = Bridge::start(&home);
    bridge.first("open('out.txt', 'w').write(open('in/data.csv').read().upper())");
    let refused = home.run(&["files", "rm", "out.txt"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is in use by another belljar"), "{}", refused.stderr);
    // It may be read while it is in use.
    let shown = home.run(&["files", "get", "out.txt", "-"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(0), "X,Y\n1,2\n"));
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let listed = home.run(&["files", "ls"]);
    assert_eq!(listed.stdout, "              in/\n           8  in/data.csv\n           8  out.txt\n");
    let to = at("copy.txt");
    assert_eq!(home.run(&["files", "get", "out.txt", &to]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "X,Y\n1,2\n");
    assert_eq!(home.run(&["files", "rm", "out.txt"]).code, Some(0));
    for (arguments, code, says) in [
        (&["get", "in/data.csv", &to][..], 1, "is there already, and stays as it is"),
        (&["get", "in", &at("x")], 1, "is a folder"),
        (&["get", "out.txt"], 2, "there is no file out.txt in it"),
        (&["get", "in/dtaa.csv"], 2, "there is no file in/dtaa.csv in it; did you mean in/data.csv?"),
        (&["get", "../lock"], 2, "\"..\""),
        (&["rm", "out.txt"], 2, "there is no file out.txt"),
        (&["put", "/nowhere/x"], 1, "No such file"),
        (&["put", "/dev/null"], 1, "no plain file"),
        (&["--workspace", "other", "ls"], 2, "there is no workspace \"other\"; there is sales"),
        (&["--workspace", "../x", "ls"], 2, "a workspace name has only"),
    ] {
        let arguments: Vec<&str> = std::iter::once("files").chain(arguments.iter().copied()).collect();
        let refused = home.run(&arguments);
        assert!(refused.code == Some(code) && refused.stderr.contains(says), "{arguments:?}: {refused:?}");
    }
    let unnamed = home.without_env("MCP_BRIDGE_WORKSPACE");
    assert_eq!(unnamed.run(&["files", "ls"]).stdout, "sales  1 file, 8 bytes\n");
    assert_eq!(unnamed.run(&["files", "rm", "x"]).code, Some(2));
}

fn a_run_from_the_shell_is_given_files(engine: &Engine) {
    let twice = Home::on(engine).file("a/h", "A").file("b/h", "B");
    let refused = twice.run(&["run", "--file", "a/h", "--file", "b/h", "-c", "1"]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("two of the files have the same name"),
        "{refused:?}"
    );
    let home = Home::on(engine).file("data.csv", "a,b\n1,2\n").file("more.txt", "more");
    let at = |name: &str| home.path().join(name).display().to_string();
    let code = "import csv\nprint(list(csv.reader(open('data.csv'))), open('more.txt').read())";
    let ran = home.run(&["run", "--file", &at("data.csv"), "--file", &at("more.txt"), "-c", code]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "[['a', 'b'], ['1', '2']] more\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(workspaces(&home), [] as [PathBuf; 0], "they end with the run");
    for (file, says) in [(at("nothing"), "No such file"), (at("MCPs"), "is no plain file")] {
        let refused = home.run(&["run", "--file", &file, "-c", "1"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(says), "{refused:?}");
    }
}

fn state_survives_what_variables_do_not(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "sales");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("from mcp import runtime\nruntime.state['done'] = ['a', {'b': 1.5}]\nruntime.state['x'] = None\ndel runtime.state['x']");
    bridge.run("import os\nos.kill(os.getpid(), 9)");
    let look = "from mcp import runtime\ndict(runtime.state)";
    assert!(bridge.ok(look).starts_with("{'done': ['a', {'b': 1.5}]}"));
    lose_the_container(engine, &home, &mut bridge);
    assert!(bridge.ok(look).starts_with("{'done': ['a', {'b': 1.5}]}"));
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    drop(bridge);
    let mut bridge = Bridge::start(&home);
    assert_eq!(bridge.first(look), "{'done': ['a', {'b': 1.5}]}");
}
