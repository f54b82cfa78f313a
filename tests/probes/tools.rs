//! Calls of tools that must not be made, calls that no server should see, and more calls than there should be.
//!
//! `fixture` is a server of the run; `other` is configured and not given to it.

use super::probe::Probe;
use super::probe::WithoutDefence::{Calls, Itself};

/// Of arguments that are refused, the same call with others.
const A_GOOD_CALL: &str = "await mcp_fixture.echo(text='good')";
/// What a run that is given both servers may do.
const OTHER_GIVEN: &str = "await mcp_other.echo(text='given')";
const UNAVAILABLE: &str = "Server 'other' is not available";

pub const PROBES: &[Probe] = &[
    Probe::fails(
        "tools.other-server",
        "call a server that the run was not given",
        &[UNAVAILABLE, "fixture"],
        // By a name that is no literal, here and below: calls by literal names are refused before the code begins.
        "await mcp_servers[str('other')].echo(text='hi')",
    )
    .without_defence(Calls(OTHER_GIVEN)),
    Probe::fails(
        "tools.other-server-by-name",
        "the same by the helper that takes any name",
        &[UNAVAILABLE],
        "runtime.call_tool_sync(str('other'), 'echo', {'text': 'hi'})",
    )
    .without_defence(Calls(OTHER_GIVEN)),
    Probe::fails(
        "tools.other-server-docs",
        "have its tools listed",
        &[UNAVAILABLE],
        "runtime.list_tools_sync('other')",
    )
    .without_defence(Calls(OTHER_GIVEN)),
    Probe::says(
        "tools.other-server-forged",
        "the same by frames of its own making, of any run",
        &["sent"],
        r#"
frame = '{"type":"call","run":%d,"call":%d,"server":"other","tool":"echo","arguments":{"text":"forged"}}\n'
for fd in frame_sockets():
    for run in range(max(run_number() - 3, 0), run_number() + 3):
        os.write(fd, (frame % (run, 888000 + run)).encode())
time.sleep(0.2)
print('sent')
"#,
    )
    .without_defence(Calls(OTHER_GIVEN)),
    Probe::says(
        "tools.past-run-forged",
        "call by a frame of a run that is over",
        &["sent"],
        r#"
frame = '{"type":"call","run":%d,"call":%d,"server":"fixture","tool":"echo","arguments":{"text":"forged"}}\n'
for fd in frame_sockets():
    for run in (run_number() - 1, run_number() + 1, 0, 2 ** 53 - 1):
        os.write(fd, (frame % (run, 889000)).encode())
time.sleep(0.2)
print('sent')
"#,
    )
    .without_defence(Calls(
        r#"
frame = '{"type":"call","run":%d,"call":%d,"server":"fixture","tool":"echo","arguments":{"text":"forged"}}\n'
for fd in frame_sockets():
    os.write(fd, (frame % (run_number(), 889000)).encode())
time.sleep(0.3)
"#,
    )),
    Probe::fails(
        "tools.unknown",
        "call a tool that the server does not list",
        &["late"],
        "await getattr(mcp_fixture, 'late')()",
    )
    .without_defence(Calls("await mcp_fixture.change_list()\nawait mcp_fixture.late()")),
    Probe::fails(
        "tools.odd-name",
        "call a tool by a name with a line feed and a null",
        &["state: variables kept"],
        "runtime.call_tool_sync('fixture', str('echo\\n\\x00{}'), {'text': 'hi'})",
    )
    .without_defence(Calls("runtime.call_tool_sync('fixture', 'echo', {'text': 'hi'})")),
    Probe::attempt(
        "tools.forked",
        "call from a process of its own",
        &["MCPError"],
        r"
import mcp.runtime
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    try:
        mcp_fixture.echo.sync(text='from a child')
        os.write(writer, b'called')
    except BaseException as error:
        os.write(writer, type(error).__name__.encode())
    os._exit(0)
os.waitpid(child, 0)
if os.read(reader, 100) == b'MCPError':
    raise mcp.runtime.MCPError('refused', code='not_running')
",
    )
    .without_defence(Calls(A_GOOD_CALL)),
    Probe::says(
        "tools.thread-of-earlier-run",
        "call from a thread that an earlier run has left behind",
        &["left behind"],
        r"
go, refused = threading.Event(), []
def late():
    go.wait(60)
    try:
        mcp_fixture.echo.sync(text='from an earlier run')
    except mcp.runtime.MCPError as error:
        refused.append(error.code)
import mcp.runtime
left = threading.Thread(target=late)
left.start()
print('left behind')
",
    )
    .then("go.set(); left.join(); assert refused == ['not_running'], refused")
    .without_defence(Calls(
        "left = threading.Thread(target=lambda: mcp_fixture.echo.sync(text='good'))\nleft.start()\nleft.join()",
    )),
    Probe::says(
        "tools.task-of-earlier-run",
        "call from an asyncio task that an earlier run has left behind",
        &["left behind"],
        r"
go_on, refused = asyncio.Event(), []
async def late():
    await go_on.wait()
    try:
        await mcp_fixture.echo(text='from an earlier run')
    except mcp.runtime.MCPError as error:
        refused.append(error.code)
import mcp.runtime
left = asyncio.ensure_future(late())
await asyncio.sleep(0)
print('left behind')
",
    )
    .then("go_on.set(); await left; assert refused == ['not_running'], refused")
    .without_defence(Calls("await asyncio.ensure_future(mcp_fixture.echo(text='good'))")),
    Probe::attempt(
        "tools.circular",
        "send what contains itself",
        &["ValueError"],
        "loop = []\nloop.append(loop)\nmcp_fixture.echo.sync(text=loop)",
    )
    .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt(
        "tools.deep",
        "send what is nested 100,000 deep",
        &["ValueError"],
        "deep = []\nfor _ in range(100000): deep = [deep]\nmcp_fixture.echo.sync(text=deep)",
    )
    .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt(
        "tools.nan",
        "send what is no number",
        &["ValueError"],
        "mcp_fixture.echo.sync(text=[float('nan'), float('inf')])",
    )
    .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt(
        "tools.surrogate",
        "send half a character",
        &["ValueError"],
        r"mcp_fixture.echo.sync(text='\ud800')",
    )
    .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt("tools.bytes", "send bytes", &["TypeError"], "mcp_fixture.echo.sync(text=b'bytes')")
        .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt("tools.set", "send a set", &["TypeError"], "mcp_fixture.echo.sync(text={1, 2})")
        .without_defence(Calls(A_GOOD_CALL)),
    Probe::attempt(
        "tools.large-argument",
        "send 100 MB",
        &["ValueError"],
        "mcp_fixture.echo.sync(text='x' * 10 ** 8)",
    )
    .without_defence(Calls("await mcp_fixture.echo(text='x' * 8_000_000)")),
    Probe::says(
        "tools.large-result",
        "ask for 50 MB",
        &["50000000"],
        "r = await mcp_fixture.big(bytes=50_000_000)\nlen(r)",
    )
    .calls(1)
    .slow()
    .without_defence(Itself),
    Probe::fails(
        "tools.too-large-result",
        "ask for more than the bound",
        &["answered with more than 67108864 bytes"],
        "await mcp_fixture.big(bytes=70_000_000)",
    )
    .calls(1)
    .slow()
    .without_defence(Calls("len(await mcp_fixture.big(bytes=40_000_000))")),
    Probe::says(
        "tools.many",
        "make 10,000 calls at once",
        &["all answered"],
        r"
answers = await asyncio.gather(*(mcp_fixture.echo(text=f'n{i}') for i in range(10000)))
assert answers == [f'n{i}' for i in range(10000)]
print('all answered')
",
    )
    .calls(10_000)
    .timeout(60.0)
    .slow()
    .without_defence(Itself),
    Probe::says(
        "tools.give-up",
        "stop to wait for a call",
        &["gave up", "calls with unknown outcome (they may have taken effect): fixture.hang"],
        r"
try:
    await asyncio.wait_for(mcp_fixture.hang(), 0.2)
except asyncio.TimeoutError:
    print('gave up')
",
    )
    .calls(2)
    .without_defence(Itself),
    Probe::fails(
        "tools.end-in-call",
        "run out of time in a call",
        &["status: timeout", "(they may have taken effect): fixture.hang", "state: variables kept"],
        "await mcp_fixture.hang()",
    )
    .timeout(0.5)
    .calls(2)
    .without_defence(Itself),
    Probe::attempt(
        "tools.self-made-server",
        "make a server by editing the runtime's own tables",
        &["MCPError"],
        r"
import gc
import mcp.runtime
for thing in gc.get_objects():
    if type(thing).__name__ == 'Server' and hasattr(thing, 'alias'):
        try:
            object.__setattr__(thing, 'name', 'other')
        except Exception:
            pass
mcp.runtime.call_tool_sync('other', 'echo', {'text': 'hi'})
",
    )
    .without_defence(Calls(OTHER_GIVEN)),
    Probe::attempt(
        "tools.rule-respelt",
        "spell values that a rule of the user denies in other ways",
        &["MCPError"],
        r"
import mcp.runtime
values = [('id', v) for v in (42, 42.0, ' 42', '4.2e1', '0x2a', [42], '[42]', '4_2')]
values += [('mode', v) for v in ('DELETE', ' delete', 'd%65lete', 'de\u200blete', ['delete'])]
values += [('ID', 42), ('Mode', 'delete')]
refused = 0
for name, value in values:
    try:
        mcp.runtime.call_tool_sync('fixture', 'echo', {'text': 'hi', name: value})
    except mcp.runtime.MCPError as error:
        refused += error.code == 'denied'
if refused == len(values):
    raise mcp.runtime.MCPError('all refused', code='denied')
",
    )
    .without_defence(Calls("runtime.call_tool_sync('fixture', 'echo', {'text': 'hi', 'id': 43})")),
    Probe::attempt(
        "tools.rule-unchecked",
        "send more arguments than are checked, so that a rule of the user cannot be applied",
        &["MCPError"],
        r"
import mcp.runtime
many = dict.fromkeys(map(str, range(100_001)), 0)
mcp.runtime.call_tool_sync('fixture', 'echo', {'text': 'hi', 'id': {'value': 42}, **many})
",
    )
    .slow()
    .without_defence(Calls("runtime.call_tool_sync('fixture', 'echo', {'text': 'hi', 'id': {'value': 42}})")),
];
