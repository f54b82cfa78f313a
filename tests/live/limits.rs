//! The lock on the sandbox: what it looks like from inside, and which limits hold or are said not to.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::engine_proxy::EngineProxy;
use crate::support::{Bridge, Engine, Home, PATIENCE};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    from_inside_the_sandbox_is_as_locked_as_the_design_says,
    every_way_out_is_refused,
    what_the_engine_ignores_is_said_in_the_first_reply_and_by_doctor,
    a_rootful_engine_is_said_once,
    the_user_of_the_operator_runs_the_code,
    files_leave_room_for_code_however_little_memory_there_is,
    empty_files_without_end_leave_a_sandbox_that_can_list_them,
    processes_are_bounded_where_the_engine_bounds_them,
    the_default_cpu_limit_is_all_processors_but_one,
);

on_every_container_engine!(
    the_engine_is_asked_for_all_of_the_lock,
    limits_of_the_operator_are_what_the_engine_was_asked_for,
    what_the_engine_warns_of_is_said_in_the_first_reply_and_by_doctor,
    a_missing_image_is_said_with_the_command_that_makes_it,
    an_image_without_python_is_said_and_leaves_nothing,
    a_user_that_no_engine_can_map_is_said_and_leaves_nothing,
    an_import_without_room_fails_at_once_and_costs_no_variables,
    an_engine_that_refuses_the_default_cpu_limit_is_used_without_it,
);

fn an_import_without_room_fails_at_once_and_costs_no_variables(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok("import pandas, matplotlib.pyplot\nkept = 1");
    let filled = bridge.run("blocks = []\nwhile True: blocks.append(bytearray(64 << 20))");
    let of = " MB of the interpreter's memory are in use: del what is not needed, or leave large results on the host";
    assert!(filled.is_error && filled.text.contains(of), "{}", filled.text);
    let refused = bridge.run("import sklearn.cluster, scipy.stats");
    let said = "MemoryError: there is too little memory left to import scipy\n";
    assert!(refused.text.contains(said) && refused.text.contains(of), "{}", refused.text);
    assert!(refused.text.ends_with("\nstate: variables kept"), "{}", refused.text);
    let code = "del blocks\nimport sklearn.cluster, scipy.stats\nkept, scipy.stats.norm.cdf(0) == 0.5";
    assert!(bridge.ok(code).starts_with("(1, "), "the same works once there is room");
}

fn inside(bridge: &mut Bridge, code: &str) -> Value {
    let text = bridge.ok(code);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn from_inside_the_sandbox_is_as_locked_as_the_design_says(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let mut seen = inside(&mut bridge, include_str!("what_is_inside.py"));
    let users = seen.as_object_mut().unwrap().remove("uid").unwrap();
    let user = users[0].as_u64().unwrap();
    assert_eq!(users, json!([user, user, 65_534, 65_534]));
    assert!(user >= 10_000 && (user == 65_534) == engine.is_process(), "{user}");
    assert_eq!(
        seen,
        json!({
            "groups": [],
            "capabilities": [0],
            "no_new_privs": "1",
            "seccomp": "2",
            "interfaces": ["lo"],
            "root": true,
            "open_to_programs": [],
            "home": "/workspace",
            "cwd": "/workspace",
            "pid_1": "python3"
        })
    );
}

fn every_way_out_is_refused(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let seen = inside(&mut bridge, include_str!("ways_out.py"));
    let refused = |outcome: &Value| {
        ["refused", "PermissionError", "OSError", "ConnectionRefusedError"]
            .contains(&outcome.as_str().unwrap_or_default())
    };
    let mut open: Vec<String> = seen
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, outcome)| !refused(outcome))
        .map(|(attempt, outcome)| format!("{attempt}: {outcome}"))
        .collect();
    // The kernel drops signals from inside to PID 1 without an error; that it lives is what the next run shows.
    open.retain(|attempt| attempt != "kill the supervisor: \"DONE: 'tried'\"");
    assert_eq!(open, [""; 0]);
    assert_eq!(bridge.ok("1 + 1"), "2");
}

