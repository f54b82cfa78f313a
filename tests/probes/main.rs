//! What sandboxed code may try, tried on every engine through the built program, and shown to succeed without the defence.
//!
//! The probes stand in the files of their kinds. `make probes` runs all of them and prints the table; the tests here leave
//! out those that take seconds by their nature.

#![allow(clippy::restriction, reason = "a test ends at what it does not expect, and prints")]

#[path = "../support/mod.rs"]
mod support;

mod facts;
mod files;
mod kernel;
mod lifecycle;
mod network;
mod output;
mod probe;
mod processes;
mod resources;
mod secrets;
mod session;
mod shared_folder;
mod table;
mod tools;
mod undefended;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use probe::{Pace, Probe};
use session::{Session, Verdict};
use support::Engine;
use table::{Control, Findings};

const KINDS: [&[Probe]; 10] = [
    network::PROBES,
    kernel::PROBES,
    facts::PROBES,
    files::PROBES,
    processes::PROBES,
    resources::PROBES,
    output::PROBES,
    lifecycle::PROBES,
    tools::PROBES,
    secrets::PROBES,
];

/// What need not hold in gVisor as Debian 12 packages it; docs/reference/oci-runtimes.md says why. Newer versions may hold more.
const OTHERWISE_IN_GVISOR: [&str; 36] = [
    "facts.command-line",
    "facts.control-groups",
    "facts.hardware",
    "facts.settings",
    "facts.unlisted",
    "files.fifo-of-the-host",
    "files.load-library",
    "files.mounts",
    "files.su",
    "files.supervisor-descriptors",
    "files.supervisor-environment",
    "kernel.loosen",
    "kernel.priority",
    "kernel.setns",
    "lifecycle.audit-hook",
    "lifecycle.kill-supervisor",
    "lifecycle.signal-supervisor",
    "output.forged-done",
    "output.forged-error",
    "output.shut-socket",
    "processes.descriptors",
    "processes.environment",
    "processes.maps",
    "resources.memory-and-files",
    "resources.memory-at-once",
    "resources.memory-in-pieces",
    "resources.memory-of-children",
    "resources.memory-of-sessions",
    "resources.memory-without-first-thread",
    "resources.orphans",
    "resources.processes",
    "resources.released-shared-memory",
    "resources.shared-memory",
    "resources.shared-zeros",
    "resources.shrunk-shared-memory",
    "resources.threads",
];

on_every_engine!(
    sockets_reach_nothing,
    the_kernel_grants_nothing,
    nothing_of_the_host_can_be_had,
    processes_stay_apart,
    the_machine_shows_no_facts_and_no_counters,
    bombs_meet_their_bounds,
    output_is_only_output,
    a_run_harms_no_later_one,
    calls_go_where_they_may,
    escapes_hide_no_credential,
    a_job_is_refused_what_a_run_is,
);

fn sockets_reach_nothing(engine: &Engine) {
    all_as_required(engine, network::PROBES);
}

fn the_kernel_grants_nothing(engine: &Engine) {
    all_as_required(engine, kernel::PROBES);
}

fn nothing_of_the_host_can_be_had(engine: &Engine) {
    all_as_required(engine, files::PROBES);
}

fn processes_stay_apart(engine: &Engine) {
    all_as_required(engine, processes::PROBES);
}

fn the_machine_shows_no_facts_and_no_counters(engine: &Engine) {
    all_as_required(engine, facts::PROBES);
}

fn bombs_meet_their_bounds(engine: &Engine) {
    all_as_required(engine, resources::PROBES);
}

fn output_is_only_output(engine: &Engine) {
    all_as_required(engine, output::PROBES);
}

fn a_run_harms_no_later_one(engine: &Engine) {
    all_as_required(engine, lifecycle::PROBES);
}

fn calls_go_where_they_may(engine: &Engine) {
    all_as_required(engine, tools::PROBES);
}

fn escapes_hide_no_credential(engine: &Engine) {
    all_as_required(engine, secrets::PROBES);
}

