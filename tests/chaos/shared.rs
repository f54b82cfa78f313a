//! One round of a bridge that two clients share, a relay and one over HTTP: something of it is killed, and the rest has to go on.

use std::collections::HashSet;
use std::fmt;
use std::thread::{park_timeout, scope};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::round::{Outcome, WITHIN};
use crate::support::bridge::Reply;
use crate::support::random::Random;
use crate::support::survivors::{left, marking};
use crate::support::web::{Served, WebClient};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE};

/// Calls of one run.
const CALLS: usize = 15;
/// What a reply says when variables may be others than those of the session's last run.
const LOSSES: [&str; 4] =
    ["fresh interpreter", "variables lost", "state: variables as before this run", "as after an earlier run"];

/// Where the clients are when something is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Starting,
    InRun,
    RelayEnding,
    WebEnding,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    Relay,
    Serve,
    Server,
    Sandbox,
}

/// What a round does.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub point: Point,
    pub victim: Victim,
    /// How long after the point is reached.
    pub wait: Duration,
    /// Chooses among several processes or sandboxes.
    which: usize,
}

impl Plan {
    pub fn random(random: &mut Random) -> Self {
        use Point::{InRun, RelayEnding, Starting, WebEnding};
        let point = random.of(&[Starting, InRun, InRun, RelayEnding, WebEnding]);
        let victim =
            random.of(&[Victim::Relay, Victim::Serve, Victim::Serve, Victim::Server, Victim::Sandbox]);
        let wait_max = match point {
            Starting => 2_000_000,
            InRun => 400_000,
            RelayEnding | WebEnding => 100_000,
        };
        let wait = Duration::from_micros(random.below(wait_max));
        Self { point, victim, wait, which: random.below(1_000) as usize }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared, {:?} + {:?}, {:?} {}", self.point, self.wait, self.victim, self.which)
    }
}

/// A session, with a value of its own in each reply.
struct Talk {
    name: &'static str,
    /// Whether a reply has told that the value is there.
    has_value: bool,
}

/// What the sessions of a round have in common.
#[derive(Default)]
struct Round {
    calls: usize,
    faults: Vec<String>,
}

impl Round {
    /// Code that shows the value that it finds, sets it, and makes calls that no other run makes.
    fn code(&mut self, talk: &Talk) -> String {
        let (name, from) = (talk.name, self.calls);
        self.calls += CALLS;
        format!(
            "print('@found', globals().get('v'), flush=True)\nv = '{name}'\n\
             for n in range({from}, {from} + {CALLS}): await mcp_one.slow(n=n, ms=5)\nprint('@is', v)"
        )
    }

    /// Looks for values of others in a reply, and for a loss that it does not tell.
    fn judge(&mut self, talk: &mut Talk, reply: &Reply) {
        let values = |mark: &str| {
            let lines = reply.text.lines();
            lines.filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect::<Vec<_>>()
        };
        let (found, is) = (values("@found "), values("@is "));
        let is_loss = LOSSES.iter().any(|loss| reply.text.contains(loss));
        let may_be = |value: &String| value == talk.name || (value == "None" && (!talk.has_value || is_loss));
        if !found.iter().all(may_be) || !is.iter().all(|value| value == talk.name) {
            self.faults.push(format!("a reply to {} says {found:?} and {is:?}: {}", talk.name, reply.text));
        }
        talk.has_value = (talk.has_value || !found.is_empty()) && !is_loss;
    }

    /// The session runs once more, which must succeed.
    fn goes_on(&mut self, talk: &mut Talk, mut run: impl FnMut(&str) -> Option<Reply>) {
        let code = self.code(talk);
        match run(&code) {
            Some(reply) => {
                self.judge(talk, &reply);
                if reply.is_error {
                    self.faults.push(format!("{} does not go on: {}", talk.name, reply.text));
                }
            }
            None => self.faults.push(format!("{} gets no answer", talk.name)),
        }
    }
}

