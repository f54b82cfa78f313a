//! The interpreter's state: what stays from run to run, and what is said when it does not.

use serde_json::json;

use crate::support::{Bridge, Engine, Fixture, Home};
use crate::{on_every_container_engine, on_every_engine};

on_every_engine!(
    variables_imports_and_functions_stay_for_the_next_run,
    the_value_of_a_last_expression_is_the_reply,
    await_works_at_the_top_level_and_asyncio_run_inside,
    an_exception_is_shown_with_its_line_and_keeps_variables,
    an_exit_code_is_told_and_keeps_variables,
    reset_gives_a_fresh_interpreter_in_the_same_container,
    a_run_that_kills_the_interpreter_is_rolled_back,
    without_rollback_an_interpreter_that_ends_itself_is_said_to_be_lost,
    memory_that_is_not_there_is_an_exception_and_keeps_variables,
    a_real_lack_of_memory_costs_the_run_only_and_is_named,
    runs_of_one_client_wait_for_each_other_in_order,
    two_bridges_side_by_side_share_nothing,
);

on_every_container_engine!(what_is_large_is_rolled_back_as_well,);

fn warm(engine: &Engine) -> Bridge {
    Bridge::start(&Home::on(engine)).warm()
}

fn variables_imports_and_functions_stay_for_the_next_run(engine: &Engine) {
    let mut bridge = warm(engine);
    assert_eq!(bridge.ok("import math\nx = 41\ndef f(): return x + 1"), "x = 41\nf: function ()");
    assert_eq!(bridge.ok("print(f(), math.floor(2.5))"), "42 2");
    assert_eq!(bridge.ok("x = 1\nf()"), "2");
}

fn the_value_of_a_last_expression_is_the_reply(engine: &Engine) {
    let mut bridge = warm(engine);
    assert_eq!(bridge.ok("1 + 1"), "2");
    assert_eq!(bridge.ok("print('first')\n[1, 'two']"), "first\n[1, 'two']");
    assert_eq!(bridge.ok("None"), "(no output)");
    assert_eq!(bridge.ok("1 + 1;"), "(no output)");
}

fn await_works_at_the_top_level_and_asyncio_run_inside(engine: &Engine) {
    let mut bridge = warm(engine);
    let gather = "import asyncio\nawait asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))";
    assert_eq!(bridge.ok(gather), "[1, 2]");
    assert_eq!(bridge.ok("asyncio.run(asyncio.sleep(0, 'ok'))"), "'ok'");
    assert_eq!(
        bridge.ok("async def f(): return [i async for i in g()]\nasync def g():\n  yield 7\nawait f()"),
        "[7]"
    );
}

fn an_exception_is_shown_with_its_line_and_keeps_variables(engine: &Engine) {
    let mut bridge = warm(engine);
    let reply = bridge.run("kept = 5\ndef f():\n    return {}['missing']\nprint('before')\nf()");
    assert!(reply.is_error);
    let head = "status: error\nexit: 1\nbefore\nTraceback (most recent call last):\n";
    assert!(reply.text.starts_with(head), "{}", reply.text);
    assert!(reply.text.contains("line 3, in f\n    return {}['missing']"), "{}", reply.text);
    assert!(reply.text.ends_with("\nKeyError: 'missing'\nstate: variables kept"), "{}", reply.text);
    assert!(!reply.text.contains("belljar"), "{}", reply.text);
    assert_eq!(bridge.ok("kept"), "5");
    let reply = bridge.run("1 +");
    assert!(reply.text.contains("SyntaxError: invalid syntax"), "{}", reply.text);
    assert_eq!(bridge.ok("kept"), "5");
}

fn an_exit_code_is_told_and_keeps_variables(engine: &Engine) {
    let mut bridge = warm(engine);
    let reply = bridge.run("import sys\nkept = 5\nprint('part')\nsys.exit(3)");
    assert!(reply.is_error);
    assert_eq!(reply.text, "status: error\nexit: 3\npart\nerror: SystemExit(3)\nstate: variables kept");
    assert_eq!(bridge.ok("kept"), "5");
    assert_eq!(bridge.ok("print('all')\nsys.exit()"), "all");
}

fn reset_gives_a_fresh_interpreter_in_the_same_container(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("x = 1");
    let containers = engine.containers_of(&home.owners());
    assert_eq!(containers.len(), 1);
    let reply = bridge.run_with(json!({"code": "'x' in globals()", "reset": true}));
    assert_eq!(reply.text, "False\nstate: fresh interpreter, as requested by reset");
    assert_eq!(engine.containers_of(&home.owners()), containers);
    assert_eq!(bridge.ok("y = 2\n'x' in globals()"), "False");
    assert_eq!(bridge.ok("y"), "2");
}

fn without_rollback_an_interpreter_that_ends_itself_is_said_to_be_lost(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine).env("MCP_BRIDGE_ROLLBACK", "0")).warm();
    let lost = "state: variables lost; the next run starts with a fresh interpreter";
    let fresh = "state: fresh interpreter: the previous one was lost; earlier variables are gone";
    let reply = bridge.run("import os\nprint('last words', flush=True)\nos._exit(7)");
    assert_eq!(
        reply.text,
        format!(
            "status: error\nexit: 7\nlast words\nerror: the interpreter exited (7) in the middle of the run\n{lost}"
        )
    );
    let reply = bridge.ok("'os' in globals()");
    assert!(reply.starts_with(&format!("False\n{fresh}\nnote: ")), "{reply}");
    let reply = bridge.run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)");
    assert_eq!(
        reply.text,
        format!("status: error\nexit: 139\nerror: the interpreter was killed by signal 11\n{lost}")
    );
    let reply = bridge.ok("1");
    assert!(reply.starts_with(&format!("1\n{fresh}\nnote: ")), "{reply}");
    assert_eq!(bridge.ok("2"), "2");
}

