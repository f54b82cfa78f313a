"""Builds the worker from its parts after the fork, and serves runs.

The supervisor does not trust a worker, since user code may send anything in its name. A worker ends when it is
killed, when its socket fails or the supervisor has ended, or when user code ends it.
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

    from ..run.checkpoint_api import CheckpointApi
    from ..run.job_spawn import Spawner
    from ..wire.ends import Ends

_QUIET_MS = 20
_HOME = "/workspace"
# The font caches of an image and of a virtual environment.
_FONT_CACHES = ("/usr/local/share/belljar/matplotlib", f"{sys.prefix}/share/belljar/matplotlib")
_ENVIRONMENT = {
    "HOME": _HOME,
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    # A fork does not copy threads: in the frozen copy, a library would wait for its threads for ever.
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

    # Imported only now, when the supervisor can already report that the worker has started.
    import mcp

    from ..calls.calls import Calls
    from ..calls.port import Server
    from ..calls.proxies import Proxies
    from ..run.interpreter import Interpreter, main_namespace
    from ..skills.loader import SkillLoader
    from ..worker.account import provide as provide_account
    from ..worker.channel import Channel
    from ..worker.fork_start_method import install as fork_by_default
    from ..worker.frozen_copy import FrozenCopy
    from ..worker.import_memory import install as need_room_for_imports
    from ..worker.interrupts import Interrupts
    from ..worker.run_origin import install as attribute_threads
    from ..worker.saved_files import SAVED
    from ..worker.workspace_watch import WorkspaceWatch

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
    skills = SkillLoader(namespace, proxies.names)
    interpreter = Interpreter(namespace, streams, interrupts, calls, proxies, skills.load_for, ends.record)

    def in_child() -> None:
        calls.in_child = True
        channel.leave()

    os.register_at_fork(after_in_child=in_child)

    def on_wake(frames: int, worker: int, outputs: list[int]) -> None:
        if outputs:
            # Only a checkpoint gets new outputs. It was made in the middle of a run.
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
        except Exception:  # user code has replaced a function that this needs
            return copy.number
        finally:
            streams.process_starts_are_ours = False

    SAVED.root = limits.workspace
    files = (
        WorkspaceWatch(limits.workspace, (limits.workspace_files, limits.workspace_bytes)) if limits.workspace else None
    )
    packages = os.environ.pop("BELLJAR_PRELOAD", "")
    quiet = not channel.has_input(_QUIET_MS)
    if quiet:
        from .preload import load_the_rest

        load_the_rest()
        interpreter.event_loop()
        interpreter.preload(packages)
    # These objects live as long as the process, so that garbage collection can skip them.
    gc.freeze()
    if quiet:
        number = renew(0, True)

    def serve(number: int) -> NoReturn:
        while True:
            try:
                frame = channel.next_run()
            except Exception:  # raised by a signal handler that user code left behind
                continue
            # A run that was meant for an earlier worker needs no answer: the end of that worker was its answer.
            if frame.get("worker") != number:
                continue
            run, code, servers = frame.get("run"), frame.get("code"), frame.get("servers")
            if isinstance(run, int) and isinstance(code, str) and isinstance(servers, list):
                keys = ("name", "alias", "description", "takes_files")
                offered = [Server(*(server[key] for key in keys)) for server in servers]
                done = interpreter.run(run, code, offered, images_as_files=frame.get("images_as_files") is True)
                if files is not None and files.has_changed():
                    done["files_changed"] = True
                if copy.goes_back_to is not None:
                    done["restore"], copy.goes_back_to = copy.goes_back_to, None
                channel.send(encode(done))
                # If the supervisor shares this processor, it passes the frame on before the work below begins.
                sched_yield()
                interpreter.tidy()
                number = renew(run, interpreter.changed)

    def go_on_from_here() -> NoReturn:
        """Serves runs in a checkpoint that has become the worker, with a copy to roll back to."""
        serve(renew(0, True))

    def checkpoint_api() -> CheckpointApi:
        from ..run.checkpoint_api import CheckpointApi

        return CheckpointApi(copy, interpreter, go_on_from_here)

    def spawner() -> Spawner:
        from ..run.job_spawn import Spawner

        return Spawner(ends, channel, interpreter)

    mcp.runtime.bind(calls, ends.record, skills, spawner, checkpoint_api)
    serve(number)


def _settle() -> None:
    """Enters the working directory, and copies the image's font list to where matplotlib reads it."""
    try:
        os.chdir(_HOME)
    except OSError:  # the image does not have it, and the engine does not create it
        pass
    folder = next(filter(os.path.isdir, _FONT_CACHES), "")
    try:
        fonts = os.listdir(folder)
        os.makedirs(_ENVIRONMENT["MPLCONFIGDIR"], 0o700)
    except OSError:  # there is no list, or an earlier worker has copied it
        return
    for name in fonts:
        with (
            open(os.path.join(folder, name), "rb") as cached,
            open(os.path.join(_ENVIRONMENT["MPLCONFIGDIR"], name), "wb") as copy,
        ):
            copy.write(cached.read())
