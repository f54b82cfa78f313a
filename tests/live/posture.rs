//! The posture handshake: a sandbox that is weaker than asked for runs nothing, and says in what it is weaker.

use serde_json::{Value, json};

use crate::support::engine_proxy::EngineProxy;
use crate::support::{Bridge, Engine, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(control_groups_of_others_are_not_shown,);

on_every_container_engine!(
    every_weaker_configuration_is_refused_by_its_field,
    limits_that_nobody_can_keep_are_refused,
    what_the_operator_allows_by_name_runs_and_is_said_for_every_sandbox,
    a_field_that_nobody_knows_allows_nothing_and_is_said,
    a_worker_whose_calls_cannot_be_filtered_is_refused,
    worker_without_landlock_is_refused,
    a_later_interpreter_that_is_weaker_takes_its_container_with_it,
    a_limit_that_the_engine_does_not_enforce_is_enforced_by_the_bridge,
);

/// What code finds in the control groups: folders of other groups, and files that it can read though the group does not
/// have the limit of this sandbox. Podman on version 1 leaves a folder for each controller.
const GROUPS: &str = r"
import os
root, limit = '/sys/fs/cgroup', str(512 << 20)
mounts = {line.split()[4] for line in open('/proc/self/mountinfo') if ' - cgroup' in line}
def read(path):
    try:
        with open(path) as file:
            return file.read(100).strip() or '(empty)'
    except OSError:
        return ''
own = limit in (read(f'{root}/memory.max'), read(f'{root}/memory/memory.limit_in_bytes'))
found = []
for folder, folders, files in os.walk(root):
    found += [name for name in folders if folder in mounts]
    found += [f'{folder}/{name}' for name in files if not own and read(f'{folder}/{name}')]
print(own, found[:5])
";

fn control_groups_of_others_are_not_shown(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let shown = bridge.ok(GROUPS);
    assert!(["True []", "False []"].contains(&shown.trim()), "{shown}");
}

/// The reply to a first run with that change.
fn reply_with(engine: &Engine, change: impl Fn(&mut Value) + Send + Sync + 'static) -> String {
    let proxy = EngineProxy::changing(engine, change);
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let mut bridge = Bridge::start(&home);
    let reply = bridge.run("print('ran')");
    assert_eq!(reply.is_error, !reply.text.contains("ran"), "{}", reply.text);
    if reply.is_error {
        leaves_nothing(engine, &home);
    }
    reply.text
}

/// Docker takes a moment for a container that removes itself.
#[track_caller]
fn leaves_nothing(engine: &Engine, home: &Home) {
    eventually("a refused sandbox goes", PATIENCE, || engine.containers_of(&home.owners()).is_empty());
}

#[track_caller]
fn is_refused(text: &str, field: &str, seen: &str) {
    let start = "status: error\nerror: the sandbox is weaker than asked for and was refused: ";
    let (refused, hint) = text.split_once("\nhint: ").unwrap_or_else(|| panic!("{text}"));
    let said = refused.strip_prefix(start).unwrap_or_else(|| panic!("{text}"));
    assert!(said.split("; ").any(|said| said.starts_with(&format!("{field}: {seen}"))), "{field}: {text}");
    let (_, names) = hint.split_once("MCP_BRIDGE_ALLOW_WEAK=").unwrap_or_else(|| panic!("{text}"));
    let names = names.lines().next().unwrap();
    assert!(names.split(',').any(|name| name == field), "{text}");
}

fn every_weaker_configuration_is_refused_by_its_field(engine: &Engine) {
    // Without any change the proxy is no reason.
    assert!(reply_with(engine, |_| ()).contains("ran"));
    type Case = (&'static str, &'static str, fn(&mut Value));
    let cases: [Case; 14] = [
        ("capabilities", "bounding ", |body| body["HostConfig"]["Privileged"] = json!(true)),
        ("seccomp", "0", |body| {
            body["HostConfig"]["SecurityOpt"] = json!(["no-new-privileges", "seccomp=unconfined"]);
        }),
        ("no_new_privs", "0", |body| body["HostConfig"]["SecurityOpt"] = json!([])),
        ("capabilities", "bounding ", |body| body["HostConfig"]["CapAdd"] = json!(["NET_RAW"])),
        ("uid", "1, expected ", |body| body["User"] = json!("1:65534")),
        ("gid", "1, expected 65534", |body| {
            body["User"] = json!(body["User"].as_str().unwrap().replace(":65534", ":1"));
        }),
        ("groups", "27", |body| body["HostConfig"]["GroupAdd"] = json!(["27"])),
        ("root", "writable", |body| body["HostConfig"]["ReadonlyRootfs"] = json!(false)),
        ("mounts", "/opt/extra ", |body| body["HostConfig"]["Binds"] = json!(["/usr/share:/opt/extra:ro"])),
        ("mounts", "/tmp (tmpfs", |body| {
            body["HostConfig"]["Tmpfs"]["/tmp"] = json!("rw,exec,nosuid,nodev,size=64m,mode=1777");
        }),
        ("mounts", "/tmp with ", |body| {
            body["HostConfig"]["Tmpfs"]["/tmp"] = json!("rw,noexec,nosuid,nodev,mode=1777");
        }),
        ("masks", "/proc/", |body| {
            let host = body["HostConfig"].as_object_mut().unwrap();
            host.remove("MaskedPaths");
            host["SecurityOpt"].as_array_mut().unwrap().retain(|option| option == "no-new-privileges");
        }),
        ("mounts", "/dev/mqueue (mqueue", |body| {
            body["HostConfig"]["Tmpfs"].as_object_mut().unwrap().remove("/dev/mqueue");
        }),
        ("interfaces", "", |body| body["HostConfig"]["NetworkMode"] = json!("host")),
    ];
    for (field, seen, change) in cases {
        is_refused(&reply_with(engine, change), field, &format!("got {seen}"));
    }
}

fn limits_that_nobody_can_keep_are_refused(engine: &Engine) {
    let without = |limits: &'static [&'static str]| {
        move |body: &mut Value| {
            for limit in limits {
                body["HostConfig"].as_object_mut().unwrap().remove(*limit);
            }
        }
    };
    // An engine that does not even say which process the container is: belljar cannot watch it.
    let run = |limits| {
        let proxy = EngineProxy::secretive(engine, without(limits));
        let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
        let text = Bridge::start(&home).run("1").text;
        leaves_nothing(engine, &home);
        text
    };
    let memory = "the memory limit of 512 MiB is not enforced by this engine, nor can belljar watch it";
    is_refused(&run(&["Memory", "MemorySwap"]), "memory", memory);
    let pids = "the pids limit of 128 processes is not enforced by this engine, nor can belljar watch it";
    is_refused(&run(&["PidsLimit"]), "pids", pids);
    // With the second line they are a notice.
    let text = reply_with(engine, without(&["Memory", "MemorySwap"]));
    let notice = "the memory limit of 512 MiB is not enforced by this engine: belljar watches it and ends what exceeds it";
    assert!(text.contains(notice), "{text}");
    // For CPU time there is no second line.
    let proxy = EngineProxy::changing(engine, without(&["NanoCpus"]));
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).env("MCP_BRIDGE_CPUS", "0.5");
    is_refused(&Bridge::start(&home).run("1").text, "cpus", "the cpu limit of 500 thousandths of a CPU");
}

