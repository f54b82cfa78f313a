"""Starts jobs: a process is forked in the middle of a run, with a copy of all variables, and outlives the run.

The bridge allows the job and gives it a number, and the supervisor takes the process over. A job has the same rights as
the run.
"""

from __future__ import annotations

import os
import sys
from binascii import b2a_base64
from contextlib import suppress
from functools import partial
from select import poll
from threading import current_thread, main_thread
from types import CoroutineType

from ..calls.calls import Calls
from ..calls.job_handles import Job
from ..calls.results import MCPError
from ..kernel import landlock, system_calls
from ..kernel.signals import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask
from ..kernel.type_names import Any, NoReturn
from ..wire import fd_passing
from ..wire.ends import Ends
from ..wire.frames import Frame, encode
from ..worker.channel import Channel
from ..worker.interrupts import OURS
from .interpreter import Interpreter

RESULT_BYTES_MAX = 8 << 20
_WORDS_BYTES_MAX = 64


class Spawner:
    """Starts jobs. It holds the parts of the worker that a fork has to change."""

    def __init__(self, ends: Ends, channel: Channel, interpreter: Interpreter) -> None:
        self.ends = ends
        self.channel = channel
        self.interpreter = interpreter
        self.streams, self.interrupts, self.calls = interpreter.streams, interpreter.interrupts, interpreter.calls

    def spawn(
        self, work: Any, /, *args: Any, name: str | None = None, timeout: float | None = None, **kwargs: Any
    ) -> Job:
        """Runs `work(*args, **kwargs)`, or a coroutine, as a job: a process that goes on when the run ends.

        It begins with a copy of all variables; what it changes of them stays its own, so return what is wanted:
        `job.result`, `await job`, `job.wait(60)`, `job.status`, `job.tail()`, `job.cancel()`; `runtime.jobs()`.
        `timeout` is in seconds.
        """
        if self.calls.is_of_job:
            raise RuntimeError("a job cannot start jobs: start them in a run")
        if current_thread() is not main_thread():
            raise RuntimeError("runtime.spawn is for the main thread: another one cannot be forked from")
        try:
            _check(work, args, kwargs)
        except BaseException:
            # Otherwise a later run shows a warning that the coroutine was never awaited.
            if isinstance(work, CoroutineType) and not _has_begun(work):
                _let_go(work, self.calls)
            raise
        name = _named(work) if name is None else str(name)
        asked = {"name": name, **({} if timeout is None else {"timeout": timeout})}
        number: dict[str, Any] = self.calls.call_sync(None, "spawn_job", asked)
        job = Job(int(number["job"]))
        if not number.get("recorded"):
            self._start(job, work if isinstance(work, CoroutineType) else partial(work, *args, **kwargs))
        if isinstance(work, CoroutineType):
            _let_go(work, self.calls)
        return job

    def _start(self, job: Job, work: Any) -> None:
        try:
            answer = _forked(self, job.number, work)
            if answer != "taken":
                raise OSError(answer.removeprefix("refused: "))
        except BaseException as error:
            with suppress(MCPError):
                job.cancel()
            if isinstance(error, (OSError, fd_passing.NotTakenError)):
                raise RuntimeError(f"the job could not be started: {error}") from None
            raise


