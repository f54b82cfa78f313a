"""The worker process: made after the fork, it reads runs and answers them.

It is not trusted: whatever it sends may come from user code. It ends only by being killed, or by user code.
"""

from __future__ import annotations

import gc
import os
import sys
from os import sched_yield

from ..wire.frames import encode
from ..wire.limits import Limits
from ..worker.confinement import confine
from ..worker.streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ..run.checkpoint_api import TimeTravel
    from ..run.job_spawn import Spawner
    from ..wire.ends import Ends

_QUIET_MS = 20
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
    confine(ends.frames, limits)
    _settle()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Last, so that a file in the working directory cannot take the place of a standard module.
    sys.path.append(os.getcwd())
    sys.argv = [""]

    # Only now, when the bridge already knows that its first run may come. Later workers find them imported by the
    # supervisor.
    import mcp

    from ..calls.call_check import CallCheck
    from ..calls.calls import Calls, Server
    from ..calls.proxies import Proxies
    from ..run.interpreter import Interpreter, main_namespace
    from ..skills.loader import Skills
    from ..worker.account import provide as provide_account
    from ..worker.channel import Channel
    from ..worker.fork_start_method import install as fork_by_default
    from ..worker.frozen_copy import FrozenCopy
    from ..worker.import_memory import install as need_room_for_imports
    from ..worker.interrupts import Interrupts
    from ..worker.run_origin import install as attribute_threads
    from ..worker.saved_files import SAVED
    from ..worker.workspace_watch import Watch

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
    namespace = main_namespace()
    proxies = Proxies(calls, namespace, mcp)
    skills = Skills(calls, namespace, proxies.names)
    check = CallCheck(calls, namespace)
    interpreter = Interpreter(namespace, streams, interrupts, calls, (proxies, skills, check), ends.record)

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
        from .preload import load_the_rest

        load_the_rest()
        interpreter.event_loop()
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
        from ..run.checkpoint_api import TimeTravel

        return TimeTravel(copy, calls, streams, interrupts, go_on_from_here)

    def spawner() -> Spawner:
        from ..run.job_spawn import Spawner

        return Spawner(ends, channel, streams, interrupts, calls, interpreter)

    mcp.runtime.bind(calls, ends.record, skills, spawner, travel)
    serve(number)


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
