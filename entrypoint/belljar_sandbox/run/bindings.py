"""Finds the names that a run has bound and that its reply shows, with one line for each.

Names that begin with an underscore are not shown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, CoroutineType, FunctionType, ModuleType

from ..display.text import begin
from ..display.values import guarded, in_one_line
from ..kernel.type_names import Any

NAMES_MAX = 8
LINE_CHARACTERS_MAX = 160
_VALUE_CHARACTERS_MAX = 120
_ARGUMENTS_MAX = 12

_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign
_Import = ast.Import | ast.ImportFrom
_BINDING = _Assignment | _Import | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def bound_names(body: Sequence[ast.stmt], code: str) -> list[str]:
    """Returns the targets of the last statement if it is an assignment; all names if the run only binds names.

    Imports count only if nothing else is bound. With a semicolon at the end, nothing is shown, as with a value.
    """
    if not body or code.rstrip().endswith(";"):
        return []
    if all(isinstance(statement, _BINDING) or _is_docstring(statement) for statement in body):
        shown = [statement for statement in body if not isinstance(statement, _Import)] or list(body)
    elif isinstance(body[-1], _Assignment):
        shown = [body[-1]]
    else:
        return []
    names = (name for statement in shown for name in _names(statement))
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def lines(names: Sequence[str], namespace: Mapping[str, Any]) -> list[str]:
    """Returns a line for each of the last names that are bound."""
    bound = [name for name in names if name in namespace]
    shown = [_line(name, namespace[name]) for name in bound[-NAMES_MAX:]]
    if len(bound) > NAMES_MAX:
        shown.insert(0, f"… {len(bound) - NAMES_MAX} more names before these")
    return shown


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _targets(target)
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            yield from _targets(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def _targets(target: ast.expr) -> Iterator[str]:
    """Returns a and b for `a, b = ...`, and a for `a[0] = ...` and `a.b = ...`."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _targets(part)
        case ast.Starred(value=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner):
            yield from _targets(inner)


def _line(name: str, value: object) -> str:
    return begin(guarded(value, lambda: _of(name, value)), LINE_CHARACTERS_MAX)


def _of(name: str, value: object) -> str:
    if isinstance(value, ModuleType):
        version = vars(value).get("__version__")
        return f"{name}: module {value.__name__}" + (f" {version}" if isinstance(version, str) else "")
    if isinstance(value, FunctionType):
        is_async = value.__code__.co_flags & 0x80
        return f"{name}: {'async ' if is_async else ''}function ({_arguments(value)})"
    if isinstance(value, BuiltinFunctionType):
        return f"{name}: built-in function"
    if isinstance(value, type):
        return f"{name}: class"
    if isinstance(value, CoroutineType):
        return f"{name}: coroutine, not awaited: {name} = await …"
    text = in_one_line(value, _VALUE_CHARACTERS_MAX)
    # A text that begins with the type reads as `df: DataFrame 3 x 2`, any other as `x = 3`.
    return f"{name}{': ' if text.startswith(f'{type(value).__name__} ') else ' = '}{text}"


def _arguments(function: FunctionType) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: min(count, _ARGUMENTS_MAX)])
    return ", ".join([*names, "…"] if count > _ARGUMENTS_MAX else names)
