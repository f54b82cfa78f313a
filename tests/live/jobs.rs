//! Jobs: what a run starts goes on beside later runs, and outlives their interpreter, but neither its time nor its sandbox.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::processes::marked;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};

on_one_engine_and_processes!(
    a_job_goes_on_beside_runs_calls_tools_and_brings_its_result,
    a_job_that_fails_raises_its_error_where_it_is_asked_for,
    an_endless_loop_keeps_no_run_from_being_answered_and_is_cancelled,
    a_job_outlives_a_run_that_is_killed_and_an_interpreter_that_dies,
    a_reset_ends_jobs_and_says_so,
    a_container_that_is_killed_loses_its_jobs_and_results_stay,
    there_are_no_more_jobs_than_may_be_and_none_takes_longer_than_it_may,
    an_idle_stop_waits_for_jobs,
    calls_of_a_job_keep_to_the_servers_and_budgets_of_its_run,
    a_job_gets_no_server_that_is_configured_after_its_run,
    what_a_job_plans_reads_and_is_warned_of_is_its_own,
    what_the_human_has_to_be_asked_is_refused_once_the_run_has_ended,
    calls_of_a_job_end_with_it,
    a_call_of_a_job_that_is_being_ended_is_refused_at_once,
    jobs_are_in_the_log_and_the_journal_and_are_not_started_by_a_replay,
    a_bridge_that_is_killed_leaves_no_job,
);

const LOOP: &str = "def loop():\n  while True: pass\n";

fn bridge(engine: &Engine, fixture: &Fixture) -> Bridge {
    Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm()
}

fn a_job_goes_on_beside_runs_calls_tools_and_brings_its_result(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    let reply = bridge.ok("import asyncio, os\nasync def crawl(n):\n  seen = []\n  for i in range(n):\n    \
         seen.append(await mcp_fixture.echo(text=f'page {i}'))\n  print('seen', len(seen))\n  \
         while not os.path.exists('go'): await asyncio.sleep(0.01)\n  return {'seen': seen, 'x': x}\n\
         x = 'then'\njob = runtime.spawn(crawl(3))\nx = 'now'\nprint(job.number, job.status)");
    assert!(reply.starts_with("1 running"), "{reply}");
    assert!(reply.contains("note: job 1 'crawl' goes on: runtime.job(1).status"), "{reply}");
    eventually("it has made its calls", PATIENCE, || fixture.ledger().len() == 3);
    assert!(bridge.ok("await mcp_fixture.echo(text='run')").starts_with("'run'"));
    eventually("it has written", PATIENCE, || bridge.ok("runtime.job(1).tail()").starts_with("'seen 3\\n'"));
    let refusal = bridge.run("job.result").text;
    assert!(refusal.contains("job 1 'crawl' is running: `await job`, or job.wait(seconds)"), "{refusal}");
    assert!(bridge.ok("print(runtime.jobs())").starts_with("1 'crawl' running, "));
    let reply = bridge.ok("open('go', 'w').close()\nprint(await job)");
    assert!(reply.starts_with("{'seen': ['page 0', 'page 1', 'page 2'], 'x': 'then'}"), "{reply}");
    // Who has looked is not told.
    assert!(!bridge.ok("x").contains("note: job"));
    let mut said = bridge.ok("quick = runtime.spawn(lambda: 6 * 7, name='sum\\x1b[31m')");
    // It may have ended before the reply to its own run.
    eventually("it is announced", PATIENCE, || {
        said.contains("finished after") || {
            said = bridge.ok("None");
            false
        }
    });
    assert!(said.contains("(2).result") && !said.contains('\u{1b}'), "{said:?}");
    assert!(!bridge.ok("None").contains("note: job"), "once");
    assert_eq!(
        bridge.ok("runtime.job(2).result, [j.status for j in runtime.jobs()]"),
        "(42, ['finished', 'finished'])"
    );
}

