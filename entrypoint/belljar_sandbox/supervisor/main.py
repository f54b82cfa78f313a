"""Makes this process PID 1 of the sandbox, and runs the supervisor in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fcntl import F_DUPFD_CLOEXEC, fcntl

from ..kernel import system_calls
from ..kernel.posture import closed_by_exec, descriptors
from ..kernel.signals import SIG_DFL, SIGINT, SIGTERM, signal
from ..wire.buffer import Buffer
from ..wire.ends import Ends
from ..wire.frames import Frame
from ..wire.limits import Limits
from .bridge_pipes import BridgePipes
from .bridge_writer import SandboxEnd
from .processes import kill_descendants
from .supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from remote.stream import ResumableStream

_PRIVATE_FD_MIN = 40
_OOM_SCORE_STEP = 100
_NO_LOGIN = b"4294967295"
# How long the last frames may take to reach the bridge.
_LAST_SECONDS_MAX = 1.0


def supervise(
    rest: bytes,
    compile_ahead: Callable[[], Frame] | None,
    preload: Callable[[], None],
    stream: ResumableStream | None,
) -> tuple[Ends, int, Limits]:
    """Runs until the sandbox ends. Returns only in a worker, with its ends, its number and its limits.

    `rest`: the bytes that were read after the bundle. `compile_ahead` is called before the first worker is forked, and
    its frame is sent; `preload` is called once when idle: it imports what later workers need. `stream` leads to a
    bridge on another machine; None: stdin and stdout lead to the bridge.
    """
    of_stream = stream.descriptors() if stream is not None else set()
    of_libraries = closed_by_exec() - of_stream
    inherited = descriptors("self", of_libraries | of_stream)
    buffer = Buffer()
    bridge = stream or BridgePipes([fcntl(fd, F_DUPFD_CLOEXEC, _PRIVATE_FD_MIN) for fd in (0, 1)], buffer)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    os.close(null)
    _be_killed_last()
    _log_in()
    system_calls.forbid_tracing()
    system_calls.adopt_orphans()
    # With Python's own SIGINT handler, the worker could end PID 1 by kill(1, SIGINT). The kernel does not apply the
    # default action to PID 1.
    signal(SIGINT, SIG_DFL)
    signal(SIGTERM, SIG_DFL)
    supervisor = Supervisor(bridge, buffer, inherited, of_libraries, compile_ahead, preload)
    try:
        ends = supervisor.serve(rest)
        number = supervisor.workers + 1
    except BaseException as error:
        if not isinstance(error, SandboxEnd):
            sys.excepthook(type(error), error, error.__traceback__)
        bridge.finish(_LAST_SECONDS_MAX)
        kill_descendants()
        os._exit(error.args[0] if isinstance(error, SandboxEnd) else 1)
    return ends, number, supervisor.limits


def _be_killed_last() -> None:
    """Lowers the OOM score as far as the engine permits, so that the kernel kills workers long before this process."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", 0) as file:
            for score in range(0, int(file.read()), _OOM_SCORE_STEP):
                try:
                    file.write(b"%d" % score)
                    return
                except PermissionError:
                    pass
    except OSError:  # the engine forbids it
        pass


def _log_in() -> None:
    """Sets the login user before user code can. That is possible only once, and writes to the host's audit log."""
    try:
        with open("/proc/self/loginuid", "r+b", 0) as file:
            if file.read().strip() == _NO_LOGIN:
                file.seek(0)
                file.write(b"%d" % os.getuid())
    except OSError:  # the kernel has no audit log, or this user has no number on the host
        pass
