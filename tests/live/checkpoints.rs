//! Checkpoints of a live session: gone back to any number of times, bounded, and made again from the journal when their sandbox
//! has gone.

use serde_json::json;

use crate::support::bridge::Reply;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    a_checkpoint_in_the_middle_of_a_run_holds_what_was_there_then,
    checkpoints_outlive_a_timeout_a_crash_and_a_reset,
    a_name_that_is_not_there_is_an_error_that_names_those_that_are,
    checkpoints_are_bounded_in_number_and_memory,
    after_the_container_they_are_made_again_without_a_call,
    what_is_made_again_takes_no_later_place_and_does_not_grow,
    one_that_cannot_be_made_again_leaves_everything_as_it_was_each_time,
    jobs_go_on_when_a_session_goes_back_and_have_no_checkpoints,
    files_and_state_stay_as_they_are_when_one_is_made_again,
    what_came_otherwise_or_was_left_out_on_the_way_is_said,
    a_run_behind_one_that_goes_back_begins_when_that_has_gone_back,
    one_that_was_lost_is_not_made_again_over_jobs_that_run_or_a_name_of_the_code_s_own,
    without_what_the_journal_needs_it_is_an_error_and_the_session_goes_on,
    a_call_that_comes_otherwise_ends_it_and_variables_are_as_before,
    code_that_kills_its_checkpoints_has_them_made_again,
    a_session_that_goes_on_from_another_one_has_its_checkpoints,
);

on_every_container_engine!(a_session_goes_back_to_a_checkpoint_any_number_of_times,);

fn warm(engine: &Engine) -> Bridge {
    Bridge::start(&Home::on(engine)).warm()
}

fn from(bridge: &mut Bridge, name: &str, code: &str) -> Reply {
    bridge.run_with(json!({"code": code, "checkpoint": name}))
}

/// What was said before the notes.
fn said(reply: &Reply) -> &str {
    reply.text.split("\nnote: ").next().unwrap()
}

fn calls(fixture: &Fixture) -> usize {
    fixture.ledger().iter().filter(|event| event.starts_with("call ")).count()
}

fn lose_container(engine: &Engine, home: &Home, bridge: &Bridge) {
    let ours = engine.containers_of(&home.owners());
    assert_eq!(ours.len(), 1);
    engine.kill_container(&ours[0]);
    bridge.says("went away");
    eventually("the container goes", PATIENCE, || !engine.containers_of(&home.owners()).contains(&ours[0]));
}

fn a_session_goes_back_to_a_checkpoint_any_number_of_times(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok(
        "import pandas as pd\ntable = pd.DataFrame({'n': range(1000)})\nopen('kept.txt', 'w').write('1');",
    );
    assert_eq!(bridge.ok("x = 1\nruntime.checkpoint('clean')"), "\"checkpoint 'clean'\"");
    for _ in 0..3 {
        bridge.ok("table.drop(columns='n', inplace=True)\nx = 2\nopen('kept.txt', 'w').write('2');");
        let reply = bridge.run("print('so far')\nruntime.restore('clean')\nprint('never')");
        assert!(!reply.is_error, "{}", reply.text);
        assert_eq!(
            reply.text,
            "so far\nstate: variables as at the checkpoint\nnote: variables are as at checkpoint 'clean' (run 3, line \
             2); files in /workspace are not changed by going back"
        );
        assert_eq!(bridge.ok("x, table.n.sum(), open('kept.txt').read()"), "(1, np.int64(499500), '2')");
        let reply = from(&mut bridge, "clean", "x += 1\nx");
        assert_eq!(said(&reply), "2");
        assert!(reply.text.contains("note: variables are as at checkpoint 'clean'"), "{}", reply.text);
        assert_eq!(bridge.ok("x"), "2", "the run went on from there");
    }
    let listed = bridge.ok("print(runtime.checkpoints())");
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["name", "made", "in", "age", "interpreter"]);
    assert!(lines[1].starts_with("'clean'  run 3, line 2  ") && lines[1].ends_with(" MiB"), "{listed}");
    bridge.ok("runtime.forget_checkpoint('clean')");
    assert_eq!(bridge.ok("print(runtime.checkpoints())"), "no checkpoints");
}

