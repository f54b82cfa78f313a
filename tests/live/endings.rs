//! Runs that end before their time: interrupted where that helps, replaced where it does not, and what is said of it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::on_every_engine;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_every_engine!(
    a_run_over_its_time_is_interrupted_with_its_output_and_variables,
    everything_that_waits_or_spins_can_be_interrupted,
    code_that_swallows_the_interrupt_is_replaced_and_the_next_run_is_at_once,
    a_cancelled_run_is_never_answered_and_keeps_its_variables,
    a_cancelled_run_that_swallows_the_interrupt_is_replaced,
    a_loss_that_a_cancelled_run_has_found_is_told_by_the_next,
    a_run_cancelled_while_it_waits_never_starts,
    runs_beyond_the_queue_are_refused_at_once,
    code_can_handle_its_interrupt,
);

const MORE_TIME: &str = "hint: a run may ask for a timeout of up to 120 s; longer work goes on beside other runs as a job: runtime.spawn(f)";
const ROLLED_BACK: &str = "state: variables as before this run";
// In CPython 3.11 an interrupt that comes at the jump of a loop is not caught by the `try` around it; a sleep is.
const SWALLOWS: &str =
    "import time\nwhile True:\n  try:\n    while True: time.sleep(0.01)\n  except BaseException: pass";

fn a_run_over_its_time_is_interrupted_with_its_output_and_variables(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let started = Instant::now();
    let reply = bridge.run_with(json!({"code": "x = 1\nprint('tick')\nwhile True: x += 1", "timeout": 1}));
    let took = started.elapsed();
    assert!(reply.is_error);
    let expected = format!(
        "status: timeout\ntick\nerror: Execution timed out after 1s\n{MORE_TIME}\nstate: variables kept\n\
         note: it was interrupted at line 3 of the code"
    );
    assert_eq!(reply.text, expected);
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(bridge.ok("x > 1"), "True");
}

fn everything_that_waits_or_spins_can_be_interrupted(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok("import asyncio, re, subprocess, threading, time\nkept = 1");
    for code in [
        "time.sleep(99)",
        "await asyncio.sleep(99)",
        "await asyncio.gather(asyncio.sleep(99), asyncio.sleep(98))",
        "asyncio.run(asyncio.sleep(99))",
        "threading.Lock().acquire() and threading.Event().wait()",
        "re.match(r'(a+)+$', 'a' * 40 + 'b')",
        "10 ** 10 ** 8",
        "subprocess.run(['sleep', '99'])",
        "async def spin():\n  while True: pass\nawait spin()",
        "while True: await asyncio.sleep(0)",
    ] {
        let reply = bridge.run_with(json!({"code": code, "timeout": 0.5}));
        let line = if code.contains("spin") { 2 } else { 1 };
        let expected = format!(
            "status: timeout\nerror: Execution timed out after 0.5s\n{MORE_TIME}\nstate: variables kept\n\
             note: it was interrupted at line {line} of the code"
        );
        assert_eq!(reply.text, expected, "{code}");
    }
    assert_eq!(bridge.ok("kept"), "1");
}

fn code_that_swallows_the_interrupt_is_replaced_and_the_next_run_is_at_once(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let containers = engine.containers_of(&home.owners());
    // What a fresh interpreter costs here, when nothing else is to be done.
    let started = Instant::now();
    bridge.run_with(json!({"code": "kept = 1", "reset": true}));
    let reset = started.elapsed();
    for code in [
        SWALLOWS,
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "sum(range(10 ** 13))",
    ] {
        let code = format!("print('tick')\n{code}");
        let reply = bridge.run_with(json!({"code": code, "timeout": 0.5}));
        let expected = format!(
            "status: timeout\ntick\nerror: Execution timed out after 0.5s\n{MORE_TIME}\n{ROLLED_BACK}"
        );
        assert_eq!(reply.text, expected, "{code}");
        let started = Instant::now();
        assert_eq!(bridge.ok("kept + 1"), "2");
        let next = started.elapsed();
        assert!(next < reset * 3 + Duration::from_millis(100), "next run {next:?}, a reset {reset:?}");
    }
    assert_eq!(engine.containers_of(&home.owners()), containers, "a new interpreter needs no new container");
}