fn empty_files_without_end_leave_a_sandbox_that_can_list_them(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let code =
        "import os\nfor number in range(3_000_000):\n    os.close(os.open(f'/tmp/{number}', os.O_CREAT))";
    let filled = bridge.run_with(json!({"code": code, "timeout": 120}));
    let ends = ["No space left on device", "the sandbox ran out of memory", "more than its limit of 512 MiB"];
    assert!(filled.is_error && ends.iter().any(|end| filled.text.contains(end)), "{}", filled.text);
    let listed = bridge.run("import os\nprint(len(os.listdir('/tmp')) < 600_000)");
    assert!(!listed.is_error && listed.text.contains("True"), "{}\n{}", filled.text, listed.text);
    // What a reply says of lost variables and of the reason is true.
    let is_fresh = listed.text.contains("state: fresh interpreter");
    let said = "files in memory, of which nothing bounds the number";
    assert_eq!(filled.text.contains(said), is_fresh, "{}\n{}", filled.text, listed.text);
}

fn the_engine_is_asked_for_all_of_the_lock(engine: &Engine) {
    let asked: Arc<Mutex<Value>> = Arc::default();
    let seen = Arc::clone(&asked);
    let proxy = EngineProxy::changing(engine, move |body| *seen.lock().unwrap() = body.clone());
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    Bridge::start(&home).ok("1");
    let mut body = asked.lock().unwrap().take();
    let is_docker = engine.name == "docker";
    let tmpfs = |mib: u32| {
        let files = if is_docker { format!("nr_inodes={},", (256 * mib).max(4096)) } else { String::new() };
        format!("rw,noexec,nosuid,nodev,size={mib}m,{files}mode=1777")
    };
    let ulimit = |name: &str, most: u32| json!({"Name": name, "Soft": most, "Hard": most});
    let empty = "ro,noexec,nosuid,nodev,size=4k,mode=555";
    let mut host = body["HostConfig"].take();
    let nano_cpus = host.as_object_mut().unwrap().remove("NanoCpus").unwrap();
    assert!(nano_cpus.as_u64().unwrap() >= 1_000_000_000, "{nano_cpus}");
    // Each engine is asked in its own way for what must not be seen.
    let masked = if is_docker {
        host.as_object_mut().unwrap().remove("MaskedPaths").unwrap()
    } else {
        assert_eq!(host["Tmpfs"].as_object_mut().unwrap().remove("/sys"), Some(json!(empty)));
        host["SecurityOpt"].as_array_mut().unwrap().pop().unwrap()
    };
    for path in ["/proc/cmdline", "/proc/kallsyms", "/proc/diskstats", "/proc/sys", "/proc/pressure"] {
        assert!(masked.to_string().contains(path), "{masked}");
    }
    assert_eq!(
        host,
        json!({
            "NetworkMode": "none", "Dns": ["127.0.0.1"], "IpcMode": "private",
            "ReadonlyRootfs": true, "Privileged": false, "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"],
            "Memory": 512 << 20, "MemorySwap": 512 << 20, "PidsLimit": 128, "OomScoreAdj": 500,
            "Ulimits": [ulimit("nofile", 4096), ulimit("nproc", 4096), ulimit("core", 0)],
            "Tmpfs": {
                "/tmp": tmpfs(64), "/workspace": tmpfs(128), "/run": tmpfs(4), "/var/tmp": tmpfs(16),
                "/dev/shm": tmpfs(64), "/dev/mqueue": empty
            },
            // Otherwise every frame would be on the disk, and what a killed bridge leaves would stay.
            "LogConfig": {"Type": "none"}, "AutoRemove": true
        })
    );
    let user = body["User"].as_str().and_then(|user| user.strip_suffix(":65534")).expect("a user");
    assert!(user.parse::<u32>().unwrap() >= 10_000, "{user}");
    assert_eq!(body["WorkingDir"], "/tmp");
    assert_eq!(
        (&body["OpenStdin"], &body["StdinOnce"], &body["Tty"]),
        (&json!(true), &json!(true), &json!(false))
    );
}

fn limits_of_the_operator_are_what_the_engine_was_asked_for(engine: &Engine) {
    let home = Home::on(engine)
        .env("MCP_BRIDGE_MEMORY", "384m")
        .env("MCP_BRIDGE_PIDS", "77")
        .env("MCP_BRIDGE_CPUS", "0.75")
        .env("MCP_BRIDGE_ALLOW_WEAK", "cpus");
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("1");
    let containers = engine.containers_of(&home.owners());
    let host = engine.inspect_container(&containers[0])["HostConfig"].take();
    let asked = [&host["Memory"], &host["MemorySwap"], &host["PidsLimit"], &host["NetworkMode"]];
    if first.contains("is not enforced by this engine") {
        // Podman forgets what it cannot do; that it was asked is what the notice says.
        assert!(engine.is_rootless(), "{first}");
        assert_eq!(host["NetworkMode"], "none");
    } else {
        assert_eq!(asked, [&json!(384 << 20), &json!(384 << 20), &json!(77), &json!("none")]);
    }
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    assert_eq!((&host["Privileged"], &host["ReadonlyRootfs"]), (&json!(false), &json!(true)));
    assert!(is_empty(&host["Binds"]) && is_empty(&host["CapAdd"]) && is_empty(&host["Devices"]), "{host}");
}

