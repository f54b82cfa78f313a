"""The sentence that stands below an error: what the code could have meant, or what is different in a sandbox."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import ENTRYPOINT, Frame, Sandbox

sys.path.insert(0, str(ENTRYPOINT))
from belljar_sandbox.programs.packages import installed_as
from belljar_sandbox.run import hints


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One for all: what these runs leave behind changes no hint."""
    with Sandbox() as started:
        yield started


def hint(sandbox: Sandbox, code: str) -> str:
    error = sandbox.run(code, ("a",), lambda call: {"content": [{"type": "text", "text": "[1]"}]})["error"]
    assert isinstance(error["hint"], str)
    return error["hint"]


@pytest.mark.parametrize(
    "code",
    [
        "r = mcp_a.t()\nr['x']",
        "r = mcp_a.t()\nr.get('x')",
        "for item in mcp_a.t(): pass",
        "import json\njson.dumps(mcp_a.t())",
        "len(mcp_a.t())",
    ],
)
def test_forgotten_await_is_named(sandbox: Sandbox, code: str) -> None:
    assert hint(sandbox, code) == hints.AWAIT


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "('a', 1)",
            "name, count = r",
            "r is text that looks like a tuple: ast.literal_eval(r) makes it one",
        ),
        (
            "(1, 2)",
            "def f():\n    return r['x']\nf()",
            "r is text that looks like a tuple: ast.literal_eval(r) makes it one",
        ),
        ("{1, 2}", "sum(r)", "r is text that looks like a set: ast.literal_eval(r) makes it one"),
        (
            "({'a': 1},)",
            "all = [r]\ndel r\nall[0]['a']",
            "all[0] is text that looks like a tuple: ast.literal_eval(all[0]) makes",
        ),
        (
            "(1, None)",
            "import json\njson.loads(mcp_a.t.sync())",
            "the text is that of a Python tuple, not JSON: ast.literal",
        ),
        ("4.5", "r + 1", "r is text that looks like a number: float(r) makes it one"),
        ("4.5", "all = [r]\ndel r\nsum(all)", "all[0] is text that looks like a number: float(all[0]) makes it one"),
        ("[done] (1 file)", "r['a']", "r is text, as the tool answered it, and has no keys: print(r)"),
        ("[done] (1 file)", "r + 1", ""),
    ],
)
def test_text_that_looks_like_a_value_is_named(sandbox: Sandbox, text: str, code: str, said: str) -> None:
    def on_call(_call: Frame) -> object:
        return {"content": [{"type": "text", "text": text}]}

    error = sandbox.run(f"r = mcp_a.t.sync()\n{code}", ("a",), on_call)["error"]
    assert error["hint"].startswith(said) and bool(said) == bool(error["hint"]), error


def test_await_in_a_generator_and_sync_of_a_handle_are_named(sandbox: Sandbox) -> None:
    assert hint(sandbox, "sum(await mcp_a.t() for _ in range(2))") == hints.ASYNC_GENERATOR
    assert hint(sandbox, "mcp_a.t.handle.sync()") == hints.HANDLE_SYNC


def test_await_of_what_is_no_coroutine_is_named(sandbox: Sandbox) -> None:
    assert hint(sandbox, "await len(mcp_a.t.sync())") == hints.NO_AWAIT


@pytest.mark.parametrize(
    "code",
    [
        "import requests",
        "import httpx",
        "from urllib3.util import Retry",
        "import urllib.request\nurllib.request.urlopen('http://example.org')",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1')",
        "import http.client\nhttp.client.HTTPConnection('127.0.0.1', timeout=1).request('GET', '/')",
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "import socket\nsocket.socket(socket.AF_UNIX)",
        "import socket\nsocket.getaddrinfo('nowhere.invalid', 80)",
        "await asyncio.open_connection('nowhere.invalid', 80)",
        "import subprocess\nsubprocess.run(['wget', 'http://example.org'], env={'PATH': '/nowhere'})",
    ],
)
def test_code_that_wants_a_network_is_told_of_servers(sandbox: Sandbox, code: str) -> None:
    if not (error := sandbox.run(code).get("error")):
        pytest.skip("this machine has a network, and that package")
    assert error["hint"] == hints.NO_NETWORK


