//! More than anybody can use, of everything: what it costs the bridge, and what is kept of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::processes::cpu_ticks;
use crate::support::{Bridge, Engine, Fixture, Home, PATIENCE, eventually};
use crate::{on_every_engine, on_one_engine_and_processes};

on_every_engine!(
    a_flood_on_both_streams_is_counted_to_the_byte_and_costs_the_bridge_no_memory,
    memory_of_large_results_is_given_back,
    arguments_of_many_values_wait_for_each_other,
    results_that_nobody_reads_cost_the_run_only,
    forged_calls_with_large_arguments_are_bounded,
    many_calls_with_large_arguments_are_all_answered,
    pings_are_answered_while_streams_alternate,
);

// The bridge and a server, without the sandbox.
on_one_engine_and_processes!(
    a_gigabyte_on_a_servers_stderr_costs_the_bridge_no_memory,
    a_line_of_a_server_that_does_not_end_is_cut_off_and_costs_that_server_only,
    a_line_of_fifty_megabytes_arrives_and_its_room_is_given_back,
);

const MIB: usize = 1 << 20;

/// Writes call frames past the runtime, as code may that has found the worker's socket.
const FORGE: &str = "\
import os, socket, sys, time
def frames():
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').startswith('socket:'):
                with socket.socket(fileno=os.dup(fd)) as copy:
                    peer = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if int.from_bytes(peer[:4], sys.byteorder) == 1:
                    return fd
        except OSError: pass
run = int(sys._getframe().f_code.co_filename.removeprefix('<run ').removesuffix('>'))
def forge(tool, number, size):
    head = b'{\"type\":\"call\",\"run\":%d,\"call\":%d,\"server\":\"fixture\",\"tool\":\"%b\",\"arguments\":{\"text\":\"'
    data = memoryview(head % (run, number, tool.encode()) + b'x' * size + b'\"}}\\n')
    while data: data = data[os.write(socket_fd, data):]
socket_fd = frames()
";

#[test]
#[ignore = "takes minutes; `make probes` runs it"]
fn a_gigabyte_on_each_stream() {
    for engine in Engine::all() {
        flood(&engine, 1024 * MIB, 1024 * MIB);
    }
}

fn a_flood_on_both_streams_is_counted_to_the_byte_and_costs_the_bridge_no_memory(engine: &Engine) {
    flood(engine, 32 * MIB, 8 * MIB);
}

fn flood(engine: &Engine, stdout_bytes: usize, stderr_bytes: usize) {
    let home = Home::on(engine).env("MCP_BRIDGE_STRUCTURED", "1").env("MCP_BRIDGE_MAX_TIMEOUT", "600");
    let mut bridge = Bridge::start(&home).warm();
    let before = bridge.resident_kib();
    let code = format!(
        "import os\nblock = b'0123456789abcde\\n' * 4096\n\
         for fd, size in ((1, {stdout_bytes}), (2, {stderr_bytes})):\n  os.write(fd, b'HEAD')\n  \
         for _ in range(size // len(block)):\n    at = 0\n    while at < len(block): at += os.write(fd, block[at:])\n  \
         os.write(fd, b'TAIL')\n'done'"
    );
    let id = bridge.send_run(json!({"code": code, "timeout": 600}));
    let reply = bridge.late_reply(id, Duration::from_secs(600));
    let grown = bridge.peak_kib().saturating_sub(before);
    assert!(grown < 64 * 1024, "{}: the bridge grew by {grown} KiB", engine.name);
    let structured = reply.structured.unwrap();
    assert_eq!(structured["value"], "'done'");
    for (stream, written) in [("stdout", stdout_bytes), ("stderr", stderr_bytes)] {
        let lines = structured[stream].as_array().unwrap();
        assert_eq!(lines[0], "HEAD0123456789abcde", "{stream}");
        assert_eq!(lines.last().unwrap(), "TAIL", "{stream}");
        let shown = |line: &&Value| !line.as_str().unwrap().contains("left out here");
        let notice = lines.iter().find(|line| !shown(line)).unwrap().as_str().unwrap();
        let kept: usize = lines.iter().filter(shown).map(|line| line.as_str().unwrap().len() + 1).sum();
        let said: usize = notice.split(' ').nth(1).unwrap().replace(',', "").parse().unwrap();
        let missing = written + 8 - kept;
        assert!(said.abs_diff(missing) < 3, "{stream}: {notice}, {missing}");
    }
    assert!(reply.text.starts_with("HEAD0123456789abcde\n"), "{}", &reply.text[..100]);
    assert_eq!(bridge.ok("1 + 1"), "2");
}

