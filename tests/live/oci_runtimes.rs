//! OCI runtimes that the user chooses: gVisor runs the sandbox where an engine has it, others are asked for by name, and
//! an engine that would use another runtime makes no sandbox.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::engine_proxy::EngineProxy;
use crate::support::{Bridge, Engine, Home};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    runtime_of_the_user_is_named_in_the_request,
    kernel_of_the_machine_is_refused_where_another_was_asked_for,
    doctor_says_whose_kernel_a_sandbox_has,
);

on_every_container_engine!(unknown_runtime_is_refused_with_a_hint,);

/// A home whose sandboxes gVisor runs, also where its version lets code open the supervisor's descriptors.
fn on_gvisor() -> Option<Home> {
    let engine = Engine::with_runsc()?;
    Some(Home::on(&engine).env("MCP_BRIDGE_OCI_RUNTIME", "runsc").env("MCP_BRIDGE_ALLOW_WEAK", "fds"))
}

#[test]
fn gvisor_that_opens_the_supervisor_to_code_is_refused() {
    let Some(home) = on_gvisor() else { return };
    let code =
        "import os\ntry: print('open', len(os.listdir('/proc/1/fd')) > 0)\nexcept OSError: print('shut')";
    let is_open = Bridge::start(&home).warm().ok(code) == "open True";
    let reply = Bridge::start(&home.without_env("MCP_BRIDGE_ALLOW_WEAK")).run("print('ran')");
    assert_eq!(reply.is_error, is_open, "{}", reply.text);
    assert_eq!(
        reply.text.contains("fds: got an interpreter that can open the supervisor's, expected its own only"),
        is_open
    );
}

#[test]
fn code_runs_in_gvisor_as_locked_as_elsewhere() {
    let Some(home) = on_gvisor() else { return };
    let mut bridge = Bridge::start(&home).warm();
    // gVisor has told this for years, whatever the machine's kernel is.
    assert_eq!(bridge.ok("import os\nos.uname().release"), "'4.4.0'");
    assert_eq!(bridge.ok("x = 6 * 7\nimport json\njson.dumps({'x': x})"), "'{\"x\": 42}'");
    let refused = |bridge: &mut Bridge, code: &str, error: &str| {
        let reply = bridge.run(code);
        assert!(reply.is_error && reply.text.contains(error), "{code}: {}", reply.text);
    };
    refused(&mut bridge, "import socket\nsocket.socket()", "PermissionError");
    refused(&mut bridge, "open('/etc/x', 'w')", "only /workspace and /tmp can be written to");
    assert_eq!(bridge.ok("x"), "42");
    // What several processes or maps take together ends gVisor as a whole.
    refused(
        &mut bridge,
        "bytearray(600 << 20)",
        "the sandbox went away: it ran out of memory; use less at once",
    );
    assert!(bridge.ok("6 * 7").starts_with("42\nstate: fresh interpreter"));
}

#[test]
fn interrupts_and_files_work_in_gvisor() {
    let Some(home) = on_gvisor() else { return };
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("kept = 1\nwith open('/workspace/a.txt', 'w') as file: file.write('text')");
    let late = bridge.run_with(json!({"code": "while True: pass", "timeout": 1}));
    assert!(late.is_error && late.text.contains("state: variables kept"), "{}", late.text);
    assert_eq!(bridge.ok("kept, open('/workspace/a.txt').read()"), "(1, 'text')");
    let died = bridge.run("import os\nkept = 2\nos._exit(7)");
    assert!(died.is_error && died.text.contains("the interpreter exited (7)"), "{}", died.text);
    assert_eq!(
        bridge.ok("import subprocess\nsubprocess.run(['echo', 'out'], capture_output=True).stdout"),
        "b'out\\n'"
    );
}

#[test]
fn doctor_names_gvisor_and_a_kernel_of_its_own() {
    let Some(home) = on_gvisor() else { return };
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.stdout, doctor.stderr);
    assert!(doctor.stdout.contains("\nruntime    runsc\n"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("\nkernel     has a kernel of its own (4.4.0 "), "{}", doctor.stdout);
    // The machine's cgroups hold gVisor as a whole.
    assert!(doctor.stdout.contains("\nmemory     512 MiB enforced\n"), "{}", doctor.stdout);
}

fn unknown_runtime_is_refused_with_a_hint(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_OCI_RUNTIME", "nosuch");
    let reply = Bridge::start(&home).run("print('ran')");
    let (error, hint) = if engine.name == "docker" {
        ("the engine could not create the container: ", "add this OCI runtime to the engine's configuration")
    } else {
        (
            "Podman's service starts containers with the OCI runtime ",
            "set `runtime = \"nosuch\"` below [engine]",
        )
    };
    assert!(
        reply.is_error && reply.text.starts_with(&format!("status: error\nerror: {error}")),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("nosuch"), "{}", reply.text);
    assert!(reply.text.contains(&format!("\nhint: {hint}")), "{}", reply.text);
    assert_eq!(engine.containers_of(&home.owners()), [""; 0]);
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("\nruntime    nosuch\n"), "{}", doctor.stdout);
}

fn runtime_of_the_user_is_named_in_the_request(engine: &Engine) {
    // Podman ignores the name and is asked about its own before; what is sent is seen on Docker.
    if engine.name != "docker" {
        return;
    }
    for name in ["kata", "krun", "runsc-kvm", "io.containerd.kata.v2"] {
        let seen: Arc<Mutex<Value>> = Arc::default();
        let asked = Arc::clone(&seen);
        let proxy = EngineProxy::changing(engine, move |body| *asked.lock().unwrap() = body.clone());
        let home =
            Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).env("MCP_BRIDGE_OCI_RUNTIME", name);
        Bridge::start(&home).run("1");
        assert_eq!(seen.lock().unwrap()["HostConfig"]["Runtime"], name);
    }
}

fn kernel_of_the_machine_is_refused_where_another_was_asked_for(engine: &Engine) {
    if engine.name != "docker" {
        return;
    }
    // An engine that says nothing and uses its default.
    let proxy = EngineProxy::changing(engine, |body| {
        body["HostConfig"].as_object_mut().unwrap().remove("Runtime");
    });
    let home =
        Home::on(engine).env("MCP_BRIDGE_RUNTIME", &proxy.address()).env("MCP_BRIDGE_OCI_RUNTIME", "kata");
    let reply = Bridge::start(&home).run("print('ran')");
    let machines = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let said = format!(
        "error: the sandbox is weaker than asked for and was refused: kernel: got {} ",
        machines.trim()
    );
    assert!(reply.is_error && reply.text.contains(&said), "{}", reply.text);
    let mut bridge = Bridge::start(&home.env("MCP_BRIDGE_ALLOW_WEAK", "kernel"));
    assert!(bridge.ok("print('ran')").contains("ALLOW_WEAK: kernel: "));
}

fn doctor_says_whose_kernel_a_sandbox_has(engine: &Engine) {
    let doctor = Home::on(engine).run(&["doctor"]).stdout;
    let machines = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(
        doctor.contains(&format!("\nkernel     shares the host's kernel ({} ", machines.trim())),
        "{doctor}"
    );
}
