//! One session in which probes are tried, and what is to be so after each: one answer in time, the output kept, the truth
//! about the variables, a next run that works, and nobody else affected.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::probe::{Exception, PRELUDE, Probe, Required, SUCCEEDED, Variables, WithoutDefence};
use crate::shared_folder::{Pipes, SharedFolder};
use crate::support::bridge::Reply;
use crate::support::processes::is_alive;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::undefended::Shown;

/// How the bridge says that it has ended what exceeds a watched limit.
const ENDED_BY_BRIDGE: &str = "more than its limit of";
/// In the environment of the servers; nothing of it may be seen inside.
pub const CANARY: &str = "canary-4711081547110815";

/// How long a run gets after the interrupt, and what a fresh interpreter and a busy machine add.
const GRACE: Duration = Duration::from_secs(2);
const BUSY: Duration = Duration::from_secs(3);
/// Within it everything is to be gone, however the code tries to hold the end up.
const AT_EXIT: Duration = Duration::from_secs(3);
/// By how much output, floods of it included, may make the bridge grow.
const GROWTH_KIB_MAX: u64 = 64 * 1024;
/// A result of a tool is in the bridge as a whole.
const GROWTH_WITH_RESULTS_KIB_MAX: u64 = 256 * 1024;

/// What the user denies: no call of an honest probe is like it.
const POLICY: &str = r#"
[[rule]]
server = "fixture"
arguments = { id = "42" }
decision = "deny"
[[rule]]
server = "fixture"
arguments = { mode = "delete*" }
decision = "deny"
"#;

fn mount_of(folder: &Path, guest: &str) -> String {
    format!("[[mount]]\nhost = \"{}\"\nguest = \"{guest}\"\n", folder.display())
}

/// A session, another one beside it on the same engine, and their servers.
pub struct Session<'a> {
    engine: &'a Engine,
    home: Home,
    fixture: Fixture,
    /// Configured, and never given to a probe.
    other: Fixture,
    /// Asked for as a mount.
    _shared: SharedFolder,
    _pipes: Pipes,
    bridge: Bridge,
    witness: Bridge,
    containers: Vec<String>,
    /// What the first reply said about the engine.
    notices: String,
    has_landlock: bool,
    idle_kib: u64,
    tried: usize,
}

/// How a probe went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    AsRequired,
    /// It succeeded where that is known and said.
    Excepted,
    Wrong(Vec<String>),
}

impl<'a> Session<'a> {
    pub fn start(engine: &'a Engine) -> Self {
        Self::start_with(engine, &[])
    }

    /// With these variables, too.
    pub fn start_with(engine: &'a Engine, variables: &[(&str, &str)]) -> Self {
        let (fixture, other) = (Fixture::new(&[]), Fixture::new(&[]));
        let shared = SharedFolder::new();
        let pipes = Pipes::new();
        let mounts = format!(
            "{}{}",
            mount_of(shared.path(), SharedFolder::GUEST),
            mount_of(pipes.path(), Pipes::GUEST)
        );
        let home = Home::on(engine).file(".config/belljar/policy.toml", POLICY);
        let home = variables.iter().fold(home, |home, (name, value)| home.env(name, value));
        let mut home = home.env("MCP_BRIDGE_STRUCTURED", "1").file(".config/belljar/config.toml", &mounts);
        for (name, server) in [("fixture", &fixture), ("other", &other)] {
            let mut entry = server.entry();
            entry["env"] = json!({"TOKEN": CANARY});
            home = home.server(name, entry);
        }
        let mut has_landlock = None;
        eventually("belljar doctor starts a sandbox", PATIENCE, || {
            let doctor = home.run(&["doctor"]).stdout;
            let is_used = doctor.contains("\nlandlock   in use");
            has_landlock = (is_used || doctor.contains("\nlandlock   NOT IN USE")).then_some(is_used);
            has_landlock.is_some()
        });
        let has_landlock = has_landlock == Some(true);
        let mut bridge = Bridge::start(&home);
        let notices = bridge.ok("None");
        let mut witness = Bridge::start(&home).warm();
        witness.ok("witnessed = 0");
        let mut containers = engine.containers_of(&home.owners());
        containers.sort();
        let idle_kib = bridge.resident_kib();
        pipes.make();
        Self {
            engine,
            home,
            fixture,
            other,
            bridge,
            witness,
            containers,
            notices,
            has_landlock,
            idle_kib,
            tried: 0,
            _shared: shared,
            _pipes: pipes,
        }
    }