fn a_gigabyte_on_a_servers_stderr_costs_the_bridge_no_memory(engine: &Engine) {
    let fixture = Fixture::new(&["--stderr-flood", "1073741824"]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let before = bridge.resident_kib();
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='said')"), "'said'");
    let grown = bridge.peak_kib().saturating_sub(before);
    assert!(grown < 16 * 1024, "the bridge grew by {grown} KiB");
}

fn a_line_of_a_server_that_does_not_end_is_cut_off_and_costs_that_server_only(engine: &Engine) {
    let (endless, good) = (Fixture::new(&["--endless-line"]), Fixture::new(&[]));
    let home = Home::on(engine).server("endless", endless.entry()).server("good", good.entry());
    let mut bridge = Bridge::start(&home).warm();
    bridge.ok("await mcp_good.pid()\nawait mcp_endless.pid()");
    let before = bridge.resident_kib();
    let code = "import asyncio\nfrom mcp.runtime import MCPError\ncall = asyncio.ensure_future(mcp_endless.hang())\n\
                print(await mcp_good.echo(text='fine'))\n\
                try: await call\nexcept MCPError as error: print(error.code, error)";
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    let reply = bridge.late_reply(id, Duration::from_secs(130));
    let cut_off = "server_failed server 'endless' answered with more than 67108864 bytes";
    assert!(reply.text.starts_with(&format!("fine\n{cut_off}")), "{}", reply.text);
    // A line may have 64 MiB; of what is longer nothing is kept.
    let grown = bridge.peak_kib().saturating_sub(before);
    assert!(grown < 80 * 1024, "the bridge grew by {grown} KiB");
    let kept = bridge.resident_kib().saturating_sub(before);
    assert!(kept < 16 * 1024, "the bridge keeps {kept} KiB");
    assert_eq!(
        bridge.ok("(await mcp_endless.echo(text='back'), await mcp_good.echo(text='same'))"),
        "('back', 'same')"
    );
    assert_eq!((endless.pids().len(), good.pids().len()), (2, 1));
}

fn a_line_of_fifty_megabytes_arrives_and_its_room_is_given_back(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("await mcp_fixture.pid()");
    let before = bridge.resident_kib();
    assert_eq!(bridge.ok("r = await mcp_fixture.big(bytes=50_000_000)\nlen(r), set(r)"), "(50000000, {'x'})");
    let grown = bridge.peak_kib().saturating_sub(before);
    // The line, and the result that is taken out of it.
    assert!(grown < 128 * 1024, "the bridge grew by {grown} KiB");
    let kept = bridge.resident_kib().saturating_sub(before);
    assert!(kept < 16 * 1024, "the bridge keeps {kept} KiB");
}

fn memory_of_large_results_is_given_back(engine: &Engine) {
    const BYTES: u64 = 25_000_000;
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("await mcp_fixture.pid()");
    let before = bridge.resident_kib();
    // An allocator may keep memory for the next one as large.
    for _ in 0..2 {
        let code = format!("len(await mcp_fixture.big(bytes={BYTES}))");
        let id = bridge.send_run(json!({"code": code, "timeout": 120}));
        assert_eq!(bridge.late_reply(id, Duration::from_secs(130)).text, BYTES.to_string());
    }
    // It was twice the size of the result.
    let kept = || bridge.resident_kib().saturating_sub(before) << 10;
    eventually("the memory of a result is given back", PATIENCE, || kept() < BYTES / 2);
}

fn arguments_of_many_values_wait_for_each_other(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("import asyncio\nawait mcp_fixture.pid()");
    let before = bridge.resident_kib();
    let code = "calls = [asyncio.wait_for(mcp_fixture.hang(a=[0] * 990_000), 3) for _ in range(14)]\n\
                {type(end).__name__ for end in await asyncio.gather(*calls, return_exceptions=True)}";
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    let reply = bridge.late_reply(id, Duration::from_secs(130)).text;
    assert!(reply.starts_with("{'TimeoutError'}"), "{reply}");
    // As trees all of them would have more than 1 GB. Those that wait for the server are text.
    let grown = bridge.peak_kib().saturating_sub(before);
    assert!(grown < 768 * 1024, "the bridge grew by {grown} KiB");
    // A note about one of them may still come.
    assert!(bridge.ok("await mcp_fixture.echo(text='still here')").starts_with("'still here'"));
}