fn a_checkpoint_in_the_middle_of_a_run_holds_what_was_there_then(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("one", fixture.entry())).warm();
    let code = "seen = []\n\
                async def work(n):\n\
                \x20   try:\n\
                \x20       seen.append(await mcp_one.echo(text='before'))\n\
                \x20       if n == 1:\n\
                \x20           runtime.checkpoint('inside')\n\
                \x20       seen.append(await mcp_one.echo(text='after'))\n\
                \x20   finally:\n\
                \x20       seen.append('end')\n\
                import asyncio\n\
                for n in range(2): await asyncio.gather(work(n))\n\
                seen";
    let whole = "['before', 'after', 'end', 'before', 'after', 'end']";
    assert_eq!(bridge.ok(code), whole);
    let made = calls(&fixture);
    for _ in 0..2 {
        let reply = from(&mut bridge, "inside", "seen");
        assert_eq!(said(&reply), "['before', 'after', 'end', 'before']");
        assert!(reply.text.contains("(run 2, line 6)"), "{}", reply.text);
        let code = "def f(): seen.clear(); runtime.restore('inside')\ntry: f()\nexcept Exception: pass\n1/0";
        let reply = bridge.run(code);
        assert!(!reply.is_error && reply.text.starts_with("state: variables as at"), "{}", reply.text);
        assert_eq!(bridge.ok("await asyncio.sleep(0, len(seen))"), "4");
    }
    assert_eq!(calls(&fixture), made, "nothing of the run goes on");
    assert_eq!(bridge.ok("await work(0)\nseen[-3:]"), "['before', 'after', 'end']");
    assert_eq!(calls(&fixture), made + 2);
}

fn checkpoints_outlive_a_timeout_a_crash_and_a_reset(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok("x = 1\nruntime.checkpoint('a');");
    bridge.ok("x = 2");
    let stuck = "import time\nx = 3\nwhile True:\n  try:\n    while True: time.sleep(1)\n  except KeyboardInterrupt: pass";
    let reply = bridge.run_with(json!({"code": stuck, "timeout": 1}));
    assert!(reply.text.ends_with("state: variables as before this run"), "{}", reply.text);
    assert_eq!(said(&from(&mut bridge, "a", "x")), "1");
    let reply = bridge.run("import os\nx = 4\nos._exit(7)");
    assert!(reply.text.contains("the interpreter exited (7)"), "{}", reply.text);
    assert_eq!(said(&from(&mut bridge, "a", "x")), "1");
    assert!(bridge.run_with(json!({"code": "'x' in globals()", "reset": true})).text.starts_with("False"));
    assert_eq!(said(&from(&mut bridge, "a", "x")), "1");
    // As the first thing that goes wrong after it.
    assert_eq!(said(&from(&mut bridge, "a", "x = 5\nx")), "5");
    bridge.run("os._exit(1)");
    bridge.run("import os\nos._exit(1)");
    assert_eq!(bridge.ok("x"), "5");
}

fn a_name_that_is_not_there_is_an_error_that_names_those_that_are(engine: &Engine) {
    let mut bridge = warm(engine);
    let reply = from(&mut bridge, "clean", "1");
    assert!(reply.is_error);
    assert!(reply.text.contains("there is no checkpoint 'clean'"), "{}", reply.text);
    assert!(reply.text.contains("none has been made: runtime.checkpoint(name) makes one"), "{}", reply.text);
    bridge.ok("x = 1\nruntime.checkpoint('cleaned');");
    let reply = bridge.run("x = 2\nruntime.restore('clean')");
    assert!(reply.is_error && reply.text.contains("there is no checkpoint 'clean'"), "{}", reply.text);
    assert!(reply.text.contains("did you mean 'cleaned'? there are: 'cleaned'"), "{}", reply.text);
    assert_eq!(bridge.ok("x"), "2", "the session goes on as it is");
    let reply = from(&mut bridge, "\u{1b}[2J\nnote: forged", "x");
    assert!(reply.text.contains("there is no checkpoint '\\x1b[2J note: forged'"), "{}", reply.text);
    let reply = bridge.run_with(json!({"code": "1", "reset": 1}));
    assert!(reply.text.contains("it must be true or false"), "{}", reply.text);
    assert_eq!(bridge.ok("x"), "2");
}

fn checkpoints_are_bounded_in_number_and_memory(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_CHECKPOINTS", "2")).warm();
    bridge.ok("for name in 'aab': runtime.checkpoint(name)");
    let reply = bridge.run("runtime.checkpoint('c')");
    assert!(
        reply.text.contains("there are 2 checkpoints already (a, b), which is the limit"),
        "{}",
        reply.text
    );
    bridge.ok("runtime.forget_checkpoint('a')\nruntime.checkpoint('c');");
    bridge.ok("import os\nblock = os.urandom(200 << 20)");
    let reply = bridge.run("runtime.checkpoint('c')");
    assert!(reply.text.contains("more than the limit of 384 MiB"), "{}", reply.text);
    bridge.ok("del block");
    bridge.ok("runtime.checkpoint('c');");
    assert_eq!(said(&from(&mut bridge, "b", "'block' in globals()")), "False");
}

