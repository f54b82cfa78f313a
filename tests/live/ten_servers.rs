//! Ten servers, most of them broken, each in its own way: those that work answer as if they were alone.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::on_one_engine_and_processes;
use crate::support::ten_servers::{CALLS_THOSE_THAT_WORK, HEALTHY, Servers, WORKING, first_reply, ten};
use crate::support::{Bridge, Engine};

on_one_engine_and_processes!(
    a_first_reply_waits_for_no_server_that_it_does_not_need,
    calls_at_once_of_all_cost_those_that_work_nothing,
    calls_that_stand_in_the_code_cost_those_that_work_nothing,
    servers_that_do_not_answer_are_waited_for_by_each_search_and_named,
);

/// What a broken server may cost beyond what the healthy ones take alone.
const DELAY_MAX: Duration = Duration::from_millis(300);
/// How long a first search waits for servers that it does not name.
const SEARCH_WAIT: Duration = Duration::from_secs(5);
/// Tries among ten, of which one must be within that.
const TRIES_MAX: usize = 6;

/// The reply is as it should be in any case. On a machine that is busy everything takes longer, also the start of those
/// that fail: what as many working ones cost there is the least that they may. What else it does holds up some of the
/// tries, but not all of them.
fn assert_undelayed(engine: &Engine, code: &str, is_right: impl Fn(&str) -> bool) {
    let servers = Servers::new();
    let timed = |names: &[&str]| {
        let (took, reply) = first_reply(engine, &servers, names, code);
        assert!(is_right(&reply), "{reply}");
        took
    };
    let least = |names: &[&str]| (0..3).map(|_| timed(names)).min().unwrap();
    let alone = least(&HEALTHY);
    let among_working = least(&HEALTHY.into_iter().chain(WORKING).collect::<Vec<_>>());
    let bound = alone.max(among_working) + DELAY_MAX.max(alone * 2);
    let mut among_ten = Vec::new();
    while among_ten.iter().all(|took| *took > bound) {
        assert!(
            among_ten.len() < TRIES_MAX,
            "alone {alone:?}, among working ones {among_working:?}, among ten {among_ten:?}"
        );
        among_ten.push(timed(&ten()));
    }
}

fn a_first_reply_waits_for_no_server_that_it_does_not_need(engine: &Engine) {
    let (code, prints) = CALLS_THOSE_THAT_WORK;
    assert_undelayed(engine, code, |reply| reply == prints);
}

fn calls_at_once_of_all_cost_those_that_work_nothing(engine: &Engine) {
    // Until all that work have answered; the others are given up then.
    let code = "import asyncio\nasync def ask(name):\n  try:\n    \
                args = {'one': {'text': '1'}, 'legacy': {'message': '2'}}.get(name, {})\n    \
                return await runtime.call_tool(name, 't' if name == 'remote' else 'echo', args)\n  \
                except runtime.MCPError as error:\n    return error.code\n\
                tasks = {name: asyncio.create_task(ask(name)) for name in runtime.list_servers_sync()}\n\
                await asyncio.wait([tasks[name] for name in ('one', 'legacy', 'remote')])\n\
                print(*(tasks[name].result() for name in ('one', 'legacy', 'remote')))\n\
                for task in tasks.values(): task.cancel()";
    // Below it may stand which of the others' calls were given up.
    assert_undelayed(engine, code, |reply| reply.lines().next() == Some("1 Echo: 2 far"));
    let servers = Servers::new();
    // Each broken one says what is wrong with it, and costs the session nothing more.
    let mut bridge = Bridge::start(&servers.home(engine, &ten())).warm();
    for (name, says) in [
        ("missing", "/nowhere/at-all"),
        ("crashing", "crash"),
        ("locked", "the user runs: belljar login locked"),
        ("garbled", "garbled"),
    ] {
        let reply = bridge.run(&format!("await runtime.call_tool('{name}', 'echo', {{}})"));
        assert!(reply.is_error && reply.text.contains(says), "{name}: {}", reply.text);
    }
    for name in ["silent", "stuck"] {
        let reply = bridge.run_with(
            json!({"code": format!("await runtime.call_tool('{name}', 'echo', {{}})"), "timeout": 1}),
        );
        assert!(reply.text.starts_with("status: timeout"), "{name}: {}", reply.text);
    }
    assert_eq!(bridge.ok("await mcp_slow.t()"), "'at last'");
    assert_eq!(bridge.ok("await mcp_one.echo(text='on')"), "'on'");
}

fn servers_that_do_not_answer_are_waited_for_by_each_search_and_named(engine: &Engine) {
    let servers = Servers::new();
    let mut bridge = Bridge::start(&servers.home(engine, &ten())).warm();
    let code = "found = await runtime.search_tool_docs('echo', limit=20)\nprint(found)";
    let mut search = || {
        let began = Instant::now();
        let reply = bridge.ok(code);
        assert!(reply.contains("mcp_one.echo(") && reply.contains("\nINCOMPLETE: "), "{reply}");
        began.elapsed()
    };
    let (first, second) = (search(), search());
    assert!(first >= SEARCH_WAIT && second >= SEARCH_WAIT, "{first:?}, then {second:?}");
}

/// Calls that stand in the code are looked at before any of it runs, for which their servers are started.
fn calls_that_stand_in_the_code_cost_those_that_work_nothing(engine: &Engine) {
    let code = "import asyncio\n\
                given = asyncio.gather(mcp_one.echo(text='1'), mcp_legacy.echo(message='2'), mcp_remote.t())\n\
                others = asyncio.gather(mcp_missing.echo(text='x'), mcp_crashing.echo(text='x'), mcp_silent.echo(text='x'), \
                mcp_slow.t(), mcp_locked.t(), mcp_stuck.t(), mcp_garbled.t(), return_exceptions=True)\n\
                print(*await given)\nothers.cancel()\nawait asyncio.gather(others, return_exceptions=True)\nNone";
    let working = "import asyncio\n\
                given = asyncio.gather(mcp_one.echo(text='1'), mcp_legacy.echo(message='2'), mcp_remote.t())\n\
                others = asyncio.gather(mcp_w1.echo(text='x'), mcp_w2.echo(text='x'), mcp_w3.echo(text='x'), \
                mcp_w4.echo(text='x'), mcp_w5.echo(text='x'), mcp_w6.echo(text='x'), mcp_w7.echo(text='x'))\n\
                print(*await given)\nawait others";
    let is_right = |reply: &str| reply.lines().next() == Some("1 Echo: 2 far");
    let servers = Servers::new();
    // Twice: what is not known at first may be then, and what does not answer does not either.
    let timed = |names: &[&str], code: &str| {
        let mut bridge = Bridge::start(&servers.home(engine, names)).warm();
        [(); 2].map(|()| {
            let began = Instant::now();
            let reply = bridge.ok(code);
            assert!(is_right(&reply), "{reply}");
            began.elapsed()
        })
    };
    let working_names: Vec<&str> = HEALTHY.into_iter().chain(WORKING).collect();
    let alone: Vec<_> = (0..3).map(|_| timed(&working_names, working)).collect();
    let least = |at: usize| alone.iter().map(|took| took[at]).min().unwrap();
    let bounds = [least(0), least(1)].map(|least| least + DELAY_MAX.max(least * 2));
    let mut among_ten: Vec<[Duration; 2]> = Vec::new();
    while (0..2).any(|at| among_ten.iter().all(|took| took[at] > bounds[at])) {
        assert!(among_ten.len() < TRIES_MAX, "among working ones {alone:?}, among ten {among_ten:?}");
        among_ten.push(timed(&ten(), code));
    }
}
