"""Compiles what the first worker will import in another process, while the supervisor is imported.

Compiling takes most of the time of a start.
"""

from __future__ import annotations

import os
from marshal import dumps
from mmap import mmap

from ..kernel.signals import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Protocol

    class Importer(Protocol):
        precompiled: dict[str, bytes]
        compiled: Callable[[str], CodeType]


# What a worker imports up to its first run, about in this order.
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
    """A process that compiles into shared memory. It ends before a worker starts, so that no worker can write there."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        # The process; None if it could not be forked, or has ended.
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
        """Ends the process and takes what it has compiled so far. The rest is compiled when it is imported."""
        if self._compiler is None:
            return
        try:
            os.kill(self._compiler, SIGKILL)
            os.waitpid(self._compiler, 0)
        except (ProcessLookupError, ChildProcessError):  # it has ended and was reaped
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
            # The length is written last: code with a length is complete.
            self._area[at:begin] = len(code).to_bytes(_LENGTH_BYTES, "big")
            at = end