fn after_the_container_they_are_made_again_without_a_call(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("total = await mcp_one.add(a=20, b=1)");
    bridge.ok(
        "total['sum'] += (await mcp_one.add(a=1, b=1))['sum']\nruntime.checkpoint('summed')\ntotal = None",
    );
    bridge.ok("total = 'later'");
    let made = calls(&fixture);
    assert_eq!(made, 2);
    lose_container(engine, &home, &bridge);
    let reply = from(&mut bridge, "summed", "total");
    assert_eq!(said(&reply), "{'sum': 23.0}", "{}", reply.text);
    let again = "note: checkpoint 'summed' was lost with its sandbox, and made again from the journal: 3 runs, 2 recorded \
                 calls";
    assert!(reply.text.contains(again), "{}", reply.text);
    assert_eq!(calls(&fixture), made, "no server was asked");
    // It sleeps again.
    assert_eq!(said(&from(&mut bridge, "summed", "total['sum']")), "23.0");
    lose_container(engine, &home, &bridge);
    let reply = bridge.run("print('in between')\nruntime.restore('summed')");
    assert!(!reply.is_error, "{}", reply.text);
    assert!(reply.text.starts_with("in between\nstate: variables as at the checkpoint\n"), "{}", reply.text);
    assert!(reply.text.contains("made again from the journal: "), "{}", reply.text);
    assert_eq!(bridge.ok("total"), "{'sum': 23.0}");
    assert_eq!(bridge.ok("[one['name'] for one in runtime.checkpoints()]"), "['summed']");
    assert_eq!(calls(&fixture), made);
    assert_eq!(bridge.ok("(await mcp_one.add(a=1, b=1))['sum']"), "2.0");
    assert_eq!(calls(&fixture), made + 1, "servers are asked again");
}

fn what_is_made_again_takes_no_later_place_and_does_not_grow(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("v = 1\nruntime.checkpoint('a')");
    bridge.ok("v = 2\nruntime.checkpoint('b')");
    lose_container(engine, &home, &bridge);
    bridge.ok("v = 100\nruntime.checkpoint('a')");
    assert_eq!(said(&from(&mut bridge, "b", "v")), "2");
    assert_eq!(said(&from(&mut bridge, "a", "v")), "100", "the later one of that name");
    let mut numbers = vec![];
    for _ in 0..4 {
        lose_container(engine, &home, &bridge);
        let reply = from(&mut bridge, "b", "v");
        assert_eq!(said(&reply), "2", "{}", reply.text);
        let number = reply.text.split("from the journal: ").nth(1).unwrap().split(' ').next().unwrap();
        numbers.push(number.parse::<u32>().unwrap());
        assert_eq!(bridge.ok("sorted(one['name'] for one in runtime.checkpoints())"), "['a', 'b']");
    }
    // Those that led there, and not those that were made again on the way.
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
}

fn one_that_cannot_be_made_again_leaves_everything_as_it_was_each_time(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").env("MCP_BRIDGE_CHECKPOINTS", "2");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok(
        "import os\nif not os.path.exists('once'): runtime.checkpoint('once')\nopen('once', 'w').close()",
    );
    lose_container(engine, &home, &bridge);
    for value in ["first", "second"] {
        bridge.ok(&format!("x = '{value}'"));
        let reply = from(&mut bridge, "once", "x");
        assert!(reply.text.contains("its run did not make it this time"), "{}", reply.text);
        assert!(reply.text.contains("variables are as before"), "{}", reply.text);
        assert_eq!(
            bridge.ok("x, [one['name'] for one in runtime.checkpoints()]"),
            format!("('{value}', ['once'])")
        );
    }
    // Without room for what there is, it is not begun.
    bridge.ok("runtime.checkpoint('one')\nruntime.checkpoint('two')");
    let reply = from(&mut bridge, "once", "x");
    assert!(
        reply.text.contains("the variables that there are now cannot be kept meanwhile"),
        "{}",
        reply.text
    );
    assert_eq!(bridge.ok("x"), "'second'");
}