def test_errors_that_only_look_like_the_networks_are_not_taken_for_it(sandbox: Sandbox) -> None:
    assert hint(sandbox, "await asyncio.sleep(0)\nraise PermissionError(1, 'Operation not permitted')") == ""
    assert hint(sandbox, "raise TimeoutError('of a tool')") == ""


def test_installing_packages_is_answered_whether_it_raises_or_not(sandbox: Sandbox) -> None:
    assert sandbox.run("import os\n_ = os.system('echo pip install x > /dev/null')")["notes"] == [hints.NO_INSTALL]
    for code in ("!pip install polars", "%pip install polars", "x = 1\n!pip3 install -q polars"):
        done = sandbox.run(code)
        assert done["error"]["hint"] == f"{hints.NO_INSTALL}: {hints.ADD}; {hints.LOOK}"
        assert done["notes"] == []
    path = "env={'PATH': '/nowhere'}"
    failed = hint(sandbox, f"import subprocess\nsubprocess.run(['pip', 'install', 'polars'], {path})")
    assert failed.startswith(hints.NO_INSTALL)
    assert hint(sandbox, "import polars").startswith(hints.NO_INSTALL)
    assert sandbox.run("installed = 'pip is a program'")["notes"] == []


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("duckdb", "duckdb"),
        ("cv2", "opencv-python-headless"),
        ("bs4", "beautifulsoup4"),
    ],
)
def test_a_missing_module_is_answered_with_the_command_that_adds_its_package(
    sandbox: Sandbox, module: str, package: str
) -> None:
    said = hint(sandbox, f"raise ModuleNotFoundError('No module', name={module!r})")
    assert said == f"{hints.NO_INSTALL}: the user can run `belljar image build --with {package} --use`; {hints.LOOK}"


def test_a_usual_package_that_is_missing_is_answered_with_the_command_that_adds_all_of_them(sandbox: Sandbox) -> None:
    said = hint(sandbox, "raise ModuleNotFoundError('No module', name='sklearn.linear_model')")
    adds = "which adds scikit-learn and other usual packages"
    assert said == f"{hints.NO_INSTALL}: the user can run `belljar image build`, {adds}; {hints.LOOK}"


def test_the_usual_packages_are_those_of_the_image() -> None:
    lines = (ENTRYPOINT.parent / "sandbox-image" / "requirements.in").read_text().splitlines()
    assert {installed_as(module) for module in hints.USUAL} == {line for line in lines if not line.startswith("#")}


def test_a_package_that_only_shares_part_of_a_name_is_not_meant(sandbox: Sandbox) -> None:
    assert hint(sandbox, "import phonenumbers").startswith(hints.NO_INSTALL)


def test_without_memory_the_use_and_what_to_do_are_said() -> None:
    with Sandbox(memory_bytes=256 << 20) as sandbox:
        said = hint(sandbox, "blocks = []\nwhile True: blocks.append(bytearray(16 << 20))")
    assert re.fullmatch(r"\d+ of \d+ MB of the interpreter's memory are in use: " + re.escape(hints.LESS), said)


def test_no_command_is_made_of_what_is_no_name(sandbox: Sandbox) -> None:
    said = hint(sandbox, "raise ModuleNotFoundError('No module', name='x; rm -rf ~')")
    assert said == f"{hints.NO_INSTALL}; {hints.LOOK}"


