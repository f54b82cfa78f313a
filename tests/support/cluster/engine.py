"""The container engine in which Pods run, over the API that Docker and Podman share."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from answers import Object

LABEL = "belljar.stand-in"
CHUNK = 1 << 18
HEADER = 8


class EngineError(Exception):
    """The engine refuses, with its HTTP status and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Process:
    """A process that was started in a running container, with its streams."""

    def __init__(self, id_: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, has_tty: bool) -> None:
        self.id = id_
        self._reader = reader
        self._writer = writer
        self._has_tty = has_tty
        self._takes_stdin = True

    async def write(self, data: bytes | memoryview) -> None:
        """Writes to stdin; what comes after its end is lost."""
        if self._takes_stdin:
            self._writer.write(data)
            await self._writer.drain()

    def close_stdin(self) -> None:
        if self._takes_stdin and not self._writer.is_closing():
            self._takes_stdin = False
            self._writer.write_eof()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, with 1 for stdout and 2 for stderr, in as large pieces as have come together."""
        pending = bytearray()
        while data := await self._reader.read(CHUNK):
            if self._has_tty:
                yield 1, data
                continue
            pending += data
            position = 0
            joined, last = bytearray(), 0
            while len(pending) >= position + HEADER:
                end = position + HEADER + int.from_bytes(pending[position + 4 : position + HEADER], "big")
                if len(pending) < end:
                    break
                if pending[position] != last and joined:
                    yield last, bytes(joined)
                    joined.clear()
                last = pending[position]
                joined += memoryview(pending)[position + HEADER : end]
                position = end
            del pending[:position]
            if joined:
                yield last, bytes(joined)

    def close(self) -> None:
        self._writer.close()


class Engine:
    """An engine that listens on a Unix socket. Containers of this run carry a label by which they are removed."""

    def __init__(self, address: str) -> None:
        self._socket = address.removeprefix("unix://")
        self._owner = f"{os.getpid()}-{_start_of(os.getpid())}"
        connector = aiohttp.UnixConnector(self._socket, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))

    async def close(self) -> None:
        await self._session.close()

    async def create(self, name: str, settings: Object) -> str:
        settings = settings | {"Labels": {LABEL: self._owner}}
        created = await self._call("POST", f"/containers/create?name={name}", settings)
        return str(created["Id"])

    async def start(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/start")

    async def wait(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/wait")

    async def inspect(self, container: str) -> Object:
        return await self._call("GET", f"/containers/{container}/json")

    async def stop(self, container: str, grace: int) -> None:
        await self._call("POST", f"/containers/{container}/stop?t={grace}")

    async def kill(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/kill")

    async def remove(self, container: str) -> None:
        try:
            await self._call("DELETE", f"/containers/{container}?force=true&v=true")
        except EngineError as error:
            if error.status != 404:
                raise

    async def remove_all(self) -> None:
        """Removes the containers of this run, and of those whose process has ended."""
        filters = json.dumps({"label": [LABEL]})
        containers: Any = await self._call("GET", f"/containers/json?all=1&filters={filters}")
        for container in containers:
            owner = container["Labels"][LABEL]
            pid, _, start = owner.partition("-")
            if owner == self._owner or _start_of(int(pid)) != start:
                await self.remove(container["Id"])

    async def execute(self, container: str, command: list[str], streams: set[str], has_tty: bool) -> Process:
        """Starts a process with the streams `stdin`, `stdout` and `stderr` that are asked for."""
        asked = {f"Attach{name.capitalize()}": name in streams for name in ("stdin", "stdout", "stderr")}
        created = await self._call("POST", f"/containers/{container}/exec", asked | {"Cmd": command, "Tty": has_tty})
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=2 * CHUNK)
        body = json.dumps({"Detach": False, "Tty": has_tty}).encode()
        head = (
            f"POST /v1.41/exec/{created['Id']}/start HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\n"
            f"Upgrade: tcp\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = int(answer.split(b" ", 2)[1])
        if status not in (101, 200):
            writer.close()
            words = (await reader.read()).decode(errors="replace").strip()
            raise EngineError(status, words)
        return Process(created["Id"], reader, writer, has_tty)

    async def exit_code(self, process: Process) -> int:
        """The exit code of a process whose output has ended."""
        while True:
            found = await self._call("GET", f"/exec/{process.id}/json")
            if not found["Running"]:
                return int(found["ExitCode"])
            await asyncio.sleep(0.01)

    async def _call(self, method: str, path: str, body: Object | None = None) -> Object:
        async with self._session.request(method, f"http://engine/v1.41{path}", json=body) as answer:
            text = await answer.text()
        if answer.status >= 400:
            raise EngineError(answer.status, json.loads(text).get("message", text) if text else "")
        parsed: Object = json.loads(text) if text else {}
        return parsed


def _start_of(pid: int) -> str | None:
    """When a process that has not ended was started, by which a number that is used again is noticed."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else rest[18]
