"""Reads a tool's stub: what the bridge makes of its schemas, as Python. Nothing of it is executed.

It does not ask for stubs, and keeps none.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any

_parse, _literal_eval = ast.parse, ast.literal_eval


class _Annotation(str):
    """A type by its name, shown without quotes as other annotations are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Default:
    """That of a parameter which may be left out, when nobody says what then counts."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT = _Default()


def signature(stub: str) -> Signature:
    """Of the stub's function: keyword-only parameters, with annotations that are text."""
    from inspect import Parameter, Signature  # 6 ms, and rarely needed

    function = _function(stub)
    arguments = function.args
    lines = stub.encode().split(b"\n")

    def annotation(node: ast.expr | None) -> _Annotation:
        # As it is written, which is on one line: what cannot be seen is an escape there.
        if node is None:
            return _Annotation("Any")
        return _Annotation(lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode())

    parameters = [
        Parameter(each.arg, Parameter.KEYWORD_ONLY, default=_default(default), annotation=annotation(each.annotation))
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        more = arguments.kwarg
        parameters.append(Parameter(more.arg, Parameter.VAR_KEYWORD, annotation=annotation(more.annotation)))
    return Signature(parameters, return_annotation=annotation(function.returns))


def documentation(stub: str) -> str:
    """What the function's docstring says, and the classes that its types name."""
    function = _function(stub)
    parts = []
    match function.body:
        case [ast.Expr(value=ast.Constant(value=str(docstring)))]:
            parts.append(docstring.replace("\n    ", "\n"))
    classes = "\n".join(stub.split("\n")[: function.lineno - 1]).strip()
    if classes:
        parts.append(classes)
    return "\n\n".join(parts)


def _function(stub: str) -> ast.AsyncFunctionDef:
    function = _parse(stub).body[-1]
    assert isinstance(function, ast.AsyncFunctionDef)
    return function


def _default(node: ast.expr | None) -> Any:
    from inspect import Parameter

    if node is None:
        return Parameter.empty
    default = _literal_eval(node)
    return _LEFT_OUT if default is ... else default
