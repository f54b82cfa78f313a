import errno
import fcntl
import os
import socket

held = []


def descriptors_in_flight():
    ends = socket.socketpair()
    held.append(ends)
    ends[0].setblocking(False)
    while True:
        socket.send_fds(ends[0], [b"x"], [0] * 200)


def pipe_pages():
    while True:
        held.append(os.pipe())
        fcntl.fcntl(held[-1][0], fcntl.F_SETPIPE_SZ, 1 << 20)


for exhaust in (descriptors_in_flight, pipe_pages):
    try:
        print(exhaust.__name__, exhaust())
    except OSError as error:
        print(exhaust.__name__, errno.errorcode[error.errno])
