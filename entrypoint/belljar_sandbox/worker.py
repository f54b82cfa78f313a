"""The worker process: sets itself up after the fork, then reads runs and answers them.

It is not trusted: whatever it sends may come from user code. It ends only by being killed, or by user code.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from os import sched_yield

from . import kernel, landlock, seccomp
from .frames import encode
from .limits import Limits
from .streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .processes import Ends
    from .time_travel import TimeTravel


_OOM_SCORE_ADJ = b"1000"
_QUIET_MS = 20
# Enough for programs with many timers, and few of what the machine allows.
_PENDING_SIGNALS = 1024
# One part of so many of the container's memory is not the worker's.
_OTHERS_SHARE = 16
_HOME = "/workspace"
_FONT_CACHE = "/usr/local/share/belljar/matplotlib"
_ENVIRONMENT = {
    "HOME": _HOME,
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    # Threads of a library do not live on in the frozen copy, which would wait for them for ever.
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONUNBUFFERED": "1",
}


def main(ends: Ends, number: int, limits: Limits) -> NoReturn:
    _confine(limits)
    _show(ends.frames, landlock.restrict(limits.writable), *_filter(limits), _can_open_supervisor())
    _settle()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Last, so that a file in the working directory cannot take the place of a standard module.
    sys.path.append(os.getcwd())
    sys.argv = [""]

    # Only now, when the bridge already knows that its first run may come. Later workers find them imported by the
    # supervisor.
    from mcp import runtime

    from .account import provide as provide_account
    from .calls import Calls, Server
    from .channel import Channel
    from .forking import install as fork_by_default
    from .frozen_copy import FrozenCopy
    from .import_room import install as need_room_for_imports
    from .interpreter import Interpreter
    from .interrupts import Interrupts
    from .origin import install as attribute_threads
    from .saved_files import SAVED
    from .workspace import Watch

    provide_account(_HOME)
    fork_by_default()
    attribute_threads()
    need_room_for_imports()
    interrupts = Interrupts()
    interrupts.arm()
    channel = Channel(ends.frames, limits, interrupts)
    streams = Streams(channel.ask_for_reading)
    streams.restore()
    in_flight_max = (limits.calls_in_flight, limits.arguments_in_flight_bytes)
    calls = Calls(channel, interrupts, streams.flush_python, in_flight_max, number)
    interpreter = Interpreter(streams, interrupts, calls, ends.record)

    def in_child() -> None:
        calls.in_child = True
        channel.leave()

    os.register_at_fork(after_in_child=in_child)

    def on_wake(frames: int, worker: int, outputs: list[int]) -> None:
        if outputs:
            # A checkpoint stands in the middle of a run.
            interrupts.run_active = False
            streams.lead_to(*outputs)
            calls.leave_run()
        channel.open(frames)
        calls.begin_worker(worker)
        interpreter.begin_worker()

    runtime.spawn_from((ends, channel, streams, interrupts, calls, interpreter))
    copy = FrozenCopy(ends, number, limits.frozen_copy_bytes, channel.has_input, on_wake)

    def renew(run: int, changed: bool) -> int:
        streams.process_starts_are_ours = True
        try:
            return copy.renew(run, changed)
        except Exception:  # what user code has put in the place of a function that this needs
            return copy.number
        finally:
            streams.process_starts_are_ours = False

    SAVED.root = limits.workspace
    files = Watch(limits.workspace, (limits.workspace_files, limits.workspace_bytes)) if limits.workspace else None
    quiet = not channel.has_input(_QUIET_MS)
    if quiet:
        interpreter.prepare()
    # What is here now stays; a collection need not look at it.
    gc.freeze()
    if quiet:
        number = renew(0, True)

    def serve(number: int) -> NoReturn:
        while True:
            try:
                frame = channel.next_run()
            except Exception:  # a signal handler that user code left behind
                continue
            # A run for a worker that has gone was answered by its end: nobody waits for it.
            if frame.get("worker") != number:
                continue
            run, code, servers = frame.get("run"), frame.get("code"), frame.get("servers")
            if isinstance(run, int) and isinstance(code, str) and isinstance(servers, list):
                keys = ("name", "alias", "description", "takes_files")
                offered = [Server(*(server[key] for key in keys)) for server in servers]
                done = interpreter.run(run, code, offered)
                if files is not None and files.has_changed():
                    done["files_changed"] = True
                if copy.goes_back_to is not None:
                    done["restore"], copy.goes_back_to = copy.goes_back_to, None
                channel.send(encode(done))
                # Whoever passes that on goes first, where both have the same processor.
                sched_yield()
                interpreter.tidy()
                number = renew(run, interpreter.changed)

    def go_on_from_here() -> NoReturn:
        """In a checkpoint that has become the worker: with a copy to roll back to."""
        serve(renew(0, True))

    def travel() -> TimeTravel:
        from .time_travel import TimeTravel

        return TimeTravel(copy, calls, streams, interrupts, go_on_from_here)

    runtime.travel_with(travel)
    serve(number)


def _confine(limits: Limits) -> None:
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(_OOM_SCORE_ADJ)
    except PermissionError:  # gVisor lets nobody: there the machine's kernel ends the sandbox as a whole
        pass
    kernel.gain_no_privileges()
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    try:
        # The kernel counts them for the whole user namespace too, which sandboxes of a rootless engine share.
        _lower(resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS)
    except ValueError:  # gVisor takes no such limit; what it counts is the sandbox's own
        pass
    if limits.processes:
        _lower(resource.RLIMIT_NPROC, limits.processes)
    if limits.memory_bytes:
        # An allocation beyond this is a MemoryError then, instead of the end of the worker: the supervisor and the
        # frozen copy need some of what the container may have.
        _lower(resource.RLIMIT_DATA, limits.memory_bytes - limits.memory_bytes // _OTHERS_SHARE)


def _filter(limits: Limits) -> tuple[str, int | None]:
    """Why system calls are not filtered, empty when they are; and the listener for refusals where they are traced."""
    machine = os.uname().machine
    traced = bool(limits.trace_denied)
    try:
        program = seccomp.program(machine, os.getppid(), limits.extra_system_calls.get(machine, ()), traced)
        return "", kernel.filter_system_calls(seccomp.packed(program), traced)
    except OSError as error:
        return str(error), None


def _can_open_supervisor() -> bool:
    """Whether this process can open what the supervisor has open, and so write frames in its name."""
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))
    except OSError:  # as it must be: the supervisor is not dumpable
        return False


def _show(frame_socket: int, landlock_version: int, defect: str, listener: int | None, opens_supervisor: bool) -> None:
    """Waits while the supervisor looks at the descriptors of this process, which nobody can do any more afterwards.

    A listener becomes the supervisor's.
    """
    words = b"%d %d %s\n" % (landlock_version, opens_supervisor, defect.encode())
    if listener is None:
        os.write(frame_socket, words)
    else:
        from .denials import hand_over

        hand_over(frame_socket, words, listener)
    if os.read(frame_socket, 1) != b"\n":
        os._exit(70)
    kernel.forbid_tracing()
    os.write(frame_socket, b"\n")


def _settle() -> None:
    """The working directory, and the image's font list where matplotlib looks: it reads only where it may write."""
    try:
        os.chdir(_HOME)
    except OSError:  # an image without it, on an engine that makes none
        pass
    try:
        fonts = os.listdir(_FONT_CACHE)
        os.makedirs(_ENVIRONMENT["MPLCONFIGDIR"], 0o700)
    except OSError:  # another image, or an earlier worker has done it
        return
    for name in fonts:
        with (
            open(os.path.join(_FONT_CACHE, name), "rb") as cached,
            open(os.path.join(_ENVIRONMENT["MPLCONFIGDIR"], name), "wb") as copy,
        ):
            copy.write(cached.read())


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))
