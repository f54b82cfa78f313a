"""belljar over HTTP, for the server's scenarios of the official conformance suite, which speak nothing else.

It prints the address and serves until its stdin ends. A session has a process of its own; requests without a session
share one. What belongs to the transport is done here: sessions, the checks of the headers, and the status of errors.
BELLJAR is the binary.
"""

import itertools
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

Json = dict[str, Any]
# Nobody waits longer for an answer.
PATIENCE_S = 60
VERSION = "io.modelcontextprotocol/protocolVersion"
# With the id of the request that a notification belongs to.
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
HEADER_MISMATCH = -32020
# What the revision without sessions has removed, and belljar answers to older clients.
REMOVED = ("initialize", "logging/setLevel")
METHOD_NOT_FOUND = -32601
# Errors of the protocol that have a status of their own; others come with 200.
STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, -32021: 400, -32022: 400}


class Process:
    """One belljar. Requests of several clients have the same ids, so each gets one of its own on the way in."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [os.environ["BELLJAR"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ids = itertools.count()
        self.waiting: dict[int, Queue[Json]] = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message and (waiting := self.waiting.pop(message.get("id"), None)):
                waiting.put(message)
            number = (message.get("params") or {}).get("_meta", {}).get(SUBSCRIPTION)
            if number is not None and (waiting := self.waiting.get(int(number))):
                waiting.put(message)

    def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, message: Json) -> Json:
        number = next(self.ids)
        answer = self.waiting[number] = Queue()
        self.send(message | {"id": number})
        return answer.get(timeout=PATIENCE_S) | {"id": message["id"]}

    def stream(self, message: Json) -> Generator[Json, None, None]:
        """What belongs to a request that stays open, and its answer at the end."""
        number = next(self.ids)
        messages = self.waiting[number] = Queue()
        self.send(message | {"id": number})
        try:
            while True:
                said = messages.get()
                if "method" not in said:
                    yield said | {"id": message["id"]}
                    return
                meta = said["params"]["_meta"] | {SUBSCRIPTION: message["id"]}
                yield said | {"params": said["params"] | {"_meta": meta}}
        finally:
            if self.waiting.pop(number, None):
                note = {"method": "notifications/cancelled", "params": {"requestId": number}}
                self.send({"jsonrpc": "2.0"} | note)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions: dict[str, Process]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if not self.is_local():
            return self.reply(403)
        method, params = message.get("method"), message.get("params") or {}
        claimed = (params.get("_meta") or {}).get(VERSION)
        session, new = self.headers.get("mcp-session-id", ""), {}
        if claimed and method in REMOVED:
            error: Json = {"code": METHOD_NOT_FOUND, "message": method}
            return self.reply(404, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        if method == "initialize":
            session = uuid.uuid4().hex
            new = {"mcp-session-id": session}
            self.sessions[session] = Process()
        process = self.sessions.get(session)
        if process is None:
            return self.reply(404)
        if "id" not in message or method is None:
            process.send(message)
            return self.reply(202)
        if not session and (problem := self.mismatch(method, params, claimed)):
            error = {"code": HEADER_MISMATCH, "message": problem}
            return self.reply(400, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        if method == "subscriptions/listen":
            return self.reply_with_all(process.stream(message))
        answer = process.request(message)
        code = answer.get("error", {}).get("code")
        return self.reply(200 if session else STATUS.get(code, 200), answer, new)

    def do_DELETE(self) -> None:
        if process := self.sessions.pop(self.headers.get("mcp-session-id") or "none", None):
            process.end()
        self.reply(200)

    def do_GET(self) -> None:
        self.reply(405)

    def is_local(self) -> bool:
        """No page of another site may use a server on this machine."""
        names = (self.headers.get("host", ""), self.headers.get("origin", "").removeprefix("http://"))
        return all(not name or name.split(":")[0] in ("127.0.0.1", "localhost") for name in names)

    def mismatch(self, method: str, params: Json, claimed: str | None) -> str | None:
        """What a header says otherwise than the body."""
        named = params.get("name", params.get("uri"))
        says = {"mcp-protocol-version": claimed, "mcp-method": method}
        if method in ("tools/call", "prompts/get", "resources/read"):
            says["mcp-name"] = named
        said = {header: self.headers.get(header, "").strip() for header in says}
        wrong = [header for header, value in says.items() if value and said[header] != value]
        return f"header {wrong[0]} does not match the body" if wrong else None

    def reply(self, status: int, body: Json | None = None, headers: dict[str, str] | None = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if content:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def reply_with_all(self, messages: Generator[Json, None, None]) -> None:
        """As events, until the client goes or there are no more."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for message in messages:
                self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
        except OSError:
            messages.close()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    Handler.sessions = {"": Process()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    for process in list(Handler.sessions.values()):
        process.end()


if __name__ == "__main__":
    main()
