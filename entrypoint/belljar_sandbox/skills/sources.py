"""Collects the source of a function with everything that it needs: functions, classes, imports and constants.

Nothing is executed. What has no source is refused, and the error says what to do.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Iterator, Mapping
from inspect import isfunction, unwrap
from pprint import pformat
from textwrap import dedent, indent
from types import FunctionType, ModuleType
from typing import Any

from ..calls.proxies import ServerModule, ToolFunction
from ..calls.results import MCPError
from ..wire.names import SKILLS_MODULE
from .definitions import global_names, is_session_name
from .loader import SkillLoader

_CONSTANT_CHARACTERS_MAX = 20_000
_PARTS_MAX = 200
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_OWN_FOLDERS = ("/workspace", "/tmp")
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourceCollector:
    """Collects the source of one skill."""

    def __init__(self, skills: SkillLoader, namespace: Mapping[str, Any]) -> None:
        self._skills = skills
        self._namespace = namespace
        self._imports: set[str] = set()
        self._constants: dict[str, str] = {}
        self._definitions: list[str] = []
        # The object of each name in the new module.
        self._known: dict[str, object] = {}

    def source(self) -> str:
        """Returns the source. What is needed at import comes first."""
        blocks = [
            "\n".join(sorted(self._imports, key=lambda line: (line.startswith("from "), line))),
            "\n".join(f"{name} = {value}" for name, value in self._constants.items()),
        ]
        head = "\n\n".join(block for block in blocks if block)
        parts = [head, *self._definitions] if head else self._definitions
        return "\n\n\n".join(parts) + "\n"

    def add(self, thing: Any, why: str = "") -> None:
        """Adds a function or class of the session with everything that it needs."""
        name = str(thing.__name__)
        if not self._is_new(name, thing):
            return
        if isfunction(inner := unwrap(thing)):
            self._add_function(inner, name)
        else:
            names = self._namespace if thing.__module__ == "__main__" else vars(sys.modules[thing.__module__])
            self._add_definition(_class_source(thing), names, name, why)

    def add_text(self, name: str, text: str) -> None:
        """Adds a function that is given as text."""
        self._is_new(name, text)
        self._add_definition(text, self._namespace, name, "")

    def _add_function(self, function: FunctionType, name: str) -> None:
        if function.__name__ == "<lambda>":
            raise refused("a lambda has no name to be kept by: define it with def")
        if function.__code__.co_freevars:
            names = ", ".join(function.__code__.co_freevars)
            raise refused(
                f"{name} uses {names} of the function that it was defined in, which cannot be kept: "
                "define it at the top level, with that as a parameter"
            )
        self._add_definition(_function_source(function), function.__globals__, name, "")

    def _add_definition(self, text: str, names: Mapping[str, Any], name: str, why: str) -> None:
        if len(self._definitions) > _PARTS_MAX:
            raise refused(f"it needs more than {_PARTS_MAX} functions and classes")
        tree = ast.parse(text)
        for used in sorted(global_names(text) - {name}):
            if used in names:
                self._need(used, names[used], tree, f"{name}{why}")
            elif used == SKILLS_MODULE:
                self._imports.add(f"import {SKILLS_MODULE}")
            elif not hasattr(builtins, used) and not is_session_name(used):
                raise refused(
                    f"{name} uses {used}, which is not defined: define or import it first, or make it a parameter"
                )
        self._definitions.append(text)

    def _need(self, name: str, thing: Any, tree: ast.AST, by: str) -> None:
        if isinstance(thing, ServerModule) or (is_session_name(name) and name in self._skills.lent):
            self._need_of_session(name, thing)
        elif isinstance(thing, ModuleType):
            self._need_module(name, thing, tree, by)
        elif isinstance(thing, ToolFunction):
            self._import(f"from {thing.__module__} import {thing.__name__}", thing.__name__, name, thing)
        elif (skill := self._skills.loaded_as(thing)) is not None:
            self._import(f"from {SKILLS_MODULE} import {skill}", skill, name, thing)
        elif _is_of_session(thing):
            self.add(thing, f", which {by} needs" if isinstance(thing, type) else "")
            if thing.__name__ != name and self._is_new(name, thing):
                self._definitions.append(f"{name} = {thing.__name__}")
        elif (literal := _literal(thing)) is not None:
            if self._is_new(name, thing):
                self._constants[name] = literal
        elif (origin := _origin(thing)) is not None:
            self._import(f"from {origin} import {thing.__name__}", thing.__name__, name, thing)
        else:
            raise refused(_cannot(name, thing, by))

    def _need_of_session(self, name: str, thing: Any) -> None:
        lent = self._skills.lent
        if isinstance(thing, ServerModule):
            if lent.get(name) is not thing:
                self._import(f"import {thing.__name__}", "", name, thing)
        elif lent[name] is not thing:
            raise refused(f"{name} is something else here than in other sessions: give it another name")
        elif name in ("runtime", "save_tool"):
            self._import(f"from mcp{'' if name == 'runtime' else '.runtime'} import {name}", name, name, thing)
        elif name == "mcp":
            self._import("import mcp", name, name, thing)

    def _need_module(self, name: str, module: ModuleType, tree: ast.AST, by: str) -> None:
        if sys.modules.get(module.__name__) is not module or module.__name__ == "__main__":
            raise refused(_cannot(name, module, by))
        file = getattr(module, "__file__", None) or ""
        if file.startswith(_OWN_FOLDERS):
            raise refused(
                f"{by} uses the module {module.__name__} of {file}, which other sessions do not have: "
                "define what it needs of it in the session itself"
            )
        plain = module.__name__ if "." not in module.__name__ else ""
        self._import(f"import {module.__name__}", plain, name, module)
        # `import os.path` also binds os.
        for dotted in _attributes_of(name, tree):
            path = f"{module.__name__}.{dotted}"
            if module.__name__ != SKILLS_MODULE and isinstance(sys.modules.get(path), ModuleType):
                self._imports.add(f"import {path}")

    def _import(self, line: str, bound: str, name: str, thing: object) -> None:
        if self._is_new(name, thing):
            self._imports.add(line if bound == name else f"{line} as {name}")

    def _is_new(self, name: str, thing: object) -> bool:
        known = self._known.setdefault(name, self)
        if known is self:
            self._known[name] = thing
            return True
        if known is not thing and not (type(known) is type(thing) and _literal(thing) is not None and known == thing):
            raise refused(f"two different things are called {name} by what it needs: rename one of them")
        return False


def test_text(name: str, text: str) -> str:
    """Returns the source of a function of this name that has the statements of the text."""
    body = dedent(text).strip("\n")
    try:
        tree = _parsed(body)
    except SyntaxError as error:
        try:
            # `dedent` changes nothing if a string in indented code has lines without indentation.
            [block] = _parsed(f"if True:\n{text}").body
            assert isinstance(block, ast.If)
            tree = ast.Module(block.body, type_ignores=[])
        except (SyntaxError, ValueError, AssertionError):
            raise refused(
                f"the test is no Python: line {error.lineno}: {error.msg}; a test has asserts, a description goes by "
                "name: description=..."
            ) from None
    prefix = "async " if any(isinstance(node, _AWAITING) for node in _outside_functions(tree)) else ""
    for written in (body, ast.unparse(tree)):
        # Indentation must not change the lines of strings.
        whole = f"{prefix}def {name}():\n{indent(written, '    ')}"
        try:
            [function] = ast.parse(whole).body
        except SyntaxError:
            continue
        assert isinstance(function, _Node)
        if [ast.dump(statement) for statement in function.body] == [ast.dump(statement) for statement in tree.body]:
            return whole
    raise refused("the test cannot be written as a function: define it as one")


_AWAITING = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def _parsed(text: str) -> ast.Module:
    tree = compile(text, "<test>", "exec", _FLAGS, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            yield from _outside_functions(node)


def refused(message: str) -> MCPError:
    """Returns the error for something that cannot be saved. The message says what to do."""
    return MCPError(message, code="invalid_arguments")


def servers_named(source: str, servers: Mapping[str, Any]) -> list[str]:
    """Returns the servers that the source names literally."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) if name.startswith("mcp_") and name != "mcp_servers":
                found.add(name.removeprefix("mcp_"))
            case ast.Subscript(value=ast.Name(id="mcp_servers"), slice=ast.Constant(value=str(name))):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(attr="call_tool" | "call_tool_sync"), args=[ast.Constant(value=str(name)), *_]
            ):
                found.add(name)
            case ast.ImportFrom(module=str(module)) if module.startswith("mcp.servers."):
                found.add(module.removeprefix("mcp.servers."))
            case ast.Import(names=aliases):
                paths = (alias.name for alias in aliases)
                found.update(path.removeprefix("mcp.servers.") for path in paths if path.startswith("mcp.servers."))
    by_alias = {f"mcp_{name}": name for name in found}
    real = {name: thing for name, thing in servers.items() if isinstance(thing, ServerModule)}
    return sorted(vars(real[alias])["_server"].name if alias in real else name for alias, name in by_alias.items())


