"""Confines the worker before it reads or runs anything: resource limits, Landlock, and the system call filter.

The bridge sets the limits, and the supervisor inspects the result.
"""

from __future__ import annotations

import os
import resource

from ..kernel import landlock, seccomp, system_calls
from ..kernel.posture import has_own_group
from ..wire import fd_passing
from ..wire.limits import Limits
from ..wire.names import LISTENER_COMES

_OOM_SCORE_ADJ = b"1000"
# Enough for programs with many timers, and a small part of what the machine allows.
_PENDING_SIGNALS = 1024
# The worker gets all of the container's memory except one part in this many.
_OTHERS_SHARE = 16


def confine(frame_socket: int, limits: Limits) -> None:
    """Confines this process for good. Returns when the supervisor has inspected it and agrees."""
    _limit_resources(limits)
    has_group = has_own_group(limits.memory_bytes)
    memory_watched = bool(limits.memory_bytes) and not (has_group or limits.own_kernel)
    if memory_watched:
        _leave_a_processor()
    version = landlock.restrict(limits.writable, has_group, memory_watched, bool(limits.executable_places))
    _show(frame_socket, version, *_filter(limits, memory_watched), _can_open_supervisor())


def _limit_resources(limits: Limits) -> None:
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(_OOM_SCORE_ADJ)
    except PermissionError:  # gVisor forbids it: there, the machine's kernel ends the whole sandbox
        pass
    system_calls.gain_no_privileges()
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    try:
        # The kernel also counts pending signals per user namespace, which sandboxes of a rootless engine share.
        _lower(resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS)
    except ValueError:  # gVisor does not support this limit; it counts per sandbox
        pass
    if limits.processes:
        _lower(resource.RLIMIT_NPROC, limits.processes)
    if limits.memory_bytes:
        # An allocation beyond this raises MemoryError instead of ending the worker. The supervisor and the frozen copy
        # need the rest.
        _lower(resource.RLIMIT_DATA, limits.memory_bytes - limits.memory_bytes // _OTHERS_SHARE)


def _leave_a_processor() -> None:
    """Leaves one processor to the bridge, which counts the memory of this process and its descendants.

    A priority would not be enough: the kernel shares processors among sessions, and code can make many of these.
    """
    processors = os.sched_getaffinity(0)
    if len(processors) > 1:
        os.sched_setaffinity(0, processors - {max(processors)})


def _filter(limits: Limits, memory_watched: bool) -> tuple[str, int | None]:
    """Installs the filter. Returns why that failed, empty on success, and the listener if refusals are traced."""
    machine = os.uname().machine
    traced = bool(limits.trace_denied)
    try:
        extra = limits.extra_system_calls.get(machine, ())
        program = seccomp.program(machine, os.getppid(), extra, traced, memory_watched)
        return "", system_calls.filter_system_calls(seccomp.packed(program), traced)
    except OSError as error:
        return str(error), None


def _can_open_supervisor() -> bool:
    """Whether this process can open the supervisor's descriptors, and so write frames in its name."""
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))
    except OSError:  # as it must be: the supervisor is not dumpable
        return False


def _show(frame_socket: int, landlock_version: int, defect: str, listener: int | None, opens_supervisor: bool) -> None:
    """Waits while the supervisor looks at this process. Afterwards no other process can.

    The supervisor takes the listener.
    """
    words = b"%d %d %s\n" % (landlock_version, opens_supervisor, defect.encode())
    if listener is None:
        os.write(frame_socket, words)
    else:
        fd_passing.send(frame_socket, LISTENER_COMES, (listener,))
        # Closed before the supervisor looks at the descriptors of this process.
        os.close(listener)
        os.write(frame_socket, words)
    if os.read(frame_socket, 1) != b"\n":
        os._exit(70)
    system_calls.forbid_tracing()
    os.write(frame_socket, b"\n")


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))
