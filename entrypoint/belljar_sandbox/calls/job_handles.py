"""Handles of jobs. A handle has only the job's number; the bridge, which outlives all processes, knows the rest.

A handle can be stored in a variable, pickled, or made again: `runtime.job(3)`.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Generator

from ..kernel.type_names import Any
from .awaitable import Awaitable
from .port import asked, port

_LINES = 20


class JobError(RuntimeError):
    """A job has no result: it is still running, was ended, or has raised an error.

    `status` is the job's; `type`, `message` and `traceback` are those of its error, or empty.
    """

    __module__ = "mcp.runtime"

    def __init__(self, said: str, status: str, error: dict[str, Any] | None = None) -> None:
        error = error or {}
        self.type = str(error.get("type", ""))
        self.message = str(error.get("message", ""))
        self.traceback = str(error.get("traceback", ""))
        self.status = status
        # A traceback without lines of code repeats the message.
        super().__init__(f"{said}\n{self.traceback}".rstrip() if '  File "' in self.traceback else said)


class Job:
    """A job of this session, by its number."""

    __module__ = "mcp.runtime"
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def name(self) -> str:
        return str(self._told()["name"])

    @property
    def status(self) -> str:
        """running, finished, failed, cancelled, timed_out or lost."""
        return str(self._told()["status"])

    @property
    def result(self) -> Any:
        """What the job returned. JobError if it is running or has raised an error. `await job` waits for it."""
        return self._unpacked(port().call_sync(None, "job_result", {"job": self.number}))

    def wait(self, timeout: float | None = None) -> str:
        """Waits until it has ended, at most `timeout` seconds. Returns its status. The time limit of the run
        applies."""
        return asked("wait_job", _status, job=self.number, timeout=timeout)

    def tail(self, lines: int = _LINES) -> str:
        """Returns the last lines that it has written to stdout and stderr, of at most 64 KiB."""
        return asked("job_tail", str, job=self.number, lines=lines)

    def cancel(self) -> str:
        """Ends it with KeyboardInterrupt, or by force if it does not end. Returns its status."""
        return asked("cancel_job", _status, job=self.number)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        await port().call(None, "wait_job", {"job": self.number})
        return self._unpacked(await port().call(None, "job_result", {"job": self.number}))

    def __reduce__(self) -> tuple[Any, ...]:
        return Job, (self.number,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.number == self.number

    def __hash__(self) -> int:
        return hash((Job, self.number))

    def __repr__(self) -> str:
        try:
            return f"<job {_line(self._told())}>"
        except Exception:  # for example, no run is active
            return f"<job {self.number}>"

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = port().call_sync(None, "job", {"job": self.number})
        return told

    def _unpacked(self, answer: dict[str, Any]) -> Any:
        status, name = str(answer["status"]), f"job {self.number} {answer['name']!r}"
        if status == "running":
            raise JobError(f"{name} is running: `await job`, or job.wait(seconds), waits for it", status)
        if "result" in answer:
            import pickle

            try:
                return pickle.loads(a2b_base64(answer["result"]))
            except Exception as error:
                said = f"what {name} returned cannot be read here ({type(error).__name__}: {error})"
                raise JobError(f"{said}: a class it is made of may be gone", status) from None
        raised = answer.get("error")
        why = f": {answer['why']}" if answer.get("why") else ""
        raise JobError(
            f"{name} {_WORDS.get(status, status)}{why}", status, raised if isinstance(raised, dict) else None
        )


_WORDS = {"cancelled": "was cancelled", "timed_out": "was ended for its time", "lost": "was lost"}


class JobList(Awaitable, list["Job"]):
    """All jobs that are known. Prints one line for each."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = port().call_sync(None, "jobs", {})
        super().__init__(Job(int(row["job"])) for row in self._rows)

    def __repr__(self) -> str:
        return "\n".join(map(_line, self._rows)) or "no jobs"


def jobs() -> JobList:
    """All jobs that are known. Prints one line for each."""
    return JobList()


def job(number: int) -> Job:
    """Returns the job with this number, which `runtime.jobs()` lists. MCPError if there is none."""
    port().call_sync(None, "job", {"job": number})
    return Job(number)


def _status(answer: dict[str, Any]) -> str:
    return str(answer["status"])


def _line(row: dict[str, Any]) -> str:
    calls = f", {row['calls']} call{'' if row['calls'] == 1 else 's'}" if row.get("calls") else ""
    why = f": {row['why']}" if row.get("why") else ""
    return f"{row['job']} {row['name']!r} {row['status']}, {row['seconds']:.0f} s{calls}{why}"
