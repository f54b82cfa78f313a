//! `make bench-shared`: what one bridge for many clients costs, beside a bridge for each.
//!
//! It measures the built program as clients use it, over stdio, a relay and HTTP, and judges nothing but its own targets.

#![allow(clippy::restriction, reason = "a benchmark ends at what it does not expect, and prints")]

#[path = "bridge/figures.rs"]
mod figures;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use figures::Target::{AtLeast, AtMost};
use figures::{Figures, Samples, Turns, machine};
use serde_json::{Value, json};
use support::web::{Served, WITHOUT_SESSIONS};
use support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

const TURNS: usize = 20;
const PER_TURN: usize = 50;
const STARTS: usize = 11;
const CLIENTS: usize = 20;
const SERVERS: usize = 13;
const SESSIONS: usize = 50;
/// How long sessions call at once.
const BURST_S: f64 = 5.0;

fn main() {
    let engine = Engine::any().expect("an engine; scripts/setup.sh engines-up starts some");
    println!("machine: {}", machine());
    let mut figures = Figures::default();
    warm_runs(&engine, &mut figures);
    first_runs(&engine, &mut figures);
    many_clients(&engine, &mut figures);
    many_sessions(&engine, &mut figures);
    println!("\n{} ({CLIENTS} clients, {SERVERS} servers, {SESSIONS} sessions)\n{figures}", engine.name);
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-shared.json");
    std::fs::write(&file, figures::report(&[(engine.name, figures)])).unwrap();
    println!("\nas JSON: {}", file.display());
}

/// A client of MCP over HTTP by a library of others, on one connection.
struct Web {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    url: String,
    token: String,
    session: Option<String>,
}

impl Web {
    fn new(served: &Served, token: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Only the first one counts.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self {
            runtime,
            client,
            url: format!("http://{}/mcp", served.address),
            token: token.into(),
            session: None,
        }
    }

    /// Runs code in the session, or in a new one. Returns the reply.
    fn ok(&mut self, code: &str) -> String {
        let mut arguments = json!({"code": code});
        if let Some(session) = &self.session {
            arguments["session"] = json!(session);
        }
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": WITHOUT_SESSIONS,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_python", "arguments": arguments, "_meta": meta}});
        let sending = self
            .client
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", WITHOUT_SESSIONS)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "run_python")
            .body(body.to_string());
        let text = self.runtime.block_on(async { sending.send().await.unwrap().text().await.unwrap() });
        let line = text.lines().rev().find_map(|line| line.strip_prefix("data: {")).expect("an answer");
        let answer: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        let blocks = answer["result"]["content"].as_array().unwrap();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let told = texts.iter().find_map(|text| text.strip_prefix("session: "));
        if let Some(name) = told.and_then(|told| told.split(' ').next()) {
            self.session = Some(name.to_owned());
        }
        texts[0].to_owned()
    }
}

fn token(home: &Home) -> String {
    home.run(&["token", "add", "bench", "--quiet"]).stdout.trim().to_owned()
}

fn warm_runs(engine: &Engine, figures: &mut Figures) {
    let (home, shared) = (Home::on(engine), Home::on(engine).env("MCP_BRIDGE_SHARED", "1"));
    let mut stdio = Bridge::start(&home).warm();
    let mut relayed = Bridge::start(&shared).warm();
    let over = Home::on(engine);
    let token = token(&over);
    let served = Served::start(&over, &[]);
    let mut web = Web::new(&served, &token);
    let timed = |run: &mut dyn FnMut()| {
        Samples::of(PER_TURN, || {
            let started = Instant::now();
            run();
            started.elapsed()
        })
    };
    let mut turn = || {
        [
            timed(&mut || drop(stdio.ok("print(1)"))),
            timed(&mut || drop(relayed.ok("print(1)"))),
            timed(&mut || drop(web.ok("print(1)"))),
        ]
    };
    turn();
    let turns: Vec<[Samples; 3]> = (0..TURNS).map(|_| turn()).collect();
    let [alone, relayed, web] =
        std::array::from_fn(|which| Turns::new(turns.iter().map(|turn| &turn[which])));
    let ways = [
        ("over stdio", &alone, None),
        ("through a relay", &relayed, Some(0.1)),
        ("over HTTP", &web, Some(0.3)),
    ];
    for (way, took, more) in ways {
        let bound = more.map(|more| AtMost(alone.all.p50_ms() + more));
        figures.judge_if(&format!("warm run {way}, p50"), took.all.p50_ms(), "ms", bound);
        figures.add(&format!("warm run {way}, p99"), took.all.p99_ms(), "ms");
        figures.add(&format!("warm run {way}, fastest quarter of the turns"), took.fastest.p50_ms(), "ms");
    }
    shared.run(&["serve", "stop"]);
}

fn first_runs(engine: &Engine, figures: &mut Figures) {
    let home = Home::on(engine).env("MCP_BRIDGE_PREWARM", "1");
    let token = token(&home);
    let served = Served::start(&home, &[]);
    let mut web = Web::new(&served, &token);
    web.ok("print(1)");
    let mut once = || {
        // Lists have the next session's sandbox started.
        served.stateless(&token).result("tools/list", json!({}));
        std::thread::park_timeout(Duration::from_millis(1_500));
        web.session = None;
        let started = Instant::now();
        web.ok("print(1)");
        started.elapsed()
    };
    let first = Samples::of(STARTS, &mut once).p50_ms();
    figures.judge("first run of a new session over HTTP, p50", first, "ms", AtMost(10.0));
}