fn jobs_go_on_when_a_session_goes_back_and_have_no_checkpoints(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok("import os, time\nx = 1\nruntime.checkpoint('before')\n\
               def f():\n  while not os.path.exists('go'): time.sleep(0.01)\n  return x\n\
               x = 2\njob = runtime.spawn(f)\nruntime.checkpoint('after')");
    assert_eq!(said(&from(&mut bridge, "before", "x")).lines().next(), Some("1"));
    assert!(bridge.ok("'job' in globals(), runtime.job(1).status").starts_with("(False, 'running')"));
    let reply = from(&mut bridge, "after", "open('go', 'w').close()\nawait job");
    assert!(!reply.is_error && reply.text.starts_with('2'), "{}", reply.text);
    for call in ["checkpoint('x')", "restore('before')", "checkpoints()", "forget_checkpoint('before')"] {
        let reply = bridge.run(&format!("await runtime.spawn(lambda: runtime.{call})"));
        assert!(
            reply.text.contains("a job has no checkpoints: they are made, and gone back to, in a run"),
            "{}",
            reply.text
        );
    }
    assert!(bridge.ok("[one['name'] for one in runtime.checkpoints()]").starts_with("['before', 'after']"));
}

fn files_and_state_stay_as_they_are_when_one_is_made_again(engine: &Engine) {
    let home = Home::on(engine).env("MCP_BRIDGE_WORKSPACE", "kept");
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("runtime.state['v'] = runtime.state.get('v', 0) + 1\nopen('d.txt', 'w').write('old')\n\
               with open('l.txt', 'a') as file: file.write('one ')\nx = 1\nruntime.checkpoint('c');");
    bridge.ok("runtime.state['v'] = 20\nopen('d.txt', 'w').write('NEW')\nopen('e.txt', 'w').write('e')\n\
               import os; os.makedirs('in/deep'); open('in/deep/f', 'w').write('f');");
    let look =
        "print(x, runtime.state['v'], *(open(n).read() for n in ('d.txt', 'l.txt', 'e.txt', 'in/deep/f')))";
    lose_container(engine, &home, &bridge);
    let reply = from(&mut bridge, "c", look);
    assert_eq!(said(&reply).lines().next(), Some("1 20 NEW one  e f"), "{}", reply.text);
    // And on the host.
    let file = |name: &str| home.run(&["files", "get", name, "-"]).stdout;
    assert_eq!((file("d.txt"), file("l.txt"), file("in/deep/f")), ("NEW".into(), "one ".into(), "f".into()));
    lose_container(engine, &home, &bridge);
    assert!(
        bridge
            .ok("open('d.txt').read(), open('l.txt').read(), runtime.state['v']")
            .starts_with("('NEW', 'one ', 20)")
    );

    // One that cannot be made again leaves them as well.
    let once = "if runtime.state['v'] == 20: runtime.checkpoint('once')\nruntime.state['v'] += 1\n\
                with open('l.txt', 'a') as file: file.write('two ')";
    bridge.ok(once);
    lose_container(engine, &home, &bridge);
    let failed = from(&mut bridge, "once", "x");
    assert!(failed.is_error && failed.text.contains("its run did not make it this time"), "{}", failed.text);
    assert!(bridge.ok("open('l.txt').read(), runtime.state['v']").starts_with("('one two ', 21)"));
    assert_eq!(file("l.txt"), "one two ");
}

fn what_came_otherwise_or_was_left_out_on_the_way_is_said(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("import random, time\nr = random.random()\nprint(r)\nruntime.checkpoint('random');");
    let run = bridge.send_run(json!({"code": "y = 2\nprint('y')\ntime.sleep(60)"}));
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    bridge.notify("notifications/cancelled", json!({"requestId": run}));
    bridge.ok("runtime.checkpoint('later');");
    lose_container(engine, &home, &bridge);
    let reply = from(&mut bridge, "random", "x = 1").text;
    assert!(reply.contains(" recorded calls; run 2 came otherwise than before"), "{reply}");
    let reply = from(&mut bridge, "later", "'y' in globals()").text;
    assert!(reply.contains("; run 3 was left out: it was cancelled, and when is not known"), "{reply}");
}

fn a_run_behind_one_that_goes_back_begins_when_that_has_gone_back(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = 1\nruntime.checkpoint('a');");
    lose_container(engine, &home, &bridge);
    bridge.run("x = 2");
    let back = bridge.send_run(json!({"code": "import time\ntime.sleep(1)\nruntime.restore('a')"}));
    let behind = bridge.send_run(json!({"code": "important = 7\nx"}));
    assert!(bridge.reply(back).text.contains("variables as at the checkpoint"));
    assert!(bridge.reply(behind).text.starts_with('1'));
    assert!(bridge.ok("x, important").starts_with("(1, 7)"));
}