fn a_job_that_fails_raises_its_error_where_it_is_asked_for(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok(
        "def f():\n  raise ValueError('no page')\nimport os\njobs = [runtime.spawn(f), runtime.spawn(os._exit, 3), \
         runtime.spawn(lambda: open), runtime.spawn(lambda: bytes(9_000_000))]\n\
         print([j.wait() for j in jobs])",
    );
    let of = |bridge: &mut Bridge, number: usize| {
        bridge.ok(&format!(
            "try: print('result', runtime.job({number}).result)\nexcept runtime.JobError as e: print(e.type, '|', e.message, '|', e.args[0])"
        ))
    };
    let first = of(&mut bridge, 1);
    assert!(
        first.starts_with("ValueError | no page | job 1 'f' failed: ValueError: no page\nTraceback"),
        "{first}"
    );
    assert!(of(&mut bridge, 2).contains("failed: its process ended by itself, exit status 3"));
    assert!(of(&mut bridge, 3).starts_with("result <built-in function open>"));
    assert!(of(&mut bridge, 4).contains("more than 8,388,608: write it to a file in /workspace"));
    bridge.ok("runtime.spawn(lambda: (i for i in '')).wait()");
    let unpicklable = of(&mut bridge, 5);
    assert_eq!(
        unpicklable.matches("what it returned cannot be pickled (generator: ").count(),
        2,
        "{unpicklable}"
    );
    for (wrong, says) in [
        ("runtime.job(99)", "there is no job 99"),
        (
            "runtime.job('crawl')",
            "job cannot be called like this: job is \"crawl\", and must be a whole number",
        ),
        ("runtime.job(5).wait(timeout='x')", "timeout is \"x\", and must be a number"),
        ("runtime.job(5).status()", "hint: a job's status, result, name and number are no methods"),
    ] {
        let reply = bridge.run(wrong).text;
        assert!(reply.contains(says), "{reply}");
    }
    assert_eq!(bridge.ok("print(runtime.job(1).wait(timeout=1e19))"), "failed", "as long as it takes");
    // It was never to be awaited, and no later run is told that it was not.
    bridge.run("async def crawl(n): pass\nruntime.spawn(crawl(2), 3)");
    assert_eq!(bridge.ok("import gc; gc.collect(); print('x')"), "x");
}

fn an_endless_loop_keeps_no_run_from_being_answered_and_is_cancelled(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok(&format!("{LOOP}job = runtime.spawn(loop)"));
    for number in 0..20 {
        assert!(bridge.ok(&format!("{number}")).starts_with(&number.to_string()));
    }
    let stubborn = "import signal\ndef stubborn():\n  signal.signal(signal.SIGINT, signal.SIG_IGN)\n  \
                    print('up', flush=True)\n  loop()\nother = runtime.spawn(stubborn)";
    bridge.ok(stubborn);
    eventually("it is up", PATIENCE, || bridge.ok("other.tail()").starts_with("'up"));
    assert!(bridge.ok("print(job.cancel(), other.cancel())").starts_with("cancelled cancelled"));
    assert!(bridge.ok("print(runtime.jobs())").contains("1 'loop' cancelled"));
}

fn a_job_outlives_a_run_that_is_killed_and_an_interpreter_that_dies(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok(
        "import os, time\ndef wait():\n  while not os.path.exists('go'): time.sleep(0.01)\n  return 'still here'\n\
         job = runtime.spawn(wait)",
    );
    let killed = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let reply = bridge.run_with(json!({"code": killed, "timeout": 1}));
    assert!(reply.text.starts_with("status: timeout"), "{}", reply.text);
    assert!(bridge.ok("job.status").starts_with("'running'"));
    assert!(bridge.run("os._exit(1)").is_error);
    assert!(bridge.ok("runtime.job(1).status").starts_with("'running'"));
    assert!(bridge.ok("open('go', 'w').close()\nprint(await runtime.job(1))").starts_with("still here"));
}

fn a_reset_ends_jobs_and_says_so(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    bridge.ok(&format!("{LOOP}job = runtime.spawn(loop)"));
    let reply = bridge.run_with(json!({"code": "runtime.job(1).status", "reset": true}));
    assert!(reply.text.starts_with("'cancelled'"), "{}", reply.text);
    let said = "note: job 1 'loop' was cancelled after";
    assert!(reply.text.contains(said) && reply.text.contains(": a run asked for a reset"), "{}", reply.text);
}