/// The proportional set sizes of these processes and of those below them, in MiB, and the number of the processes.
fn memory(roots: &[i32]) -> (f64, usize) {
    let mut all: Vec<i32> = roots.to_vec();
    let mut at = 0;
    while at < all.len() {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", all[at])).into_iter().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()));
        }
        at += 1;
    }
    let pss = |pid: &i32| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap_or("Pss: 0 kB");
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    (all.iter().map(pss).sum(), all.len())
}

fn serve_pid(home: &Home) -> i32 {
    let status = home.run(&["serve", "status"]).stdout;
    status.split("(process ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap()
}

fn many_clients(engine: &Engine, figures: &mut Figures) {
    let calls: String = (0..SERVERS).map(|n| format!("await mcp_s{n}.echo(text='x')\n")).collect();
    let measured = |shared: &str| {
        let fixtures: Vec<Fixture> = (0..SERVERS).map(|_| Fixture::new(&[])).collect();
        let home = fixtures
            .iter()
            .enumerate()
            .fold(Home::on(engine), |home, (n, fixture)| home.server(&format!("s{n}"), fixture.entry()));
        let home = home.env("MCP_BRIDGE_SHARED", shared);
        let mut clients: Vec<Bridge> = (0..CLIENTS).map(|_| Bridge::start(&home).warm()).collect();
        for client in &mut clients {
            client.ok(&calls);
        }
        let mut roots: Vec<i32> = clients.iter().map(Bridge::pid).collect();
        if shared == "1" {
            roots.push(serve_pid(&home));
        }
        let servers: usize = fixtures.iter().map(|fixture| fixture.pids().len()).sum();
        let (pss, processes) = memory(&roots);
        home.run(&["serve", "stop"]);
        (pss, processes, servers)
    };
    let (alone, alone_processes, alone_servers) = measured("0");
    let (shared, shared_processes, shared_servers) = measured("1");
    figures.add("separate bridges: processes of servers", alone_servers as f64, "");
    figures.add("separate bridges: all processes without sandboxes", alone_processes as f64, "");
    figures.add("separate bridges: memory without sandboxes (PSS)", alone, "MiB");
    figures.judge("one bridge: processes of servers", shared_servers as f64, "", AtMost(SERVERS as f64));
    figures.add("one bridge: all processes without sandboxes", shared_processes as f64, "");
    figures.judge("one bridge: memory without sandboxes (PSS)", shared, "MiB", AtMost(alone / 10.0));
}

fn many_sessions(engine: &Engine, figures: &mut Figures) {
    let one = Fixture::new(&[]);
    let home = Home::on(engine).server("one", one.entry()).env("MCP_BRIDGE_SHARED", "1");
    let mut first = Bridge::start(&home).warm();
    first.ok("await mcp_one.echo(text='x')");
    let counting = |work: &str| {
        format!(
            "import time\nuntil, count = time.monotonic() + {BURST_S}, 0\n\
             while time.monotonic() < until:\n    {work}\n    count += 1\nprint(count)"
        )
    };
    let code = counting("await mcp_one.echo(text='x')");
    let number = |reply: String| reply.lines().next().unwrap().parse::<f64>().unwrap();
    let alone = number(first.ok(&code));
    let (before, _) = memory(&[serve_pid(&home)]);
    let mut sessions: Vec<Bridge> = (1..SESSIONS).map(|_| Bridge::start(&home).warm()).collect();
    let (after, _) = memory(&[serve_pid(&home)]);
    sessions.push(first);
    eventually("all are there", PATIENCE, || {
        home.run(&["serve", "status"]).stdout.contains(&format!("serves {SESSIONS} "))
    });
    let mut by_all = |code: &str| {
        let runs: Vec<i64> =
            sessions.iter_mut().map(|session| session.send_run(json!({"code": code}))).collect();
        let replies = sessions.iter_mut().zip(runs).map(|(session, run)| session.late_reply(run, PATIENCE));
        let counts: Vec<f64> = replies.map(|reply| number(reply.text)).collect();
        let (least, most) = counts
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), count| (least.min(*count), most.max(*count)));
        (counts.iter().sum::<f64>() / BURST_S, most / least)
    };
    let (sum, apart) = by_all(&code);
    // What the kernel's scheduler alone makes of as many sandboxes.
    let (_, floor) = by_all(&counting("sum(range(10_000))"));
    figures.judge(
        "memory of the bridge for a further idle session",
        (after - before) / (SESSIONS - 1) as f64,
        "MiB",
        AtMost(1.5),
    );
    figures.add("calls of one session alone", alone / BURST_S, "calls/s");
    figures.judge("calls of all sessions at once, summed", sum, "calls/s", AtLeast(0.8 * alone / BURST_S));
    figures.judge("the most calls of a session by the least", apart, "times", AtMost(2.0_f64.max(floor)));
    figures.add("the same where the sessions only compute", floor, "times");
    home.run(&["serve", "stop"]);
}
