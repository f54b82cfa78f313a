"""Parses the stub of a tool: the Python text that the bridge makes from its schemas. Nothing of it is executed."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any

_parse, _literal_eval = ast.parse, ast.literal_eval


class _Annotation(str):
    """The text of a type, shown without quotes like other annotations."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Default:
    """The default of an optional parameter whose schema does not say what it is."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT = _Default()


def signature(stub: str) -> Signature:
    """Returns the signature of the stub's function: keyword-only parameters, with annotations that are text."""
    from inspect import Parameter, Signature  # takes 6 ms, and is rarely needed

    function = _function(stub)
    arguments = function.args
    lines = stub.encode().split(b"\n")

    def annotation(node: ast.expr | None) -> _Annotation:
        # The source text of the annotation, which is on one line.
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
    """Returns the docstring of the stub's function, and the classes of its types."""
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
