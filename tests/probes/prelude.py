"""What the code of every probe may use: calls of the kernel that raise, and their names."""

import asyncio
import ctypes
import errno
import os
import socket
import struct
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
# Those that libc has no function for, on x86-64 and aarch64.
NUMBERS = {
    "process_vm_readv": (310, 270),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "execveat": (322, 281),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "clone": (56, 220),
    "clone3": (435, 435),
    "pidfd_getfd": (438, 438),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "open_by_handle_at": (304, 265),
    "reboot": (169, 142),
    "sync": (162, 81),
    "io_setup": (206, 0),
    "inotify_init1": (294, 26),
    "get_robust_list": (274, 100),
    "openat2": (437, 437),
    "seccomp": (317, 277),
}


def checked(result):
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def c(name, *arguments):
    """A function of libc."""
    return checked(getattr(libc, name)(*arguments))


def system_call(name, *arguments):
    number = NUMBERS[name][os.uname().machine == "aarch64"]
    return checked(libc.syscall(ctypes.c_long(number), *map(ctypes.c_void_p, map(address, arguments))))


def address(argument):
    """Of a buffer; numbers are themselves."""
    if isinstance(argument, int) or argument is None:
        return argument
    return ctypes.addressof(argument)


def reaches_the_kernel(attempt):
    """Arguments that make no sense, so that it does no harm: refused is only what the right to it refuses."""
    try:
        attempt()
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise


def with_content(*patterns):
    """Files that are not empty and folders with anything in them, of those that can be opened."""
    import glob

    found = []
    for path in (path for pattern in patterns for path in glob.glob(pattern)):
        try:
            content = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        except OSError:
            continue
        if content:
            found.append(path)
    return found


def in_child(attempt):
    """In a process of its own, since it may be killed for it; what it raises is raised."""
    pid = os.fork()
    if pid == 0:
        number = 0
        try:
            attempt()
        except OSError as error:
            number = error.errno
        except BaseException:
            number = 255
        os._exit(number)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise PermissionError(errno.EPERM, f"killed by {os.WTERMSIG(status)}")
    if status:
        number = os.waitstatus_to_exitcode(status)
        raise OSError(number, os.strerror(number))


def run_script(folder):
    path = os.path.join(folder, "script-of-probe")
    with open(path, "w") as file:
        file.write("#!/bin/sh\necho RAN")
    os.chmod(path, 0o755)
    try:
        subprocess.run(path, check=True, capture_output=True)
    finally:
        os.remove(path)


def refuse(reason):
    raise PermissionError(errno.EACCES, reason)


def filter_program(action):
    """A filter that says this of every call, as sock_fprog; and what has to be kept as long as it is used."""
    instruction = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, action), 8)
    return ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(instruction))), instruction


def name_of(refusal):
    number = getattr(refusal, "errno", None)
    return errno.errorcode.get(number, type(refusal).__name__)


def frame_sockets():
    """The descriptors that lead to the supervisor, which user code can find: those that PID 1 has made."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                with socket.socket(fileno=os.dup(fd)) as copy:
                    peer = copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    if int.from_bytes(peer[:4], sys.byteorder) == 1:
                        found.append(fd)
        except OSError:
            pass
    return found


def run_number():
    """Of the run under way, from the name of its code."""
    name = sys._getframe(1).f_code.co_filename
    return int(name.removeprefix("<run ").removesuffix(">")) if name.startswith("<run ") else 1