fn a_run_that_kills_the_interpreter_is_rolled_back(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("import ctypes, os, signal\nseen = ['first']\nasync def later(): return seen[-1]");
    // Also where code makes its process one that nobody may look at.
    bridge.ok("ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)");
    // Whoever tries the same again loses nothing either.
    for _ in 0..3 {
        let reply = bridge.run("os._exit(1)");
        assert!(reply.text.ends_with("state: variables as before this run"), "{}", reply.text);
        std::thread::park_timeout(std::time::Duration::from_millis(300));
    }
    for (death, end) in [
        ("os._exit(7)", "exit: 7\nlast words\nerror: the interpreter exited (7) in the middle of the run"),
        ("os.kill(os.getpid(), 9)", "exit: 137\nlast words\nerror: the interpreter was killed by signal 9"),
        ("ctypes.string_at(0)", "exit: 139\nlast words\nerror: the interpreter was killed by signal 11"),
        (
            "os.kill(-1, 9); os._exit(3)",
            "exit: 3\nlast words\nerror: the interpreter exited (3) in the middle of the run",
        ),
    ] {
        let reply = bridge.run(&format!(
            "seen.append('lost')\nos.makedirs('x', exist_ok=True)\nprint('last words', flush=True)\n{death}"
        ));
        if death.contains("-1") {
            // The copy was killed as well.
            assert!(
                reply.text.ends_with("state: variables lost; the next run starts with a fresh interpreter"),
                "{}",
                reply.text
            );
            break;
        }
        assert_eq!(reply.text, format!("status: error\n{end}\nstate: variables as before this run"));
        assert_eq!(bridge.ok("print(seen, await later(), mcp_fixture.echo.sync(text='call'), await mcp_fixture.echo(text='again'))"), "['first'] first call again");
        bridge.ok("seen.append('kept'); seen.pop();");
    }
}

fn what_is_large_is_rolled_back_as_well(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok("import os\nimport pandas as pd\ntable = pd.DataFrame({'n': range(1000)})\nblock = os.urandom(60 << 20)");
    bridge.ok("check = hash(block)");
    // Copied when nobody waits.
    bridge.ok("import time; time.sleep(0)");
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    let reply = bridge.run("del table, block\nos._exit(1)");
    assert!(reply.text.ends_with("state: variables as before this run"), "{}", reply.text);
    assert_eq!(bridge.ok("print(int(table.n.sum()), hash(block) == check)"), "499500 True");
}

fn memory_that_is_not_there_is_an_exception_and_keeps_variables(engine: &Engine) {
    let mut bridge = warm(engine);
    let reply = bridge.run("kept = 5\nx = bytearray(10**10)");
    assert!(
        reply.text.contains("\nMemoryError\n") && reply.text.ends_with("\nstate: variables kept"),
        "{}",
        reply.text
    );
    assert_eq!(bridge.ok("kept"), "5");
}

fn a_real_lack_of_memory_costs_the_run_only_and_is_named(engine: &Engine) {
    let home = Home::on(engine);
    let mut bridge = Bridge::start(&home).warm();
    let containers = engine.containers_of(&home.owners());
    bridge.ok("kept = 5");
    let posture = "open('/sys/fs/cgroup/memory/memory.limit_in_bytes').read().strip() == str(512 << 20)";
    if bridge.run(posture).text != "True" {
        // Nothing here enforces the limit, and the first reply has said so.
        assert!(engine.is_rootless());
        return;
    }
    // Shared memory is what the limit of the data segment does not count.
    let reply = bridge
        .run("import mmap\nblock = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): block[at] = 1");
    assert_eq!(
        reply.text,
        "status: error\nexit: 137\nerror: the interpreter was killed because the sandbox ran out of memory\n\
         state: variables as before this run"
    );
    assert_eq!(bridge.ok("print(kept)"), "5");
    assert_eq!(engine.containers_of(&home.owners()), containers);
}

fn runs_of_one_client_wait_for_each_other_in_order(engine: &Engine) {
    let mut bridge = warm(engine);
    bridge.ok("seen = []");
    let code = |number: usize| {
        format!("import time\nseen.append({number}); print({number})\ntime.sleep(0.02)\nseen[-1]")
    };
    let ids: Vec<i64> = (0..10).map(|number| bridge.send_run(json!({"code": code(number)}))).collect();
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(bridge.reply(id).text, format!("{number}\n{number}"));
    }
    assert_eq!(bridge.ok("seen"), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
}

fn two_bridges_side_by_side_share_nothing(engine: &Engine) {
    let home = Home::on(engine);
    let mut first = Bridge::start(&home).warm();
    let mut second = Bridge::start(&home).warm();
    assert_eq!(engine.containers_of(&home.owners()).len(), 2);
    first.ok("x = 1");
    assert_eq!(second.ok("'x' in globals()"), "False");
    first.hang_up();
    first.wait(std::time::Duration::from_secs(3));
    assert_eq!(second.ok("1 + 1"), "2");
    assert_eq!(engine.containers_of(&home.owners()).len(), 1);
}