def _check(work: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if isinstance(work, CoroutineType):
        if args or kwargs:
            raise TypeError("this call has its arguments already: runtime.spawn(f, *args), or runtime.spawn(f(...))")
        if _has_begun(work):
            raise ValueError("this call has begun or ended already: runtime.spawn a new one")
        return
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and isinstance(work, asyncio.Future):
        raise TypeError(
            f"a {type(work).__name__} belongs to this interpreter's event loop: runtime.spawn takes the call or "
            "the function itself, before it is made a task or gathered"
        )
    if not callable(work):
        raise TypeError(f"runtime.spawn takes a function, or the call of an async one, not {type(work).__name__}")


def _has_begun(work: CoroutineType[Any, Any, Any]) -> bool:
    from inspect import CORO_CREATED, getcoroutinestate

    return getcoroutinestate(work) != CORO_CREATED


def _named(work: object) -> str:
    return str(getattr(work, "__qualname__", None) or getattr(work, "__name__", None) or type(work).__name__)


def _let_go(work: CoroutineType[Any, Any, Any], calls: Calls) -> None:
    """Closes the coroutine in this process, where it does not run, without a warning that it was never awaited."""
    calls.is_awaited(work.__qualname__)
    work.close()


def _forked(parts: Spawner, number: int, work: Any) -> str:
    """Forks the job and returns the supervisor's answer. The job itself never returns from here.

    `work`: a coroutine, or a function without parameters.
    """
    supervisor = os.getppid()
    parts.streams.flush()
    (ours, theirs), (output, output_end) = fd_passing.stream_pair(), os.pipe()
    mask = pthread_sigmask(SIG_BLOCK, (SIGINT,))
    try:
        parts.streams.process_starts_are_ours = True
        try:
            pid = os.fork()
        finally:
            parts.streams.process_starts_are_ours = False
        if pid == 0:
            _begin(parts, supervisor, (ours, theirs, output, output_end), work)
        os.close(theirs)
        theirs = -1
        # The child only forks the job and ends at once, so that the job becomes the supervisor's child.
        os.waitpid(pid, 0)
        said = os.read(ours, _WORDS_BYTES_MAX)
        if not said.isdigit():
            raise OSError("no process can be forked")
        return fd_passing.give(parts.ends.handover, f"job {number} {int(said)}", ours, output)
    finally:
        pthread_sigmask(SIG_SETMASK, mask)
        for fd in (ours, theirs, output, output_end):
            if fd >= 0:
                os.close(fd)


def _begin(parts: Spawner, supervisor: int, ends: tuple[int, int, int, int], work: Any) -> NoReturn:
    try:
        ours, theirs, output, output_end = ends
        os.setsid()
        if os.fork():
            os._exit(0)
        os.setsid()
        for fd in (ours, output, parts.ends.spare, parts.ends.handover):
            os.close(fd)
        while os.getppid() != supervisor:
            poll().poll(1)
        system_calls.die_with_parent()
        # Orphaned descendants of the job stay its descendants, and end with it.
        system_calls.adopt_orphans()
        landlock.separate()
        os.write(theirs, b"%d" % os.getpid())
        if os.read(theirs, 1) != b"\n":
            os._exit(0)
        parts.streams.write_to(output_end)
        os.close(output_end)
        parts.channel.open(theirs)
        parts.calls.begin_job()
        parts.interpreter.begin_job()
        _run(parts, theirs, work)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(70)


def _run(parts: Spawner, end: int, work: Any) -> None:
    interrupts = parts.interrupts
    interrupts.begin_run()
    interrupts.arm()
    try:
        interrupts.run_active = True
        result = work if isinstance(work, CoroutineType) else work()
        if isinstance(result, CoroutineType):
            result = parts.interpreter.event_loop().drive(result)
        interrupts.run_active = False
        ended: Frame = {"outcome": "finished", "result": _packed(result)}
    except BaseException as error:
        interrupts.run_active = False
        ended = _failed(error)
    with suppress(BaseException):
        parts.streams.flush()
    parts.channel.send(encode({"type": "done", **ended}))
    # The bridge ends this process, with everything that the job has left behind.
    while True:
        with suppress(BaseException):
            if not os.read(end, 1 << 16):
                os._exit(0)


def _packed(result: object) -> str:
    """Pickles the result for `job.result`, which is read in another process."""
    import pickle

    try:
        data = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"the job has ended well, but what it returned cannot be pickled ({type(result).__name__}: {error}): "
            "return plain data, or write it to a file in /workspace"
        ) from None
    if len(data) > RESULT_BYTES_MAX:
        raise ValueError(
            f"the job has ended well, but what it returned has {len(data):,} bytes, more than {RESULT_BYTES_MAX:,}: "
            "write it to a file in /workspace"
        )
    return b2a_base64(data, newline=False).decode()


def _failed(error: BaseException) -> Frame:
    from .report import error_report

    match error:
        case SystemExit(code=None):
            return {"outcome": "exited", "exit_code": 0}
        case SystemExit(code=int(status)):
            return {"outcome": "exited", "exit_code": status & 0xFF}
        case SystemExit():
            return {"outcome": "exited", "exit_code": 1}
    outcome = "interrupted" if isinstance(error, KeyboardInterrupt) else "raised"
    return {"outcome": outcome, "error": error_report(error, OURS, "")}