def _is_of_session(thing: Any) -> bool:
    if isinstance(thing, type):
        return thing.__module__ == "__main__" or thing.__module__.startswith(f"{SKILLS_MODULE}.")
    inner = unwrap(thing) if callable(thing) else thing
    return isfunction(inner) and inner.__code__.co_filename.startswith(("<run ", "<skill "))


def _function_source(function: FunctionType) -> str:
    code = function.__code__
    for node in ast.walk(_tree(code.co_filename, function.__name__)):
        if isinstance(node, _Node) and node.name == code.co_name and _first_line(node) == code.co_firstlineno:
            return _lines(code.co_filename, node)
    raise _no_source(function.__name__)


def _class_source(thing: type) -> str:
    methods = [function.__code__.co_filename for function in vars(thing).values() if isfunction(function)]
    # A class without methods does not say which run defined it, so the last one with a class of this name counts.
    runs = [file for file in linecache.cache if file.startswith(("<run ", "<skill "))]
    line = vars(thing).get("__firstlineno__")
    for file in [*(file for file in methods if file in runs), *reversed(runs)]:
        try:
            nodes = [node for node in ast.walk(_tree(file, thing.__name__)) if isinstance(node, ast.ClassDef)]
        except (MCPError, SyntaxError):
            continue
        for node in reversed(nodes):
            if node.name == thing.__qualname__ and line in (None, _first_line(node)):
                return _lines(file, node)
    raise _no_source(thing.__name__)