fn what_the_operator_allows_by_name_runs_and_is_said_for_every_sandbox(engine: &Engine) {
    let change = |body: &mut Value| body["HostConfig"]["Binds"] = json!(["/usr/share:/opt/extra:ro"]);
    let proxy = EngineProxy::changing(engine, change);
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", &proxy.address())
        .env("MCP_BRIDGE_ALLOW_WEAK", "mounts,fds");
    let said = "note: weaker than asked for, allowed by MCP_BRIDGE_ALLOW_WEAK: mounts: got /opt/extra (";
    let mut bridge = Bridge::start(&home);
    let first = bridge.ok("1");
    assert!(first.contains(said) && !first.contains("fds"), "{first}");
    assert_eq!(bridge.ok("2"), "2", "said once");
    engine.remove_container(&engine.containers_of(&home.owners())[0]);
    // Whether the bridge has noticed already is a race.
    let mut again = bridge.run("3").text;
    if again.starts_with("status: error") {
        again = bridge.ok("3");
    }
    assert!(again.contains(said), "{again}");
    // Another field does not help.
    let home = home.env("MCP_BRIDGE_ALLOW_WEAK", "fds,memory");
    is_refused(&Bridge::start(&home).run("1").text, "mounts", "got /opt/extra ");
    let doctor = home.env("MCP_BRIDGE_ALLOW_WEAK", "mounts").run(&["doctor"]);
    assert!(doctor.stdout.contains("\nWEAKER     mounts: got /opt/extra ("), "{}", doctor.stdout);
}