fn one_that_was_lost_is_not_made_again_over_jobs_that_run_or_a_name_of_the_code_s_own(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = 1\nruntime.checkpoint('a');");
    lose_container(engine, &home, &bridge);
    bridge.run("import time\njob = runtime.spawn(time.sleep, 600)");
    let reply = from(&mut bridge, "a", "x");
    assert!(reply.is_error && reply.text.contains("the jobs that run would end by that"), "{}", reply.text);
    assert!(bridge.ok("job.status, job.cancel()").starts_with("('running', 'cancelled')"));
    bridge.ok("own = 3\nruntime.checkpoint('(before going back)');");
    let reply = from(&mut bridge, "a", "x");
    assert!(
        reply.is_error && reply.text.contains("a checkpoint of the code's own has the name"),
        "{}",
        reply.text
    );
    assert_eq!(said(&from(&mut bridge, "(before going back)", "own")).lines().next(), Some("3"));
    bridge.ok("runtime.forget_checkpoint('(before going back)')");
    assert_eq!(said(&from(&mut bridge, "a", "x")).lines().next(), Some("1"));
}

fn without_what_the_journal_needs_it_is_an_error_and_the_session_goes_on(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    for (journal, why) in
        [("off", "no journal of this session is kept"), ("calls", "one.add was answered with ")]
    {
        let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", journal).server("one", fixture.entry());
        let mut bridge = Bridge::start(&home).warm();
        bridge.ok("y = await mcp_one.add(a=20, b=1)\nruntime.checkpoint('a');");
        lose_container(engine, &home, &bridge);
        bridge.run("x = 1");
        for reply in [from(&mut bridge, "a", "x = 2"), bridge.run("runtime.restore('a')")] {
            assert!(reply.is_error, "{}", reply.text);
            assert!(
                reply.text.contains("checkpoint 'a' was lost with its sandbox, and cannot be made again: "),
                "{}",
                reply.text
            );
            assert!(
                reply.text.contains(why) && reply.text.contains("MCP_BRIDGE_JOURNAL=full"),
                "{}",
                reply.text
            );
        }
        assert_eq!(bridge.ok("x"), "1");
    }
}

fn a_call_that_comes_otherwise_ends_it_and_variables_are_as_before(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("import random\ny = await mcp_one.echo(text=str(random.random()))\nruntime.checkpoint('a');");
    let made = calls(&fixture);
    lose_container(engine, &home, &bridge);
    bridge.run("x = 1");
    let reply = from(&mut bridge, "a", "x = 2");
    assert!(reply.is_error && reply.text.contains("cannot be made again: run 2: "), "{}", reply.text);
    assert!(reply.text.contains("variables are as before"), "{}", reply.text);
    assert_eq!(bridge.ok("x, 'y' in globals()"), "(1, False)");
    assert_eq!(calls(&fixture), made, "no server was asked");
}

fn code_that_kills_its_checkpoints_has_them_made_again(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok("x = 1\nruntime.checkpoint('a');");
    bridge.ok("import os\nx = 2");
    bridge.run("os.kill(-1, 9)");
    let reply = from(&mut bridge, "a", "x");
    assert!(reply.text.contains("checkpoint 'a'"), "{}", reply.text);
    let reply = if reply.is_error { from(&mut bridge, "a", "x") } else { reply };
    assert_eq!(said(&reply), "1", "{}", reply.text);
    assert!(reply.text.contains("made again from the journal: 2 runs, 0 recorded calls"), "{}", reply.text);
}

fn a_session_that_goes_on_from_another_one_has_its_checkpoints(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).env("MCP_BRIDGE_JOURNAL", "full").server("one", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = (await mcp_one.add(a=1, b=1))['sum']\nruntime.checkpoint('a')\nx = 'later'");
    assert_eq!(said(&from(&mut bridge, "a", "x += 1\nx")), "3.0");
    bridge.ok("y = 5");
    bridge.hang_up();
    bridge.wait(PATIENCE);
    let made = calls(&fixture);
    let home = home.env("MCP_BRIDGE_RESUME", "last");
    let mut bridge = Bridge::start(&home).warm();
    assert_eq!(bridge.ok("x, y"), "(3.0, 5)");
    assert_eq!(said(&from(&mut bridge, "a", "x")), "2.0");
    assert_eq!(calls(&fixture), made);
}
