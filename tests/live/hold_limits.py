import ctypes
import errno
import fcntl
import os
import signal
import socket

libc = ctypes.CDLL(None, use_errno=True)
held = []


def refusal():
    return errno.errorcode[ctypes.get_errno()]


def inotify():
    while (number := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        held.append(number)
    return refusal()


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


def pending_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 5})
    while libc.sigqueue(os.getpid(), signal.SIGRTMIN + 5, ctypes.c_void_p(0)) == 0:
        pass
    return refusal()


for exhaust in (descriptors_in_flight, pipe_pages, pending_signals, inotify):
    try:
        print(exhaust.__name__, exhaust())
    except OSError as error:
        print(exhaust.__name__, errno.errorcode[error.errno])