fn a_container_that_is_killed_loses_its_jobs_and_results_stay(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(&format!(
        "{LOOP}done = runtime.spawn(lambda: 'kept')\nprint(done.wait())\njob = runtime.spawn(loop)"
    ));
    engine.remove_container(&engine.containers_of(&home.owners())[0]);
    let first = bridge.run("None").text;
    let reply = if first.contains("went away") { first + &bridge.ok("None") } else { first };
    assert!(
        reply.contains("job 2 'loop' was lost after") && reply.contains(": its sandbox is gone"),
        "{reply}"
    );
    assert_eq!(
        bridge.ok("runtime.job(1).result, runtime.job(2).status").lines().next(),
        Some("('kept', 'lost')")
    );
}

fn there_are_no_more_jobs_than_may_be_and_none_takes_longer_than_it_may(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_JOBS", "1").env("MCP_BRIDGE_JOB_TIMEOUT", "2");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(&format!("{LOOP}job = runtime.spawn(loop, timeout=1.5)"));
    let refusal = bridge.run("runtime.spawn(loop)").text;
    assert!(refusal.contains("no more than 1 may run at once, and these go on: 1"), "{refusal}");
    assert!(bridge.ok("job.wait(20)").starts_with("'timed_out'"));
    let refusal = bridge.run("runtime.spawn(loop, timeout=3)").text;
    assert!(refusal.contains("a job may take 2 s, not 3 s"), "{refusal}");
    assert!(bridge.ok("runtime.spawn(lambda: 1).wait()").starts_with("'finished'"));
    let awaited = "job = runtime.spawn(print, 'x')\nawait job.wait(), await job.tail(), await job.cancel()";
    assert_eq!(bridge.ok(awaited), "('finished', 'x\\n', 'finished')");
    let home = Home::on(engine).env("MCP_BRIDGE_JOBS", "0");
    let refusal = Bridge::start(&home).warm().run("runtime.spawn(print)").text;
    assert!(refusal.contains("the user lets no jobs run"), "{refusal}");
}

fn an_idle_stop_waits_for_jobs(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "1");
    let mut bridge = Bridge::start(&home);
    bridge.first("import time\ndef f():\n  time.sleep(4)\n  open('late', 'w').write('kept')\n  return 1\njob = runtime.spawn(f)");
    eventually("the idle container goes", PATIENCE, || engine.containers_of(&home.owners()).is_empty());
    let reply = bridge.ok("print(open('late').read(), runtime.job(1).result)");
    assert!(reply.starts_with("kept 1\n"), "{reply}");
}