fn results_that_nobody_reads_cost_the_run_only(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let home = Home::on(engine).server("fixture", fixture.entry());
    let mut bridge = Bridge::start(&home).warm();
    let containers = engine.containers_of(&home.owners());
    bridge.ok("import asyncio, time\nkept = 1\nawait mcp_fixture.pid()");
    // It reads nothing, and swallows the interrupt: both that and the end of its interpreter have to get through.
    let code = "calls = [asyncio.ensure_future(mcp_fixture.big(bytes=30_000_000)) for _ in range(4)]\n\
                await asyncio.sleep(0.05)\nwhile True:\n  try:\n    while True: time.sleep(0.01)\n  except BaseException: pass";
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    let called = || fixture.ledger().iter().filter(|event| event.starts_with("call big")).count() == 4;
    eventually("the calls reach the server", PATIENCE, called);
    eventually("all that can be sent is sent", PATIENCE, || {
        let before = cpu_ticks(bridge.pid());
        std::thread::park_timeout(Duration::from_secs(1));
        // Of a hundred; looking at the use of limits that an engine does not enforce takes some.
        cpu_ticks(bridge.pid()) - before <= 20
    });
    bridge.notify("notifications/cancelled", json!({"requestId": id}));
    let next = bridge.ok("(kept, await mcp_fixture.echo(text='next'))");
    assert_eq!(next.lines().next(), Some("(1, 'next')"), "{next}");
    assert_eq!(engine.containers_of(&home.owners()), containers);
}

fn forged_calls_with_large_arguments_are_bounded(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    bridge.ok("await mcp_fixture.pid()");
    let before = bridge.resident_kib();
    let code = format!(
        "{FORGE}for number in range(64): forge('hang', (9 << 40) + number, 7 << 20)\n\
         print(await mcp_fixture.echo(text='meanwhile'))\ntime.sleep(1)\n1 / 0"
    );
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    let reply = bridge.late_reply(id, Duration::from_secs(130));
    assert!(reply.text.contains("\nmeanwhile\n"), "{}", reply.text);
    let grown = bridge.peak_kib().saturating_sub(before);
    eprintln!("{}: 64 forged calls of 7 MiB: the bridge grew by {grown} KiB", engine.name);
    assert!(grown < 256 * 1024, "the bridge grew by {grown} KiB");
    // It was 384 to 624 MiB before the bytes in flight were bounded.
    eventually("their memory is given back", PATIENCE, || {
        bridge.ok("None");
        bridge.resident_kib().saturating_sub(before) < 160 * 1024
    });
    assert_eq!(bridge.ok("await mcp_fixture.echo(text='next')"), "'next'");
}

fn many_calls_with_large_arguments_are_all_answered(engine: &Engine) {
    let fixture = Fixture::new(&[]);
    let mut bridge = Bridge::start(&Home::on(engine).server("fixture", fixture.entry())).warm();
    let code = "import asyncio\ntext = 'x' * ((8 << 20) - 100)\n\
                async def one(): return len(await mcp_fixture.echo(text=text)) == len(text)\n\
                all(await asyncio.gather(*(one() for _ in range(10))))";
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    assert_eq!(bridge.late_reply(id, Duration::from_secs(130)).text, "True");
    // A few at once of a server that takes its time, and a small call that does not wait for them.
    let code = "calls = [asyncio.ensure_future(asyncio.wait_for(mcp_fixture.hang(text=text), 3)) for _ in range(6)]\n\
                await asyncio.sleep(0)\nprint(await mcp_fixture.echo(text='small'))\n\
                ends = await asyncio.gather(*calls, return_exceptions=True)\n\
                print({type(end).__name__ for end in ends}, await one())";
    let id = bridge.send_run(json!({"code": code, "timeout": 120}));
    let reply = bridge.late_reply(id, Duration::from_secs(130)).text;
    assert!(reply.starts_with("small\n{'TimeoutError'} True"), "{reply}");
}

fn pings_are_answered_while_streams_alternate(engine: &Engine) {
    let mut bridge = Bridge::start(&Home::on(engine)).warm();
    // The longest that any of those took that are sent for so long, which covers the run's end.
    let longest = |bridge: &mut Bridge, code: &str| {
        let id = bridge.send_run(json!({"code": code, "timeout": 60}));
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        while began.elapsed() < Duration::from_secs(7) {
            let sent = Instant::now();
            bridge.request("ping", json!({})).unwrap();
            longest = longest.max(sent.elapsed());
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(!bridge.late_reply(id, PATIENCE).is_error);
        longest
    };
    let until = "import sys, time\nend = time.monotonic() + 4\nwhile time.monotonic() < end:\n";
    let floor = longest(&mut bridge, &format!("{until}  sum(range(1000))"));
    let flooded = longest(
        &mut bridge,
        &format!(
            "{until}  print('o', end='', flush=True)\n  print('e', end='', file=sys.stderr, flush=True)"
        ),
    );
    eprintln!("{}: the longest ping took {floor:?}, and {flooded:?} in a flood", engine.name);
    let bound = 10 * floor + Duration::from_secs(2);
    assert!(flooded < bound, "{flooded:?}, without a flood {floor:?}");
}