def test_near_packages_of_the_image_are_offered(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    for name in ("numpy/__init__.py", "six.py", "_private.py", "numpy-2.dist-info/METADATA", "fast.cpython-311.so"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    with Sandbox() as sandbox:
        sandbox.run(
            f"import sys\nsys.path[:] = [{str(packages)!r}, *[p for p in sys.path if 'site-packages' not in p]]"
        )
        assert hint(sandbox, "import nunpy") == "did you mean numpy?"


@pytest.mark.parametrize(
    ("code", "near"),
    [
        ("customers = 1\nprint(custmers)", "did you mean customers?"),
        ("def f():\n    local_value = 1\n    return locl_value\nf()", "did you mean local_value?"),
        ("prnt('x')", "did you mean print?"),
        ("'abc'.uper()", "did you mean upper or isupper?"),
        ("import json\njson.dump_s", "did you mean dumps or dump?"),
        ("from json import lods", "did you mean loads or load?"),
        ("import jsn", "did you mean json?"),
        ("try: 1 / 0\nexcept MCPError: pass", "it is runtime.MCPError"),
        ("{'content': 'a', 'size': 1}.splitlines()", "it is a dict with 'content', 'size', no text"),
        ("import mcp_a", "mcp_a is already there: leave out the import"),
        ("from mcp import mcp_a", "mcp_a is already there: leave out the import"),
        ("from mcp_a import read", "mcp_a is already there: leave out the import, and write mcp_a.read"),
        ("import mcp_sqlite", hints.NO_SERVER),
        ("import xml\nxml.etree", "`import xml.etree` is missing"),
        ("itertools.chain", "`import itertools` is missing"),
        ("x = true", "in Python it is True"),
        ("x = [null]", "in Python it is None"),
        ("display(1)", "runtime.show(thing) shows pictures and tables; so does a last expression"),
        ("zzzyyyxxx", ""),
        (
            "raise ImportError('x.so: failed to map segment from shared object')",
            "the sandbox has no more memory: " + hints.LESS,
        ),
        ("raise NameError", ""),
        ("raise AttributeError('own')", ""),
    ],
)
def test_near_names_are_offered(sandbox: Sandbox, code: str, near: str) -> None:
    assert hint(sandbox, code) == near


NO_FILES = f"{hints.NO_FILES}: {hints.READ_BY_TOOL}; {hints.MOUNT}"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('/home/me/data.csv')", NO_FILES),
        ("import os\nos.listdir('/Users/me')", NO_FILES),
        ("open('data.csv')", NO_FILES),
        ("open(b'C:\\\\data.csv')", NO_FILES),
        ("import pathlib\npathlib.Path('~/x').read_text()", NO_FILES),
        ("import os\nopen(os.path.expanduser('~/x.csv'))", NO_FILES),
        ("open('C:/Users/me/x.csv')", NO_FILES),
        ("open('/tmp/not/there')", ""),
        ("open('/etc/not-there')", ""),
        ("raise OSError(30, 'Read-only file system', '/home/x')", hints.READ_ONLY),
        ("raise PermissionError(13, 'Permission denied', '/opt/x')", hints.READ_ONLY),
        ("# mmap.mmap(-1, 9)\nraise PermissionError(1, 'Operation not permitted')", hints.NO_SHARED_MEMORY),
        ("# mmap.mmap(3, 9)\nraise PermissionError(1, 'Operation not permitted')", ""),
        ("input('name? ')", hints.NO_INPUT),
        ("raise OSError(28, 'No space left on device')", hints.NO_ROOM),
        ("class H: pass\nH.__module__, H.__qualname__ = 'mcp.runtime', 'Handle'\nH().startswith('x')", hints.HANDLE),
        ("import json\nclass Handle: pass\njson.dumps(Handle())", hints.HANDLE),
        ("class J: status = 'running'\nJ().status()", hints.JOB),
        ("class J: status = 'running'\nlen = 3\nlen()", ""),
        ("import pickle\npickle.loads(b'')", ""),
    ],
)
def test_what_is_not_in_a_sandbox_is_named(sandbox: Sandbox, code: str, said: str) -> None:
    assert hint(sandbox, code) == said


