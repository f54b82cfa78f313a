import ctypes
import errno
import fcntl
import os
import signal
import socket

from mcp import runtime

libc = ctypes.CDLL(None, use_errno=True)


def inotify():
    number = libc.inotify_init1(os.O_CLOEXEC)
    if number < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    os.close(number)


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


def pending_signals():
    ignored = signal.SIGRTMIN + 5
    signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {ignored})
    for _ in range(100):
        if libc.sigqueue(os.getpid(), ignored, ctypes.c_void_p(0)) != 0:
            raise OSError(ctypes.get_errno(), "sigqueue")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {ignored})


def checkpoint():
    runtime.checkpoint("here")


def spawn():
    runtime.spawn(os.getpid).wait()


for use in (inotify, descriptors_in_flight, pipe_pages, pending_signals, checkpoint, spawn):
    try:
        use()
    except Exception as error:
        print(use.__name__, getattr(error, "errno", None) and errno.errorcode[error.errno], error)
print("used")
