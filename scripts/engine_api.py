#!/usr/bin/env python3
"""Asks a container engine over its socket: is it there, has it this image, take this image, drop what it replaced.

It exists so that the set-up scripts need neither curl nor the command line client that goes with each engine: Podman
and Docker both answer these requests. It starts and stops nothing.

usage: engine_api.py ping SOCKET | label SOCKET IMAGE LABEL | load SOCKET ARCHIVE | prune SOCKET LABEL
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import urllib.parse

LOAD_TIMEOUT_S = 600
ASK_TIMEOUT_S = 10


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("engine", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ping(path: str) -> int:
    connection = UnixConnection(path, ASK_TIMEOUT_S)
    connection.request("GET", "/_ping")
    return 0 if connection.getresponse().status == 200 else 1


def label(path: str, image: str, name: str) -> int:
    connection = UnixConnection(path, ASK_TIMEOUT_S)
    connection.request("GET", f"/images/{urllib.parse.quote(image, safe='')}/json")
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        return 1
    print((json.loads(body).get("Config", {}).get("Labels") or {}).get(name, ""))
    return 0


def load(path: str, archive: str) -> int:
    connection = UnixConnection(path, LOAD_TIMEOUT_S)
    size = os.stat(archive).st_size
    headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
    with open(archive, "rb") as body:
        connection.request("POST", "/images/load?quiet=true", body=body, headers=headers)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    # Both engines answer 200 before they have unpacked anything, and put a later failure into the body.
    failed = response.status != 200 or any('"error"' in line for line in text.splitlines())
    if failed:
        print(f"engine_api: load refused ({response.status}): {text.strip()[:500]}", file=sys.stderr)
    return 1 if failed else 0


def prune(path: str, name: str) -> int:
    """Removes untagged images with this label; one that a container uses stays."""
    connection = UnixConnection(path, LOAD_TIMEOUT_S)
    filters = urllib.parse.quote(json.dumps({"dangling": ["true"], "label": [name]}))
    connection.request("POST", f"/images/prune?filters={filters}")
    return 0 if connection.getresponse().status == 200 else 1


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["ping", path]:
                return ping(path)
            case ["label", path, image, name]:
                return label(path, image, name)
            case ["load", path, archive]:
                return load(path, archive)
            case ["prune", path, name]:
                return prune(path, name)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (OSError, http.client.HTTPException, ValueError) as error:
        if arguments[0] != "ping":
            print(f"engine_api: {arguments[0]} at {arguments[1]}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
