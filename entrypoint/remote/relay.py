"""The text that `python3 -I -S -c` runs beside PID 1 for each connection of the bridge: it joins its stdin and stdout
with the socket of stream.py.

It ends with either side, so that no relay is left behind where the engine only closes its stdin.
"""

import os
from _socket import AF_UNIX, SOCK_STREAM, socket
from _thread import start_new_thread
from select import poll

CHUNK = 1 << 18


def to_sandbox() -> None:
    try:
        while data := os.read(0, CHUNK):
            stream.sendall(data)
    finally:
        os._exit(0)


def to_bridge() -> None:
    try:
        while data := memoryview(stream.recv(CHUNK)):
            while data:
                data = data[os.write(1, data) :]
    finally:
        os._exit(0)


if __name__ == "__main__":
    stream = socket(AF_UNIX, SOCK_STREAM)
    stream.connect(b"\0belljar")
    start_new_thread(to_bridge, ())
    start_new_thread(to_sandbox, ())
    # Where the bridge does not read any more, only this notices that another relay has taken over.
    ended = poll()
    ended.register(stream, 0)
    ended.poll()
    os._exit(0)
