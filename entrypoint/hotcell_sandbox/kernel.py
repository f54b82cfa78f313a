"""The few system calls that Python's standard library has no name for.

It does not decide when to use them. It builds on `_ctypes` alone: `ctypes` around it would cost 4 ms at each start.
"""

from __future__ import annotations

import _ctypes
import os
from _struct import pack

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 22, 38, 39
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "i"


class _UnsignedLong(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "L"


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "c"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # None: this program itself
_prctl = _Function(_ctypes.dlsym(_libc, "prctl"))
_fflush = _Function(_ctypes.dlsym(_libc, "fflush"))


def set_dumpable(dumpable: bool) -> None:
    """A process that is not dumpable cannot be traced, nor its /proc entries be opened, by others of its user."""
    _control(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Orphaned descendants become our children, as they do for PID 1 anyway."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    _control(_PR_SET_PDEATHSIG, 9)


def filter_system_calls(instructions: bytes) -> None:
    """Puts a seccomp filter on this process, and on all that descend from it; for good."""
    # Otherwise only root may.
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    program = _copy(instructions)
    # sock_fprog, by hand: from Python 3.14 on a Structure imports all of ctypes.
    described = _copy(pack("@HP", len(instructions) // _INSTRUCTION_BYTES, _ctypes.addressof(program)))
    _control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _ctypes.addressof(described))


def has_no_new_privileges() -> bool:
    """Whether this process, and all that descend from it, can gain no privileges by starting a program."""
    zero = _UnsignedLong(0)
    return bool(_prctl(_PR_GET_NO_NEW_PRIVS, zero, zero, zero, zero) == 1)


def flush_c_streams() -> None:
    """Writes out what C code in this process has buffered."""
    _fflush(None)


def _copy(data: bytes) -> _ctypes.Array[_Byte]:
    """Where C can read it."""
    return (_Byte * len(data)).from_buffer_copy(data)


def _control(option: int, value: int, more: int = 0) -> None:
    zero = _UnsignedLong(0)
    if _prctl(option, _UnsignedLong(value), _UnsignedLong(more), zero, zero) != 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")
