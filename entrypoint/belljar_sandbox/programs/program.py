"""`runtime.run`: runs a program in one of several languages, as a process in the same sandbox.

The process has the same rights as the session's code. It is killed with its group when its time is over, when the run
is interrupted, and when it has ended.
"""

from __future__ import annotations

import os
import signal
from _thread import start_new_thread
from collections.abc import Callable, Mapping, Sequence
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic

from ..calls.awaitable import Awaitable
from ..kernel.type_names import Any
from .child_process import ProcessEnd, Stop
from .child_process import run as run_child
from .diagnostics import Diagnostic, diagnostics
from .languages import Language, language

SECONDS = 10.0
SECONDS_MAX = 86_400.0
FILES_MAX = 1_000
FILE_NAME_BYTES_MAX = 255
_FOLDER = "/tmp"
_CRASHES = frozenset(
    (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP)
)
_NATIVE = "belljar_sandbox/programs/native.py"


class Result(Awaitable):
    """The result of a program.

    `status`: completed (exit code 0), failed (another one, or it does not compile), crashed (by a signal such as
    SIGSEGV), terminated (killed by another signal) or timeout. `exit_code` or `signal` is None. `diagnostics`: what a
    compiler, or an interpreter that does not understand the source, says of it: each has file, line, column, severity,
    message.
    """

    __slots__ = ("diagnostics", "exit_code", "signal", "status", "stderr", "stdout")

    def __init__(self, ended: ProcessEnd, folder: str, remarks: list[Diagnostic]) -> None:
        self.exit_code: int | None = None
        self.signal: str | None = None
        if ended.code is None:
            self.status = "timeout"
        elif ended.code >= 0:
            self.exit_code = ended.code
            self.status = "failed" if ended.code else "completed"
        else:
            self.signal = _signal_name(-ended.code)
            self.status = "crashed" if -ended.code in _CRASHES else "terminated"
        self.stdout = ended.stdout.text()
        # File names in the output are those that the caller gave.
        self.stderr = ended.stderr.text().replace(f"{folder}/", "")
        self.diagnostics = remarks

    def __repr__(self) -> str:
        how = f"exit code {self.exit_code}" if self.exit_code is not None else self.signal
        lines = [f"{self.status} ({how})" if how else self.status]
        # If the compiler failed, its messages are in its output anyway.
        remarks = "\n".join(repr(remark) for remark in self.diagnostics) if self.status == "completed" else ""
        for name, text in (("diagnostics", remarks), ("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                lines += [f"{name}:", _redrawn(text.removesuffix("\n"))]
        return "\n".join(lines)


def _redrawn(text: str) -> str:
    """Returns the last state of each line that redraws itself, as a terminal shows it."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class Program:
    """A program to run. Its arguments are checked when it is created."""

    def __init__(
        self,
        name: str,
        code: str,
        stdin: str | bytes | None,
        files: Mapping[str, str | bytes] | None,
        args: Sequence[str] | None,
        timeout: float | None,
    ) -> None:
        self._language = language(name)
        if type(code) is not str:
            raise TypeError(f"the code is a str, not {type(code).__name__}")
        self._stdin = _bytes("stdin", stdin or b"")
        self._sources = {self._language.file: code}
        self._files = {self._language.file: _bytes("the code", code)}
        if len(files or {}) > FILES_MAX:
            raise ValueError(f"at most {FILES_MAX:,} files can be given")
        for path, content in (files or {}).items():
            self._files[_checked(path, self._files)] = _bytes(f"file {path!r}", content)
            if isinstance(content, str):
                self._sources[path] = content
        if isinstance(args, str | bytes):
            raise TypeError("args is a list of arguments, not one text")
        self._arguments = [_argument(argument) for argument in args or ()]
        self._seconds = _seconds(timeout)

    def run(self, stop: Stop | None = None) -> Result:
        """Runs it in this thread."""
        stop = Stop() if stop is None else stop
        deadline = monotonic() + self._seconds
        folder = mkdtemp(prefix="run-", dir=_FOLDER)
        try:
            for path, content in self._files.items():
                target = os.path.join(folder, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(content)
            return self._run_in(folder, deadline, stop)
        finally:
            rmtree(folder, ignore_errors=True)

    async def run_async(self) -> Result:
        """Runs it in a thread of its own, while the event loop continues."""
        import asyncio

        loop, stop = asyncio.get_running_loop(), Stop()
        outcome: asyncio.Future[Result] = loop.create_future()

        def work() -> None:
            settle: Callable[..., object] = outcome.set_result
            try:
                settled: object = self.run(stop)
            except BaseException as error:
                settle, settled = outcome.set_exception, error
            try:
                loop.call_soon_threadsafe(lambda: outcome.done() or settle(settled))
            except RuntimeError:  # the loop is closed, so that nothing waits any more
                pass

        start_new_thread(work, ())
        try:
            return await outcome
        finally:
            stop()

    def _run_in(self, folder: str, deadline: float, stop: Stop) -> Result:
        named, remarks = self._language, []
        if named.compiler:
            sources = [path for path in self._files if path.endswith(named.endings)]
            command = [*named.compiler, *sources, *named.libraries]
            compiled = run_child(command, folder, b"", deadline, stop)
            remarks = self._remarks(compiled, folder)
            if compiled.code != 0:
                return Result(compiled, folder, remarks)
        ended = run_child([*_command(named), *self._arguments], folder, self._stdin, deadline, stop)
        if not named.compiler and ended.code != 0:
            remarks = self._remarks(ended, folder)
        return Result(ended, folder, remarks)

    def _remarks(self, ended: ProcessEnd, folder: str) -> list[Diagnostic]:
        return diagnostics(self._language.name, ended.stderr.text(), folder, self._sources)


def _command(named: Language) -> list[str]:
    if not named.compiler:
        return [*named.command, named.file]
    # No file in a writable place can be executed, because of the mounts or of Landlock.
    loader: Any = __spec__.loader
    return [*language("python").command, "-I", "-c", loader.source(_NATIVE), "./program"]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _checked(path: str, others: Mapping[str, bytes]) -> str:
    if type(path) is not str:
        raise TypeError(f"the name of a file is a str, not {type(path).__name__}")
    parts = path.split("/")
    if path in others:
        raise ValueError(f"{path!r} is the name of the code's own file")
    is_plain = all(part not in ("", ".", "..") and len(part.encode()) <= FILE_NAME_BYTES_MAX for part in parts)
    if not is_plain or "\0" in path or path.startswith("-"):
        raise ValueError(f"{path[:200]!r} is no name of a file beside the code: no / or - before it, no .., 255 bytes")
    return path


def _bytes(what: str, content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"{what} is a str or bytes, not {type(content).__name__}")


def _argument(argument: object) -> str:
    if not isinstance(argument, str | int | float):
        raise TypeError(f"an argument is a str or a number, not {type(argument).__name__}")
    text = str(argument)
    if "\0" in text:
        raise ValueError("an argument holds no null character")
    return text


def _seconds(timeout: float | None) -> float:
    if timeout is None:
        return SECONDS
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is seconds, not {type(timeout).__name__}")
    if not 0 < timeout <= SECONDS_MAX:
        raise ValueError(f"timeout is more than 0 and at most {SECONDS_MAX:,.0f} seconds, not {timeout!r}")
    return float(timeout)
