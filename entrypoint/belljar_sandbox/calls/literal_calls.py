"""Finds the calls of tools in code that name the server, the tool and the arguments literally.

It leaves out calls that could mean something else when they run, and calls that the code expects to fail.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import takewhile
from types import ModuleType
from typing import Any, NamedTuple

from .port import Server
from .proxies import ServerModule, ServerTable, ToolFunction

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_compile, _children = compile, ast.iter_child_nodes

# Code with these may bind any name, and is not searched.
_BINDERS = frozenset(["__builtins__", "delattr", "eval", "exec", "globals", "locals", "patch", "setattr", "vars"])
# Code with these may handle failures elsewhere than where they are raised.
_LOOKERS = frozenset(
    [
        "add_done_callback",
        "as_completed",
        "assertRaises",
        "exception",
        "raises",
        "return_exceptions",
        "suppress",
        "wait",
    ]
)
_CATCHERS = frozenset(["assertRaises", "raises", "suppress"])
_LEAVERS = frozenset(["_exit", "exit", "quit"])
# Attributes of servers that are not tools.
_OWN = frozenset(["TOOLS", "TOOL_MAP", "list_tools", "mro"])
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVING = frozenset([ast.Assert, ast.Break, ast.Continue, ast.Raise, ast.Return])
# Nodes that bind a name, or handle failures.
_TELLING = frozenset(
    [
        *_DEFINITIONS,
        ast.Attribute,
        ast.ExceptHandler,
        ast.Import,
        ast.ImportFrom,
        ast.MatchAs,
        ast.MatchMapping,
        ast.MatchStar,
        ast.Name,
        ast.Subscript,
        ast.Try,
        ast.TryStar,
        ast.arg,
        ast.keyword,
    ]
)
_OURS = (ServerModule, ToolFunction, ModuleType)
_CHAIN_MAX = 6


class LiteralCall(NamedTuple):
    server: str
    """Its name or alias."""
    tool: str
    names: list[str] | None
    """The names of all arguments, if they are known."""
    by_place: bool
    """An argument is given without a name."""
    line: int
    is_conditional: bool
    """It may not be reached: a condition precedes it, or it is in a loop that may be empty."""
    is_import: bool = False
    """It is an import of the tool, which makes no call."""


class _Server(NamedTuple):
    name: str
    own: Mapping[str, object]
    """The attributes that user code has set on it."""


class _Tool(NamedTuple):
    server: str
    name: str
    is_sync: bool


# The dotted name of a module or function, a server, or a tool.
_Meaning = str | _Server | _Tool
_TABLE = "mcp_servers"
_SERVERS = "mcp.servers."


class _Place(NamedTuple):
    """The surroundings of a call."""

    is_awaited: bool
    is_conditional: bool
    is_in_function: bool


def literal_calls(code: str, namespace: Mapping[str, object]) -> list[LiteralCall]:
    """Returns the calls in the order of their lines; none if the code may bind names in ways that are not visible."""
    tree = _compile(code, "<calls>", "exec", _FLAGS, dont_inherit=True)
    names = _Names(namespace)
    around = _Surroundings()
    calls: list[ast.Call] = []
    imports: list[ast.ImportFrom] = []
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        kind = type(node)
        if isinstance(node, ast.Call):
            calls.append(node)
            around.note_call(node)
        elif kind in _TELLING and not names.learn(node):
            return []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_SERVERS):
            imports.append(node)
        if kind in _LEAVING or (isinstance(node, ast.Call) and _called(node) in _LEAVERS):
            around.mark_leaving(node)
        for child in _children(node):
            around.parents[child] = node
            waiting.append(child)
    found = [literal for call in calls if (literal := _literal(call, names, around))]
    called = {(call.server, call.tool) for call in found}
    found += [each for node in imports for each in _imported(node, around) if (each.server, each.tool) not in called]
    return sorted(found, key=lambda call: call.line)


class _Names:
    """The meanings of names in the code, from its imports and the namespace. A name that is bound in another
    way has no meaning."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._bound: dict[str, str | None] = {}
        self.set_attributes: set[str] = set()
        self.looks_at_failures = False

    def learn(self, node: ast.AST) -> bool:
        """Learns from one node of the code. Returns whether its bindings are visible."""
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._notice(name)
                return name not in _BINDERS
            case ast.Attribute(attr=name, ctx=ast.Load()):
                self._notice(name)
                return name != "__dict__"
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                self._bind(name, None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._bind(name, None)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._bind(name, None)
            case ast.Attribute(attr=name):
                self.set_attributes.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                self._bind(name, None)
            case ast.keyword(arg=str(name)):
                self._notice(name)
            case ast.Try(handlers=[_, *_]) | ast.TryStar():
                self.looks_at_failures = True
            case ast.Import(names=aliases):
                for alias in aliases:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._bind(alias.asname or module, module)
            case ast.ImportFrom(names=aliases):
                for alias in aliases:
                    self._bind(alias.asname or alias.name, f"{node.module}.{alias.name}")
                return aliases[0].name != "*"
        return True

    def _bind(self, name: str, meaning: str | None) -> None:
        self._bound[name] = meaning if self._bound.get(name, meaning) == meaning else None

    def _notice(self, name: str) -> None:
        if name in _LOOKERS:
            self.looks_at_failures = True

    def meaning(self, node: ast.expr, steps: int = _CHAIN_MAX) -> _Meaning | None:
        match node:
            case ast.Name(id=name):
                return self._of_name(name)
            case ast.Attribute(value=value, attr=name) if steps:
                return self._of_attribute(self.meaning(value, steps - 1), name)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name))) if steps:
                return _Server(name, {}) if self.meaning(value, steps - 1) == _TABLE else None
        return None

    def _of_name(self, name: str) -> _Meaning | None:
        if name in self._bound:
            return self._of_path(self._bound[name])
        if name not in self._namespace:
            return _Server(name.removeprefix("mcp_"), {}) if name.startswith("mcp_") else None
        thing: Any = self._namespace[name]
        kind = type(thing)
        if kind is ServerTable:
            return _TABLE
        # Attributes of other objects are not read, since that may run user code.
        own: Mapping[str, object] = vars(thing) if kind in _OURS else {}
        match own:
            case {"_server": str(server), "_tool": str(tool)}:
                return _Tool(server, tool, False)
            case {"_server": Server(name=server)}:
                return _Server(server, own)
            case {"__name__": str(path)} if sys.modules.get(path) is thing:
                return path
        return None

    def _of_path(self, path: str | None) -> _Meaning | None:
        """Returns the meaning of an import."""
        if path is None or path.partition(".")[0] != "mcp":
            return None
        meaning: _Meaning | None = "mcp"
        for name in path.split(".")[1:]:
            meaning = self._of_attribute(meaning, name)
        return meaning

    def _of_attribute(self, of: _Meaning | None, name: str) -> _Meaning | None:
        match of:
            case "mcp.servers":
                is_server = type(vars(sys.modules["mcp.servers"]).get(name)) in (ServerModule, type(None))
                return _Server(name, {}) if is_server else None
            case str(path):
                return f"{path}.{name}"
            case _Server(server, own):
                is_tool = not (name in _OWN or name in own or name in self.set_attributes or name.startswith("_"))
                return _Tool(server, name, False) if is_tool else None
            case _Tool(server, tool) if name in ("sync", "handle_sync"):
                return _Tool(server, tool, True)
            case _Tool() if name == "handle":
                return of
        return None