    pub fn try_probe(&mut self, probe: &Probe) -> Verdict {
        self.tried += 1;
        let prepared = self.run(json!({"code": format!("{PRELUDE}\nkept = {}", self.tried)}));
        if prepared.is_error {
            return Verdict::Wrong(vec![format!("the run before it failed: {}", start_of(&prepared.text))]);
        }
        let ledger_before = self.fixture.ledger().len();
        let started = Instant::now();
        let reply = self.run(json!({"code": probe.script(), "timeout": probe.timeout_s}));
        let took = started.elapsed();
        let mut wrong = Vec::new();
        let is_unenforced = |limit: &str| self.notices.contains(&format!("the {limit} limit of"));
        let may_succeed = match probe.exception {
            Exception::Nowhere | Exception::Unenforced(_) | Exception::RefusedWhereUnenforced(..) => false,
            Exception::WithoutLandlock => !self.has_landlock,
            Exception::KnownOn(engine) => self.engine.name == engine,
        };
        let ends: &[&str] = match &probe.exception {
            Exception::Unenforced(limit) if is_unenforced(limit) => &[ENDED_BY_BRIDGE],
            Exception::RefusedWhereUnenforced(limit, words) if is_unenforced(limit) => {
                &[ENDED_BY_BRIDGE, words]
            }
            _ => &[],
        };
        let excepted = may_succeed && reply.text.contains(SUCCEEDED);
        let ended = ends.iter().any(|end| reply.text.contains(end));
        if !excepted && !ended {
            wrong.extend(required(probe, &reply));
        }
        if took > Duration::from_secs_f64(probe.timeout_s) + GRACE + BUSY {
            wrong.push(format!("answered after {took:?}"));
        }
        if !reply.text.contains("before") {
            wrong.push("what was printed before is missing".to_owned());
        }
        wrong.extend(self.next_run(probe, &reply, excepted || ended));
        wrong.extend(self.surroundings(probe, ledger_before));
        match (wrong.is_empty(), excepted) {
            (true, true) => Verdict::Excepted,
            (true, false) => Verdict::AsRequired,
            (false, _) => {
                wrong.push(format!("the reply was: {}", start_of(&reply.text)));
                Verdict::Wrong(wrong)
            }
        }
    }

    /// The same attempt by a job: what is wrong with how it ended. Nothing of those that are no attempts, or await.
    pub fn try_in_job(&mut self, probe: &Probe) -> Option<String> {
        let Required::Refused(refusals) = probe.required else { return None };
        if probe.code.contains("await ") {
            return None;
        }
        // JSON, which Python reads as well.
        let script = serde_json::Value::String(probe.script());
        let code = format!(
            "{PRELUDE}\ndef attempt(): exec({script}, globals())\n\
             job = runtime.spawn(attempt)\njob.wait()\nprint(job.status, job.tail(400))"
        );
        let reply = self.run(json!({"code": code, "timeout": probe.timeout_s}));
        let refusal = reply.text.lines().find_map(|line| line.strip_prefix("refused: "));
        let is_known = match probe.exception {
            Exception::KnownOn(engine) => engine == self.engine.name,
            Exception::WithoutLandlock => !self.has_landlock,
            Exception::Nowhere | Exception::Unenforced(_) | Exception::RefusedWhereUnenforced(..) => false,
        };
        let is_as_required = refusal.is_some_and(|refusal| refusals.contains(&refusal));
        (!is_as_required && !is_known).then(|| start_of(&reply.text))
    }

    /// The same call where the refusal does not apply: it has to reach a server. Both are given.
    pub fn show_calls(&mut self, probe: &Probe) -> Option<Shown> {
        let WithoutDefence::Calls(code) = probe.without_defence else { return None };
        let count = |session: &Self| session.fixture.ledger().len() + session.other.ledger().len();
        let before = count(self);
        self.run(json!({"code": PRELUDE}));
        let both = json!({"code": code, "servers": ["fixture", "other"]});
        let reply = self.bridge.run_with(both);
        Some(if count(self) > before { Shown::Succeeds } else { Shown::Fails(start_of(&reply.text)) })
    }

    /// Hangs up while the code tries to stay; says what is left.
    pub fn end(mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        let owners = self.home.owners();
        let mut containers = self.engine.containers_of(&owners);
        containers.sort();
        if containers != self.containers {
            wrong.push("a container had to be replaced".to_owned());
        }
        let stay = "import atexit, os, signal, time\natexit.register(time.sleep, 99)\n\
                    for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n\
                    if os.fork() == 0:\n  os.setsid()\n  time.sleep(600)";
        self.run(json!({"code": stay}));
        let pids: Vec<i32> = [&self.fixture, &self.other].into_iter().flat_map(Fixture::pids).collect();
        for bridge in [&mut self.bridge, &mut self.witness] {
            bridge.hang_up();
            bridge.wait(AT_EXIT);
        }
        eventually("the containers go", AT_EXIT, || self.engine.containers_of(&owners).is_empty());
        eventually("the servers go", AT_EXIT, || !pids.iter().any(|pid| is_alive(*pid)));
        wrong
    }

