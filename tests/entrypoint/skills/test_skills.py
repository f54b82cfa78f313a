"""Functions that are kept: what goes with them, what is refused, how they come back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox import Frame, Sandbox


class Bridge:
    """Keeps what it is given, as the real one does, but for versions and headers."""

    def __init__(self) -> None:
        self.kept: dict[str, Frame] = {}
        self.problems: dict[str, str] = {}
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, call: Frame) -> object:
        arguments = call["arguments"]
        self.asked.append((call["tool"], arguments))
        match call["tool"]:
            case "save_tool":
                self.kept[arguments["name"]] = arguments
                return f"saved {arguments['name']}"
            case "load_skills":
                broken = [{"name": n, "problem": self.problems[n]} for n in arguments["names"] if n in self.problems]
                found = [n for n in arguments["names"] if n in self.kept and n not in self.problems]
                return broken + [{"name": n, "source": self.kept[n]["source"], "version": 1} for n in found]
            case "list_skills":
                return [
                    {
                        "name": n,
                        "signature": f"{n}(x)",
                        "description": "Does.",
                        "tags": [],
                        "version": 1,
                        "test": a.get("test"),
                    }
                    for n, a in self.kept.items()
                ]
            case "show_skill":
                return self.kept[arguments["name"]]["source"]
            case "remove_skill":
                del self.kept[arguments["name"]]
                return "removed"
        return {"content": [{"type": "text", "text": f"{call['tool']} {arguments}"}]}

    def keep(self, name: str, source: str) -> None:
        self.kept[name] = {"name": name, "source": source}


@pytest.fixture
def bridge() -> Bridge:
    return Bridge()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def ok(sandbox: Sandbox, code: str, bridge: Bridge, servers: tuple[str, ...] = ()) -> str | None:
    done = sandbox.run(code, servers, bridge)
    assert done["outcome"] == "finished", done["error"]["traceback"]
    assert done["notes"] == [], done["notes"]
    value: str | None = done["value"]
    return value


def refusal(sandbox: Sandbox, code: str, bridge: Bridge, servers: tuple[str, ...] = ()) -> str:
    before = dict(bridge.kept)
    done = sandbox.run(code, servers, bridge)
    assert done["outcome"] == "raised", done
    assert bridge.kept == before, "nothing is kept"
    return str(done["error"]["message"])


def fresh(sandbox: Sandbox) -> None:
    """A worker that knows nothing of the session before."""
    sandbox.supervise({"type": "replace", "worker": sandbox.worker, "restore": False})
    sandbox.wait("worker_started")


ALL_KINDS = '''
import json, os.path
import collections as c
from math import sqrt
from dataclasses import dataclass, field
from functools import cache
from enum import Enum
LIMIT = 10
TABLE = {"a": (1, -2.5), "b": [None, True]}
class Color(Enum):
    RED = 1
@dataclass
class Row:
    "One."
    name: str
    values: list[int] = field(default_factory=list)
    def total(self) -> int:
        return twice(sum(self.values))
def twice(x): return 2 * x
double = twice
@cache
def root(x): return sqrt(x)
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
def unused(): return 1
async def ask(city, *, limit=LIMIT, color=Color.RED):
    """Asks.

    More."""
    r = await mcp_a.find(city=city)
    return json.dumps([c.Counter("aab")["a"], root(4.0), Row("r", [1, 2]).total(), os.path.basename("/x/y"),
        TABLE["a"][1], even(4), double(limit), color.name, str(r), [n for n in range(2)]])
'''


def test_a_function_is_kept_with_all_that_it_needs_and_comes_back_without_the_session(bridge: Bridge) -> None:
    with Sandbox() as sandbox:
        assert ok(sandbox, ALL_KINDS + "save_tool(ask, tags=['t'])", bridge, ("a",)) == "'saved ask'"
    kept = bridge.kept["ask"]
    source = kept["source"]
    assert source.startswith(
        "import collections as c\nimport json\nimport os\nimport os.path\nfrom dataclasses import dataclass\n"
        "from dataclasses import field\nfrom enum import Enum\nfrom functools import cache\nfrom math import sqrt\n\n"
    ), source
    assert "LIMIT = 10\n" in source and "unused" not in source
    assert source.index("class Color") < source.index("async def ask")
    assert (kept["servers"], kept["tags"], "test" in kept, "description" in kept) == (["a"], ["t"], False, False)
    code = "from skills import ask\nawait ask('Oslo')"
    said = "'[2, 2.0, 6, \"y\", -2.5, true, 20, \"RED\", \"find {\\'city\\': \\'Oslo\\'}\", [0, 1]]'"
    with Sandbox() as sandbox:
        assert ok(sandbox, code, bridge, ("a",)) == said
        # The servers are those of the run, whatever it has when the skill is loaded.
        assert ok(sandbox, "skills.ask.__module__, 'Row' in globals()", bridge) == "('skills.ask', False)"
        assert "NameError" in sandbox.run("await ask('Oslo')", (), bridge)["error"]["traceback"]
        assert ok(sandbox, "mcp_a = 5\nawait ask('Oslo')", bridge, ("a",)) == said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "f = open('/dev/null')\ndef g(): return f",
            "g uses f, an object of type TextIOWrapper which cannot be kept: make it a",
        ),
        ("class A: pass\na = A()\ndef g(): return a", "g uses a, an object of type A which cannot be kept"),
        (
            "def h():\n    x = 1\n    def g(): return x\n    return g\ng = h()",
            "g uses x of the function that it was defined in",
        ),
        ("g = lambda: 1", "a lambda has no name to be kept by"),
        ("t = lambda: 1\ndef g(): return t()", "a lambda has no name to be kept by"),
        ("big = list(range(10_000))\ndef g(): return big", "g uses big, a list that is too large, or not plain values"),
        ("def g(): return nosuch", "g uses nosuch, which is not defined"),
        (
            "import random\ndef g(x=random.random()): return x",
            "line 4 would run at import (no literal and no name): def g(x=",
        ),
        ("def deco(f): return f\n@deco\ndef g(): return 1", "a decorator that is not known to be harmless"),
        ("class M(type): pass\nclass A(metaclass=M): pass\ndef g(): return A", "a class with metaclass="),
        ("exec('def g(): return 1')", "the source of g is not known"),
        ("def g(): return 1\ng.__name__ = 'h i'", "h i"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_to_do(sandbox: Sandbox, bridge: Bridge, code: str, said: str) -> None:
    assert said in refusal(sandbox, f"{code}\nsave_tool(g)", bridge)


def test_a_module_of_the_sessions_own_folder_is_refused(sandbox: Sandbox, bridge: Bridge, tmp_path: Any) -> None:
    assert str(tmp_path).startswith("/tmp")
    (tmp_path / "ownmodule.py").write_text("def helper(): return 1\n")
    ok(sandbox, f"import sys\nsys.path.append({str(tmp_path)!r})\nimport ownmodule", bridge)
    code = "def g(): return ownmodule.helper()\nsave_tool(g)"
    assert "g uses the module ownmodule of" in refusal(sandbox, code, bridge)
    code = "from ownmodule import helper\ndef g(): return helper()\nsave_tool(g)"
    assert "g uses helper, an object of type function which cannot be kept" in refusal(sandbox, code, bridge)


def test_it_is_tried_where_the_sessions_variables_are_not(sandbox: Sandbox, bridge: Bridge) -> None:
    code = "class B: pass\nclass A(B): pass\nB.twin = A\ndef g(x=A.twin): return x\nsave_tool(g)"
    said = refusal(sandbox, code, bridge)
    assert "in a process of its own it cannot be imported: AttributeError" in said and "at line " in said, said
    dies = "import os\ndef g(): return 1\nsave_tool(g, test='import os; os._exit(3)')"
    assert "its process ended in the middle of it" in refusal(sandbox, dies, bridge)
    calls = "def g(): return runtime.list_servers_sync()\nsave_tool(g, test='g()')"
    assert "its test test_g fails: no server can be called there; leave the test out" in refusal(sandbox, calls, bridge)


def test_a_test_is_run_there_and_kept_beside_it(sandbox: Sandbox, bridge: Bridge) -> None:
    code = "LIMIT = 3\ndef half(x): return x // 2\n"
    said = refusal(sandbox, code + "save_tool(half, test='assert half(LIMIT) == 2, \"no\"')", bridge)
    assert said.startswith("half is not kept: its test test_half fails: AssertionError: no at line "), said
    assert said.endswith('assert half(LIMIT) == 2, "no"'), said
    text = "save_tool(half, test='''\n    print('tested')\n"
    text += '    text = """a\nb"""\n    assert text == \'a\\\\nb\'\n    assert half(LIMIT) == 1\n\'\'\')'
    done = sandbox.run(text, (), bridge)
    assert (done["outcome"], done["stdout"]) == ("finished", "tested\n"), done
    assert bridge.kept["half"]["test"] == "test_half" and "def test_half():\n" in bridge.kept["half"]["source"]
    assert ok(sandbox, "def check(): assert half(4) == 2\nsave_tool(half, test=check)", bridge) == "'saved half'"
    assert bridge.kept["half"]["test"] == "check"
    later = "async def later(x):\n    return x\nsave_tool(later, test='assert await later(3) == 3')"
    assert ok(sandbox, later, bridge) == "'saved later'"
    assert "async def test_later():" in bridge.kept["later"]["source"]
    assert "test_later fails" in refusal(sandbox, later.replace("== 3", "== 4"), bridge)
    # Within a run that awaits, too.
    assert ok(sandbox, "import asyncio\nawait asyncio.sleep(0)\n" + later, bridge) == "'saved later'"
    assert ok(sandbox, "runtime.skills.test('later')", bridge) == "'later can be imported, and test_later passes'"
    bridge.kept["later"]["source"] = bridge.kept["later"]["source"].replace("return x", "return -x")
    assert "test_later fails" in refusal(sandbox, "runtime.skills.test('later')", bridge)
    assert "save_tool takes a function, not int" in refusal(sandbox, "save_tool(5)", bridge)
    assert "no Python: line 1" in refusal(sandbox, "save_tool(half, test='assert (')", bridge)


def test_second_positional_argument_is_the_test(sandbox: Sandbox, bridge: Bridge) -> None:
    code = "def half(x): return x // 2\n"
    assert ok(sandbox, code + "save_tool(half, 'assert half(4) == 2')", bridge) == "'saved half'"
    assert bridge.kept["half"]["test"] == "test_half" and "description" not in bridge.kept["half"]
    said = refusal(sandbox, "save_tool(half, 'Halves a number.')", bridge)
    assert said.endswith("a description goes by name: description=..."), said
    said = refusal(sandbox, "save_tool(half, None, ['t'])", bridge)
    assert said == "save_tool() takes from 1 to 2 positional arguments but 3 were given"


def test_a_test_that_hangs_is_ended_with_its_run(sandbox: Sandbox, bridge: Bridge) -> None:
    hangs = "import os; print(os.getpid(), flush=True)\\nwhile True: pass"
    run = sandbox.start(f"def g(): return 1\nsave_tool(g, test='{hangs}')")
    process = int(sandbox.wait("output")["text"])
    sandbox.interrupt()
    done = sandbox.finish(run, bridge)
    assert (done["outcome"], bridge.kept) == ("interrupted", {})
    assert ok(sandbox, f"import os\nos.path.exists('/proc/{process}')", bridge) == "False"


def test_a_class_of_an_earlier_run_and_a_redefined_function_are_found(sandbox: Sandbox, bridge: Bridge) -> None:
    ok(sandbox, "class P:\n    x = 1\ndef g(): return 1", bridge)
    ok(sandbox, "class P:\n    x = 2\ndef g(): return P.x", bridge)
    ok(sandbox, "if True:\n    def h():\n        return g()\n", bridge)
    ok(sandbox, "save_tool(h)", bridge)
    assert bridge.kept["h"]["source"] == "class P:\n    x = 2\n\n\ndef g(): return P.x\n\n\ndef h():\n    return g()\n"


def test_a_skill_can_use_another_and_the_servers_that_it_names_are_told(sandbox: Sandbox, bridge: Bridge) -> None:
    ok(sandbox, "def one(): return 1\nsave_tool(one)", bridge)
    fresh(sandbox)
    code = (
        "from skills import one\nimport skills\nfrom mcp.servers.b_c import find\n"
        "def two():\n    mcp_servers['x']; mcp_gone\n    runtime.call_tool('y', 't')\n"
        "    return one() + skills.one(), find\nsave_tool(two)"
    )
    ok(sandbox, code, bridge, ("b-c",))
    kept = bridge.kept["two"]
    assert kept["servers"] == ["b-c", "gone", "x", "y"]
    assert kept["source"].startswith(
        "import skills\nfrom mcp import runtime\nfrom mcp.servers.b_c import find\nfrom skills import one\n\n\ndef two"
    ), kept["source"]
    bridge.kept["two"]["source"] = (
        kept["source"].replace("mcp_servers['x']; mcp_gone", "pass").replace("runtime.call", "#")
    )
    fresh(sandbox)
    assert ok(sandbox, "from skills import two\ntwo()[0]", bridge, ("b-c",)) == "2"


def test_a_name_that_nothing_else_defines_is_looked_for_once(sandbox: Sandbox, bridge: Bridge) -> None:
    bridge.keep("double", "def double(x):\n    return 2 * x\n")
    bridge.keep("other", "def other(): return 1\n")
    bridge.keep("broken", "def broken(:\n")
    assert ok(sandbox, "def f(a, *b):\n    return [c for c in b]\nf(1)", bridge) == "[]"
    assert bridge.asked == []
    assert ok(sandbox, "double(4)", bridge) == "8"
    assert bridge.asked == [("load_skills", {"names": ["double"]})]
    assert ok(sandbox, "from math import *\ndouble(floor(4.5))", bridge) == "8"
    assert sandbox.run("nosuch", (), bridge)["error"]["type"] == "NameError"
    assert sandbox.run("nosuch", (), bridge)["error"]["type"] == "NameError"
    assert [names for _, names in bridge.asked[1:]] == [{"names": ["floor"]}, {"names": ["nosuch"]}]
    done = sandbox.run("broken()", (), bridge)
    assert "skill 'broken' cannot be loaded: SyntaxError" in done["notes"][0]
    assert ok(sandbox, "skills.other()", bridge) == "1", "also without an import"
    assert "double" in str(ok(sandbox, "save_tool(double)", bridge)), "and it can be kept again"


def test_what_cannot_be_loaded_says_why_and_never_runs(sandbox: Sandbox, bridge: Bridge) -> None:
    bridge.problems["edited"] = "skill 'edited' is not loaded: its file was changed"
    done = sandbox.run("edited()", (), bridge)
    assert (done["error"]["type"], done["notes"]) == ("NameError", [bridge.problems["edited"]])
    assert bridge.problems["edited"] in refusal(sandbox, "from skills import edited", bridge)
    done = sandbox.run("from skills import edit", (), bridge)
    assert "cannot import name 'edit' from 'skills'" in done["error"]["message"]
    bridge.keep("loud", "print('ran')\ndef loud(): pass\n")
    done = sandbox.run("from skills import loud", (), bridge)
    assert (
        done["stdout"] == "" and "line 1 would run at import (no definition): print('ran')" in done["error"]["message"]
    )
    bridge.keep("round_a", "from skills import round_b\ndef round_a(): pass\n")
    bridge.keep("round_b", "from skills import round_a\ndef round_b(): pass\n")
    assert "import each other" in refusal(sandbox, "from skills import round_a", bridge)


HARMLESS = """
'''A docstring.'''
from __future__ import annotations
import re, enum, abc, typing
import functools as ft
from dataclasses import dataclass, field
from typing import Generic, TypeVar
A, B = None, None
"""


@pytest.mark.parametrize(
    "statement",
    [
        "x = 60 * 60 * 24",
        "x: print('annotation') = -1",
        "x = {'a': [1, (2, None)], **{}}",
        "x = re.I",
        "def f(a=1, *, b=re.I, c=(1, 2), d=lambda: print(1)) -> print('annotation'): print('body')",
        "@dataclass(frozen=True)\nclass A:\n    x: int = field(default=3)\n    y: int = 4\n    __match_args__ = ('x',)",
        "class A(enum.Enum):\n    X = enum.auto()\n    def f(self): print(1)\ndef f(a=A.X): pass",
        "class A(Exception):\n    'D.'\n    @staticmethod\n    def s(): pass",
        "class A:\n    @property\n    def p(self): return 1\n    @p.setter\n    def p(self, v): pass",
        "class A(abc.ABC, typing.Iterable[int]):\n    @abc.abstractmethod\n    def f(self): ...",
    ],
)
def test_definitions_are_let_pass(statement: str) -> None:
    from belljar_sandbox.skills.definitions import compiled

    source = HARMLESS.replace("A, B = None, None\n", "") + statement + "\n"
    code, _ = compiled(source, "<s>")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("print(1)", 8),
        ("x = print(1)", 8),
        ("x = [print(1)]", 8),
        ("x = f'{print(1)}'", 8),
        ("x = 10 ** 10", 8),
        ("x = 'a' * 10", 8),
        ("x = [0] * 10", 8),
        ("x = A.b", 8),
        ("x = (lambda: 1)()", 8),
        ("x = lambda a=print(1): a", 8),
        ("x, y = 1, 2", 8),
        ("x.y = 1", 8),
        ("x[0] = 1", 8),
        ("x += 1", 8),
        ("del x", 8),
        ("__builtins__ = {}", 8),
        ("if True: pass", 8),
        ("for x in (1,): pass", 8),
        ("try:\n    import y\nexcept ImportError: pass", 8),
        ("with x: pass", 8),
        ("from re import *", 8),
        ("from . import re", 8),
        ("assert x", 8),
        ("raise x", 8),
        ("def f(a=print(1)): pass", 8),
        ("def f(a=[x for x in ()]): pass", 8),
        ("def f(*, a=print(1)): pass", 8),
        ("@print\ndef f(): pass", 8),
        ("@ft.cache\ndef f(): pass", 8),
        ("@dataclass(order=print(1))\nclass A: pass", 8),
        ("@ft.lru_cache(print)\ndef f(): pass", 8),
        ("class C: pass\n@dataclass(C)\nclass A: pass", 9),
        ("class A:\n    @staticmethod(print)\n    def f(): pass", 9),
        ("def dataclass(x): print(1)\n@dataclass\nclass A: pass", 9),
        ("def property(x): print(1)\nclass A:\n    @property\n    def f(self): pass", 10),
        ("class A(print(1)): pass", 8),
        ("class A(metaclass=abc.ABCMeta): pass", 8),
        ("class A:\n    print(1)", 9),
        ("class A:\n    x = print(1)", 9),
        ("class A:\n    def __init_subclass__(cls): print(1)\nclass B(A): pass", 9),
        ("class A:\n    __init_subclass__ = B", 9),
        ("class A:\n    def __set_name__(self, a, b): print(1)", 9),
        ("class A:\n    def __class_getitem__(cls, x): print(1)\nclass B(A[1]): pass", 9),
        ("class A: pass\nclass B(A[1]): pass", 9),
        ("class A(enum.Enum):\n    def __init__(self, x): print(1)\n    X = 1", 9),
        ("class A(enum.Enum): pass\nclass B(A):\n    def __new__(cls, x): print(1)\n    X = 1", 10),
        ("class A:\n    x: int = field(default=print(1))", 9),
    ],
)
def test_what_would_run_at_import_is_refused_with_its_line(statement: str, line: int) -> None:
    from belljar_sandbox.skills.definitions import NotOnlyDefinitionsError, compiled

    source = HARMLESS.replace("A, B = None, None", "B = None").lstrip("\n") + statement + "\n"
    with pytest.raises(NotOnlyDefinitionsError, match=f"^line {line} would run at import"):
        compiled(source, "<s>")


def test_what_is_kept_can_be_listed_shown_and_removed(sandbox: Sandbox, bridge: Bridge) -> None:
    assert ok(sandbox, "runtime.skills", bridge) == "no skill is kept yet: save_tool(function) keeps one"
    ok(sandbox, "def g(x): return x\nsave_tool(g)", bridge)
    assert ok(sandbox, "runtime.skills", bridge) == "g(x)  # Does.; version 1"
    assert (
        ok(sandbox, "len(runtime.skills), 'g' in runtime.skills, [s['name'] for s in runtime.skills]", bridge)
        == "(1, True, ['g'])"
    )
    assert ok(sandbox, "runtime.skills.show('g')", bridge) == "def g(x): return x\n"
    assert ok(sandbox, "import skills\nskills.g(2), dir(skills)", bridge) == "(2, ['g'])"
    assert ok(sandbox, "runtime.skills.rm('g')", bridge) == "'removed'"
    done = sandbox.run("skills.g(2)", (), bridge)
    assert "module 'skills' has no attribute 'g'" in done["error"]["message"], "what was loaded is gone too"
    bridge.keep("weekly", "def weekly(): pass\n")
    assert sandbox.run("skills.wekly()", (), bridge)["error"]["hint"] == "did you mean weekly?"


def test_a_dry_run_lists_a_removal(sandbox: Sandbox, bridge: Bridge) -> None:
    run = sandbox.start("with runtime.plan() as plan:\n    runtime.skills.rm('g')\nprint(plan.calls)\nlen(plan.calls)")
    call = sandbox.wait("call")
    assert (call["tool"], call.get("dry_run")) == ("remove_skill", True)
    sandbox.tell({"type": "result", "call": call["call"], "planned": {"server": "runtime", "tool": "remove_skill"}})
    assert sandbox.finish(run, bridge)["value"] == "1"


def test_a_call_from_outside_prints_text_as_it_is_and_the_rest_as_json(sandbox: Sandbox, bridge: Bridge) -> None:
    bridge.keep("say", "async def say(x, y=None):\n    return y or x\n")
    for arguments, printed in [
        ('{"x": "a\\\\u00e9"}', "aé\n"),
        ('[{"k": ["é", 1]}]', '{"k": ["é", 1]}\n'),
        ("[null]", ""),
        ('{"x": 1, "y": 2}', "2\n"),
    ]:
        code = f"from belljar_sandbox.skills.call import call\nawait call('say', '{arguments}')"
        done = sandbox.run(code, (), bridge)
        assert (done["outcome"], done["stdout"]) == ("finished", printed), done
    bridge.keep("odd", "def odd():\n    return {1, 2}\n")
    done = sandbox.run("from belljar_sandbox.skills.call import call\nawait call('odd', '[]')", (), bridge)
    assert done["stdout"] == "{1, 2}\n"
