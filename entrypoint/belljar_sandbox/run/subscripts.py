"""Finds what code has subscripted where it failed, for the hint of an error. It evaluates names and constants only."""

from __future__ import annotations

import ast
from itertools import islice
from types import FrameType, TracebackType

from ..calls.results import DictResult, ListResult
from ..kernel.type_names import Any
from .sources import source_lines

_OF_CODE = ("<run ", "<skill ")
_PLAIN = (dict, list, tuple, DictResult, ListResult)


def subscripted(error: BaseException) -> tuple[str, object]:
    """Returns the source of what was subscripted and its value, or "" and None where that cannot be seen."""
    last: TracebackType | None = None
    lacking: object = None
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename.startswith(_OF_CODE):
            last = tb
        elif tb.tb_frame.f_code is DictResult.__missing__.__code__:
            lacking = tb.tb_frame.f_locals["self"]
        tb = tb.tb_next
    node = _node(last) if last is not None else None
    if last is None or not isinstance(node, ast.Subscript):
        return "", None
    value = _value(node.value, last.tb_frame)
    return ("the result", lacking) if value is None and lacking is not None else (ast.unparse(node.value), value)


def _node(tb: TracebackType) -> ast.expr | None:
    """Returns the expression that failed."""
    code = tb.tb_frame.f_code
    line, end, column, end_column = next(islice(code.co_positions(), tb.tb_lasti // 2, None))
    if line is None or end is None or column is None or end_column is None:
        return None
    lines = [text.encode() for text in source_lines(code.co_filename, tb.tb_frame.f_globals)[line - 1 : end]]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree: Any = compile(f"({b''.join(lines).decode()})", "<failed>", "eval", flags, dont_inherit=True)
    except SyntaxError:
        return None
    body: ast.expr = tree.body
    return body


def _value(node: ast.expr, frame: FrameType) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Subscript(value=of, slice=part):
            thing = _value(of, frame)
            # Other types may run code of the user.
            return thing[_value(part, frame)] if type(thing) in _PLAIN else None
    return None
