"""Imports a skill and runs its test in a process of its own, without the session's variables.

It is not a security boundary: code that could cheat it has the same rights as the session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..calls.results import MCPError
from ..run.report import error_report
from .definitions import load

_REPORT_BYTES_MAX = 3_000


def check(name: str, source: str, test: str | None, lend: Callable[[ModuleType], None]) -> None:
    """Raises MCPError, which says what has failed. The output of the test is output of the run."""
    reader, writer = os.pipe()
    try:
        process = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise MCPError(f"{name} cannot be tried: {error}") from None
    if process == 0:
        try:
            os.close(reader)
            os.write(writer, _tried(name, source, test, lend).encode(errors="replace")[:_REPORT_BYTES_MAX])
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    try:
        # One read, since the report is written at once, and a process left by the test may hold the pipe open.
        said = os.read(reader, _REPORT_BYTES_MAX)
    finally:
        os.close(reader)
        try:
            os.kill(process, 9)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
    if said != b"ok":
        what = said.decode(errors="replace") or "its process ended in the middle of it"
        raise MCPError(f"{name} is not kept: {what}", code="invalid_arguments")


def _tried(name: str, source: str, test: str | None, lend: Callable[[ModuleType], None]) -> str:
    file = f"<skill {name}>"
    module = ModuleType(f"skills.{name}")
    sys.modules[module.__name__] = module
    at = "in a process of its own it cannot be imported"
    try:
        load(module, source, file, lend)
        if not callable(vars(module).get(name)):
            return f"its source defines no function {name}"
        if test is not None:
            at = f"its test {test} fails"
            _run(vars(module)[test])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        report = error_report(error, file, source)
        line = report["line"]
        where = f" at line {line}: {source.splitlines()[line - 1].strip()}" if isinstance(line, int) else ""
        if isinstance(error, MCPError) and error.code == "not_running":
            return f"{at}: no server can be called there; leave the test out, or test a function that gets the results"
        said = f": {report['message']}" if report["message"] else ""
        return f"{at}: {report['type']}{said}{where}"
    return "ok"


def _run(test: Callable[[], Any]) -> None:
    value = test()
    if hasattr(value, "__await__"):
        import asyncio

        async def awaited() -> None:
            await value

        loop = asyncio.new_event_loop()
        loop.run_until_complete(awaited())