def test_the_tool_that_reads_files_is_named(sandbox: Sandbox) -> None:
    names = (("git", "read_mail"), ("git-hub", "read_media_file"), ("git-hub", "read_file"))
    hits: list[dict[str, object]] = [
        {"serverAlias": server.replace("-", "_"), "toolAlias": tool} for server, tool in names
    ]
    hits.insert(0, {"serverAlias": "skills", "toolAlias": "read_file", "skill": True})
    asked = []

    def on_call(call: Frame) -> object:
        asked.append((call["server"], call["tool"], call["arguments"]["query"]))
        return {"hits": hits}

    error = sandbox.run("open('/home/me/x.csv')", (), on_call)["error"]
    assert error["hint"] == f"{hints.NO_FILES}: await mcp_git_hub.read_file(...) may read them; {hints.MOUNT}"
    assert asked == [(None, "search_tool_docs", "read file")]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = 1\n!ls -la", hints.NO_MAGIC),
        ("%matplotlib inline\nx = 1", hints.NO_MAGIC),
        ("```python\nx = 1\n```", hints.NO_FENCE),
        ("x = 1\nreturn x", hints.NO_RETURN),
        ("x = = 1", ""),
    ],
)
def test_what_is_no_python_is_named(sandbox: Sandbox, code: str, said: str) -> None:
    assert hint(sandbox, code) == said


def test_syntax_error_shows_its_line_and_a_caret(sandbox: Sandbox) -> None:
    error = sandbox.run("x = 1\nfor y in range(3)\n    print(y)")["error"]
    assert (error["type"], error["line"]) == ("SyntaxError", 2)
    assert error["traceback"] == (
        f'  File "<run {sandbox.runs}>", line 2\n    for y in range(3)\n'
        "                     ^\nSyntaxError: expected ':'"
    )


def test_of_a_library_the_last_frame_is_shown(sandbox: Sandbox) -> None:
    error = sandbox.run("import json\ndef read(text):\n    return json.loads(text)\nread('{')")["error"]
    lines = error["traceback"].split("\n")
    assert lines[0] == "(2 frames inside libraries left out)"
    assert [line.split(", ")[2] for line in lines if "File " in line] == ["in <module>", "in read", "in raw_decode"]
    assert error["line"] == 3


@pytest.mark.parametrize(
    "code",
    [
        "class E(AttributeError):\n    name = property(lambda self: 1 / 0)\nraise E",
        "raise AttributeError(name='x', obj=type('O', (), {'__dir__': lambda self: 1 / 0})())",
        "class N(NameError):\n    name = 5\nraise N",
        "raise ImportError('cannot import name', name=5)",
        "import builtins\nbuiltins.isinstance = None\nzzz",
        "raise FileNotFoundError(2, 'no', object())",
        "raise SyntaxError('s', ('f', 99, 1, 't'))",
    ],
)
def test_hostile_error_has_no_hint_and_is_reported(sandbox: Sandbox, code: str) -> None:
    done: Frame = sandbox.run(code)
    assert (done["outcome"], done["error"]["hint"]) == ("raised", "")
    assert sandbox.run("1")["value"] == "1"


def test_attribute_that_is_a_key_is_said_and_other_words_get_no_guess(sandbox: Sandbox) -> None:
    assert hint(sandbox, "{'args': 1}.args") == "it is a dict: ['args']"
    code = (
        "class T:\n  append = 1\n  @property\n  def style(self): raise AttributeError('style needs jinja2')\nT().style"
    )
    assert hint(sandbox, code) == ""


@pytest.mark.parametrize(
    ("wanted", "said"), [("sumary", "did you mean summary?"), ("nope", "print(runtime.skills) lists")]
)
def test_a_skill_that_is_not_kept_has_a_hint(sandbox: Sandbox, wanted: str, said: str) -> None:
    def on_call(call: Frame) -> object:
        return [{"name": "summary"}] if call["tool"] == "list_skills" else []

    error = sandbox.run(f"from skills import {wanted}", (), on_call)["error"]
    assert said in error["hint"], error