fn a_field_that_nobody_knows_allows_nothing_and_is_said(engine: &Engine) {
    let change = |body: &mut Value| body["HostConfig"]["ReadonlyRootfs"] = json!(false);
    let proxy = EngineProxy::changing(engine, change);
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", &proxy.address())
        .env("MCP_BRIDGE_ALLOW_WEAK", "root,everything");
    let mut bridge = Bridge::start(&home);
    let said =
        "MCP_BRIDGE_ALLOW_WEAK: has \"everything\", no field that is known; known are uid, gid, groups,";
    let refused =
        format!("status: error\nerror: no sandbox is started with a setting that cannot be read: {said}");
    let reply = bridge.run("1");
    assert!(reply.is_error && reply.text.starts_with(&refused), "{}", reply.text);
    bridge.says(said);
}

fn a_worker_whose_calls_cannot_be_filtered_is_refused(engine: &Engine) {
    // Under this name the machine has no table of system calls.
    let change = |body: &mut Value| {
        let command = body["Entrypoint"].as_array().unwrap().clone();
        body["Entrypoint"] = json!(["setarch", "linux32"]);
        body["Entrypoint"].as_array_mut().unwrap().extend(command);
    };
    let proxy = EngineProxy::changing(engine, change);
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    let seen = "no filter for system calls could be installed: there is no table of system calls for ";
    is_refused(&Bridge::start(&home).run("1").text, "seccomp", seen);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_ALLOW_WEAK", "seccomp"));
    let text = bridge.ok("1");
    assert!(
        text.contains("ALLOW_WEAK: seccomp: got no filter of the interpreter's own, expected one"),
        "{text}"
    );
}

fn worker_without_landlock_is_refused(engine: &Engine) {
    // No folder can be opened for its rules then.
    let change = |body: &mut Value| {
        let bootstrap = body["Entrypoint"][4].as_str().unwrap();
        body["Entrypoint"][4] = json!(format!("import os\nos.O_PATH = -1\n{bootstrap}"));
    };
    let proxy = EngineProxy::changing(engine, change);
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address());
    // The changed command is not recognised by whoever watches limits that the engine does not enforce.
    let home = home.env("MCP_BRIDGE_ALLOW_WEAK", "memory,pids");
    let reply = Bridge::start(&home).run("1");
    let doctor = Home::on(engine).run(&["doctor"]).stdout;
    if doctor.contains("\nlandlock   NOT IN USE: ") {
        assert!(!reply.is_error, "{}", reply.text);
        return;
    }
    assert!(doctor.contains("\nlandlock   in use, version "), "{doctor}");
    is_refused(&reply.text, "landlock", "got version 0, expected version ");
    let text = Bridge::start(&home.env("MCP_BRIDGE_ALLOW_WEAK", "memory,pids,landlock")).ok("1");
    assert!(text.contains("landlock: got version 0, expected version "), "{text}");
}

