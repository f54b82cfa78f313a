//! One round: a bridge is brought to some point, killed, and what is left of it is looked for.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::processes::{guardian_of, is_alive};
use crate::support::random::Random;
use crate::support::survivors::{NEVER_STARTED, left, marking};
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

/// How long everything may take to go.
pub const WITHIN: Duration = Duration::from_secs(10);
/// A container may appear after the next start has looked; then the one after it is the next.
const STARTS_MAX: usize = 2;
const SETTLING: Duration = Duration::from_secs(3);

/// Where the bridge is when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Starting,
    Creating,
    Idle,
    InRun,
    InCall,
    Closing,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victims {
    Bridge,
    GuardianThenBridge,
    BridgeThenGuardian,
}

/// What a round does.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub point: Point,
    pub victims: Victims,
    /// How long after the point is reached.
    pub wait: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was there after all the time.
    pub survivors: Vec<String>,
    /// Left, and removed by the next start, as it may when the guardian was killed as well.
    pub by_the_next_start: usize,
    /// What was wrong with those that were to go on.
    pub faults: Vec<String>,
    /// Until all had gone.
    pub took: Duration,
}

impl Plan {
    pub fn random(random: &mut Random) -> Self {
        use Point::{Closing, Creating, Idle, InCall, InRun, Starting};
        let point = [Starting, Creating, Creating, Idle, InRun, InCall, Closing][random.below(7) as usize];
        let victims = match random.below(10) {
            0..7 => Victims::Bridge,
            7..9 => Victims::GuardianThenBridge,
            _ => Victims::BridgeThenGuardian,
        };
        let wait_max = match point {
            Starting => 20_000,
            Creating => 400_000,
            _ => 200_000,
        };
        Self { point, victims, wait: Duration::from_micros(random.below(wait_max)) }
    }
}

impl Plan {
    /// The row of the table.
    pub fn row(&self) -> String {
        let with = if self.victims == Victims::Bridge { "" } else { " with its guardian" };
        format!("{:?}{with}", self.point)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} + {:?}, {:?}", self.point, self.wait, self.victims)
    }
}

/// Plays the plan on the engine.
pub fn run(engine: &Engine, plan: &Plan) -> Outcome {
    let fixture = Fixture::new(&["--ignore-endings", "--grandchild", "--escapee"]);
    let home = Home::on(engine).server("one", fixture.entry());
    let (bridge, home) = bring_to(plan.point, marking(home));
    std::thread::park_timeout(plan.wait);
    // Those that the bridge has removed by itself are not looked for: they are gone.
    let owners = home.owners();
    kill_all(plan.victims, bridge.pid());
    let killed = Instant::now();
    let left = || {
        let owners = if owners.is_empty() { home.owners() } else { owners.clone() };
        left(engine, &home, &fixture, &owners)
    };
    let mut outcome = Outcome::default();
    let mut clean = 0;
    // Twice clean: an engine may still be at what it was asked for.
    while clean < 2 && killed.elapsed() < WITHIN {
        let is_clean = if plan.victims == Victims::Bridge {
            left().is_empty()
        } else {
            only_for_the_next_start(&left())
        };
        clean = if is_clean { clean + 1 } else { 0 };
        if clean == 1 {
            outcome.took = killed.elapsed();
        }
        std::thread::park_timeout(Duration::from_millis(if is_clean { 150 } else { 20 }));
    }
    if clean < 2 {
        outcome.took = killed.elapsed();
    }
    outcome.survivors = left();
    for _ in 0..STARTS_MAX {
        let may_wait = plan.victims != Victims::Bridge && only_for_the_next_start(&outcome.survivors);
        if outcome.survivors.is_empty() || !may_wait {
            break;
        }
        outcome.by_the_next_start += outcome.survivors.len();
        let mut next = Bridge::start(&home).warm();
        next.hang_up();
        next.wait(PATIENCE);
        let started = Instant::now();
        while !left().is_empty() && started.elapsed() < SETTLING {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        outcome.survivors = left();
    }
    outcome
}

/// With the guardian dead as well, a lock may stay, and a container that was created and never started.
fn only_for_the_next_start(left: &[String]) -> bool {
    left.iter().all(|what| what.starts_with("file ") || what.starts_with(NEVER_STARTED))
}

fn bring_to(point: Point, home: Home) -> (Bridge, Home) {
    let home = match point {
        Point::Starting | Point::Creating => home.env("MCP_BRIDGE_PREWARM", "1"),
        _ => home,
    };
    let mut bridge = match point {
        Point::Starting => Bridge::spawn(&home),
        Point::Creating => Bridge::start(&home),
        _ => Bridge::start(&home).warm(),
    };
    if !matches!(point, Point::Starting | Point::Creating) {
        bridge.ok("await mcp_one.pid()");
    }
    match point {
        Point::InRun => drop(bridge.send_run(json!({"code": "while True: pass"}))),
        Point::InCall => drop(bridge.send_run(json!({"code": "await mcp_one.hang()"}))),
        Point::Closing => bridge.hang_up(),
        Point::Starting | Point::Creating | Point::Idle => {}
    }
    (bridge, home)
}

fn kill_all(victims: Victims, bridge: i32) {
    // Whoever has ended already, as a bridge that closes may have, need not be killed.
    let end = |pid: i32| {
        let _gone_or_killed = kill(Pid::from_raw(pid), Signal::SIGKILL);
    };
    let guardian = guardian_of(bridge);
    match victims {
        Victims::Bridge => end(bridge),
        Victims::GuardianThenBridge => {
            guardian.into_iter().for_each(end);
            end(bridge);
        }
        Victims::BridgeThenGuardian => {
            end(bridge);
            guardian.into_iter().for_each(end);
        }
    }
    eventually("the bridge dies", PATIENCE, || !is_alive(bridge));
}
