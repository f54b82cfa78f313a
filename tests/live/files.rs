//! Files in /workspace outlive what they were written in: the interpreter, the container, the bridge.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Home, PATIENCE, eventually};

on_every_engine!(
    files_come_back_when_the_container_is_removed_while_idle,
    files_come_back_after_an_idle_stop,
    files_of_a_run_that_was_killed_are_kept,
    a_named_workspace_outlives_a_killed_bridge_and_a_sessions_own_does_not,
    a_workspace_that_is_in_use_is_said_and_nothing_runs_without_it,
    much_comes_back_to_the_byte,
    what_cannot_be_kept_is_said_and_leads_nowhere,
    a_run_that_changes_no_file_writes_nothing_on_the_host,
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
    assert!(reply.text.contains("note: /workspace has its 2 files again, 7 bytes"), "{}", reply.text);
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
        reply.is_error && reply.text.contains("the workspace \"sales\" is in use by another hotcell"),
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

fn what_cannot_be_kept_is_said_and_leads_nowhere(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let reply = bridge.ok(
        "import os\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')\nos.symlink('/etc', 'folder')\n\
         open(b'\\xff', 'w').close()\nopen('..a', 'w').write('x')",
    );
    for says in ["not kept: ", "link: a link", "pipe: no plain file", "folder: a link", "\\udcff"] {
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