fn calls_of_a_job_keep_to_the_servers_and_budgets_of_its_run(engine: &Engine) {
    let (fixture, other) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine)
        .server("fixture", fixture.entry())
        .server("other", other.entry())
        .file(".config/belljar/policy.toml", "[budgets]\ncalls_per_run = 3\n");
    let mut bridge = Bridge::start(&home).warm();
    let code = "import os, time\ndef f():\n  while not os.path.exists('go'): time.sleep(0.01)\n  said = []\n  \
                for server in ['other', 'fixture', 'fixture', 'fixture']:\n    \
                try: said.append(runtime.call_tool_sync(server, 'echo', {'text': 'job'}))\n    \
                except runtime.MCPError as e: said.append(e.code)\n  return said\n\
                job = runtime.spawn(f)\nawait mcp_fixture.echo(text='run')";
    assert!(!bridge.run_with(json!({"code": code, "servers": ["fixture"]})).is_error);
    // The other server is this run's; the budget of the job's run is not whole again.
    let reply = bridge.ok("open('go', 'w').close()\nprint(await job, await mcp_other.echo(text='run'))");
    assert!(reply.starts_with("['server_unavailable', 'job', 'job', 'denied'] run"), "{reply}");
    assert_eq!(other.ledger(), [r#"call echo {"text":"run"}"#]);
}

fn what_the_human_has_to_be_asked_is_refused_once_the_run_has_ended(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let policy = "[[rule]]\ntool = \"echo\"\ndecision = \"ask\"\n";
    let home =
        Home::on(engine).server("fixture", fixture.entry()).file(".config/belljar/policy.toml", policy);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("import os, time\ndef f():\n  while not os.path.exists('go'): time.sleep(0.01)\n  \
         return mcp_fixture.echo.sync(text='job')\njob = runtime.spawn(f)");
    let reply = bridge.run("open('go', 'w').close()\njob.wait()\njob.result").text;
    assert!(
        reply.contains("the run that started this job has ended, so that nobody can be asked"),
        "{reply}"
    );
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn calls_of_a_job_end_with_it(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    bridge.ok("job = runtime.spawn(mcp_fixture.hang())");
    eventually("it calls", PATIENCE, || fixture.ledger().iter().any(|line| line.starts_with("call hang")));
    assert!(bridge.ok("job.cancel()").starts_with("'cancelled'"));
    eventually("the server hears of it", PATIENCE, || {
        fixture.ledger().iter().any(|line| line.starts_with("cancelled"))
    });
    // A frame that is forged in the name of a job that has ended reaches nobody.
    let forged = "import os\nfor fd in range(3, 100):\n  try:\n    os.write(fd, b'J1{\"type\":\"call\",\"run\":2,\"call\":7,\"server\":\
                  \"fixture\",\"tool\":\"echo\",\"arguments\":{\"text\":\"forged\"}}\\n')\n  except OSError: pass";
    bridge.run(forged);
    bridge.run("None");
    assert!(!fixture.ledger().iter().any(|line| line.contains("forged")), "{:?}", fixture.ledger());
}

fn a_call_of_a_job_that_is_being_ended_is_refused_at_once(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = bridge(engine, &fixture);
    bridge.ok(
        "import time\ndef f():\n  try: open('begun', 'w'); time.sleep(600)\n  except KeyboardInterrupt:\n    \
         try: mcp_fixture.echo.sync(text='x')\n    except Exception as e: print(type(e).__name__, e)\n\
         job = runtime.spawn(f)",
    );
    eventually("it has begun", PATIENCE, || bridge.ok("import os\nos.path.exists('begun')") == "True");
    bridge.ok("job.cancel();");
    let refused = "'MCPError the job is being ended, or has too many calls under way\\n'";
    assert_eq!(bridge.ok("job.tail()"), refused);
    assert_eq!(fixture.ledger(), [""; 0]);
}

fn jobs_are_in_the_log_and_the_journal_and_are_not_started_by_a_replay(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("async def f():\n  return await mcp_fixture.echo(text='job')\njob = runtime.spawn(f, name='asks')\nprint(await job)");
    bridge.ok("job.result");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    drop(bridge);
    let shown = home.run(&["session", "show", "last"]).stdout;
    assert!(
        shown.contains("  job 1 'asks', ")
            && shown.contains("    call fixture.echo {\"text\":\"job\"}: answered"),
        "{shown}"
    );
    assert!(shown.contains("    finished, "), "{shown}");
    let logged = home.run(&["log"]).stdout;
    assert!(logged.lines().any(|line| line.contains("fixture.echo") && line.contains("job 1")), "{logged}");
    let calls = fixture.ledger().len();
    let replayed = home.run(&["session", "replay", "last"]);
    assert_eq!(fixture.ledger().len(), calls, "{} {}", replayed.stdout, replayed.stderr);
    assert_eq!(replayed.code, Some(0), "{} {}", replayed.stdout, replayed.stderr);
}

fn a_bridge_that_is_killed_leaves_no_job(engine: &Engine) {
    let home = Home::on(engine);
    let name = home.path().file_name().unwrap().to_str().unwrap().to_owned();
    let home = home.env("BELLJAR_TEST", &name);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(&format!("{LOOP}job = runtime.spawn(loop)"));
    let owners = home.owners();
    bridge.signal(Signal::SIGKILL);
    bridge.wait(PATIENCE);
    eventually("the container goes with its jobs", PATIENCE, || engine.containers_of(&owners).is_empty());
    eventually("its own processes go", PATIENCE, || marked("BELLJAR_TEST", &name).is_empty());
}

fn a_job_gets_no_server_that_is_configured_after_its_run(engine: &Engine) {
    let (fixture, later) = (Fixture::new(&[]), Fixture::new(&[]));
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(
        "import os, time\ndef f():\n  while not os.path.exists('go'): time.sleep(0.01)\n  said = []\n  \
         for server in ['later', 'fixture']:\n    \
         try: said.append(runtime.call_tool_sync(server, 'echo', {'text': 'job'}))\n    \
         except runtime.MCPError as e: said.append(e.code)\n  return said\njob = runtime.spawn(f)",
    );
    let _home = home.file("MCPs/more.json", &json!({"mcpServers": {"later": later.entry()}}).to_string());
    let reply = bridge.ok("open('go', 'w').close()\nprint(await job, await mcp_later.echo(text='run'))");
    assert!(reply.starts_with("['server_unavailable', 'job'] run"), "{reply}");
    assert_eq!(later.ledger(), [r#"call echo {"text":"run"}"#]);
}

fn what_a_job_plans_reads_and_is_warned_of_is_its_own(engine: &Engine) {
    let fixture = Fixture::new(&["--resources"]);
    let policy = "[[rule]]\ntool = \"echo\"\ndecision = \"warn\"\n";
    let home =
        Home::on(engine).server("fixture", fixture.entry()).file(".config/belljar/policy.toml", policy);
    let mut bridge = Bridge::start(&home).warm();
    let work = "import os, time\ndef until(name):\n  while not os.path.exists(name): time.sleep(0.01)\n\
                def f():\n  until('go')\n  mcp_fixture.echo.sync(text='job')\n  \
                runtime.read_resource_sync('fixture://text', 'fixture')\n  open('called', 'w').close()\n  until('end')\n\
                def tidy():\n  for name in 'go', 'called', 'end': os.path.exists(name) and os.remove(name)\n";
    let its_own = |note: &str, bridge: &mut Bridge| {
        let note = format!("note: {note}");
        // It calls in a run that has nothing to do with it.
        let unrelated = bridge.ok("open('go', 'w').close()\nuntil('called')");
        assert!(!unrelated.contains("job") && !unrelated.contains("calls that were not made"), "{unrelated}");
        let related = bridge.ok("open('end', 'w').close()\njob.wait()\ntidy()");
        assert!(related.contains(&note) && !related.contains("calls that were not made"), "{related}");
        assert!(!bridge.ok("None").contains(&note), "once");
    };
    bridge.ok(&format!("{work}job = runtime.spawn(f)"));
    its_own("job 1: fixture.echo was called: ", &mut bridge);
    // Of a plan that has ended by the time that the job goes on.
    bridge.ok("with runtime.plan():\n  job = runtime.spawn(f)");
    its_own("job 2: fixture.echo was planned and not called", &mut bridge);
    // Of a job whose run has not ended yet.
    let reply = bridge.ok("open('go', 'w').close()\njob = runtime.spawn(f)\nuntil('called')");
    assert!(reply.contains("note: job 3: fixture.echo was called: "), "{reply}");
    assert!(!bridge.ok("open('end', 'w').close()\njob.wait()").contains("note: job 3: "), "once");
    // What it plans in the meantime is listed with the run's calls, as the job's.
    let reply = bridge
        .ok("def g(): mcp_fixture.echo.sync(text='job')\nwith runtime.plan():\n  job = runtime.spawn(g)\n  \
         await mcp_fixture.echo(text='run')\n  job.wait()");
    for (listed, times) in [("fixture.echo (its server", 2), ("job 4: fixture.echo (its server", 1)] {
        assert_eq!(reply.matches(listed).count(), times, "{reply}");
    }
    let logged = home.run(&["log", "--json"]).stdout;
    let readings = logged.lines().filter(|line| line.contains("resources/read"));
    let of_job = readings.filter(|line| line.contains("\"job\":"));
    assert_eq!(of_job.count(), 3, "{logged}");
    let of_runs = logged.lines().filter(|line| line.contains("\"code_bytes\":"));
    assert!(
        of_runs.clone().count() > 5 && of_runs.clone().all(|line| line.contains("\"readings\":0")),
        "{logged}"
    );
}
