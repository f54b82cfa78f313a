//! belljar itself, measured from the client's side and, for calls, from inside the sandbox.

use std::time::{Duration, Instant};

use crate::direct::Direct;
use crate::figures::Target::{AtLeast, AtMost};
use crate::figures::{Figures, Samples, Turns};
use crate::floor::{self, Echo};
use crate::support::ten_servers::{CALLS_THOSE_THAT_WORK, HEALTHY, Servers, first_reply, ten};
use crate::support::{Bridge, Engine, Fixture, Home, environments, eventually};

const STARTS: usize = 11;
/// What is compared is measured in turns: a shared machine is not the same from one second to the next.
const TURNS: usize = 40;
const PER_TURN: usize = 50;

/// The medians of rootless Podman, by which those of the process engine are judged.
#[derive(Clone, Copy)]
pub struct WarmMedians {
    run_ms: f64,
    call_ms: f64,
}

/// Returns the medians of warm runs and calls.
pub fn measure(
    engine: &'static Engine,
    of_podman: Option<WarmMedians>,
    figures: &mut Figures,
) -> WarmMedians {
    starts(engine, figures);
    among_broken_servers(engine, figures);
    // Flags of the fixture would have it write a ledger: the plain program is what is called.
    let entry = serde_json::json!({"command": Fixture::program()});
    let home = Home::on(engine).server("fixture", entry);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("import asyncio, time\nawait mcp_fixture.echo(text='x')");
    let medians = runs_and_calls(engine, &mut bridge, of_podman, figures);
    figures.judge("resident memory, idle after runs and calls", mebibytes(&bridge), "MiB", AtMost(25.0));
    calls_at_once(&mut bridge, figures);
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
    medians
}

fn starts(engine: &'static Engine, figures: &mut Figures) {
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
        let mut bridge = Bridge::start(home);
        std::thread::park_timeout(pause);
        let started = Instant::now();
        bridge.ok("print(1)");
        let took = started.elapsed();
        bridge.hang_up();
        bridge.wait(Duration::from_secs(10));
        took
    };
    let prewarming = Home::on(engine).env("MCP_BRIDGE_PREWARM", "1");
    let prewarmed = Samples::of(STARTS, || first_run(&prewarming, Duration::from_secs(1)));
    figures.judge("first run 1 s after initialize, p50", prewarmed.p50_ms(), "ms", AtMost(20.0));
    let command = floor::command_line(engine);
    let (mut by_command, mut cold) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        by_command.push(command.first_line());
        cold.push(first_run(&home, Duration::ZERO));
    }
    let by_command = Samples::new(by_command).p50_ms();
    figures.add(&format!("floor: {}, first line", command.name), by_command, "ms");
    let cold = Samples::new(cold).p50_ms();
    // Python alone has no container to start.
    let bound = if engine.is_process() { 2.0 } else { 1.3 };
    figures.judge("first run without prewarm, p50", cold, "ms", AtMost(bound * by_command));
    let mut bridge = Bridge::start(&home).warm();
    let defences = number(&mut bridge, FILTER_AND_POSTURE) * 1000.0;
    figures.judge("of that: the interpreter's filter and the posture", defences, "ms", AtMost(10.0));
    if engine.is_process() {
        without_any_engine(figures);
    }
}

/// A user's first start on a machine without any container engine: belljar looks for one, then has the sandbox be a process.
fn without_any_engine(figures: &mut Figures) {
    let usual = ["/run/podman/podman.sock", "/var/run/docker.sock"];
    if let Some(socket) = usual.into_iter().find(|socket| std::path::Path::new(socket).exists()) {
        eprintln!("SKIPPED: the first reply on a machine without any engine, since {socket} is there");
        return;
    }
    // Without PATH it starts no Podman, which this machine may have.
    let home = Home::new().env("MCP_BRIDGE_RUNTIME", "auto").env("PATH", "/nowhere");
    home.share_environments(&environments::usual());
    let first_reply = Samples::of(STARTS, || {
        let started = Instant::now();
        let mut bridge = Bridge::start(&home);
        bridge.ok("print(1)");
        let took = started.elapsed();
        bridge.hang_up();
        bridge.wait(Duration::from_secs(10));
        took
    });
    let name = "from start to first reply, no engine there, p50";
    figures.judge(name, first_reply.p50_ms(), "ms", AtMost(150.0));
}

/// What servers that do not work cost the first reply of those that do.
fn among_broken_servers(engine: &Engine, figures: &mut Figures) {
    let servers = Servers::new();
    let (code, prints) = CALLS_THOSE_THAT_WORK;
    let timed = |names: &[&str]| {
        let (took, reply) = first_reply(engine, &servers, names, code);
        assert_eq!(reply, prints);
        took
    };
    let (mut alone, mut among_ten) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        alone.push(timed(&HEALTHY));
        among_ten.push(timed(&ten()));
    }
    let (alone, among_ten) = (Samples::new(alone).p50_ms(), Samples::new(among_ten).p50_ms());
    figures.add("first reply with three servers, p50", alone, "ms");
    figures.judge("the same among seven that do not work, p50", among_ten, "ms", AtMost(alone + 300.0));
}

