"""Starts a compiled program from memory: `python3 -c` runs this text with the program's path and arguments.

No file that can be written to in a sandbox can be executed, and the kernel's ways around that are closed. So this
process reads the program into its own memory, as a just-in-time compiler writes code there, and starts it as the kernel
would. That lets user code do nothing that it could not do with ctypes. The program must be linked statically and be
position independent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

_PAGE = os.sysconf("SC_PAGESIZE")
_STACK_BYTES = 8 << 20
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS = 0x22
_LOAD, _INTERPRETER = 1, 3
_SHARED_OBJECT = 3
# Entries of the auxiliary vector.
_AT_NULL, _AT_PHDR, _AT_PHENT, _AT_PHNUM, _AT_BASE, _AT_ENTRY, _AT_EXECFN = 0, 3, 4, 5, 7, 9, 31
# The number of the machine in ELF files, and code that sets the stack pointer to its first argument and jumps to its
# second. It passes the program no function to call at exit. The code is `mov rsp, rdi; xor edx, edx; xor ebp, ebp;
# jmp rsi` and `mov sp, x0; mov x0, #0; br x1`.
_MACHINES = {
    "x86_64": (62, bytes.fromhex("4889fc31d231edffe6")),
    "aarch64": (183, bytes.fromhex("1f000091000080d220001fd6")),
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def main(path: str, arguments: list[str]) -> None:
    with open(path, "rb") as file:
        image = file.read()
    machine, jump = _MACHINES[os.uname().machine]
    kind, of_machine = struct.unpack_from("<HH", image, 16)
    if image[:5] != b"\x7fELF\x02" or (kind, of_machine) != (_SHARED_OBJECT, machine):
        sys.exit(f"{path} is no position independent program of this machine")
    entry, headers_at = struct.unpack_from("<QQ", image, 24)
    header_bytes, header_count = struct.unpack_from("<HH", image, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", image, headers_at + n * header_bytes) for n in range(header_count)]
    if any(header[0] == _INTERPRETER for header in headers):
        sys.exit(f"{path} is not linked whole")
    base = _load(image, [header for header in headers if header[0] == _LOAD])
    changed = {
        _AT_PHDR: base + headers_at,
        _AT_PHENT: header_bytes,
        _AT_PHNUM: header_count,
        _AT_BASE: 0,
        _AT_ENTRY: base + entry,
    }
    stack = _stack(path, arguments, changed)
    code = _map(_PAGE)
    ctypes.memmove(code, jump, len(jump))
    _protect(code, _PAGE, _READ | _EXECUTE)
    # A new program starts with the default actions of these signals.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code)(stack, base + entry)


def _load(image: bytes, loads: list[tuple[int, ...]]) -> int:
    """Copies the program to where it runs, and returns the address of its first byte."""
    base = _map(_pages(max(address + in_memory for _, _, _, address, _, _, in_memory, _ in loads)))
    for _, flags, offset, address, _, in_file, in_memory, _ in loads:
        ctypes.memmove(base + address, image[offset : offset + in_file], in_file)
        begin = address // _PAGE * _PAGE
        # The bits of a segment are in another order than those of a mapping.
        protection = (_READ if flags & 4 else 0) | (flags & 2) | (_EXECUTE if flags & 1 else 0)
        _protect(base + begin, _pages(address + in_memory - begin), protection)
    return base


def _stack(path: str, arguments: list[str], changed: dict[int, int]) -> int:
    """Builds the first stack of a process: arguments, environment, auxiliary vector. Returns the stack pointer."""
    lowest = _map(_STACK_BYTES)
    _protect(lowest, _PAGE, 0)
    top = lowest + _STACK_BYTES

    def put(data: bytes) -> int:
        nonlocal top
        top -= len(data)
        ctypes.memmove(top, data, len(data))
        return top

    names = [put(os.fsencode(text) + b"\0") for text in (path, *arguments)]
    variables = [put(name + b"=" + value + b"\0") for name, value in os.environb.items()]
    changed = {**changed, _AT_EXECFN: names[0]}
    with open("/proc/self/auxv", "rb") as file:
        entries = list(struct.iter_unpack("=QQ", file.read()))
    vector = [number for kind, value in entries if kind for number in (kind, changed.get(kind, value))]
    words = [len(names), *names, 0, *variables, 0, *vector, _AT_NULL, 0]
    top = (top - 8 * len(words)) // 16 * 16
    ctypes.memmove(top, struct.pack(f"={len(words)}Q", *words), 8 * len(words))
    return top


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _map(size: int) -> int:
    address = _libc.mmap(None, size, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError("there is no memory for the program")
    return int(address)


def _protect(address: int, size: int, protection: int) -> None:
    if _libc.mprotect(address, size, protection):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
