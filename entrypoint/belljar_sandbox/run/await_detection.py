"""Detects whether the caller of a helper awaits it. If so, the helper returns a coroutine, otherwise the result.

It reads the source of the caller: a call is awaited if its result visibly reaches `await` or asyncio. It need not find
every case, since results of helpers are `Awaitable`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FrameType

from ..worker.interrupts import LIBRARY
from .sources import source_lines

# Functions that take coroutines, mostly of asyncio.
_TAKERS = frozenset(
    (
        "as_completed",
        "create_task",
        "ensure_future",
        "gather",
        "run",
        "run_coroutine_threadsafe",
        "run_until_complete",
        "shield",
        "start_soon",
        "wait",
        "wait_for",
    )
)
_ADDERS = frozenset(("add", "append", "extend"))
_CACHED_MAX = 500
# The end of a call, which is unique: its line, and the column in bytes.
_Place = tuple[int, int]
_cache: dict[CodeType, frozenset[_Place]] = {}


def is_awaited(frame: FrameType) -> bool:
    """Whether the result of the call that this frame is making is awaited."""
    code = frame.f_code
    if code.co_filename.startswith((LIBRARY, "<frozen ")):
        return False
    places = _cache.get(code)
    if places is None:
        if len(_cache) >= _CACHED_MAX:
            _cache.clear()
        places = _cache[code] = _read(frame)
    if not places:
        return False
    _, line, _, column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    return (line, column) in places


def _read(frame: FrameType) -> frozenset[_Place]:
    try:
        source = "".join(source_lines(frame.f_code.co_filename, frame.f_globals))
        # The common case: code without any await.
        if "await" not in source and "asyncio" not in source:
            return frozenset()
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return frozenset(_Flow(compile(source, "<awaiting>", "exec", flags, dont_inherit=True)).places())
    except Exception:  # the source is not Python, or user code has replaced something that this needs
        return frozenset()


class _Flow:
    """Finds the calls that reach `await`: directly, in a collection, or through a name or parameter that is awaited."""

    def __init__(self, tree: ast.AST) -> None:
        self._nodes = list(ast.walk(tree))
        self._names: set[str] = set()
        functions = (node for node in self._nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        self._parameters = {function.name: [each.arg for each in function.args.args] for function in functions}

    def places(self) -> Iterator[_Place]:
        found: list[ast.Call] = []
        known = -1
        # A name that is awaited can make other names awaited.
        while known != len(self._names):
            known = len(self._names)
            found = [
                call for node in self._nodes for awaited in self._awaited_by(node) for call in self._calls(awaited)
            ]
        for call in found:
            if call.end_lineno is not None and call.end_col_offset is not None:
                yield call.end_lineno, call.end_col_offset

    def _awaited_by(self, node: ast.AST) -> Iterable[ast.expr]:
        match node:
            case ast.Await(value=value):
                return [value]
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _TAKERS and _is_asyncio(node):
                return [*node.args, *(keyword.value for keyword in node.keywords)]
            case ast.Call(func=ast.Name(id=name)) if name in self._parameters:
                given = [*zip(self._parameters[name], node.args, strict=False)]
                given += [(keyword.arg or "", keyword.value) for keyword in node.keywords]
                return [argument for parameter, argument in given if parameter in self._names]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=adder)) if name in self._names:
                return node.args if adder in _ADDERS else []
            case ast.Assign(targets=targets, value=value) if any(map(self._is_awaited_name, targets)):
                return [value]
            case ast.AnnAssign(target=target, value=ast.expr() as value) if self._is_awaited_name(target):
                return [value]
            case ast.For(target=target, iter=value) if self._is_awaited_name(target):
                return [value]
        return []

    def _is_awaited_name(self, target: ast.expr) -> bool:
        while isinstance(target, ast.Subscript):
            target = target.value
        return isinstance(target, ast.Name) and target.id in self._names

    def _calls(self, awaited: ast.expr) -> Iterator[ast.Call]:
        """Returns the calls whose results this expression is or contains."""
        inner: list[ast.expr] = []
        match awaited:
            case ast.Call(func=func):
                yield awaited
                if isinstance(func, ast.Name) and func.id == "map":
                    inner = [argument.body for argument in awaited.args if isinstance(argument, ast.Lambda)]
                elif isinstance(func, ast.Attribute) and func.attr == "values":
                    inner = [func.value]
            case ast.Name(id=name):
                self._names.add(name)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                inner = parts
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                inner = [part]
            case ast.IfExp(body=one, orelse=other):
                inner = [one, other]
            case ast.Starred(value=part) | ast.Subscript(value=part) | ast.NamedExpr(value=part):
                inner = [part]
        for part in inner:
            yield from self._calls(part)


def _is_asyncio(call: ast.Call) -> bool:
    """Returns False for a `run` that is not asyncio's, since others have this name, too, such as runtime.run."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=of), attr="run"):
            return of in ("asyncio", "anyio")
        case ast.Name(id="run"):
            return False
    return True
