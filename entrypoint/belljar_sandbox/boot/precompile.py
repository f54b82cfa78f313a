"""While the supervisor is imported, another process compiles what the first worker will import.

Compiling takes most of the time of a start, and only the supervisor's own part of it has to come before the worker's.
"""

from __future__ import annotations

import os
from marshal import dumps
from mmap import mmap
from signal import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Protocol

    class Importer(Protocol):
        precompiled: dict[str, bytes]
        compiled: Callable[[str], CodeType]


# Up to its first run, in about this order.
_OF_WORKER = (
    *("boot.worker", "worker", "worker.confinement", "kernel.landlock", "kernel.seccomp", "worker.streams"),
    *("calls", "calls.port", "calls.resources", "calls.results", "calls.awaitable", "display", "display.images"),
    *("calls.placeholder", "worker.saved_files", "calls.call_check", "calls.calls", "worker.run_origin"),
    *("worker.after_import", "calls.arguments", "calls.proxies", "run", "run.interpreter"),
    *("display.matplotlib_figures", "run.mutation_check", "run.report", "display.text", "worker.interrupts"),
    *("run.sources", "run.unawaited_warning", "skills", "skills.loader", "worker.account", "worker.channel"),
    *("worker.fork_start_method", "worker.frozen_copy", "worker.import_memory", "worker.workspace_watch"),
)
NAMES = ("mcp.runtime", *(f"belljar_sandbox.{name}" for name in _OF_WORKER), "mcp.servers", "mcp")
_BYTES_MAX = 4 << 20
_LENGTH_BYTES = 4


class Precompiler:
    """The process ends before a worker begins: nobody else ever writes to what it shares."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        # Of the process; nothing when there is none, as where it would be one too many.
        self._compiler: int | None = None
        self._area = mmap(-1, _BYTES_MAX)
        try:
            self._compiler = os.fork()
        except OSError:
            return
        if self._compiler == 0:
            try:
                self._compile()
            finally:
                os._exit(0)

    def take(self) -> None:
        """What it has done by now; the rest is compiled by whoever imports it."""
        if self._compiler is None:
            return
        try:
            os.kill(self._compiler, SIGKILL)
            os.waitpid(self._compiler, 0)
        except (ProcessLookupError, ChildProcessError):  # it had ended, and has been waited for
            pass
        self._compiler = None
        at = 0
        for name in NAMES:
            begin = at + _LENGTH_BYTES
            length = int.from_bytes(self._area[at:begin], "big")
            if not length:
                break
            at = begin + length
            self._importer.precompiled[name] = self._area[begin:at]
        self._area.close()

    def _compile(self) -> None:
        at = 0
        for name in NAMES:
            code = dumps(self._importer.compiled(name))
            begin = at + _LENGTH_BYTES
            end = begin + len(code)
            self._area[begin:end] = code
            # Last: what has a length is whole.
            self._area[at:begin] = len(code).to_bytes(_LENGTH_BYTES, "big")
            at = end
