"""The handshakes of the supervisor with the bridge and with a worker, before any code runs."""

from __future__ import annotations

import os

from ..kernel.posture import descriptors, worker_posture
from ..kernel.signals import SIGKILL, kill
from ..wire.buffer import has_input
from ..wire.frames import Frame
from ..wire.limits import Limits
from .bridge_writer import BridgeWriter
from .workers import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .denials import Denials

CONFINE_MS_MAX = 10_000
_WORDS_BYTES_MAX = 1 << 12


def limits_of(hello: Frame, given: dict[str, object], seen: dict[str, object]) -> Limits:
    """Returns the limits that the bridge sets, for a sandbox with this posture. ValueError names an invalid one."""
    extra = hello.get("extra_system_calls")
    limits = Limits(
        given,
        str(hello.get("workspace") or ""),
        hello.get("writable"),
        extra if isinstance(extra, dict) else None,
    )
    pids_max = seen["pids_max"]
    shares_user = seen["user_namespace"] is False and not limits.own_user
    if shares_user or (isinstance(pids_max, int) and pids_max <= limits.processes):
        # The cgroup bounds processes already, or this user may have other processes on the machine.
        limits.processes = 0
    return limits


def processors(seen: dict[str, object]) -> int:
    """Returns how many processors this sandbox can use, at least 1."""
    allowed, cpu_max = len(os.sched_getaffinity(0)), seen["cpu_max_millis"]
    return min(allowed, max(1, cpu_max // 1000)) if isinstance(cpu_max, int) else allowed


def places_in_memory(seen: dict[str, object]) -> list[str]:
    """Returns the writable places whose files are in memory."""
    mounts = seen["mounts"]
    assert isinstance(mounts, list)
    return [mount["target"] for mount in mounts if mount["type"] == "tmpfs" and mount["writable"]]


def inspect(
    worker: Worker, limits: Limits, of_libraries: frozenset[int], denials: Denials | None, bridge_writer: BridgeWriter
) -> tuple[int, dict[str, object]]:
    """Looks at a worker that has confined itself, before it reads or runs anything. `denials` takes its listener.

    Returns the Landlock version that restricts it, and its posture. Ends the sandbox if the worker is not confined.
    """
    told = _line_of(worker, denials).decode(errors="replace").strip()
    version, opens_supervisor, defect = (*told.split(" ", 2), "", "", "")[:3]
    if not version.isdecimal():
        kill(worker.pid, SIGKILL)
        bridge_writer.last_words("the interpreter ended while it confined itself")
    if defect and not limits.allow_unfiltered:
        kill(worker.pid, SIGKILL)
        bridge_writer.last_words(f"no filter for system calls could be installed: {defect}", "seccomp")
    try:
        fds = descriptors(str(worker.pid), of_libraries)
        os.write(worker.socket, b"\n")
    except OSError as error:
        bridge_writer.last_words(f"the interpreter ended while it confined itself: {error}")
    # The worker answers when no other process can look into it any more.
    if _line_of(worker, None) != b"\n":
        bridge_writer.last_words("the interpreter ended while it confined itself")
    landlock = int(version)
    seen = worker_posture(worker.pid, fds, landlock)
    return landlock, {**seen, "supervisor_open": opens_supervisor == "1"}


def _line_of(worker: Worker, denials: Denials | None) -> bytes:
    """Returns what the worker says; empty if it says nothing in time."""
    if not has_input(worker.socket, CONFINE_MS_MAX):
        return b""
    if denials is not None:
        return denials.receive(worker.socket, _WORDS_BYTES_MAX, CONFINE_MS_MAX)
    return os.read(worker.socket, _WORDS_BYTES_MAX)
