import errno
import fcntl
import os
import socket

from mcp import runtime


def descriptors_in_flight():
    one, other = socket.socketpair()
    for _ in range(3):
        socket.send_fds(one, [b"x"], [0] * 200)
        _, received, _, _ = socket.recv_fds(other, 1, 200)
        for number in received:
            os.close(number)


def pipe_pages():
    for _ in range(8):
        reader, writer = os.pipe()
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.close(reader)
        os.close(writer)


def checkpoint():
    runtime.checkpoint("here")


def spawn():
    runtime.spawn(os.getpid).wait()


for use in (descriptors_in_flight, pipe_pages, checkpoint, spawn):
    try:
        use()
    except Exception as error:
        print(use.__name__, getattr(error, "errno", None) and errno.errorcode[error.errno], error)
print("used")