    fn run(&mut self, mut arguments: serde_json::Value) -> Reply {
        arguments["servers"] = json!(["fixture"]);
        self.bridge.run_with(arguments)
    }

    /// The run after it works, reaches a server, and has the variables that the reply promised.
    fn next_run(&mut self, probe: &Probe, reply: &Reply, otherwise: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let reset = probe.variables == Variables::Reset;
        let code = format!(
            "print(f\"after {{globals().get('kept') == {}}}\")\nprint(mcp_fixture.echo.sync(text='next'))\n{}",
            self.tried, probe.then
        );
        let next = self.run(json!({"code": code, "reset": reset}));
        // A thread of the probe may still print between two writes.
        if next.is_error || !next.text.contains("next") {
            wrong.push(format!("the next run failed: {}", start_of(&next.text)));
        }
        let is_kept = next.text.contains("after True");
        let said_lost = ["state: variables lost", "state: variables as after an earlier run"]
            .iter()
            .any(|words| reply.text.contains(words));
        if !is_kept && !said_lost && !next.text.contains("state: fresh interpreter") {
            wrong.push("the variables are gone, and nothing said so".to_owned());
        }
        if is_kept && said_lost {
            wrong.push("the variables are there, and were said to be lost".to_owned());
        }
        let holds = match probe.variables {
            _ if otherwise => true,
            Variables::Kept => is_kept,
            Variables::Either | Variables::Reset => true,
        };
        if !holds {
            wrong.push(format!("variables kept: {is_kept}"));
        }
        wrong
    }

    /// Servers, the other session, and the bridge itself.
    fn surroundings(&mut self, probe: &Probe, ledger_before: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        // The next run has made one call; cancellations arrive when they do.
        let expected = ledger_before + probe.calls + 1;
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.fixture.ledger().len() < expected && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let ledger = self.fixture.ledger();
        if ledger.len() != expected {
            let new: Vec<String> = ledger.iter().skip(ledger_before).map(|line| start_of(line)).collect();
            wrong.push(format!("{} entries in the server's ledger: {new:?}", new.len()));
        }
        if self.fixture.pids().len() != 1 {
            wrong.push("the server had to be restarted".to_owned());
        }
        if !self.other.pids().is_empty() {
            wrong.push("a server that was not given has been started".to_owned());
        }
        if self.witness.run("witnessed += 1\nwitnessed").text != self.tried.to_string() {
            wrong.push("another session is affected".to_owned());
        }
        let grown = self.bridge.resident_kib().saturating_sub(self.idle_kib);
        let is_tool = probe.name.starts_with("tools.");
        if grown > if is_tool { GROWTH_WITH_RESULTS_KIB_MAX } else { GROWTH_KIB_MAX } {
            wrong.push(format!("the bridge has grown by {grown} KiB"));
        }
        wrong
    }
}

/// What the reply lacks of what is required.
fn required(probe: &Probe, reply: &Reply) -> Vec<String> {
    let mut wrong = Vec::new();
    let (is_error, says, never): (bool, &[&str], &[&str]) = match probe.required {
        Required::Refused(refusals) => {
            let refusal = reply.text.lines().find_map(|line| line.strip_prefix("refused: "));
            match refusal {
                Some(refusal) if refusals.contains(&refusal) => {}
                Some(refusal) => {
                    wrong.push(format!("refused by {refusal} instead of {}", refusals.join(" or ")))
                }
                None => wrong.push("not refused".to_owned()),
            }
            (false, &[], &[])
        }
        Required::Succeeds { says, never } => (false, says, never),
        Required::Fails { says } => (true, says, &[SUCCEEDED]),
    };
    if reply.is_error != is_error {
        wrong.push(format!("isError is {}", reply.is_error));
    }
    let status = reply.structured.as_ref().map(|structured| structured["status"].clone());
    if (status == Some(json!("success"))) == is_error {
        wrong.push(format!("the status is {status:?}"));
    }
    let missing = says.iter().filter(|words| !reply.text.contains(**words));
    wrong.extend(missing.map(|words| format!("{words:?} is missing")));
    let forbidden = never.iter().filter(|words| reply.text.contains(**words));
    wrong.extend(forbidden.map(|words| format!("{words:?} is there")));
    wrong
}

fn start_of(text: &str) -> String {
    text.chars().take(400).collect()
}
