"""Decides from its bytecode whether code can change anything persistent.

It does not follow calls: everything that is not known to be harmless counts as a change.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from opcode import opmap
from types import CodeType

# These compute with existing values: none of them binds a name or changes an object by itself.
_HARMLESS = frozenset(
    opmap[name]
    for name in (
        "BINARY_OP",
        "BUILD_LIST",
        "BUILD_STRING",
        "BUILD_TUPLE",
        "CACHE",
        "CALL",
        "CALL_KW",
        "COMPARE_OP",
        "CONVERT_VALUE",
        "COPY",
        "FORMAT_SIMPLE",
        "FORMAT_VALUE",
        "FORMAT_WITH_SPEC",
        "KW_NAMES",
        "LOAD_CONST",
        "LOAD_NAME",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_TOP",
        "PRECALL",
        "PUSH_NULL",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
        "SWAP",
        "UNARY_INVERT",
        "UNARY_NEGATIVE",
        "UNARY_NOT",
    )
    if name in opmap
)
# For these types, operations never call methods that user code has defined.
_PLAIN = frozenset((int, float, complex, str, bytes, bool, type(None)))
_NAMES = "abs ascii bin bool chr float format hex int len max min oct ord print repr round str sum type"
_LOOKING = {name: vars(builtins)[name] for name in _NAMES.split()}


def may_change(parts: Iterable[CodeType], namespace: Mapping[str, object]) -> bool:
    for code in parts:
        if not _HARMLESS.issuperset(code.co_code[::2]):
            return True
        for name in code.co_names:
            if name in namespace:
                if type(namespace[name]) not in _PLAIN:
                    return True
            elif name not in _LOOKING or vars(builtins).get(name) is not _LOOKING[name]:
                return True
    return False
