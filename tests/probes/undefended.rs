//! The same code without the defences: in a container that has none of them, or, where it only reads, on this machine.
//!
//! A probe that fails here too would show nothing by being refused in the sandbox.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::probe::{PRELUDE, Probe, SUCCEEDED, WithoutDefence};
use crate::session::CANARY;
use crate::shared_folder::{Pipes, SharedFolder};
use crate::support::Engine;

/// How a probe ended without defences.
#[derive(Debug, Clone, Deserialize)]
struct Ended {
    text: String,
    bytes: u64,
    hung: bool,
    interrupted: bool,
}

/// What that shows of the probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// The code does what it is to be kept from.
    Succeeds,
    /// This machine has nothing of the kind: the refusal.
    Absent(String),
    /// The code does not do it here either, so the probe is empty as far as this place can show.
    Fails(String),
}

/// Nothing is dropped, filtered, masked, bounded or read-only. Those capabilities that every engine can still give.
const CAPABILITIES: [&str; 17] = [
    "SYS_ADMIN",
    "SYS_PTRACE",
    "NET_ADMIN",
    "NET_RAW",
    "SYS_TIME",
    "SYS_MODULE",
    "SYS_BOOT",
    "SYS_RAWIO",
    "SYS_NICE",
    "SYS_PACCT",
    "SYSLOG",
    "DAC_READ_SEARCH",
    "MKNOD",
    "IPC_OWNER",
    "SETUID",
    "SETGID",
    "SYS_CHROOT",
];

/// Runs every probe that can be shown in a container, in one without defences.
pub fn in_container(engine: &Engine, probes: &[&Probe]) -> BTreeMap<&'static str, Shown> {
    if engine.is_process() {
        // It has none: the containers of the others show it.
        return BTreeMap::new();
    }
    let shown: Vec<&&Probe> = probes.iter().filter(|probe| effect(probe).is_some()).collect();
    let scripts: Vec<Value> = shown
        .iter()
        .map(|probe| json!({"name": probe.name, "script": probe.script(), "effect": effect(probe)}))
        .collect();
    let (shared, pipes) = (SharedFolder::new(), Pipes::new());
    pipes.make();
    let output = engine.run_container(&configuration(engine, &json!(scripts).to_string(), &shared, &pipes));
    let mut ended: BTreeMap<String, Ended> = BTreeMap::new();
    for line in output.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output}"));
        let name = line["name"].as_str().expect("a name").to_owned();
        ended.insert(name, serde_json::from_value(line).expect("how it ended"));
    }
    shown
        .iter()
        .map(|probe| {
            let ended =
                ended.get(probe.name).unwrap_or_else(|| panic!("{} is missing: {output}", probe.name));
            (probe.name, judge(probe, ended))
        })
        .collect()
}

/// Runs every probe that only reads in a plain Python of this machine.
pub fn on_host(probes: &[&Probe]) -> BTreeMap<&'static str, Shown> {
    let is_shown = |probe: &&&Probe| matches!(probe.without_defence, WithoutDefence::SucceedsOnHost);
    probes
        .iter()
        .filter(is_shown)
        .map(|probe| {
            let script = format!("{PRELUDE}\n{}", probe.script());
            // As a process that was left a folder open.
            let command = ["-c", "exec 3< /; exec python3 -I -c \"$0\"", &script];
            let output = Command::new("sh").args(command).output().expect("there is a shell");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let ended = Ended { bytes: text.len() as u64, text, hung: false, interrupted: false };
            (probe.name, judge(probe, &ended))
        })
        .collect()
}

fn configuration(engine: &Engine, scripts: &str, shared: &SharedFolder, pipes: &Pipes) -> Value {
    let unlimited = |name: &str, value: u64| json!({"Name": name, "Soft": value, "Hard": value});
    let mut security = vec!["seccomp=unconfined", "apparmor=unconfined", "label=disable"];
    if engine.name != "docker" {
        security.push("unmask=ALL");
    }
    let shared = format!("{}:{}:ro", shared.path().display(), SharedFolder::GUEST);
    let pipes = format!("{}:{}:ro", pipes.path().display(), Pipes::GUEST);
    json!({
        "Image": "localhost/belljar-sandbox:latest",
        "Entrypoint": ["python3", "-I", "-c", include_str!("undefended.py"), PRELUDE, scripts],
        "User": "0:0",
        "WorkingDir": "/",
        "Env": [format!("TOKEN={CANARY}")],
        "HostConfig": {
            "NetworkMode": "none",
            "Binds": ["/usr/share:/of-the-host:ro", shared, pipes],
            "CapAdd": CAPABILITIES,
            "SecurityOpt": security,
            "MaskedPaths": [],
            "ReadonlyPaths": [],
            "Ulimits": [unlimited("nofile", 4096), unlimited("nproc", 4096)],
            // Read once, when it has ended.
            "LogConfig": {"Type": "json-file"}
        }
    })
}

/// By which the container knows how long to wait; nothing for probes that are shown elsewhere.
fn effect(probe: &Probe) -> Option<&'static str> {
    match probe.without_defence {
        WithoutDefence::Succeeds => Some("succeeds"),
        WithoutDefence::Hangs => Some("hangs"),
        WithoutDefence::Ends => Some("ends"),
        WithoutDefence::Prints(_) => Some("prints"),
        WithoutDefence::Floods(_) => Some("floods"),
        WithoutDefence::Interrupts => Some("interrupts"),
        WithoutDefence::SucceedsOnHost | WithoutDefence::Calls(_) | WithoutDefence::Itself => None,
    }
}

fn judge(probe: &Probe, ended: &Ended) -> Shown {
    let succeeds = match probe.without_defence {
        WithoutDefence::Succeeds | WithoutDefence::SucceedsOnHost => ended.text.contains(SUCCEEDED),
        WithoutDefence::Hangs => ended.hung,
        WithoutDefence::Ends => ended.text.contains("before") && !ended.text.contains("\nafter\n"),
        WithoutDefence::Prints(words) => ended.text.contains(words),
        WithoutDefence::Floods(bytes) => ended.bytes >= bytes,
        WithoutDefence::Interrupts => ended.interrupted,
        WithoutDefence::Calls(_) | WithoutDefence::Itself => false,
    };
    if succeeds {
        return Shown::Succeeds;
    }
    let refusal = ended.text.lines().find_map(|line| line.strip_prefix("refused: ")).unwrap_or_default();
    if probe.absent.contains(&refusal) {
        return Shown::Absent(refusal.to_owned());
    }
    Shown::Fails(if refusal.is_empty() { format!("{ended:?}") } else { refusal.to_owned() })
}