fn a_later_interpreter_that_is_weaker_takes_its_container_with_it(engine: &Engine) {
    // Only the first one of a container lowers its limits.
    let change = |body: &mut Value| {
        let patch = "import os, resource\nlower = resource.setrlimit\n\
                     def is_first():\n  try: open('/tmp/first', 'x').write(str(os.getpid()))\n  \
                     except FileExistsError: pass\n  return open('/tmp/first').read() == str(os.getpid())\n\
                     resource.setrlimit = lambda *limit: lower(*limit) if is_first() else None\n";
        let bootstrap = body["Entrypoint"][4].as_str().unwrap();
        body["Entrypoint"][4] = json!(format!("{patch}{bootstrap}"));
    };
    let proxy = EngineProxy::changing(engine, change);
    // What is not started as asked for has no meter.
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", &proxy.address())
        .env("MCP_BRIDGE_ALLOW_WEAK", "memory,pids")
        .env("MCP_BRIDGE_ROLLBACK", "0");
    let mut bridge = Bridge::start(&home).warm();
    let first = engine.containers_of(&home.owners());
    assert_eq!(first.len(), 1);
    let reply = bridge.run_with(json!({"code": "1 + 1", "reset": true}));
    assert!(reply.text.starts_with("2\nstate: fresh interpreter"), "{}", reply.text);
    eventually("the weaker one goes", PATIENCE, || {
        let now = engine.containers_of(&home.owners());
        now.len() == 1 && now != first
    });
    let lost = bridge.run("import os; os._exit(7)");
    assert!(lost.text.contains("the interpreter exited (7)"), "{}", lost.text);
    eventually("so does the next", PATIENCE, || engine.containers_of(&home.owners()).is_empty());
    assert!(bridge.ok("1 + 1").starts_with("2\nstate: fresh interpreter"));
}

/// On an engine that enforces limits they are left out of what it is asked for.
fn unlimited(engine: &Engine) -> EngineProxy {
    EngineProxy::changing(engine, |body| {
        for limit in ["Memory", "MemorySwap", "PidsLimit"] {
            body["HostConfig"].as_object_mut().unwrap().remove(limit);
        }
    })
}

fn a_limit_that_the_engine_does_not_enforce_is_enforced_by_the_bridge(engine: &Engine) {
    let proxy = unlimited(engine);
    let home = Home::on(engine)
        .env("MCP_BRIDGE_RUNTIME", &proxy.address())
        .env("MCP_BRIDGE_MEMORY", "256m")
        .env("MCP_BRIDGE_PIDS", "100");
    let mut bridge = Bridge::start(&home).warm();
    // What processes share counts once.
    let fork = "import os, time\ndef fork(job):\n  child = os.fork()\n  if child == 0:\n    job()\n    os._exit(0)\n  return child\n";
    bridge.ok(fork);
    let shared = "x = bytearray(150 << 20)\nfor child in [fork(lambda: time.sleep(3)) for _ in range(4)]:\n  os.waitpid(child, 0)\nlen(x) >> 20";
    assert_eq!(bridge.ok(shared), "150");
    // One process alone has its own limit, and keeps its variables.
    let alone = bridge.run("y = bytearray(300 << 20)");
    assert!(alone.is_error && alone.text.contains("MemoryError"), "{}", alone.text);
    // Several together do not.
    let many = "print('before')\ndel x\ndef grow():\n  z = bytearray(150 << 20)\n  time.sleep(60)\n\
                for child in [fork(grow) for _ in range(4)]:\n  os.waitpid(child, 0)";
    let reply = bridge.run_with(json!({"code": many, "timeout": 60}));
    let (start, rest) = reply.text.split_once(" MiB of memory, ").unwrap_or_else(|| panic!("{}", reply.text));
    let used =
        start.strip_prefix("status: error\nbefore\nerror: the interpreter was ended: the sandbox used ");
    assert!(used.unwrap_or_else(|| panic!("{start}")).parse::<u32>().unwrap() > 256, "{start}");
    // What it held before was too large for a copy.
    assert_eq!(
        rest,
        "more than its limit of 256 MiB\nstate: variables lost; the next run starts with a fresh interpreter"
    );
    assert!(bridge.ok("1 + 1").starts_with("2\nstate: fresh interpreter"));
    assert_eq!(engine.containers_of(&home.owners()).len(), 1, "the container stays");
    let bomb = "import threading\nstop = threading.Event()\nthreads = []\ntry:\n  while True:\n    \
                threads.append(threading.Thread(target=stop.wait, daemon=True))\n    threads[-1].start()\n\
                except RuntimeError:\n  stop.set()\n  for thread in threads[:-1]: thread.join()\n  print('refused')";
    let reply = bridge.run_with(json!({"code": bomb, "timeout": 60}));
    // The interpreter's own limits may refuse a thread before the bridge has counted them.
    let is_refused = !reply.is_error && reply.text.contains("refused");
    let is_ended = reply.text.contains(" processes and threads, more than its limit of 100");
    assert!(is_refused || is_ended, "{}", reply.text);
    assert_eq!(bridge.ok("1 + 1"), "2");
}
