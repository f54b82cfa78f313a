"""Each hint about an error is followed, and what it says then works. A hint that no row here provokes fails."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from belljar_sandbox.run import hints
from sandbox import ENTRYPOINT, Frame, Sandbox

LIVE = Path(__file__).parents[2] / "live"
# Where hints are written: whole files, and a function with the table above it.
SOURCES = ("run/hints.py", "run/text_results.py", "calls/arguments.py")
# Sources with other texts, too: of these, each text that has such words needs a row.
OTHERS = (
    "calls/handles.py",
    "calls/job_handles.py",
    "calls/results.py",
    "llm/chunks.py",
    "llm/models.py",
    "programs/languages.py",
    "run/job_spawn.py",
)
ADVICE = re.compile(
    r"[;:] (decode|give|return|start|write) |it is one of|it is '|it runs|the user|`await |\.(load|save)\("
    r"|runtime\.(chunk|spawn)"
)


class Row(NamedTuple):
    provoke: str
    said: str
    """What the message or the hint says, beside all else."""
    follow: str
    """Code that does what was said, in a run of its own."""
    by_user: str = ""
    """A live test, as file:name, of what only the user can do."""
    is_alone: bool = False
    """There is no server."""


FILES = [
    {
        "serverAlias": "fs",
        "toolAlias": "read_file",
        "signature": "",
        "description": "Reads. DEPRECATED: read_text_file",
    },
    {"serverAlias": "fs", "toolAlias": "read_text_file", "signature": "", "description": "Reads a file."},
]
TOOLS = [{"serverAlias": "git", "toolAlias": "git_status", "signature": ""}]
TEXTS = {"read_text_file": "a,b", "text": "[done] (1 file)", "pair": "('a', 1)", "number": "4.5", "none": "{}"}
DATA = {"rows": [{"name": "a", "size": 1}], "content": [1]}
TOLD = {"handle": 3, "server": "git", "tool": "data", "bytes": 1234567, "told": "a dict"}


def bridge(call: Frame) -> object:
    tool, arguments = call["tool"], call["arguments"]
    match tool:
        case "search_tool_docs":
            hits = FILES if "file" in arguments["query"] else TOOLS
            totals = {
                "total": 1,
                "weak": False,
                "offset": 0,
                "tools": 3,
                "servers": 2,
                "skills": 0,
                "indexing": [],
                "indexing_total": 0,
            }
            return {
                "hits": hits,
                "folders": {"fs": ["/tmp/trial"]},
                "unavailable": {"servers": [], "total": 0},
                **totals,
            }
        case "query_tool_docs":
            return [{"toolAlias": "git_status", "stub": "def git_status() -> str: ..."}]
        case "list_skills":
            return [{"name": "summary", "signature": "summary()", "description": "", "tags": [], "version": 1}]
        case "list_servers":
            return ["fs", "git"]
        case "load_handle":
            return {"content": [], "structuredContent": DATA}
        case "echo":
            return {"content": [], "structuredContent": arguments}
        case "picture":
            return {"content": [{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]}
        case "ask_llm":
            return {"text": "said", "model": "m", "usage": {}}
        case "spawn_job":
            return {"job": 1, "recorded": True}
        case "job" | "wait_job":
            return {"job": 1, "name": "f", "status": "running", "seconds": 1}
        case "job_result":
            return {"status": "running", "name": "f", "seconds": 1}
    if call.get("handle"):
        return TOLD
    if tool in TEXTS:
        return {"content": [{"type": "text", "text": TEXTS[tool]}]}
    return {"content": [{"type": "text", "text": "3 rows"}], "structuredContent": DATA}


IMAGES = "images.rs:an_image_with_a_package_is_built_used_built_again_from_its_lock_and_removed"
USUAL = "images.rs:the_usual_image_has_a_data_science_set_and_no_client_of_the_network"
TABLES = "libraries.rs:libraries_of_data_work"
MOUNTED = "mounts.rs:folders_are_there_as_configured_and_errors_say_where_a_file_is"
SLOW = "async def f(): return {'a': 5}\n"
LANGUAGES = "languages.rs:the_usual_image_runs_what_it_has_and_names_the_command_for_the_rest"
RUNTIME = "from mcp import runtime\n"
MAPPED = "assert runtime.map_llm(['a'], 'of {chunk}', on_error='return') == ['said']"
SPAWNED = SLOW + "runtime.spawn(abs, -1), runtime.spawn(f), runtime.spawn(f())"
FORKED = "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as pool: assert pool.map(abs, [-1]) == [1]\n"
TYPES = "import datetime, decimal, uuid, enum, dataclasses, pathlib, json\n"


def missing(module: str) -> str:
    return f"raise ModuleNotFoundError('No module', name={module!r})"


ROWS = [
    Row("import socket\nsocket.create_connection(('127.0.0.1', 9))", "no network", "runtime.search_tool_docs('git')"),
    Row("!pip install duckdb", "cannot be installed", "print(runtime.packages())", IMAGES),
    Row(missing("duckdb"), "--with duckdb --use", "print(runtime.packages())", IMAGES),
    Row(missing("sklearn"), "which adds scikit-learn", "print(runtime.packages())", USUAL),
    Row(missing("nest_asyncio"), "leave out", SLOW + "await f()\nassert asyncio.run(f()) == {'a': 5}"),
    Row("mcp_git.data()['rows']", "(await f())['key']", "(await mcp_git.data())['rows']\nmcp_git.data.sync()['rows']"),
    Row("await mcp_git.data()['rows']", "in parentheses", "(await mcp_git.data())['rows']"),
    Row(
        "sorted([1], key=lambda x: await mcp_git.number(x=x))",
        "lambda x: mcp_NAME",
        "sorted([1], key=lambda x: mcp_git.number.sync(x=x))",
    ),
    Row("def f(): return [x async for x in y]", "`async def`", "async def f(): return [x async for x in y]"),
    Row(f"import asyncio\n{SLOW}asyncio.create_task(f())", "await f()", SLOW + "await f()\nawait asyncio.gather(f())"),
    Row(
        f"import asyncio\n{SLOW}await asyncio.sleep(0)\nasyncio.get_event_loop().run_until_complete(f())",
        "asyncio.run(f())",
        SLOW + "await f()\nassert asyncio.run(f()) == {'a': 5}",
    ),
    Row("import multiprocessing as m\nm.get_context('forkserver').Pool(1)", "'fork'", FORKED),
    Row(
        "import multiprocessing as m\nm.Manager()",
        "Pool, Queue, Pipe and Value",
        FORKED + "m.Queue(), m.Pipe(), m.Value('i')",
    ),
    Row("sum(await mcp_git.number() for _ in 'a')", "use a list", "sum([float(await mcp_git.number()) for _ in 'a'])"),
    Row("mcp_git.data.handle.sync()", ".handle_sync(...)", "mcp_git.data.handle_sync()"),
    Row(
        "h = mcp_git.data.handle_sync()\nh.startswith('x')",
        "h.load()",
        "mcp_git.echo.sync(a=h, b=h['rows'][0])\nh.load()",
    ),
    Row("class J: status = 'x'\nJ().status()", "no methods", "J().status"),
    Row("await len('abc')", "leave out `await`", "len('abc')"),
    Row("r = mcp_git.data.sync()\nr['row']", "did you mean rows? r has the keys 'rows', 'content'", "r['rows']"),
    Row("(await mcp_git.data())['nope']", "the result has the keys", "(await mcp_git.data())['rows']"),
    Row("r = mcp_git.data.sync()\nr['rows'][0]['nope']", "r['rows'][0] has the keys", "r['rows'][0]['name']"),
    Row("big = dict.fromkeys('abcdefg')\nbig['z']", "and 2 more", "print(list(big))"),
    Row("r = mcp_git.none.sync()\nr['x']", "r is empty", "assert not r"),
    Row("r = mcp_git.data.sync()\nr.structuredContent", "its .raw", "r.raw['structuredContent'], r.raw['content']"),
    Row("r = mcp_git.data.sync()\ndel r['content']\nr['content']", "its .raw", "r.raw['content']"),
    Row("r = mcp_git.text.sync()\nr['x']", "r is text", "print(r)"),
    Row("(await mcp_git.text())['x']", "answered text", "r = await mcp_git.text()\nprint(r)"),
    Row("mcp_git.text.sync().get('x')", "answered text", "r = mcp_git.text.sync()\nprint(r)"),
    Row(
        "r = mcp_git.pair.sync()\nname, count = r",
        "looks like a tuple",
        "import ast\nname, count = ast.literal_eval(r)",
    ),
    Row(
        "import json\njson.loads(mcp_git.pair.sync())", "not JSON", "import ast\nast.literal_eval(mcp_git.pair.sync())"
    ),
    Row("r = mcp_git.number.sync()\nr + 1", "looks like a number", "float(r) + 1"),
    Row(
        "lines = mcp_fs.read_text_file.sync(path='/tmp/trial/a')\n"
        "raise ValueError('DataFrame constructor not properly called!')",
        "left as the tool sent it: parse it first, it begins with 'a,b'",
        "assert lines.split(',') == ['a', 'b']",
    ),
    Row("alll = [mcp_git.number.sync()]\nsum(alll)", "alll[0] is text", "sum(map(float, alll))"),
    Row(
        "raise ImportError('x.so: failed to map segment from shared object')",
        "no more memory",
        "h = await mcp_git.data.handle()",
    ),
    Row("x = true", "in Python it is True", "x = True"),
    Row("display(1)", "runtime.show(thing)", "runtime.show('x')"),
    Row("packages()", "it is runtime.packages", "runtime.packages()"),
    Row("time.time()", "`import time` is missing", "import time\ntime.time()"),
    Row(
        "import sys, types\nsys.modules['pandas'] = types.ModuleType('pandas')\npd.__name__",
        "`import pandas as pd` is missing",
        "import pandas as pd\npd.__name__",
    ),
    Row("import xml\nxml.etree", "`import xml.etree` is missing", "import xml.etree\nxml.etree"),
    Row("customers = 1\ncustmers", "did you mean customers?", "customers"),
    Row("runtime.search('x')", "did you mean search_tool_docs?", "runtime.search_tool_docs('x')"),
    Row("mcp__git__git_status()", "the tool is mcp_git.git_status", "mcp_git.git_status.sync()"),
    Row("git_status(path='.')", "the tool is mcp_git.git_status", "mcp_git.git_status.sync(path='.')"),
    Row("git.git_status()", "the server is mcp_git", "mcp_git.git_status.sync()"),
    Row("runtime.git_status()", "the tool is mcp_git.git_status", "mcp_git.git_status.sync()"),
    Row("tools.git_status()", "the tool is mcp_git.git_status", "mcp_git.git_status.sync()"),
    Row("functions.git_status()", "the tool is mcp_git.git_status", "mcp_git.git_status.sync()"),
    Row("import mcp\nmcp.git.git_status()", "the server is mcp_git", "mcp_git.git_status.sync()"),
    Row("mcp_desktop-commander.ls()", "the server is mcp_desktop_commander", "mcp_desktop_commander.ls.sync()"),
    Row("{'args': 1}.args", "it is a dict: ['args']", "{'args': 1}['args']"),
    Row("{'a': 1}.splitlines()", "it is a dict with 'a', no text", "{'a': 1}['a']"),
    Row("{}.splitlines()", "it is a dict, no text", "list({})"),
    Row("import mcp_git", "leave out the import", "mcp_git"),
    Row("from mcp_git import data", "and write mcp_git.data", "mcp_git.data.sync()"),
    Row("import mcp_sqlite", "print(runtime.list_servers())", "print(runtime.list_servers())"),
    Row("from skills import nope", "print(runtime.skills)", "print(runtime.skills)"),
    Row("input('name? ')", "put the value into the code", "name = 'x'"),
    Row("x = 1\n!ls", "use subprocess", "import subprocess\nsubprocess.run(['true'], check=True)"),
    Row("```python\nx = 1\n```", "without Markdown fences", "x = 1"),
    Row("x = 1\nreturn x", "end with the expression", "x = 1\nx"),
    Row("open('/home/me/x.csv')", "await mcp_fs.read_text_file(...)", "await mcp_fs.read_text_file(path='x')", MOUNTED),
    Row(
        "open('/tmp/trial/x.csv')", "await mcp_fs.read_text_file(...)", "await mcp_fs.read_text_file(path='x')", MOUNTED
    ),
    Row("open('/home/me/x.csv')", "/workspace and /tmp are", "await mcp_fs.read_text_file(path='x')", MOUNTED, True),
    Row(
        "raise PermissionError(13, 'no', '/opt/x')",
        "can be written",
        "import tempfile\ntempfile.TemporaryFile(dir='/tmp').close()",
    ),
    Row(
        "raise OSError(28, 'No space left on device')",
        "remove files",
        "import tempfile\ntempfile.TemporaryFile(dir='/tmp').close()",
    ),
    Row(
        "# mmap.mmap(-1, 9)\nraise PermissionError(1, 'Operation not permitted')",
        "map a file in /dev/shm",
        "import mmap\nmmap.mmap(-1, 9, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
    ),
    # Arguments, whose messages have the remedy in them.
    Row("mcp_git.echo.sync(x=b'a')", "decode it", "mcp_git.echo.sync(x=b'a'.decode())"),
    Row("mcp_git.echo.sync(x={1})", "send a list", "mcp_git.echo.sync(x=list({1}))"),
    Row("mcp_git.echo.sync(x=(i for i in 'a'))", "list(...) of it", "mcp_git.echo.sync(x=list(i for i in 'a'))"),
    Row(TYPES + "x = pathlib.Path('a')\nmcp_git.echo.sync(x=x)", "str(...) of it", "mcp_git.echo.sync(x=str(x))"),
    Row(
        TYPES + "x = datetime.date(2025, 1, 1)\nmcp_git.echo.sync(x=x)",
        ".isoformat()",
        "mcp_git.echo.sync(x=x.isoformat())",
    ),
    Row(
        TYPES + "x = datetime.timedelta(1)\nmcp_git.echo.sync(x=x)",
        ".total_seconds()",
        "mcp_git.echo.sync(x=x.total_seconds())",
    ),
    Row(
        TYPES + "x = decimal.Decimal(1)\nmcp_git.echo.sync(x=x)",
        "or float(...) of it",
        "mcp_git.echo.sync(x=str(x), y=float(x))",
    ),
    Row(TYPES + "x = uuid.uuid4()\nmcp_git.echo.sync(x=x)", "; send str(...) of it", "mcp_git.echo.sync(x=str(x))"),
    Row(TYPES + "x = enum.Enum('E', 'A').A\nmcp_git.echo.sync(x=x)", "its .value", "mcp_git.echo.sync(x=x.value)"),
    Row(
        TYPES + "x = dataclasses.make_dataclass('D', ['a'])(1)\nmcp_git.echo.sync(x=x)",
        "asdict(...)",
        "mcp_git.echo.sync(x=dataclasses.asdict(x))",
    ),
    Row(
        "import array\nx = array.array('i', [1])\nmcp_git.echo.sync(x=x)",
        "its .tolist()",
        "mcp_git.echo.sync(x=x.tolist())",
    ),
    Row("mcp_git.echo.sync(x={'n': float('nan')})", "arguments['x']['n'] is nan", "mcp_git.echo.sync(x={'n': None})"),
    Row("mcp_git.echo.sync(x={(1, 2): 3})", "keys are strings", "mcp_git.echo.sync(x={'1,2': 3})"),
    Row("mcp_git.echo.sync(x='\\ud800')", "at position 0, which is not", "mcp_git.echo.sync(x='x')"),
    Row("mcp_git.echo.sync(x={'\\ud800': 1})", "a key of arguments['x'] has", "mcp_git.echo.sync(x={'x': 1})"),
    Row("x = []\nx.append(x)\nmcp_git.echo.sync(x=x)", "contains arguments['x'], which", "mcp_git.echo.sync(x=[])"),
    Row("x = []\nfor _ in range(200): x = [x]\nmcp_git.echo.sync(x=x)", "nesting >", "mcp_git.echo.sync(x=[[]])"),
    Row("mcp_git.echo.sync(x='x' * (9 << 20))", "limit 8 MiB", "mcp_git.echo.sync(x='x' * (7 << 20))"),
    # Handles, chunks, models, programs and jobs, whose messages have the remedy in them, too.
    Row(
        "h = mcp_git.data.handle_sync()\nh[0:1]",
        "not slice; .load() it for more",
        "h = mcp_git.data.handle_sync()\nh.load()['rows'][0:1]",
    ),
    Row("len(mcp_git.data.handle_sync())", "handle.load() brings", "len(mcp_git.data.handle_sync().load())"),
    Row("mcp_git.picture.sync().show()", "not audio/wav; .save(path)", "mcp_git.picture.sync().save('/tmp/a.wav')"),
    Row(RUNTIME + "runtime.chunk(b'ab')", "decode them: data.decode()", "list(runtime.chunk(b'ab'.decode()))"),
    Row(
        RUNTIME + "import pathlib\nfile = pathlib.Path('/tmp/zero')\nfile.write_bytes(b'a\\0')\nruntime.chunk(file)",
        "give its text instead",
        "import pathlib\nlist(runtime.chunk(pathlib.Path('/tmp/zero').read_text()))",
    ),
    Row(RUNTIME + "runtime.chunk('a', by='page')", "it is one of 'paragraph'", "runtime.chunk('a', by='paragraph')"),
    Row(RUNTIME + "runtime.map_llm('text', 'of {chunk}')", "as runtime.chunk(text)", MAPPED),
    Row(RUNTIME + "runtime.ask_llm(3)", "is the context", "assert runtime.ask_llm('say', context='3') == 'said'"),
    Row(
        RUNTIME + "runtime.ask_llm('say', context=object())",
        "give text, bytes of UTF-8, a dict, a list, or",
        "for x in ('a', b'a', {'a': 1}, [1]): runtime.ask_llm('say', context=x)",
    ),
    Row(
        RUNTIME + "runtime.ask_llm('say', context=b'\\xff')",
        "give the text that they hold",
        "runtime.ask_llm('say', context=b'\\xff'.decode('latin-1'))",
    ),
    Row(RUNTIME + "runtime.map_llm(['a'], 'b', on_error='x')", "'raise' or 'return'", MAPPED),
    Row(RUNTIME + "runtime.run('pyton', '1')", "did you mean 'python'? it runs", "runtime.run('python', '1')"),
    Row(RUNTIME + "runtime.run('cobol', '1')", "it runs ", "runtime.run('python', '1')"),
    Row(
        # A machine that runs this test can have ruby.
        RUNTIME
        + "from belljar_sandbox.programs.languages import LANGUAGES\n"
        + "LANGUAGES['ruby'].command = ('ruby-that-is-missing',)\nruntime.run('ruby', '1')",
        "the user adds it with `",
        "print(runtime.packages())",
        LANGUAGES,
    ),
    Row(RUNTIME + "runtime.spawn(3)", "takes a function, or the call", SPAWNED),
    Row(RUNTIME + SLOW + "c = f()\nawait c\nruntime.spawn(c)", "runtime.spawn a new one", SPAWNED),
    Row(RUNTIME + SLOW + "runtime.spawn(f(), 1)", "runtime.spawn(f, *args), or runtime.spawn(f(...))", SPAWNED),
    Row(RUNTIME + SLOW + "import asyncio\nruntime.spawn(asyncio.ensure_future(f()))", "the function itself", SPAWNED),
    Row(
        RUNTIME
        + "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(runtime.spawn, abs).result()",
        "is for the main thread",
        SPAWNED,
    ),
    Row(
        RUNTIME + "runtime.job(1).result",
        "`await job`, or job.wait(seconds)",
        "assert runtime.job(1).wait(1) == 'running'",
    ),
    # What pandas and polars have, which need not be here: the live tests use them.
    Row(
        "class Frame:\n  def to_json(self, orient, date_format): return '[1]'\nx = Frame()\nmcp_git.echo.sync(x=x)",
        "json.loads(x.to_json(orient='records', date_format='iso'))",
        "import json\nmcp_git.echo.sync(x=json.loads(x.to_json(orient='records', date_format='iso')))",
        TABLES,
    ),
    Row(
        "class Frame:\n  def to_dicts(self): return [{'a': 1}]\nx = Frame()\nmcp_git.echo.sync(x=x)",
        "its .to_dicts()",
        "mcp_git.echo.sync(x=x.to_dicts())",
        TABLES,
    ),
    Row(
        "class Frame:\n  def to_list(self): return [1]\nx = Frame()\nmcp_git.echo.sync(x=x)",
        "its .to_list()",
        "mcp_git.echo.sync(x=x.to_list())",
        TABLES,
    ),
]

MEMORY = Row("blocks = []\nwhile True: blocks.append(bytearray(16 << 20))", "MB of the interpreter's", "del blocks")

# Hints that depend on a folder that the user has mounted: the live test MOUNTED follows them.
MOUNTS = {
    r"in\ here\ that\ may\ be\ .*",
    r"of\ the\ user's\ files\ only\ these\ folders\ are\ in\ here:\ .*;\ .*",
    re.escape(hints.NOT_FOR_OTHERS),
}
# test_jobs.py follows what is said to a job, and test_calls.py what a result shows and a note says of its blocks.
NOT_IN_ERRORS = {
    r"a\ job\ cannot\ start\ jobs:\ start\ them\ in\ a\ run",
    r"the\ job\ has\ ended\ well,\ but\ what\ it\ returned\ cannot\ be\ pickled\ \(.*:\ .*\):"
    r"\ return\ plain\ data,\ or\ write\ it\ to\ a\ file\ in\ /workspace",
    r"the\ job\ has\ ended\ well,\ but\ what\ it\ returned\ has\ .*\ bytes,\ more\ than\ .*:"
    r"\ write\ it\ to\ a\ file\ in\ /workspace",
    r"<.*,\ .*\ bytes:\ \.data,\ \.save\(path\).*>",
    r"beside\ the\ value,\ results\ have\ images\ or\ files,\ in\ \.raw\['content'\]:\ .*.*;"
    r"\ \.show\(\)\ or\ \.save\(path\)\ of\ such\ a\ block",
}
# Another message takes its place.
NOT_SHOWN = {r".*\ has\ no\ JSON\ form"}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as started:
        yield started


SERVERS = ("git", "fs", "desktop-commander")


def said(sandbox: Sandbox, row: Row) -> str:
    error = sandbox.run(row.provoke, *(((), lambda call: []) if row.is_alone else (SERVERS, bridge)))["error"]
    return f"{error['message']}\n{error['hint']}"


def follow(sandbox: Sandbox, row: Row) -> None:
    done = sandbox.run(f"from mcp import runtime\n{row.follow}", SERVERS, bridge)
    assert done["outcome"] == "finished", done
    assert not any("await" in note for note in done["notes"]), done


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.provoke.splitlines()[-1])
def test_what_a_hint_says_works(sandbox: Sandbox, row: Row) -> None:
    assert row.said in said(sandbox, row)
    follow(sandbox, row)


def test_what_is_said_of_memory_works() -> None:
    with Sandbox(memory_bytes=512 << 20) as sandbox:
        assert MEMORY.said in said(sandbox, MEMORY)
        follow(sandbox, MEMORY)


@pytest.mark.parametrize("test", sorted({row.by_user for row in ROWS if row.by_user}))
def test_what_only_the_user_can_do_has_a_live_test(test: str) -> None:
    file, _, name = test.partition(":")
    assert re.search(rf"fn {name}\b", (LIVE / file).read_text())


def test_each_hint_has_a_row() -> None:
    with Sandbox() as sandbox:
        heard = [said(sandbox, row) for row in ROWS]
    with Sandbox(memory_bytes=512 << 20) as sandbox:
        heard.append(said(sandbox, MEMORY))
    sentences = [sentence for source in SOURCES for sentence in _sentences(source)]
    assert len(sentences) > 60
    others = [sentence for source in OTHERS for sentence in _sentences(source)]
    others = [sentence for sentence in others if ADVICE.search(re.sub(r"\\(.)", r"\1", sentence))]
    assert len(others) > 15
    sentences = [sentence for sentence in sentences + others if sentence not in MOUNTS | NOT_IN_ERRORS | NOT_SHOWN]
    unheard = [each for each in sentences if not any(re.search(each, one, re.DOTALL) for one in heard)]
    assert not unheard, "\n".join(unheard)


def _sentences(source: str) -> Iterator[str]:
    """Finds the texts in a source that a reply may show, as patterns."""
    tree = ast.parse((ENTRYPOINT / "belljar_sandbox" / source).read_text())
    silent: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Compare():
                silent.update(ast.walk(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))) | ast.Call(func=ast.Name(id="open")):
                silent.update(ast.walk(node))
            case ast.JoinedStr():
                silent.update(part for part in node.values if isinstance(part, ast.Constant))
    for node in ast.walk(tree):
        if node in silent:
            continue
        match node:
            case ast.JoinedStr(values=parts):
                text = "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in parts)
            case ast.Constant(value=str(value)):
                text = re.escape(value)
            case _:
                continue
        if r"\ " in text and len(text) > len(r"a\ sentence"):
            yield text
