//! hotcell itself, measured from the client's side and, for calls, from inside the sandbox.

use std::time::{Duration, Instant};

use crate::figures::Figures;
use crate::figures::Samples;
use crate::figures::Target::{AtLeast, AtMost};
use crate::support::{Bridge, Engine, Fixture, Home, eventually};

/// What the targets are relative to.
pub struct Floors {
    pub attach_ms: f64,
    pub direct_ms: f64,
    pub command_ms: f64,
}

const RUNS: usize = 1_000;
const STARTS: usize = 7;

pub fn measure(engine: &Engine, floors: &Floors, figures: &mut Figures) {
    starts(engine, floors, figures);
    // Flags of the fixture would have it write a ledger: the plain program is what is called.
    let entry = serde_json::json!({"command": Fixture::program()});
    let home = Home::on(engine).server("fixture", entry);
    let mut bridge = Bridge::start(&home).warm();
    runs(&mut bridge, floors, figures);
    bridge.ok("import asyncio, time\nawait mcp_fixture.echo(text='x')");
    figures.judge("resident memory, idle after a run and a call", mebibytes(&bridge), "MiB", AtMost(25.0));
    calls(&mut bridge, floors, figures);
    results(&mut bridge, figures);
    figures.add("resident memory after the 32 MB result", mebibytes(&bridge), "MiB");
    let owners = home.owners();
    let started = Instant::now();
    bridge.hang_up();
    bridge.wait(Duration::from_secs(10));
    figures.judge("from the client's end to the program's", millis(started.elapsed()), "ms", AtMost(3_000.0));
    eventually("the container goes", Duration::from_secs(10), || engine.containers_of(&owners).is_empty());
    figures.judge(
        "from the client's end to the container's",
        millis(started.elapsed()),
        "ms",
        AtMost(3_000.0),
    );
}

fn starts(engine: &Engine, floors: &Floors, figures: &mut Figures) {
    let home = Home::on(engine);
    let initialize = Samples::of(STARTS, || {
        let started = Instant::now();
        let bridge = Bridge::start(&home);
        let took = started.elapsed();
        drop(bridge);
        took
    });
    figures.judge("start and initialize, p50", initialize.p50_ms(), "ms", AtMost(50.0));
    let first_run = |home: &Home, pause: Duration| {
        Samples::of(STARTS, || {
            let mut bridge = Bridge::start(home);
            std::thread::park_timeout(pause);
            let started = Instant::now();
            bridge.ok("print(1)");
            let took = started.elapsed();
            bridge.hang_up();
            bridge.wait(Duration::from_secs(10));
            took
        })
    };
    let prewarmed = first_run(&Home::on(engine).env("MCP_BRIDGE_PREWARM", "1"), Duration::from_secs(1));
    figures.judge("first run 1 s after initialize, p50", prewarmed.p50_ms(), "ms", AtMost(20.0));
    let cold = first_run(&home, Duration::ZERO);
    figures.judge("first run without prewarm, p50", cold.p50_ms(), "ms", AtMost(1.3 * floors.command_ms));
}

fn runs(bridge: &mut Bridge, floors: &Floors, figures: &mut Figures) {
    for _ in 0..50 {
        bridge.ok("print(1)");
    }
    let warm = Samples::of(RUNS, || {
        let started = Instant::now();
        bridge.ok("print(1)");
        started.elapsed()
    });
    figures.judge(
        "warm run of print(1), p50",
        warm.p50_ms(),
        "ms",
        AtMost(f64::min(1.0, 5.0 * floors.attach_ms)),
    );
    figures.add("the same, p99", warm.p99_ms(), "ms");
}

fn calls(bridge: &mut Bridge, floors: &Floors, figures: &mut Figures) {
    let target = AtMost(floors.direct_ms + 3.0 * floors.attach_ms);
    let serial = |call: &str| {
        format!(
            "async def serial(calls):\n  took = []\n  for _ in range(calls):\n    start = time.perf_counter()\n    \
             {call}\n    took.append(time.perf_counter() - start)\n  took.sort()\n  return took[len(took) // 2] * 1000\n\
             await serial(200)\nprint(await serial(2000))"
        )
    };
    let awaited = number(bridge, &serial("await mcp_fixture.echo(text='x')"));
    figures.judge("one call after the other, await, p50", awaited, "ms", target);
    let plain = number(bridge, &serial("mcp_fixture.echo.sync(text='x')"));
    figures.judge("one call after the other, .sync, p50", plain, "ms", target);
    let parallel = "best = 1e9\nfor _ in range(7):\n  start = time.perf_counter()\n  \
                    r = await asyncio.gather(*(mcp_fixture.echo(text='x') for _ in range(1000)))\n  \
                    best = min(best, time.perf_counter() - start)\nassert r == ['x'] * 1000\nprint(1000 / best)";
    figures.judge("1,000 calls at once", number(bridge, parallel), "calls/s", AtLeast(4_000.0));
    let ten = "start = time.perf_counter()\n\
               await asyncio.gather(*(mcp_fixture.slow(ms=200) for _ in range(10)))\nprint(time.perf_counter() - start)";
    figures.judge("ten calls of 200 ms at once", number(bridge, ten) * 1000.0, "ms", AtMost(300.0));
}

fn results(bridge: &mut Bridge, figures: &mut Figures) {
    for megabytes in [1, 10, 32] {
        let code = format!(
            "best = 1e9\nfor _ in range(5):\n  start = time.perf_counter()\n  \
             r = await mcp_fixture.big(bytes={megabytes}_000_000)\n  best = min(best, time.perf_counter() - start)\n\
             assert len(r) == {megabytes}_000_000\ndel r\nprint({megabytes} / best)"
        );
        let per_second = number(bridge, &code);
        let name = format!("a result of {megabytes} MB");
        match megabytes {
            32 => figures.judge(&name, per_second, "MB/s", AtLeast(40.0)),
            _ => figures.add(&name, per_second, "MB/s"),
        }
    }
}

/// The number that the code prints.
fn number(bridge: &mut Bridge, code: &str) -> f64 {
    let text = bridge.ok(code);
    text.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"))
}

fn mebibytes(bridge: &Bridge) -> f64 {
    bridge.resident_kib() as f64 / 1024.0
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