/// What a start does for its system call filter and its handshake, done again by itself: its modules are compiled and
/// run, the posture is read, the filter is made. Under its own filter an interpreter cannot install another one.
const FILTER_AND_POSTURE: &str = "import os, sys, time
bundle = next(finder for finder in sys.meta_path if hasattr(finder, 'sources'))
def spent():
    start, spaces = time.perf_counter(), []
    for name in ('posture', 'seccomp'):
        spaces.append({'__name__': 'belljar_sandbox.kernel.' + name, '__package__': 'belljar_sandbox.kernel'})
        exec(compile(bundle.source(f'belljar_sandbox/kernel/{name}.py'), name, 'exec'), spaces[-1])
    posture, seccomp = spaces
    posture['posture']([])
    posture['worker_posture'](os.getpid(), posture['descriptors']('self', ()), 0)
    seccomp['packed'](seccomp['program'](os.uname().machine, os.getppid()))
    return time.perf_counter() - start
print(min(spent() for _ in range(5)))";

fn runs_and_calls(
    engine: &Engine,
    bridge: &mut Bridge,
    of_podman: Option<WarmMedians>,
    figures: &mut Figures,
) -> WarmMedians {
    let (mut echo, mut server) = (Echo::start(engine), Direct::start());
    bridge.ok(
        "async def awaited(calls):\n  took = []\n  for _ in range(calls):\n    start = time.perf_counter()\n    \
         await mcp_fixture.echo(text='x')\n    took.append(time.perf_counter() - start)\n  return took\n\
         def plain(calls):\n  took = []\n  for _ in range(calls):\n    start = time.perf_counter()\n    \
         mcp_fixture.echo.sync(text='x')\n    took.append(time.perf_counter() - start)\n  return took",
    );
    let (pid, mut cpu) = (bridge.pid(), [Duration::ZERO; 2]);
    let mut turn = || {
        let trips = (0..PER_TURN).map(|_| echo.trip()).collect();
        let direct = (0..PER_TURN).map(|_| server.call()).collect();
        let run = |_| {
            let started = Instant::now();
            bridge.ok("print(1)");
            started.elapsed()
        };
        let idle = cpu_time(pid);
        let runs = (0..PER_TURN).map(run).collect();
        let after_runs = cpu_time(pid);
        let awaited = seconds(bridge, &format!("print(await awaited({PER_TURN}))"));
        cpu = [cpu[0] + after_runs - idle, cpu[1] + cpu_time(pid) - after_runs];
        let plain = seconds(bridge, &format!("print(plain({PER_TURN}))"));
        [trips, direct, runs, awaited, plain].map(Samples::new)
    };
    // The first one warms all of them up.
    turn();
    let turns: Vec<[Samples; 5]> = (0..TURNS).map(|_| turn()).collect();
    let [run_cpu, call_cpu] = cpu.map(|cpu| millis(cpu) / ((TURNS + 1) * PER_TURN) as f64);
    echo.end();
    server.end();
    let [trips, direct, runs, awaited, plain] =
        std::array::from_fn(|which| Turns::new(turns.iter().map(|turn| &turn[which])));
    let (trip, call) = (trips.all.p50_ms(), direct.all.p50_ms());
    figures.add("floor: echo over the same attach, p50", trip, "ms");
    figures.add("floor: the same, p99", trips.all.p99_ms(), "ms");
    figures.add("floor: the same, fastest quarter of the turns", trips.fastest.p50_ms(), "ms");
    figures.add("direct: call of the server, p50", call, "ms");
    let run_target = match engine.is_process() {
        true => of_podman.map(|of_podman| of_podman.run_ms),
        false => Some(f64::min(1.0, 5.0 * trip)),
    };
    figures.judge_if("warm run of print(1), p50", runs.all.p50_ms(), "ms", run_target.map(AtMost));
    figures.add("the same, p99", runs.all.p99_ms(), "ms");
    figures.add("warm run, fastest quarter of the turns", runs.fastest.p50_ms(), "ms");
    figures.add("warm run, the bridge's CPU time", run_cpu, "ms");
    let call_target = match engine.is_process() {
        true => of_podman.map(|of_podman| of_podman.call_ms),
        false => Some(call + 3.0 * trip),
    };
    let call_target = call_target.map(AtMost);
    figures.judge_if("one call after the other, await, p50", awaited.all.p50_ms(), "ms", call_target);
    figures.add("await, fastest quarter of the turns", awaited.fastest.p50_ms(), "ms");
    figures.add("await, the bridge's CPU time", call_cpu, "ms");
    figures.judge_if("one call after the other, .sync, p50", plain.all.p50_ms(), "ms", call_target);
    figures.add(".sync, fastest quarter of the turns", plain.fastest.p50_ms(), "ms");
    WarmMedians { run_ms: runs.all.p50_ms(), call_ms: awaited.all.p50_ms() }
}

fn calls_at_once(bridge: &mut Bridge, figures: &mut Figures) {
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

/// The list of seconds that the code prints.
fn seconds(bridge: &mut Bridge, code: &str) -> Vec<Duration> {
    let text = bridge.ok(code);
    let seconds: Vec<f64> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    seconds.into_iter().map(Duration::from_secs_f64).collect()
}

/// The number that the code prints.
fn number(bridge: &mut Bridge, code: &str) -> f64 {
    let text = bridge.ok(code);
    text.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"))
}

fn mebibytes(bridge: &Bridge) -> f64 {
    bridge.resident_kib() as f64 / 1024.0
}

/// The time that all threads of a process have been on a CPU. Other processes of a busy machine hardly change it.
fn cpu_time(pid: i32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .map(|statistics| Duration::from_nanos(statistics.split(' ').next().unwrap().parse().unwrap()))
        .sum()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