fn a_job_is_refused_what_a_run_is(engine: &Engine) {
    let mut session = Session::start(engine);
    let kinds = [network::PROBES, kernel::PROBES, facts::PROBES, files::PROBES, processes::PROBES];
    let probes = kinds.into_iter().flatten();
    // A job sees the interpreter that it is forked from: both are of the same code.
    let is_tried = |probe: &&Probe| probe.pace == Pace::Quick && probe.name != "files.other-processes";
    let quick: Vec<&Probe> = probes.filter(is_tried).collect();
    let wrong: Vec<(&str, String)> =
        quick.iter().filter_map(|probe| Some((probe.name, session.try_in_job(probe)?))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(session.end(), [""; 0]);
}

#[test]
fn every_probe_succeeds_without_its_defence() {
    let probes: Vec<&Probe> = KINDS.into_iter().flatten().collect();
    if Engine::all().iter().all(Engine::is_process) {
        return eprintln!("SKIPPED: only a container engine has a place without defences");
    }
    let mut findings: Vec<Findings> = Vec::new();
    let mut empty = probes;
    // What one engine has shown needs no other.
    for engine in Engine::all() {
        if !empty.is_empty() {
            findings.push(without_defences(&engine, &empty));
            empty.retain(|probe| matches!(table::control(probe, &findings), Control::Empty(_)));
        }
    }
    let empty: Vec<_> = empty.iter().map(|probe| (probe.name, table::control(probe, &findings))).collect();
    assert!(findings.is_empty() || empty.is_empty(), "{empty:#?}");
}

#[test]
fn probes_have_names_of_their_own() {
    let names: Vec<&str> = KINDS.into_iter().flatten().map(|probe| probe.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn documents_have_the_number_of_probes() {
    let all = KINDS.into_iter().flatten();
    let quick = all.clone().filter(|probe| probe.pace == Pace::Quick).count();
    let testing = include_str!("../../docs/explanations/testing.md");
    assert!(testing.contains(&format!("There are {}: ", all.count())), "docs/explanations/testing.md");
    let runtimes = include_str!("../../docs/reference/oci-runtimes.md");
    let otherwise = OTHERWISE_IN_GVISOR.len();
    let said = format!(
        "the {quick} quick probes in gVisor (Debian 12's version, on Docker). {} hold",
        quick - otherwise
    );
    assert!(runtimes.contains(&said), "docs/reference/oci-runtimes.md");
    assert!(runtimes.contains(&format!("The other {otherwise} are")), "docs/reference/oci-runtimes.md");
}

#[test]
#[ignore = "make probes: all of them, with the table"]
fn the_table() {
    let probes: Vec<&Probe> = KINDS.into_iter().flatten().collect();
    let started = Instant::now();
    let findings = on_all_engines(|engine| {
        let mut found = without_defences(engine, &probes);
        let mut session = Session::start(engine);
        found.verdicts = probes.iter().map(|probe| (probe.name, session.try_probe(probe))).collect();
        found.wrong = session.end();
        found
    });
    assert!(!findings.is_empty(), "no engine to probe; scripts/setup.sh engines-up starts them");
    let (table, wrong) = table::table(&probes, &findings);
    println!("\n{table}in {} s", started.elapsed().as_secs());
    assert_eq!(wrong, 0, "see above");
}

#[test]
#[ignore = "make probes: the quick ones in gVisor, which answers system calls in its own way"]
fn the_quick_ones_in_gvisor() {
    let Some(engine) = Engine::with_runsc() else { return };
    let variables = [("MCP_BRIDGE_OCI_RUNTIME", "runsc"), ("MCP_BRIDGE_ALLOW_WEAK", "fds,mounts")];
    let mut session = Session::start_with(&engine, &variables);
    let probes = KINDS.into_iter().flatten().filter(|probe| probe.pace == Pace::Quick);
    let mut passed = 0;
    let mut otherwise = BTreeSet::new();
    for probe in probes {
        match session.try_probe(probe) {
            Verdict::AsRequired | Verdict::Excepted => passed += 1,
            Verdict::Wrong(what) => {
                println!("{}: {what:?}", probe.name);
                otherwise.insert(probe.name);
            }
        }
    }
    println!("in gVisor {passed} probes are as required, and {} are not", otherwise.len());
    otherwise.retain(|name| !OTHERWISE_IN_GVISOR.contains(name));
    assert!(otherwise.is_empty(), "{otherwise:?}");
}

/// Tries the quick ones in one session.
fn all_as_required(engine: &Engine, probes: &[Probe]) {
    let mut session = Session::start(engine);
    let tried = probes.iter().filter(|probe| probe.pace == Pace::Quick);
    let wrong: Vec<(&str, Vec<String>)> = tried
        .filter_map(|probe| match session.try_probe(probe) {
            Verdict::Wrong(what) => Some((probe.name, what)),
            Verdict::AsRequired | Verdict::Excepted => None,
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(session.end(), [""; 0]);
}

fn without_defences(engine: &Engine, probes: &[&Probe]) -> Findings {
    let mut shown = undefended::in_container(engine, probes);
    shown.extend(undefended::on_host(probes));
    let mut session = Session::start(engine);
    shown.extend(probes.iter().filter_map(|probe| Some((probe.name, session.show_calls(probe)?))));
    Findings { engine: engine.name, verdicts: BTreeMap::new(), shown, wrong: session.end() }
}

/// Side by side: most of the time of one is spent waiting.
fn on_all_engines(find: impl Fn(&Engine) -> Findings + Sync) -> Vec<Findings> {
    let engines = Engine::all();
    std::thread::scope(|scope| {
        let threads: Vec<_> = engines.iter().map(|engine| scope.spawn(|| find(engine))).collect();
        threads.into_iter().map(|thread| thread.join().expect("its findings")).collect()
    })
}