fn a_cancelled_run_is_never_answered_and_keeps_its_variables(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let id = bridge.send_run(json!({"code": "y = 2\nawait mcp_fixture.hang()"}));
    eventually("the call reaches the server", PATIENCE, || fixture.ledger() == ["call hang {}"]);
    bridge.notify("notifications/cancelled", json!({"requestId": id, "reason": "changed my mind"}));
    eventually("the server is told", PATIENCE, || fixture.ledger() == ["call hang {}", "cancelled"]);
    let next = bridge.ok("y");
    let made =
        "which the client cancelled: calls made: fixture.hang* 1 of unknown outcome (* not marked read-only)";
    assert!(next.starts_with("2\nnote: run ") && next.ends_with(made), "{next}");
    assert_eq!(bridge.ok("y"), "2", "it is said once");
    let rest = bridge.rest();
    assert!(rest.iter().all(|message| message["id"] != json!(id)), "{rest:?}");
}

fn a_cancelled_run_that_swallows_the_interrupt_is_replaced(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let code = "import time\ncalled = False\nwhile True:\n  try:\n    if not called:\n      called = True\n      \
                mcp_fixture.pid.sync()\n    while True: time.sleep(0.01)\n  except BaseException: pass";
    let id = bridge.send_run(json!({"code": code}));
    eventually("the code runs", PATIENCE, || !fixture.ledger().is_empty());
    bridge.notify("notifications/cancelled", json!({"requestId": id}));
    let next = bridge.ok("'called' in globals()");
    assert!(
        next.starts_with("False\n") && next.contains("cancelled: calls made: fixture.pid* 1 ok"),
        "{next}"
    );
    assert!(bridge.rest().iter().all(|message| message["id"] != json!(id)));
}

fn a_loss_that_a_cancelled_run_has_found_is_told_by_the_next(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = 1");
    let owners = home.owners();
    let first = engine.containers_of(&owners);
    engine.remove_container(&first[0]);
    // Until its end is noticed, a run would be told that the sandbox went away under it.
    eventually("the bridge takes another", PATIENCE, || {
        let id = bridge.send_run(json!({"code": "await mcp_fixture.hang()"}));
        let is_under_way = || fixture.ledger().last().is_some_and(|event| event.starts_with("call hang"));
        let until = Instant::now() + Duration::from_secs(5);
        while !is_under_way() && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        bridge.notify("notifications/cancelled", json!({"requestId": id}));
        is_under_way()
    });
    let told = "note: a run that was cancelled began in a fresh interpreter: the previous one was lost; earlier variables are gone";
    let next = bridge.ok("'x' in globals()");
    assert!(next.starts_with(&format!("False\n{told}\nnote: run ")), "{next}");
    assert_eq!(bridge.ok("1"), "1");
}

fn a_run_cancelled_while_it_waits_never_starts(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let first = bridge.send_run(json!({"code": "ran = ['first']\nawait mcp_fixture.slow(ms=500)\n1"}));
    let second = bridge.send_run(json!({"code": "ran.append('second')"}));
    let third = bridge.send_run(json!({"code": "ran"}));
    eventually("the first runs", PATIENCE, || !fixture.ledger().is_empty());
    bridge.notify("notifications/cancelled", json!({"requestId": second}));
    assert_eq!(bridge.reply(first).text, "1");
    assert_eq!(bridge.reply(third).text, "['first']");
    assert!(bridge.rest().iter().all(|message| message["id"] != json!(second)));
}

fn runs_beyond_the_queue_are_refused_at_once(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let running = bridge.send_run(json!({"code": "await mcp_fixture.slow(ms=1500)"}));
    eventually("it runs", PATIENCE, || !fixture.ledger().is_empty());
    let ids: Vec<i64> = (0..20).map(|_| bridge.send_run(json!({"code": "1"}))).collect();
    let replies: Vec<_> = ids.into_iter().map(|id| bridge.reply(id)).collect();
    assert_eq!(bridge.reply(running).text, "'slept'");
    let refused: Vec<_> = replies.iter().filter(|reply| reply.is_error).collect();
    assert_eq!(refused.len(), 4, "16 may wait");
    for reply in refused {
        assert!(
            reply.text.contains("16 runs are waiting already\nhint: wait for one of them"),
            "{}",
            reply.text
        );
    }
    assert_eq!(bridge.ok("2"), "2");
}

fn code_can_handle_its_interrupt(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    let code = "import time\ntry:\n  while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n  print('tidied up')\nfinally:\n  done = True";
    let reply = bridge.run_with(json!({"code": code, "timeout": 0.5}));
    let expected = format!(
        "status: timeout\ntidied up\nerror: Execution timed out after 0.5s\n{MORE_TIME}\nstate: variables kept"
    );
    assert_eq!(reply.text, expected);
    assert_eq!(bridge.ok("done"), "True");
}
