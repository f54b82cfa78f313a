"""exec over WebSocket, in the subprotocols v5.channel.k8s.io and v4.channel.k8s.io."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import WSMsgType, web

from answers import Object, bad_request, encoded
from engine import Engine, EngineError, Process

STDIN, STDOUT, ERROR, CLOSE = 0, 1, 3, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
LARGEST_FROM_CLIENT = 32 << 20
# Without the byte that names the channel.
LARGEST_TO_CLIENT = 32768
OUTPUTS = {1: "stdout", 2: "stderr"}


class Streams:
    """The open streams, so that they can be cut. `engine` runs the processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[web.WebSocketResponse, tuple[str, web.BaseRequest]] = {}

    def cut(self, uid: str | None = None) -> int:
        """Drops the connections without a close frame, all or those of one Pod; returns how many."""
        cut = [request for pod, request in self._open.values() if uid in (None, pod)]
        for request in cut:
            if request.transport is not None:
                request.transport.abort()
        return len(cut)

    async def serve(self, request: web.Request, uid: str, name: str, container: str | None) -> web.StreamResponse:
        """Runs what the request asks for in the container that has this id, of the Pod's container of this name."""
        if "Upgrade" not in request.headers:
            raise bad_request("Upgrade request required")
        if request.method != "GET":
            return web.Response(status=405, text="bad method")
        offered = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        protocol = next((each for each in (V5, V4) if each in offered), None)
        if protocol is None:
            return web.Response(status=403)
        # aiohttp refuses what is as large as the limit.
        socket = web.WebSocketResponse(protocols=(protocol,), compress=False, max_msg_size=LARGEST_FROM_CLIENT + 1)
        await socket.prepare(request)
        self._open[socket] = uid, request
        try:
            await self._run(socket, request, name, container, protocol)
        finally:
            del self._open[socket]
        return socket

    async def _run(
        self, socket: web.WebSocketResponse, request: web.Request, name: str, container: str | None, protocol: str
    ) -> None:
        query = request.query
        streams = {each for each in ("stdin", "stdout", "stderr") if query.get(each) in ("true", "1")}
        has_tty = query.get("tty") in ("true", "1")
        await _send(socket, STDOUT if "stdout" in streams else ERROR, b"")
        if not streams:
            await _finish(socket, _not_upgraded("you must specify at least 1 of stdin, stdout, stderr"))
            return
        if container is None:
            await _finish(socket, _not_upgraded(f'container not found ("{name}")'))
            return
        try:
            process = await self._engine.execute(container, query.getall("command", []), streams, has_tty)
        except EngineError as error:
            await _finish(socket, _internal(f"Internal error occurred: error executing command in container: {error}"))
            return
        stdin = asyncio.create_task(_pass_stdin(socket, process, protocol))
        try:
            async for channel, data in process.output():
                if OUTPUTS[channel] in streams:
                    await _send(socket, channel, data)
            with contextlib.suppress(EngineError):
                await _finish(socket, _exit(await self._engine.exit_code(process), protocol))
        finally:
            stdin.cancel()
            process.close()


async def _pass_stdin(socket: web.WebSocketResponse, process: Process, protocol: str) -> None:
    """Passes stdin on, up to its end or the client's; the process itself goes on then."""
    async for message in socket:
        # A real server takes text as well, which some clients send.
        data = message.data.encode() if message.type == WSMsgType.TEXT else message.data
        with contextlib.suppress(ConnectionError):
            if data[:1] == bytes([STDIN]):
                await process.write(memoryview(data)[1:])
            elif protocol == V5 and data == bytes([CLOSE, STDIN]):
                process.close_stdin()
    process.close_stdin()


async def _send(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    """Sends to a client that may be gone: what it does not get is lost."""
    piece = LARGEST_TO_CLIENT
    with contextlib.suppress(ConnectionError):
        for start in range(0, max(len(data), 1), piece):
            if not socket.closed:
                await socket.send_bytes(bytes([channel]) + data[start : start + piece])


async def _finish(socket: web.WebSocketResponse, status: Object) -> None:
    await _send(socket, ERROR, encoded(status).rstrip())
    if not socket.closed:
        with contextlib.suppress(ConnectionError):
            await socket.close(code=1000)


def _exit(code: int, protocol: str) -> Object:
    metadata: Object = {"metadata": {}} if protocol == V5 else {}
    if code == 0:
        return metadata | {"status": "Success"}
    words = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    failure = {"status": "Failure", "message": words, "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return metadata | failure


def _not_upgraded(words: str) -> Object:
    return _internal(f"unable to upgrade connection: {words}")


def _internal(words: str) -> Object:
    failure = {"metadata": {}, "status": "Failure", "message": f"Internal error occurred: {words}"}
    return failure | {"reason": "InternalError", "details": {"causes": [{"message": words}]}, "code": 500}