fn the_default_cpu_limit_is_all_processors_but_one(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home);
    bridge.ok("1");
    let container = &engine.containers_of(&home.owners())[0];
    let nano_cpus = engine.inspect_container(container)["HostConfig"]["NanoCpus"].take();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let processors = processors.lines().filter(|line| line.starts_with("processor")).count() as u64;
    let doctor = home.run(&["doctor"]);
    let line = doctor.stdout.lines().find(|line| line.starts_with("cpus")).unwrap();
    if line.ends_with("not limited by this engine") {
        assert!(engine.is_rootless(), "{line}");
    } else {
        assert!(line.ends_with(" enforced (default)"), "{line}");
        assert_eq!(nano_cpus, json!((processors - 1).max(1) * 1_000_000_000));
    }
}

fn an_engine_that_refuses_the_default_cpu_limit_is_used_without_it(engine: &Engine) {
    // An engine takes only one of both, and says so.
    let conflict = |body: &mut Value| {
        if body["HostConfig"]["NanoCpus"].is_u64() {
            body["HostConfig"]["CpuPeriod"] = json!(100_000);
        }
    };
    let proxy = EngineProxy::changing(engine, conflict);
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("print('ran')");
    assert!(!reply.is_error && reply.text.contains("ran"), "{}", reply.text);
    assert_eq!(engine.containers_of(&home.owners()).len(), 1);
    // One that was configured must hold.
    let reply = Bridge::start(&home.env("MCP_BRIDGE_CPUS", "0.5")).run("print('ran')");
    assert!(reply.is_error && !reply.text.contains("ran\n"), "{}", reply.text);
}

fn what_the_engine_ignores_is_said_in_the_first_reply_and_by_doctor(engine: &Engine) {
    // For CPU time there is no second line, so that it has to be allowed.
    let home = Home::on(engine).env("MCP_BRIDGE_CPUS", "0.5").env("MCP_BRIDGE_ALLOW_WEAK", "cpus");
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.stdout, doctor.stderr);
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("1");
    let second = bridge.ok("2");
    assert_eq!(second, "2", "said once");
    let limits = [
        ("memory", "the memory limit of 512 MiB is not enforced by this engine"),
        ("processes", "the pids limit of 128 processes is not enforced by this engine"),
        ("cpus", "the cpu limit of 500 thousandths of a CPU is not enforced by this engine"),
    ];
    for (label, note) in limits {
        let line = doctor.stdout.lines().find(|line| line.starts_with(label)).unwrap();
        let is_ignored = line.contains("NOT ENFORCED by this engine");
        assert_eq!(line.ends_with(", watched by belljar"), is_ignored && label != "cpus", "{line}");
        assert_eq!(first.contains(note), is_ignored, "{line}\n{first}");
        assert_eq!(doctor.stdout.contains(note), is_ignored, "{}", doctor.stdout);
        assert!(is_ignored || line.ends_with(" enforced"), "{line}");
        // These machines let a rootful engine enforce everything; a rootless one may be unable to.
        assert!(!is_ignored || engine.is_rootless(), "{line}");
    }
}

fn what_the_engine_warns_of_is_said_in_the_first_reply_and_by_doctor(engine: &Engine) {
    // Of this Docker warns that it is no longer done; Podman warns of nothing.
    let proxy = EngineProxy::changing(engine, |body| body["HostConfig"]["KernelMemory"] = json!(256 << 20));
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let warns = engine.name == "docker";
    let doctor = home.run(&["doctor"]).stdout;
    let is_told = |text: &str, before: &str| {
        text.lines().any(|line| line.starts_with(before) && line.to_lowercase().contains("kernel memory"))
    };
    assert_eq!(is_told(&doctor, "notice     engine: "), warns, "{doctor}");
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("1");
    assert_eq!(is_told(&first, "note: engine: "), warns, "{first}");
    assert_eq!(bridge.ok("2"), "2", "said once");
}

