"""Drives the real runtime over pipes, the way the bridge does, without a container.

It does not check anything by itself; a wait that exceeds its deadline fails the test.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

ENTRYPOINT = Path(__file__).parents[2] / "entrypoint"
DEADLINE_SECONDS = 30.0
LIMITS = {
    "frame_to_sandbox_bytes": 64 << 20,
    "frame_to_bridge_bytes": 16 << 20,
    "frame_depth": 128,
    "calls_in_flight": 64,
    "arguments_in_flight_bytes": 32 << 20,
    "memory_bytes": 0,
    "open_files": 1024,
    "processes": 0,
    "heartbeat_ms": 0,
    "allow_unfiltered": 0,
    "workspace_files": 50,
    "workspace_bytes": 2_000_000,
}

# Where a sandbox has places of its own.
WRITABLE = ("/tmp", "/workspace", "/run", "/var/tmp", "/dev/shm")

Frame = dict[str, Any]


def bundle(change: tuple[str, str] | None = None, **members: Any) -> bytes:
    """`change`: a text of one file and what stands there instead, for controls. `members`: others of the header. `code`
    is given as a `code` frame has it.
    """
    files = {
        str(path.relative_to(ENTRYPOINT)): path.read_text()
        for path in sorted(ENTRYPOINT.rglob("*.py"))
        if path.name != "bootstrap.py" and path.parent.name != "remote"
    }
    if change is not None:
        (changed,) = (name for name, text in files.items() if change[0] in text)
        files[changed] = files[changed].replace(*change)
    content = b""

    def places(parts: dict[str, bytes]) -> dict[str, list[int]]:
        nonlocal content
        begin = len(content)
        content += b"".join(parts.values())
        ends = list(accumulate(map(len, parts.values()), initial=begin))
        return {name: [*place] for name, place in zip(parts, pairwise(ends), strict=True)}

    header = {"main": "belljar_sandbox.boot.main", **members}
    header["files"] = places({path: text.encode() for path, text in files.items()})
    if code := members.get("code"):
        modules = {name: base64.b64decode(text) for name, text in code["modules"].items()}
        header["code"] = {**code, "modules": places(modules)}
    return json.dumps({**header, "bytes": len(content)}).encode() + b"\n" + content


# As in a container, whoever started the tests: nohup, for one, has it ignored in all that is started below it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Sandbox:
    def __init__(
        self,
        greet: bool = True,
        prefix: tuple[str, ...] = (),
        workspace: str = "",
        change: tuple[str, str] | None = None,
        members: Frame | None = None,
        **limits: int,
    ) -> None:
        bootstrap = (ENTRYPOINT / "bootstrap.py").read_text()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-I", "-u", "-c", bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/tmp",
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._unsent = bytearray(bundle(change, **(members or {})))
        self._unread = b""
        self.frames: deque[Frame] = deque()
        # From jobs and about them, which come whenever they want.
        self.of_jobs: deque[Frame] = deque()
        self.seen: list[Frame] = []
        self.runs = 0
        self.worker = 1
        self.limits = {**LIMITS, **limits}
        self.workspace = workspace
        self.ended = False
        # What the bridge says of the calls that stand in code: nothing, unless a test knows better.
        self.on_check: Callable[[list[Frame]], list[Frame | None]] = lambda calls: [None for _ in calls]
        if greet:
            try:
                self.hello = self.greet()
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.process.poll() is None:
            assert self.process.stdin
            self.process.stdin.close()
            try:
                self.process.wait(DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()

    def greet(self) -> Frame:
        self.say_hello()
        hello = self.wait("hello")
        self.wait("worker_started")
        return hello

    def say_hello(self) -> None:
        hello = {"type": "hello", "version": 1, "limits": self.limits, "workspace": self.workspace}
        self.supervise({**hello, "writable": list(WRITABLE)})

    def write(self, data: bytes) -> None:
        self._unsent += data
        self._exchange(0)

    def supervise(self, frame: Frame) -> None:
        self.write(b"S" + json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def tell(self, frame: Frame) -> None:
        self.write(b"W" + json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def answer(self, call: Frame, value: object) -> None:
        address = b"J%d" % call["job"] if "job" in call else b"W"
        result = {"type": "result", "call": call["call"], "value": value}
        self.write(address + json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def plan(self, call: Frame) -> None:
        planned = {"server": call["server"], "tool": call["tool"]}
        self.tell({"type": "result", "call": call["call"], "planned": planned})

    def fail(self, call: Frame, code: str, message: str, hint: str | None = None, data: object = None) -> None:
        fault = {"code": code, "message": message, "hint": hint, "data": data}
        self.tell({"type": "result", "call": call["call"], "fault": fault})

    def start(self, code: str, servers: tuple[str, ...] = (), without_files: tuple[str, ...] = ()) -> int:
        self.runs += 1
        described = [
            {"name": name, "alias": name.replace("-", "_"), "description": "", "takes_files": name not in without_files}
            for name in servers
        ]
        self.tell({"type": "run", "run": self.runs, "worker": self.worker, "code": code, "servers": described})
        return self.runs

    def run(self, code: str, servers: tuple[str, ...] = (), on_call: Callable[[Frame], object] | None = None) -> Frame:
        """Runs to the end; `done` with what was written as `stdout`, `stderr` and `both`. Helpers answer []."""
        run = self.start(code, servers)
        return self.finish(run, on_call)

    def finish(self, run: int, on_call: Callable[[Frame], object] | None = None) -> Frame:
        written: dict[str, bytes] = {"stdout": b"", "stderr": b"", "both": b""}
        while True:
            frame = self.next()
            match frame:
                case {"type": "output", "stream": stream}:
                    data = base64.b64decode(frame["base64"]) if "base64" in frame else frame["text"].encode()
                    written[stream] += data
                    written["both"] += data
                case {"type": "call"}:
                    if frame["server"] is None and on_call is None:
                        self.answer(frame, [])
                    elif on_call is not None and (answer := on_call(frame)) is not ...:
                        self.answer(frame, answer)
                case {"type": "done", "run": done} if done == run:
                    return {**frame, **{name: data.decode(errors="replace") for name, data in written.items()}}
                case {"type": "worker_exited"}:
                    raise AssertionError(f"the worker is gone: {frame}; {written}")

    def wait(self, kind: str, deadline: float = DEADLINE_SECONDS, **fields: object) -> Frame:
        """The next frame of this type and with these fields; others are skipped."""
        while True:
            frame = self.next(deadline)
            if frame["type"] == kind and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    def wait_output(self, text: str) -> None:
        got = ""
        while text not in got:
            got += str(self.wait("output").get("text", ""))

    def next_of_jobs(self) -> Frame:
        end = time.monotonic() + DEADLINE_SECONDS
        while not self.of_jobs:
            assert not self.ended and time.monotonic() < end, f"no frame of a job; last frames {self.seen[-5:]}"
            self._exchange(0.1)
        return self.of_jobs.popleft()

    def next(self, deadline: float = DEADLINE_SECONDS) -> Frame:
        end = time.monotonic() + deadline
        while not self.frames:
            if self.ended or time.monotonic() > end:
                state = "ended" if self.ended else "is silent"
                raise AssertionError(f"the sandbox {state}; last frames {self.seen[-5:]}; {self.stderr()}")
            self._exchange(min(end - time.monotonic(), 1))
        frame = self.frames.popleft()
        match frame:
            case {"type": "call", "server": None, "tool": "check_calls", "arguments": {"calls": calls}}:
                self.answer(frame, self.on_check(calls))
                return self.next(deadline)
        return frame

    def interrupt(self) -> None:
        self.supervise({"type": "interrupt"})

    def stderr(self) -> str:
        assert self.process.stderr
        os.set_blocking(self.process.stderr.fileno(), False)
        return (self.process.stderr.read() or b"").decode()

    def _exchange(self, timeout: float) -> None:
        """Writes what can be written, reads what can be read; never only one of both, which would deadlock."""
        readable, writable, _ = select.select([self._out], [self._in] if self._unsent else [], [], max(timeout, 0))
        if writable:
            try:
                del self._unsent[: os.write(self._in, self._unsent[: 1 << 18])]
            except BrokenPipeError:
                self._unsent.clear()
        if readable:
            data = os.read(self._out, 1 << 20)
            self.ended = not data
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                assert line[:1] in b"SWJ", line[:100]
                # Of a job the number stands behind the address.
                job = line[1:].partition(b"{")[0] if line[:1] == b"J" else b""
                try:
                    frame = json.loads(line[1 + len(job) :])
                    assert isinstance(frame, dict)
                except (ValueError, AssertionError):
                    frame = {"type": "garbage", "line": line}
                frame.setdefault("type", "garbage")
                if job:
                    frame["job"] = int(job)
                if line[:1] == b"S" and frame["type"] == "worker_started":
                    self.worker = frame["worker"]
                self.seen = [*self.seen[-20:], frame]
                (self.of_jobs if "job" in frame else self.frames).append(frame)