/// Plays the plan on the engine.
pub fn run(engine: &Engine, plan: &Plan) -> Outcome {
    let fixture = Fixture::new(&["--durable", "--ignore-endings", "--grandchild", "--escapee"]);
    let home = marking(Home::on(engine).server("one", fixture.entry()));
    let token = home.run(&["token", "add", "web", "--quiet"]).stdout.trim().to_owned();
    let of_relay = home.clone().env("MCP_BRIDGE_SHARED", "1");
    let served = Served::start(&home, &[]);
    let mut round = Round::default();
    let mut talks = ["relay", "web"].map(|name| Talk { name, has_value: false });
    let [first, second] = &mut talks;
    let codes = [round.code(first), round.code(second)];

    // Until the kill: nobody waits for what may not come.
    let (mut relay, mut web, mut asked) = (None, None, None);
    if plan.point != Point::Starting {
        let mut bridge = Bridge::start(&of_relay);
        let mut client = served.client(&token);
        round.judge(first, &bridge.run(&codes[0]));
        client_run(&mut client, &codes[1]).iter().for_each(|reply| round.judge(second, reply));
        (relay, web) = (Some(bridge), Some(client));
    }
    let codes = [round.code(first), round.code(second)];
    let (owners, killed, session, replies) = scope(|scope| {
        let of_web = scope.spawn(|| {
            let client = web.take().map_or_else(|| served.client_until_killed(&token), Ok);
            let mut client = client.ok()?;
            let reply = match plan.point {
                Point::WebEnding => {
                    client.delete();
                    return None;
                }
                Point::RelayEnding => None,
                Point::Starting | Point::InRun => client_run(&mut client, &codes[1]),
            };
            Some((client.session.clone(), reply))
        });
        match (&mut relay, plan.point) {
            (Some(bridge), Point::RelayEnding) => bridge.hang_up(),
            (Some(bridge), Point::InRun) => asked = Some(bridge.send_run(json!({"code": codes[0]}))),
            (Some(_), _) => {}
            (None, _) => {
                let (bridge, id) = Bridge::spawn_with_run(&of_relay, &codes[0]);
                (relay, asked) = (Some(bridge), Some(id));
            }
        }
        park_timeout(plan.wait);
        let mut owners = home.owners();
        let pid = relay.as_ref().map(Bridge::pid);
        kill_one(plan, engine, &fixture, &owners, pid, served.pid());
        let killed = Instant::now();
        owners.extend(home.owners());
        let of_relay = relay.as_mut().zip(asked).and_then(|(bridge, id)| bridge.reply_until_killed(id));
        let of_web = of_web.join().expect("a client that gets no answer does not panic");
        let (session, of_web) = of_web.unwrap_or_default();
        (owners, killed, session, [of_relay, of_web])
    });
    for (talk, reply) in talks.iter_mut().zip(&replies) {
        reply.iter().for_each(|reply| round.judge(talk, reply));
    }

    // What was killed leaves nothing, and what was not goes on.
    let mut outcome = Outcome::default();
    let mut relay = relay.filter(|_| plan.victim != Victim::Relay && plan.point != Point::RelayEnding);
    let served = if plan.victim == Victim::Serve {
        if let Some(mut bridge) = relay.take().filter(|_| plan.point != Point::Starting) {
            let (status, _) = bridge.wait(PATIENCE);
            if status.code() != Some(70) || !bridge.stderr().contains("the shared bridge has ended") {
                round.faults.push(format!("the relay ends with {status}: {}", bridge.stderr()));
            }
        }
        // A relay that was starting may have started a bridge.
        home.run(&["serve", "stop"]);
        drop(served);
        outcome.survivors = gone(engine, &home, &fixture, &owners);
        outcome.took = killed.elapsed();
        Served::start(&home, &[])
    } else {
        served
    };
    let [mut first, mut second] = talks;
    let mut bridge = relay.unwrap_or_else(|| {
        first = Talk { name: "next relay", has_value: false };
        Bridge::start(&of_relay)
    });
    round.goes_on(&mut first, |code| bridge.run_until_killed(code));
    let mut client = match session {
        Some(session) => served.coming_back(&token, Some(session)),
        None => {
            second = Talk { name: "next web", has_value: false };
            served.client(&token)
        }
    };
    round.goes_on(&mut second, |code| client_run(&mut client, code));

    // No sandbox is there for a session that has ended.
    let owners: Vec<String> = owners.into_iter().chain(home.owners()).collect();
    let looked = Instant::now();
    while engine.containers_of(&owners).len() > 2 && looked.elapsed() < WITHIN {
        park_timeout(Duration::from_millis(20));
    }
    let sandboxes = engine.containers_of(&owners).len();
    if sandboxes != 2 {
        round.faults.push(format!("there are {sandboxes} sandboxes of two sessions"));
    }
    if plan.victim != Victim::Serve {
        outcome.took = killed.elapsed();
    }
    bridge.hang_up();
    bridge.wait(PATIENCE);
    client.delete();
    drop(served);
    outcome.survivors.extend(gone(engine, &home, &fixture, &owners));
    let ledger = fixture.ledger();
    let mut seen = HashSet::new();
    let calls = ledger.iter().filter_map(|line| line.split_once(" call "));
    round.faults.extend(
        calls.filter(|(_, call)| !seen.insert(*call)).map(|(_, call)| format!("{call} was made twice")),
    );
    // Both sessions have gone on, with all calls of a run.
    if seen.len() < 2 * CALLS {
        round.faults.push(format!("only {} calls reached the server", seen.len()));
    }
    outcome.faults = round.faults;
    outcome
}

/// The reply of a client that may lose its program; nothing when that is so.
fn client_run(client: &mut WebClient<'_>, code: &str) -> Option<Reply> {
    let answer = client.send("tools/call", json!({"name": "run_python", "arguments": {"code": code}}));
    answer.message_if_any().map(|mut message| Reply::of(message["result"].take()))
}

fn kill_one(
    plan: &Plan,
    engine: &Engine,
    fixture: &Fixture,
    owners: &[String],
    relay: Option<i32>,
    serve: Pid,
) {
    // It may have ended meanwhile, or not be there yet.
    let end = |pid: Pid| {
        let _gone_or_killed = kill(pid, Signal::SIGKILL);
    };
    let one = |all: Vec<i32>| all.get(plan.which % all.len().max(1)).copied();
    match plan.victim {
        Victim::Relay => relay.map(Pid::from_raw).into_iter().for_each(end),
        Victim::Serve => end(serve),
        Victim::Server => one(fixture.living()).map(Pid::from_raw).into_iter().for_each(end),
        Victim::Sandbox => {
            let sandboxes = engine.containers_of(owners);
            let sandbox = sandboxes.get(plan.which % sandboxes.len().max(1));
            sandbox.iter().for_each(|sandbox| engine.kill_container(sandbox));
        }
    }
}

/// Waits until nothing is left of bridges that have ended; returns what is left after all.
fn gone(engine: &Engine, home: &Home, fixture: &Fixture, owners: &[String]) -> Vec<String> {
    // The place of the shared bridge stays.
    let is_place = |what: &String| what.starts_with("file \"serve.");
    let started = Instant::now();
    let mut clean = 0;
    loop {
        let mut left = left(engine, home, fixture, owners);
        left.retain(|what| !is_place(what));
        clean = if left.is_empty() { clean + 1 } else { 0 };
        // Twice clean: an engine may still be at what it was asked for.
        if clean == 2 || started.elapsed() > WITHIN {
            return left;
        }
        park_timeout(Duration::from_millis(50));
    }
}
