"""A sandbox whose bridge is on another machine. Cuts at each byte are tested with the other end, in belljar-engine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from sandbox import DEADLINE_SECONDS, ENTRYPOINT, bundle


@pytest.mark.parametrize("sent", ["nothing", "a hello", "a part of the bundle", "the bundle"])
def test_a_sandbox_ends_when_its_bridge_is_gone_before_the_first_frame(sent: str) -> None:
    address = f"\0belljar-test-{os.getpid()}-{sent}"
    text = (ENTRYPOINT / "remote" / "stream.py").read_text() + "\n\n" + (ENTRYPOINT / "bootstrap.py").read_text()
    for before, after in (
        ("SILENCE_MS_MAX = 150_000", "SILENCE_MS_MAX = 500"),
        ('b"\\0belljar"', f"{address!r}.encode()"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    command = [sys.executable, "-I", "-u", "-c", text]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sandbox:
        if sent != "nothing":
            bridge = connected(address)
            bridge.sendall(b"belljar token 1 0\n")
            assert bridge.recv(10) == b"0\n"
            content = bundle()[: {"the bundle": None, "a part of the bundle": 1000}.get(sent, 0)]
            bridge.sendall(len(content).to_bytes(4, "big") + content if content else b"")
            bridge.close()
        assert sandbox.wait(DEADLINE_SECONDS) in (0, 1)


def connected(address: str) -> socket.socket:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        bridge = socket.socket(socket.AF_UNIX)
        try:
            bridge.connect(address)
            return bridge
        except ConnectionRefusedError:
            bridge.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)
