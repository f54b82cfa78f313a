"""Finds the names that code uses and does not bind anywhere."""

from __future__ import annotations

import ast

_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_walk = ast.walk


def free_names(code: str) -> set[str]:
    used, bound = set(), set()
    for node in _walk(compile(code, "<names>", "exec", _FLAGS, dont_inherit=True)):
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
    return used - bound
