"""A proxy between a client and `belljar serve --http`, which writes down all messages as a tap on stdio does."""

import http.client
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Whoever passes a message on sets these anew.
OF_ONE_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")
PIECE = 65_536


class Recording:
    """It listens on the loopback interface until the process ends."""

    def __init__(self, port: int, folder: Path) -> None:
        # What belljar has answered with an error of HTTP: the request's method and the status.
        self.refused: list[str] = []
        # The status of each answer to a request that ends a session.
        self.ended: list[int] = []
        recording = self
        numbers = itertools.count()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                # Each request has its own files.
                stem = f"{next(numbers):04}"
                (folder / f"{stem}.in.jsonl").write_text("".join(f"{line}\n" for line in messages(body)))
                upstream = http.client.HTTPConnection("127.0.0.1", port)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in OF_ONE_CONNECTION:
                        upstream.putheader(name, value)
                upstream.putheader("content-length", str(len(body)))
                upstream.endheaders(body)
                response = upstream.getresponse()
                if response.status >= 400:
                    recording.refused.append(f"{self.command} {response.status}")
                if self.command == "DELETE":
                    recording.ended.append(response.status)
                self.send_response_only(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in OF_ONE_CONNECTION:
                        self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                answer = b""
                while piece := response.read1(PIECE):
                    answer += piece
                    (folder / f"{stem}.out.jsonl").write_text("".join(f"{line}\n" for line in messages(answer)))
                    self.wfile.write(piece)
                    self.wfile.flush()

            def do_GET(self) -> None:
                self.pass_on()

            def do_POST(self) -> None:
                self.pass_on()

            def do_DELETE(self) -> None:
                self.pass_on()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client goes away while its stream is open."""

        server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/mcp"
        threading.Thread(target=server.serve_forever, daemon=True).start()


def messages(body: bytes) -> list[str]:
    """The messages of a body, each on a line. It is one message, or a stream of events whose last one may be cut."""
    lines = [line.removeprefix("data:").strip() for line in body.decode(errors="replace").split("\n")]
    found: list[str] = []
    for text in lines:
        try:
            if isinstance(json.loads(text), dict):
                found.append(text)
        except ValueError:
            continue
    return found
