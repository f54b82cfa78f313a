"""The few system calls that Python's standard library does not have.

It uses `_ctypes` directly, because the import of `ctypes` takes 2 to 4 ms at each start.
"""

from __future__ import annotations

import _ctypes
import os
from errno import EINVAL
from struct import pack

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 22, 38, 39
_SECCOMP_MODE_FILTER = 2
# The number of seccomp(2), since prctl(2) cannot return a listener.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
_INSTRUCTION_BYTES = 8
# The same on all architectures.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "i"


class _UnsignedLong(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "L"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "l"


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg] # generic for type checkers only
    _type_ = "c"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # None: this program itself
_prctl = _Function(_ctypes.dlsym(_libc, "prctl"))
_fflush = _Function(_ctypes.dlsym(_libc, "fflush"))
_syscall = _Function(_ctypes.dlsym(_libc, "syscall"))
_syscall.restype = _Long


def forbid_tracing(forbidden: bool = True) -> None:
    """Keeps processes of the same user from tracing this one or opening its memory, environment and descriptors.

    Forked processes inherit this; an executed program does not.
    """
    _control(_PR_SET_DUMPABLE, int(not forbidden))


def adopt_orphans() -> None:
    """Orphaned descendants become children of this process, as they do for PID 1 anyway. Not supported by gVisor."""
    try:
        _control(_PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        if error.errno != EINVAL:
            raise


def die_with_parent() -> None:
    _control(_PR_SET_PDEATHSIG, 9)


def gain_no_privileges() -> None:
    """Sets no_new_privs for this process and its descendants. Otherwise only root may install filters or Landlock."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)


def filter_system_calls(instructions: bytes, listen: bool = False) -> int | None:
    """Installs a seccomp filter on this process and its descendants, for good.

    With `listen`, returns the descriptor at which the filter's NOTIFY verdicts arrive.
    """
    program = _copy(instructions)
    # sock_fprog, packed by hand: since Python 3.14, a Structure imports all of ctypes.
    described = _copy(pack("@HP", len(instructions) // _INSTRUCTION_BYTES, _ctypes.addressof(program)))
    if not listen:
        _control(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _ctypes.addressof(described))
        return None
    number = _SECCOMP[os.uname().machine]
    arguments = (number, _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_NEW_LISTENER, _ctypes.addressof(described))
    return _call(*arguments)


def landlock_version() -> int:
    """Raises OSError if the kernel has no Landlock or a filter forbids it."""
    return _call(_LANDLOCK_CREATE_RULESET, 0, 0, _LANDLOCK_VERSION)


def landlock_ruleset(files: int, network: int, scopes: int) -> int:
    """Returns a descriptor of rules that deny these rights everywhere until `landlock_allow` grants some."""
    attributes = _copy(pack("=QQQ", files, network, scopes))
    return _call(_LANDLOCK_CREATE_RULESET, _ctypes.addressof(attributes), len(attributes), 0)


def landlock_allow(ruleset: int, place: int, rights: int) -> None:
    """Grants the rights for the file of the descriptor `place`, or for everything below that folder."""
    rule = _copy(pack("=Qi", rights, place))
    _call(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_PATH_BENEATH, _ctypes.addressof(rule), 0)


def landlock_enter(ruleset: int, flags: int) -> None:
    """Restricts this process and its descendants, for good."""
    _call(_LANDLOCK_RESTRICT_SELF, ruleset, flags)


def has_no_new_privileges() -> bool:
    """Whether this process and its descendants cannot gain privileges by executing a program."""
    zero = _UnsignedLong(0)
    return bool(_prctl(_PR_GET_NO_NEW_PRIVS, zero, zero, zero, zero) == 1)


def flush_c_streams() -> None:
    """Flushes the buffers of C code in this process."""
    _fflush(None)


def _copy(data: bytes) -> _ctypes.Array[_Byte]:
    """Copies the bytes to where C code can read them."""
    return (_Byte * len(data)).from_buffer_copy(data)


def _call(number: int, *arguments: int) -> int:
    answer: int = _syscall(_UnsignedLong(number), *map(_UnsignedLong, arguments))
    if answer == -1:
        error = _ctypes.get_errno()
        raise OSError(error, f"system call {number}: {os.strerror(error)}")
    return answer


def _control(option: int, value: int, more: int = 0) -> None:
    zero = _UnsignedLong(0)
    if _prctl(option, _UnsignedLong(value), _UnsignedLong(more), zero, zero) != 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")