def _tree(file: str, name: str) -> ast.AST:
    text = "".join(linecache.getlines(file))
    if not text or not file.startswith(("<run ", "<skill ")):
        raise _no_source(name)
    tree = compile(text, file, "exec", _FLAGS, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


def _first_line(node: _Node) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _lines(file: str, node: _Node) -> str:
    lines = linecache.getlines(file)[_first_line(node) - 1 : node.end_lineno]
    return dedent("".join(lines)).rstrip("\n")


def _no_source(name: str) -> MCPError:
    return refused(f"the source of {name} is not known: define it again, in the code of a run")


def _literal(thing: object) -> str | None:
    if type(thing) not in (*_PLAIN, tuple, list, dict, set):
        return None
    try:
        text = pformat(thing, width=100, sort_dicts=False)
        if len(text) > _CONSTANT_CHARACTERS_MAX or ast.literal_eval(text) != thing:
            return None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return text


def _origin(thing: Any) -> str | None:
    """Returns the module that has the object under its own name; None if there is none."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    owner = sys.modules.get(module)
    if owner is None or (getattr(owner, "__file__", None) or "").startswith(_OWN_FOLDERS):
        return None
    return module if getattr(owner, name, None) is thing else None


def _attributes_of(name: str, tree: ast.AST) -> Iterator[str]:
    """Returns the dotted names that begin with this name, without it."""
    for node in ast.walk(tree):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id == name:
            yield ".".join(parts)


def _cannot(name: str, thing: object, by: str) -> str:
    if type(thing) in (*_PLAIN, tuple, list, dict, set):
        what = f"a {type(thing).__name__} that is too large, or not plain values all through,"
    else:
        what = f"an object of type {type(thing).__name__}"
    return f"{by} uses {name}, {what} which cannot be kept: make it a parameter, or make it inside the function"
