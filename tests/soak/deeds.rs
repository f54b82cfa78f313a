//! What the soak does next, decided by the seed: runs of many kinds, and things that break meanwhile.

use std::time::Duration;

use crate::history::{CALLS, STRAY};
use crate::session::{Deed, Session};
use crate::support::Engine;
use crate::support::random::Random;

/// Numbers of runs: no two of one soak are equal.
pub struct Runs(pub u64);

impl Runs {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// More at once are refused.
const QUEUED_MAX: u64 = 16;

/// What every run does first: it tells which run's variables it finds, and leaves its own.
fn prelude(run: u64) -> String {
    format!(
        "import asyncio\nfrom mcp.runtime import MCPError\nfound = globals().get('c')\nc = {run}\n\
         print('@run', c, found, flush=True)\n\
         async def tick(n, tool='echo', **how):\n  \
           try:\n    await getattr(mcp_ledger, tool)(n=n, **how)\n    print('@saw', n, flush=True)\n  \
           except MCPError as error:\n    print('@not', n, error.code, flush=True)\n"
    )
}

/// Does one random thing and waits until it is answered.
pub fn step(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    match random.below(100) {
        0..50 => one(session, random, runs),
        50..60 => several(session, random, runs),
        60..62 => too_many(session, runs),
        62..67 => cancel_queued(session, random, runs),
        67..77 => cancel_running(session, random, runs),
        // HTTP has no lines, and refuses a second request with the same id.
        77..86 if session.is_web() => one(session, random, runs),
        77..81 => one_id(session, random, runs),
        81..86 => garbage(session, random),
        86..90 => session.kill_server(),
        90..97 => break_midway(session, random, runs),
        _ => {
            let (name, end) = random.of(&CONTAINER_ENDS);
            session.end_container(name, end);
        }
    }
    session.wait();
}

/// Leaves something under way, for the end of the bridge to come in its middle.
pub fn begin(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let run = runs.next();
    let deed = long(random, run);
    session.ask(run, &deed);
    session.linger(Duration::from_millis(random.below(300)));
}

type ContainerEnd = (&'static str, fn(&Engine, &str));
const CONTAINER_ENDS: [ContainerEnd; 2] =
    [("container killed", Engine::kill_container), ("container removed", Engine::remove_container)];

fn one(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let run = runs.next();
    let deed = any(random, run);
    session.ask(run, &deed);
}

fn several(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    for _ in 0..2 + random.below(6) {
        let run = runs.next();
        let deed = quick(random, run);
        session.ask(run, &deed);
    }
}

fn too_many(session: &mut Session<'_>, runs: &mut Runs) {
    for _ in 0..QUEUED_MAX + 4 {
        let run = runs.next();
        session.ask(run, &deed("one of too many", run, "await asyncio.sleep(0.01)"));
    }
}

fn cancel_queued(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let [first, second, third] = [(); 3].map(|()| runs.next());
    session.ask(first, &deed("run", first, "await asyncio.sleep(0.2)"));
    let queued = quick(random, second);
    let id = session.ask(second, &queued);
    let last = quick(random, third);
    session.ask(third, &last);
    session.linger(Duration::from_millis(random.below(100)));
    session.cancel(id);
}

fn cancel_running(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let run = runs.next();
    let deed = if random.below(8) == 0 { stubborn(random, run) } else { long(random, run) };
    let id = session.ask(run, &deed);
    session.linger(Duration::from_millis(random.below(300)));
    session.cancel(id);
    one(session, random, runs);
}

/// Two requests with one id, as a client that has lost count sends them.
fn one_id(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let (first, second) = (runs.next(), runs.next());
    let id = session.ask(first, &deed("run of a shared id", first, "await asyncio.sleep(0.05)"));
    session.linger(Duration::from_millis(random.below(60)));
    session.ask_as(id, second, &deed("run of a shared id", second, "1 + 1"));
}

fn garbage(session: &mut Session<'_>, random: &mut Random) {
    let lines: [&[u8]; 6] = [
        b"{\"jsonrpc\": \"2.0\", \"id\":\n",
        b"\xff\xfe\x00 no text\n",
        b"[]\n",
        b"42\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/unheard_of\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\", \"params\": {\"requestId\": 1}}\n",
    ];
    session.garbage(random.of(&lines));
    session.ask_other(random.of(&["ping", "tools/list", "no/such/method"]));
}

fn break_midway(session: &mut Session<'_>, random: &mut Random, runs: &mut Runs) {
    let run = runs.next();
    let deed = long(random, run);
    session.ask(run, &deed);
    session.linger(Duration::from_millis(random.below(400)));
    if random.below(3) == 0 {
        let (name, end) = random.of(&CONTAINER_ENDS);
        session.end_container(name, end);
    } else {
        session.kill_server();
    }
}

fn any(random: &mut Random, run: u64) -> Deed {
    match random.below(100) {
        0..60 => quick(random, run),
        60..72 => late(random, run),
        72..75 => stubborn(random, run),
        75..84 => deadly(random, run),
        84..87 => greedy(random, run),
        87..94 => lasting(random, run),
        _ => Deed { reset: true, ..deed("run with a reset", run, "1 + 1") },
    }
}

/// Ends by itself, soon.
fn quick(random: &mut Random, run: u64) -> Deed {
    let calls = random.below(51);
    let (from, to) = (run * CALLS, run * CALLS + calls);
    match random.below(10) {
        0 => deed("run", run, "sum(range(1000))"),
        1 => deed("run that raises", run, "{}['missing']"),
        2 => deed("run that exits", run, "import sys\nsys.exit(3)"),
        3 => {
            let lines = 1 + random.below(5000);
            let body = format!(
                "import sys\nfor i in range({lines}): print('x' * 100)\nprint('e' * 1000, file=sys.stderr)"
            );
            deed("run that prints", run, &body)
        }
        4 => {
            let mib_max = random.of(&[10, 10, 10, 120]);
            let mib = 1 + random.below(mib_max);
            deed("run that holds variables", run, &format!("block = b'x' * ({mib} << 20)"))
        }
        5 => deed("run with calls", run, &format!("for n in range({from}, {to}): await tick(n)")),
        6 | 7 => {
            let body = format!("await asyncio.gather(*(tick(n) for n in range({from}, {to})))");
            deed("run with calls at once", run, &body)
        }
        8 => {
            let kinds: Vec<String> = (from..from + calls.min(20))
                .map(|n| match random.below(4) {
                    0 => format!("tick({n})"),
                    1 => format!("tick({n}, 'fail')"),
                    2 => format!("tick({n}, 'no_such_tool')"),
                    _ => format!("tick({n}, 'slow', ms={})", random.below(150)),
                })
                .collect();
            let body = format!("await asyncio.gather({})", kinds.join(", "));
            deed("run with calls that fail", run, &body)
        }
        _ => {
            let body = format!(
                "left = [asyncio.ensure_future(tick(n, 'slow', ms=300)) for n in range({from}, {to})]\n\
                 await asyncio.sleep({})",
                random.of(&["0", "0.001", "0.05"])
            );
            deed("run that leaves calls", run, &body)
        }
    }
}

/// Goes on until something happens, at most for some seconds, and can be interrupted.
fn long(random: &mut Random, run: u64) -> Deed {
    let from = run * CALLS;
    let body = match random.below(4) {
        0 => "while True: pass".to_owned(),
        1 => format!("await tick({from}, 'hang')"),
        2 => format!(
            "await asyncio.gather(*(tick(n, 'slow', ms=n % 7 * 100) for n in range({from}, {})), asyncio.sleep(9))",
            from + 1 + random.below(50)
        ),
        _ => format!(
            "for n in range({from}, {from} + 500): await tick(n, 'slow', ms=2)\nawait asyncio.sleep(9)"
        ),
    };
    Deed { timeout: Some(2.0), ..deed("run that lasts", run, &body) }
}

/// Is interrupted for its time.
fn late(random: &mut Random, run: u64) -> Deed {
    let timeout = 0.3 + random.below(5) as f64 / 10.0;
    Deed { timeout: Some(timeout), name: "run over its time", ..long(random, run) }
}

/// Does not heed the interrupt.
fn stubborn(random: &mut Random, run: u64) -> Deed {
    let call = if random.below(2) == 0 { String::new() } else { format!("await tick({})\n", run * CALLS) };
    let rest = random.of(&[
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "sum(range(10 ** 13))",
    ]);
    Deed { timeout: Some(0.5), ..deed("run that heeds no interrupt", run, &format!("{call}{rest}")) }
}

/// Ends the interpreter.
fn deadly(random: &mut Random, run: u64) -> Deed {
    let death = random.of(&[
        "os._exit(7)",
        "os.kill(os.getpid(), 9)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os.kill(-1, 9)",
    ]);
    let from = run * CALLS;
    let body = if random.below(2) == 0 {
        format!("import os, signal\n{death}")
    } else {
        format!(
            "import os, signal, threading\nthreading.Timer({}, lambda: {death}).start()\n\
             await asyncio.gather(*(tick(n, 'slow', ms=n % 5 * 50) for n in range({from}, {})))",
            random.of(&["0.01", "0.1"]),
            from + random.below(51)
        )
    };
    deed("run that ends its interpreter", run, &body)
}

/// Wants more memory than there is.
fn greedy(random: &mut Random, run: u64) -> Deed {
    let body = if random.below(3) > 0 {
        "block = bytearray(10 ** 10)"
    } else {
        // Private: an engine that only watches memory refuses a shared mapping of this size at once.
        "import mmap\nblock = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 1 << 30, 4096): block[at] = 1"
    };
    Deed { timeout: Some(20.0), ..deed("run beyond its memory", run, body) }
}

/// Leaves a thread or a process behind that tries to call tools later.
fn lasting(random: &mut Random, run: u64) -> Deed {
    let (number, wait) = (run * CALLS + STRAY, 0.05 + random.below(20) as f64 / 10.0);
    let call = format!("mcp_ledger.echo.sync(n={number})");
    if random.below(2) == 0 {
        let body = format!(
            "import threading, time\ndef later():\n  time.sleep({wait})\n  try: {call}\n  except Exception: pass\n\
             threading.Thread(target=later, daemon=True).start()"
        );
        deed("run that leaves a thread", run, &body)
    } else {
        let body = format!(
            "import os, time\nif os.fork() == 0:\n  try:\n    time.sleep({wait})\n    {call}\n  finally: os._exit(0)"
        );
        deed("run that leaves a process", run, &body)
    }
}

fn deed(name: &'static str, run: u64, body: &str) -> Deed {
    Deed { name, code: format!("{}{body}", prelude(run)), ..Deed::default() }
}
