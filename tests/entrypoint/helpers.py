"""What tests in several folders share: answers of tools, jobs, and the processes of a sandbox."""

from __future__ import annotations

import base64
import pickle
import time
from typing import Any

from sandbox import DEADLINE_SECONDS, Frame, Sandbox

RUNTIME = "from mcp import runtime\n"


def echo(call: Frame) -> Frame:
    return {"content": [], "structuredContent": call["arguments"]}


class Bench:
    """A sandbox, and a bridge that gives each job the next number."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.given = 0
        self.asked: list[Frame] = []

    def on_call(self, call: Frame) -> None:
        self.asked.append(call)
        match call["tool"]:
            case "spawn_job":
                self.given += 1
                self.sandbox.answer(call, {"job": self.given})
            case "cancel_job":
                self.sandbox.answer(call, {"status": "cancelled"})
            case _:
                self.sandbox.answer(call, {"job": 1, "name": "f", "status": "running", "seconds": 1})

    def run(self, code: str, servers: tuple[str, ...] = ()) -> Frame:
        return self.sandbox.run(RUNTIME + code, servers, self.on_call)

    def of_job(self, kind: str, job: int = 1) -> Frame:
        """The next frame of this kind about or from the job; others are dropped."""
        while True:
            frame = self.sandbox.next_of_jobs()
            if (frame["type"], frame["job"]) == (kind, job):
                return frame

    def done(self, job: int = 1) -> Frame:
        """What it ends with; it is ended as the bridge does."""
        done = self.of_job("done", job)
        self.end(job, kill=True)
        ended = self.of_job("job_ended", job)
        assert (ended["signal"], ended["requested"]) == (9, True)
        return done

    def end(self, job: int, kill: bool) -> None:
        self.sandbox.supervise({"type": "end_job", "job": job, "kill": kill})


def returned(done: Frame) -> Any:
    assert done["outcome"] == "finished", done
    return pickle.loads(base64.b64decode(done["result"]))


def die(sandbox: Sandbox, code: str = "import os; os._exit(7)") -> Frame:
    """The `worker_started` after it."""
    sandbox.start(code)
    sandbox.wait("worker_exited")
    return sandbox.wait("worker_started")


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def copy_of(sandbox: Sandbox) -> int:
    """Its process: it is made after the answer, and one that was let go takes a moment to die."""
    sandbox.run("None")
    worker = children(sandbox.process.pid)[0]
    end = time.monotonic() + DEADLINE_SECONDS
    before: list[int] = []
    while True:
        copies = [child for child in children(worker) if not is_dead(child)]
        # Twice: the kernel may leave one out of its list while another ends.
        if len(copies) == 1 and copies == before:
            return copies[0]
        assert time.monotonic() < end, copies
        before = copies
        time.sleep(0.02)


def is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True