class _Surroundings:
    """The nodes around a node."""

    def __init__(self) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        # Calls by the name of their function.
        self._calls: dict[str, list[ast.Call]] = {}
        # For each function, whether all calls of it are conditional; None if no call of it is known.
        self._of_functions: dict[ast.AST, bool | None] = {}
        # Statements that may leave their block.
        self._leaving: set[ast.AST] = set()

    def mark_leaving(self, node: ast.AST) -> None:
        while node in self.parents and type(node) not in _DEFINITIONS:
            self._leaving.add(node)
            node = self.parents[node]

    def note_call(self, call: ast.Call) -> None:
        if isinstance(call.func, ast.Name):
            self._calls.setdefault(call.func.id, []).append(call)

    def place(self, call: ast.AST) -> _Place | None:
        """Returns None for a call or import that is expected to fail, or in a function that this code does not call."""
        is_conditional = is_in_function = False
        node: ast.AST = call
        while node in self.parents:
            above = self.parents[node]
            match above:
                case ast.Try(handlers=[_, *_]) | ast.TryStar() if _has(above.body, node):
                    return None
                case ast.With(items=items) | ast.AsyncWith(items=items) if any(map(_catches, items)):
                    return None
                case ast.FunctionDef() | ast.AsyncFunctionDef() if _has(above.body, node):
                    if not is_in_function:
                        is_in_function = True
                        called = self._is_called_conditionally(above)
                        if called is None:
                            return None
                        is_conditional |= called
                case ast.Lambda():
                    return None
                case (
                    ast.If(test=first) | ast.While(test=first) | ast.IfExp(test=first) | ast.BoolOp(values=[first, *_])
                ):
                    is_conditional |= node is not first
                case ast.match_case() | ast.ExceptHandler():
                    is_conditional = True
                case ast.For(iter=items) | ast.AsyncFor(iter=items) | ast.comprehension(iter=items):
                    is_conditional |= node is not items and _may_be_empty(items)
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    is_conditional |= node is not above.generators[0] and any(
                        generator.ifs or _may_be_empty(generator.iter) for generator in above.generators
                    )
            if not is_conditional and self._leaving and isinstance(node, ast.stmt):
                is_conditional = not self._leaving.isdisjoint(_before(node, above))
            node = above
        return _Place(isinstance(self.parents[call], ast.Await), is_conditional, is_in_function)

    def _is_called_conditionally(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool | None:
        if function in self._of_functions:
            return self._of_functions[function]
        # Until the result is known, calls of the function within itself do not count.
        self._of_functions[function] = None
        is_method = isinstance(self.parents[function], ast.ClassDef)
        if not (function.decorator_list or is_method):
            places = [place for call in self._calls.get(function.name, ()) if (place := self.place(call))]
            if places:
                self._of_functions[function] = all(place.is_conditional for place in places)
        return self._of_functions[function]


def _before(statement: ast.stmt, above: ast.AST) -> Iterator[ast.AST]:
    """Returns the statements before it in the same block."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and _has(block, statement):
            yield from takewhile(lambda earlier: earlier is not statement, block)


def _has(block: list[ast.stmt], node: ast.AST) -> bool:
    return any(statement is node for statement in block)


def _may_be_empty(items: ast.expr) -> bool:
    match items:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return all(isinstance(element, ast.Starred) for element in elements)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count < 1
    return True


def _catches(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and _called(item.context_expr) in _CATCHERS


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _literal(call: ast.Call, names: _Names, around: _Surroundings) -> LiteralCall | None:
    meaning = names.meaning(call.func)
    match meaning:
        case _Tool(server, tool, is_sync):
            given = _given(call)
            by_place = bool(call.args) and not any(isinstance(argument, ast.Starred) for argument in call.args)
        case "mcp.runtime.call_tool" | "mcp.runtime.call_tool_sync":
            target = _target(call)
            if target is None:
                return None
            server, tool, given = target
            by_place, is_sync = False, meaning.endswith("_sync")
        case _:
            return None
    place = around.place(call)
    if place is None:
        return None
    # A call that is awaited elsewhere, or that is in a function, may fail where the code handles failures.
    if names.looks_at_failures and (place.is_in_function or not (is_sync or place.is_awaited)):
        return None
    return LiteralCall(server, tool, given, by_place, call.lineno, place.is_conditional)


def _imported(node: ast.ImportFrom, around: _Surroundings) -> Iterator[LiteralCall]:
    place = around.place(node)
    for alias in node.names if place is not None else ():
        if alias.name not in _OWN and place is not None:
            server = (node.module or "").removeprefix(_SERVERS)
            yield LiteralCall(server, alias.name, None, False, node.lineno, place.is_conditional, True)


def _given(call: ast.Call) -> list[str] | None:
    names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    return names if len(names) == len(call.keywords) and not call.args else None


def _target(call: ast.Call) -> tuple[str, str, list[str] | None] | None:
    """Returns the server, the tool and the argument names of a `call_tool`."""
    arguments: dict[str | None, ast.expr] = dict(zip(("server", "tool", "args"), call.args, strict=False))
    arguments.update((keyword.arg, keyword.value) for keyword in call.keywords)
    match arguments.get("server"), arguments.get("tool"), arguments.get("args", ast.Dict([], [])):
        case ast.Constant(value=str(server)), ast.Constant(value=str(tool)), given if None not in arguments:
            keys = _keys(given)
            by_name = [name for name in arguments if name not in ("server", "tool", "args", "handle")]
            return server, tool, None if keys is None else [*keys, *map(str, by_name)]
    return None


def _keys(given: ast.expr) -> list[str] | None:
    match given:
        case ast.Constant(value=None):
            return []
        case ast.Dict(keys=keys):
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return names if len(names) == len(keys) else None
    return None
