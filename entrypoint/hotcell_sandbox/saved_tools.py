"""Functions that earlier sessions saved: loaded when code uses a name that nothing else defines.

It does not store anything: the bridge keeps the sources.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from textwrap import dedent
from types import CodeType

from .calls import Calls
from .report import Sources, error_report
from .results import MCPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_walk = ast.walk


class SavedTools:
    def __init__(self, calls: Calls, namespace: dict[str, Any]) -> None:
        self._calls = calls
        self._namespace = namespace
        self._sources = Sources()
        self._loaded = False

    def load_for(self, code: str, parts: Iterable[CodeType], notes: list[str]) -> None:
        """Once per worker, and only if the code could mean one: else a first run would wait for the bridge."""
        if self._loaded or not (self._may_have_unknown_names(parts) and self._has_unknown_names(code)):
            return
        try:
            saved = self._calls.call_sync(None, "saved_tools", {})
        except MCPError as error:
            notes.append(f"saved tools are not available: {error.message}")
            return
        self._loaded = True
        for tool in saved if isinstance(saved, list) else ():
            if isinstance(tool, dict):
                self._define(str(tool.get("name")), str(tool.get("source")), notes)

    def _define(self, name: str, source: str, notes: list[str]) -> None:
        if name in self._namespace:
            return
        if "asyncio" in source:  # as runs find it; 40 ms, hence only then
            import asyncio

            self._namespace.setdefault("asyncio", asyncio)
        file = f"<saved tool {name}>"
        self._sources.keep(file, source)
        try:
            exec(compile(source, file, "exec", dont_inherit=True), self._namespace)
        except Exception as error:
            report = error_report(error, file, source)
            notes.append(f"saved tool {name} is broken: {report['type']}: {report['message']}")

    def _may_have_unknown_names(self, parts: Iterable[CodeType]) -> bool:
        """Cheaper than a look at the tree, but takes attributes for names."""
        defined, built_in = self._namespace, vars(builtins)
        waiting = list(parts)
        for code in waiting:
            if not all(name in defined or name in built_in for name in code.co_names):
                return True
            waiting.extend(const for const in code.co_consts if isinstance(const, CodeType))
        return False

    def _has_unknown_names(self, code: str) -> bool:
        tree = compile(code, "<names>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        used, bound = set(), set()
        for node in _walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    used.add(name)
                case ast.Name(id=name) | ast.ExceptHandler(name=str(name)) | ast.arg(arg=name):
                    bound.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    bound.add(name)
                case ast.alias(name=name, asname=asname):
                    bound.add(asname or name.partition(".")[0])
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                    bound.add(name)
        return not used - bound <= self._namespace.keys() | vars(builtins).keys()


def source_of(function: Callable[..., Any]) -> str:
    import inspect  # 6 ms, and rarely needed

    if not inspect.isfunction(function):
        raise TypeError(f"save_tool takes a function, not {type(function).__name__}")
    try:
        return dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise MCPError(f"the source of {function.__name__} is not known", code="invalid_arguments") from None