fn files_leave_room_for_code_however_little_memory_there_is(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_MEMORY", "128m"));
    bridge.ok("x = 1");
    let code = "import errno\nfor place in ('/workspace', '/tmp', '/dev/shm', '/var/tmp'):\n    \
                try:\n        with open(f'{place}/full', 'wb', buffering=0) as file:\n            \
                while True: file.write(bytes(1 << 20))\n    \
                except OSError as error: print(errno.errorcode[error.errno])";
    assert_eq!(bridge.ok(code), "ENOSPC\nENOSPC\nENOSPC\nENOSPC");
    assert_eq!(bridge.ok("x"), "1");
}

fn a_rootful_engine_is_said_once(engine: &Engine) {
    let home = Home::on(engine);
    let notice = "the container engine is rootful; a rootless one would be safer";
    let doctor = || assert_eq!(home.run(&["doctor"]).stdout.contains(notice), !engine.is_rootless());
    doctor();
    let mut bridge = Bridge::start(&home);
    assert_eq!(bridge.ok("1").contains(&format!("note: {notice}")), !engine.is_rootless());
    assert_eq!(bridge.ok("2"), "2");
    drop(bridge);
    // What else an engine lacks is said to each session.
    let third = Bridge::start(&home).ok("3");
    assert!(third.starts_with('3') && !third.contains(notice), "{third}");
    doctor();
}

fn a_missing_image_is_said_with_the_command_that_makes_it(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_IMAGE", "localhost/no-such-image:1");
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("1");
    assert!(reply.is_error);
    assert_eq!(
        reply.text,
        "status: error\nerror: the sandbox image is missing: localhost/no-such-image:1\n\
         hint: build it with `belljar image build`, or pull any image with python3 >= 3.11 and name it: \
         `podman pull docker.io/library/python:3.14-slim` (or `docker pull ...`), MCP_BRIDGE_IMAGE=..."
    );
    assert_eq!(engine.containers_of(&home.owners()), [""; 0]);
    bridge.request("ping", json!({})).unwrap();
}

fn an_image_without_python_is_said_and_leaves_nothing(engine: &Engine) {
    let name = format!("localhost/belljar-without-python-{}", std::process::id());
    engine.make_empty_image(&name);
    let home = Home::on(engine).env("MCP_BRIDGE_IMAGE", &name);
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("1");
    assert!(reply.is_error);
    assert!(reply.text.starts_with("status: error\nerror: "), "{}", reply.text);
    let hint = "\nhint: the image has no python3: build one with `belljar image build`, or name another: \
                MCP_BRIDGE_IMAGE=...";
    assert!(reply.text.ends_with(hint), "{}", reply.text);
    assert_eq!(engine.containers_of(&home.owners()), [""; 0]);
    bridge.hang_up();
    bridge.wait(PATIENCE);
    engine.remove_image(&name);
}

fn a_user_that_no_engine_can_map_is_said_and_leaves_nothing(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_CONTAINER_USER", "4000000000:4000000000");
    let reply = Bridge::start(&home).run("1");
    assert!(reply.is_error);
    assert!(reply.text.starts_with("status: error\nerror: the engine could not "), "{}", reply.text);
    assert!(reply.text.contains("\nhint: "), "{}", reply.text);
    assert_eq!(engine.containers_of(&home.owners()), [""; 0]);
}

fn the_user_of_the_operator_runs_the_code(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_CONTAINER_USER", "1234:5678");
    let mut bridge = Bridge::start(&home);
    assert_eq!(
        bridge.first("import os\nopen('/workspace/x', 'w').write('1')\n(os.getuid(), os.getgid())"),
        "(1234, 5678)"
    );
}

fn processes_are_bounded_where_the_engine_bounds_them(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_PIDS", "40");
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("1");
    if first.contains("the pids limit of 40 processes is not enforced") {
        assert!(engine.is_rootless());
        return;
    }
    let code = "import os, time\nchildren = []\ntry:\n  while len(children) < 200:\n    child = os.fork()\n    \
                if child == 0:\n      time.sleep(60)\n      os._exit(0)\n    children.append(child)\n\
                except BlockingIOError:\n  print('refused')\nlen(children) < 40";
    assert_eq!(bridge.ok(code), "refused\nTrue");
    bridge.ok(
        "import signal\nfor child in children:\n  os.kill(child, signal.SIGKILL)\n  os.waitpid(child, 0)",
    );
    assert_eq!(bridge.ok("import subprocess\nsubprocess.run(['true']).returncode"), "0");
}
