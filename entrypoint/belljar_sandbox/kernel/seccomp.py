"""The worker's system call filter as a classic BPF program: it allows what programs need and refuses everything else.

`system_calls` installs it. It does not rely on the filters of engines, which differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack

# code, jump if true, jump if false, constant
Instruction = tuple[int, int, int, int]
Block = tuple[Instruction, ...]

EPERM, ENOSYS = 1, 38
ALLOW, NOTIFY, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_FAR = 255
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# The first number of x32, and the number that stands for no system call.
_X32, _NONE = 1 << 30, (1 << 32) - 1


def _table(text: str) -> dict[str, tuple[int, int]]:
    """Parses the table, which is one string because a literal of that size would take 2 ms to compile at each start."""
    rows = (row.split() for row in text.split(";") if row)
    return {name: (int(x86_64), int(aarch64)) for name, x86_64, aarch64 in rows}


# Name, number on x86-64, number on aarch64; -1 if the call does not exist. `checks` bounds the arguments of some.
ALLOWED = _table(
    # Bytes of open files.
    "read 0 63;write 1 64;readv 19 65;writev 20 66;pread64 17 67;pwrite64 18 68;preadv 295 69;pwritev 296 70;"
    "lseek 8 62;close 3 57;close_range 436 436;dup 32 23;dup2 33 -1;dup3 292 24;fcntl 72 25;ioctl 16 29;pipe 22 -1;"
    "pipe2 293 59;sendfile 40 71;copy_file_range 326 285;fsync 74 82;fdatasync 75 83;ftruncate 77 46;fallocate 285 47;"
    "fadvise64 221 223;flock 73 32;"
    # Waiting.
    "poll 7 -1;ppoll 271 73;select 23 -1;pselect6 270 72;epoll_create1 291 20;epoll_ctl 233 21;epoll_wait 232 -1;"
    "epoll_pwait 281 22;eventfd2 290 19;timerfd_create 283 85;timerfd_settime 286 86;nanosleep 35 101;"
    "clock_nanosleep 230 115;pause 34 -1;"
    # Names of files.
    "open 2 -1;openat 257 56;access 21 -1;faccessat 269 48;faccessat2 439 439;stat 4 -1;fstat 5 80;"
    "lstat 6 -1;newfstatat 262 79;statx 332 291;readlink 89 -1;readlinkat 267 78;getdents64 217 61;getcwd 79 17;"
    "chdir 80 49;fchdir 81 50;mkdir 83 -1;mkdirat 258 34;rmdir 84 -1;rename 82 -1;renameat 264 38;renameat2 316 276;"
    "unlink 87 -1;unlinkat 263 35;link 86 -1;linkat 265 37;symlink 88 -1;symlinkat 266 36;mknod 133 -1;mknodat 259 33;"
    "truncate 76 45;chmod 90 -1;fchmod 91 52;fchmodat 268 53;umask 95 166;utimensat 280 88;statfs 137 43;"
    "fstatfs 138 44;getxattr 191 8;lgetxattr 192 9;fgetxattr 193 10;listxattr 194 11;llistxattr 195 12;"
    "flistxattr 196 13;"
    # Memory.
    "mmap 9 222;munmap 11 215;mprotect 10 226;mremap 25 216;brk 12 214;madvise 28 233;msync 26 227;membarrier 324 283;"
    # Processes and threads.
    "fork 57 -1;vfork 58 -1;clone 56 220;execve 59 221;exit 60 93;exit_group 231 94;wait4 61 260;waitid 247 95;"
    "kill 62 129;tkill 200 130;tgkill 234 131;getpid 39 172;getppid 110 173;gettid 186 178;getpgid 121 155;"
    "setpgid 109 154;getpgrp 111 -1;getsid 124 156;setsid 112 157;futex 202 98;set_robust_list 273 99;rseq 334 293;"
    "set_tid_address 218 96;arch_prctl 158 -1;prctl 157 167;"
    # Signals and timers.
    "rt_sigaction 13 134;rt_sigprocmask 14 135;rt_sigreturn 15 139;rt_sigsuspend 130 133;rt_sigpending 127 136;"
    "rt_sigtimedwait 128 137;sigaltstack 131 132;restart_syscall 219 128;alarm 37 -1;getitimer 36 102;"
    "setitimer 38 103;timer_create 222 107;timer_settime 223 110;timer_delete 226 111;"
    # What a process is, and may have.
    "getuid 102 174;geteuid 107 175;getgid 104 176;getegid 108 177;getgroups 115 158;getresuid 118 148;"
    "getresgid 120 150;capget 125 90;getrlimit 97 163;prlimit64 302 261;getrusage 98 165;times 100 153;"
    "sched_yield 24 124;sched_getaffinity 204 123;sched_setaffinity 203 122;sched_getparam 143 121;"
    "sched_getscheduler 145 120;sched_get_priority_max 146 125;sched_get_priority_min 147 126;getpriority 140 141;"
    "setpriority 141 140;"
    # Landlock, with which a process can only restrict itself. Jobs restrict themselves more than their interpreter.
    "landlock_create_ruleset 444 444;landlock_restrict_self 446 446;"
    # The machine.
    "clock_gettime 228 113;clock_getres 229 114;gettimeofday 96 169;sysinfo 99 179;uname 63 160;getrandom 318 278;"
    # Socket pairs.
    "socketpair 53 199;sendto 44 206;sendmsg 46 211;recvfrom 45 207;recvmsg 47 212;shutdown 48 210;getsockopt 55 209;"
    "setsockopt 54 208;getsockname 51 204;getpeername 52 205;"
)

# Everything else is refused with EPERM, except these, which seem not to exist: libraries have a fallback for each.
_ABSENT_SINCE = {"x86_64": 335, "aarch64": 295}
_ABSENT_BEFORE = {"x86_64": (327, 331), "aarch64": (286, 290)}  # preadv2, pwritev2, and protection keys
# Newer calls that are known to be dangerous get EPERM, so that a program says why it fails: io_uring and the mount
# calls, pidfd_getfd, process_madvise, mount_setattr and quotactl_fd, memfd_secret and process_mrelease.
_REFUSED_SINCE = ((425, 433), (438, 438), (440, 440), (442, 443), (447, 448))


def _load(position: int) -> Instruction:
    # The lower half: all checked arguments are ints, of which the kernel reads no more.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position)


_DENY = (_RETURN, 0, 0, ERRNO | EPERM)


# A check refuses, or continues with the instruction after it.
def _one_of(position: int, values: Iterable[int]) -> Block:
    wanted = tuple(values)
    tests = ((_EQUAL, len(wanted) - at, 0, value) for at, value in enumerate(wanted))
    return (_load(position), *tests, _DENY)


def _none_of(position: int, *values: int) -> Block:
    block: Block = (_load(position),)
    for value in values:
        block += ((_EQUAL, 0, 1, value), _DENY)
    return block


def _no_bit(position: int, mask: int) -> Block:
    return (_load(position), (_ANY_BIT, 0, 1, mask), _DENY)


def _not_both_bits(position: int, one: int, other: int) -> Block:
    return (_load(position), (_ANY_BIT, 0, 2, one), (_ANY_BIT, 0, 1, other), _DENY)


def _no_pointer(position: int) -> Block:
    upper = (_LOAD, 0, 0, _ARGUMENTS + 8 * position + 4)
    return (*_one_of(position, (0,)), upper, (_EQUAL, 1, 0, 0), _DENY)


def _where(position: int, value: int, check: Block) -> Block:
    return (_load(position), (_EQUAL, 0, len(check), value), *check)


def _where_any(position: int, mask: int, check: Block) -> Block:
    return (_load(position), (_ANY_BIT, 0, len(check), mask), *check)


_AF_UNIX, _SOL_SOCKET, _MSG_OOB, _DEVICE_OR_SOCKET = 1, 1, 1, 0x6000
# Never SOCK_DGRAM: through such a pair, a process can reach sockets that have a name.
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_NONBLOCK, _SOCK_CLOEXEC = 1, 5, 0x800, 0x80000
_PAIRS = [
    kind | wait | close
    for kind in (_SOCK_STREAM, _SOCK_SEQPACKET)
    for wait in (0, _SOCK_NONBLOCK)
    for close in (0, _SOCK_CLOEXEC)
]
# SO_REUSEADDR, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_LINGER, SO_RCVLOWAT, and SO_RCVTIMEO and SO_SNDTIMEO,
# both old and new.
_SOCKET_OPTIONS = (2, 7, 8, 9, 13, 18, 20, 21, 66, 67)
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; PIDFD, PTRACE, PARENT, IO. NEWTIME is clone3's alone.
_CLONE_FLAGS = 0x7E020000 | 0x80000000 | 0x1000 | 0x2000 | 0x8000
_PR_SET_DUMPABLE = 4
# The parent's death signal; dumpable; KEEPCAPS (only to read it); names; SECCOMP, CAPBSET, SECUREBITS (only to read
# them); timer slack; orphans; no_new_privs; the address of the thread's number; huge pages; speculation, vectors,
# tagged addresses (only to read them); names of memory; the auxiliary vector. Not SET_SECCOMP, SET_MM, SET_PTRACER,
# SET_SYSCALL_USER_DISPATCH, SCHED_CORE.
_PROCESS_CONTROLS = (
    *(1, 2, 3, _PR_SET_DUMPABLE, 7, 15, 16, 21, 23, 27, 29, 30, 36, 37, 38, 39, 40, 41, 42, 51, 52, 56),
    *(0x53564D41, 0x41555856),
)
# Terminals: attributes, old and new, break, flow, queues, controlling terminal, group, session, size, and the other end
# of a pseudo-terminal. Files: what can be read, blocking, asynchronous, close on exec. Not TIOCSTI, nor TIOCLINUX.
_DEVICE_CONTROLS = (
    *(0x5401, 0x5402, 0x5403, 0x5404, 0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D, 0x5409, 0x540A, 0x540B),
    *(0x540E, 0x540F, 0x5410, 0x5411, 0x5413, 0x5414, 0x5422, 0x5425, 0x5429, 0x80045430, 0x40045431, 0x5441),
    *(0x541B, 0x5421, 0x5450, 0x5451, 0x5452),
)
# FS and GS; features of the processor that a program requests before it uses them; control flow enforcement (only to
# read its state).
_ARCHITECTURE_CONTROLS = (0x1001, 0x1002, 0x1003, 0x1004, 0x1021, 0x1022, 0x1023, 0x3001, 0x5005)
_O_WRONLY, _O_RDWR = 1, 2
_F_SETLEASE, _F_NOTIFY, _MADV_MERGEABLE = 1024, 1026, 12
# With these modes a file on a writable mount would run as its owner or group outside of the sandbox.
_SET_ID = 0o6000
# It leaves a device in place of the file.
_RENAME_WHITEOUT = 4
# O_CREAT, and the bit of O_TMPFILE that O_DIRECTORY does not have: with them a call that opens a file uses its mode.
_CREATES = 0o100 | 0o20000000
# Also a bit of MAP_SHARED_VALIDATE, and not one of MAP_PRIVATE.
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20


def checks(supervisor: int, memory_watched: bool = False) -> dict[str, Block]:
    """Returns the checks of the arguments of some calls, by the names of the calls. Parameters are as in `program`."""
    # Memory that is mapped shared without a file stays allocated after its pages have left the page tables, which is
    # where the bridge counts memory. Files in /dev/shm have the size of that file system as their limit.
    watched = {"mmap": _not_both_bits(3, _MAP_SHARED, _MAP_ANONYMOUS)} if memory_watched else {}
    return {
        **watched,
        # Event loops wake themselves with it.
        "socketpair": (*_one_of(0, (_AF_UNIX,)), *_one_of(1, _PAIRS)),
        "sendto": (*_no_bit(3, _MSG_OOB), *_no_pointer(4)),
        "sendmsg": _no_bit(2, _MSG_OOB),
        "recvfrom": _no_bit(3, _MSG_OOB),
        "recvmsg": _no_bit(2, _MSG_OOB),
        "setsockopt": (*_one_of(1, (_SOL_SOCKET,)), *_one_of(2, _SOCKET_OPTIONS)),
        # Only for the calling process, since the supervisor has the same user.
        "prlimit64": _one_of(0, (0,)),
        "setpriority": (*_one_of(0, (0,)), *_one_of(1, (0,))),
        # For any process except the supervisor: libraries pin their own threads. Where the bridge counts memory, code
        # cannot take back the processor that was left to the bridge.
        "sched_setaffinity": (_DENY,) if memory_watched else _none_of(0, supervisor),
        "clone": _no_bit(0, _CLONE_FLAGS),
        "prctl": (*_one_of(0, _PROCESS_CONTROLS), *_where(0, _PR_SET_DUMPABLE, _one_of(1, (0,)))),
        "ioctl": _one_of(1, _DEVICE_CONTROLS),
        "arch_prctl": _one_of(0, _ARCHITECTURE_CONTROLS),
        # A lease delays every process that opens the file, also on the host.
        "fcntl": _none_of(1, _F_SETLEASE, _F_NOTIFY),
        # Pages shared with other processes reveal what those contain.
        "madvise": _none_of(2, _MADV_MERGEABLE),
        # An access mode that neither reads nor writes needs no Landlock right, and still creates a terminal.
        "open": (*_not_both_bits(1, _O_WRONLY, _O_RDWR), *_where_any(1, _CREATES, _no_bit(2, _SET_ID))),
        "openat": (*_not_both_bits(2, _O_WRONLY, _O_RDWR), *_where_any(2, _CREATES, _no_bit(3, _SET_ID))),
        "mknod": _no_bit(1, _DEVICE_OR_SOCKET | _SET_ID),
        "mknodat": _no_bit(2, _DEVICE_OR_SOCKET | _SET_ID),
        "chmod": _no_bit(1, _SET_ID),
        "fchmod": _no_bit(1, _SET_ID),
        "fchmodat": _no_bit(2, _SET_ID),
        "renameat2": _no_bit(4, _RENAME_WHITEOUT),
    }


def program(
    machine: str, supervisor: int, extra: Iterable[int] = (), notify: bool = False, memory_watched: bool = False
) -> list[Instruction]:
    """Returns the filter of a worker whose supervisor has this process number; `machine` as uname names it.

    `extra`: numbers that are also allowed. `notify`: a listener is asked for the error number of each refusal.
    `memory_watched`: no cgroup limits memory, and the bridge counts what processes have mapped.
    """
    if machine not in _AUDIT:
        raise OSError(f"there is no table of system calls for {machine}")
    found = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        *_tree(_ranges(machine, supervisor, extra, memory_watched)),
    ]
    return [_asking(instruction) for instruction in found] if notify else found


def error_number(machine: str, number: int) -> int:
    """Returns the error number with which the filter refuses this system call."""
    block: Block = ()
    for first, verdict in _ranges(machine, 0):
        if first > number:
            break
        block = verdict
    return ENOSYS if block == _returning(ERRNO | ENOSYS) else EPERM


def packed(instructions: list[Instruction]) -> bytes:
    """Returns the instructions in the kernel's format."""
    return b"".join(pack("=HBBI", *instruction) for instruction in instructions)


def _asking(instruction: Instruction) -> Instruction:
    refuses = instruction[0] == _RETURN and instruction[3] & ~0xFFFF == ERRNO
    return (_RETURN, 0, 0, NOTIFY) if refuses else instruction


def _returning(action: int) -> Block:
    return ((_RETURN, 0, 0, action),)


def _ranges(
    machine: str, supervisor: int, extra: Iterable[int] = (), memory_watched: bool = False
) -> list[tuple[int, Block]]:
    """Returns the first number of each range, in order, and the verdict for the numbers up to the next range."""
    column = list(_AUDIT).index(machine)
    allowed, refused, absent = (_returning(action) for action in (ALLOW, ERRNO | EPERM, ERRNO | ENOSYS))
    checked = checks(supervisor, memory_watched)
    listed = dict.fromkeys(extra, allowed)
    for name, numbers in ALLOWED.items():
        listed[numbers[column]] = (*checked[name], *allowed) if name in checked else allowed
    listed.pop(-1, None)
    # The borders between the verdicts for numbers that are not listed.
    others = {0: refused, _ABSENT_SINCE[machine]: absent}
    for (first, last), verdict in ((_ABSENT_BEFORE[machine], absent), *((each, refused) for each in _REFUSED_SINCE)):
        before = refused if verdict is absent else absent
        others[first], others[last + 1] = verdict, before
    if machine == "x86_64":
        others[_X32], others[_NONE] = _returning(KILL_PROCESS), absent
    found: list[tuple[int, Block]] = []
    other = refused
    for number in sorted({*others, *listed, *(number + 1 for number in listed)}):
        other = others.get(number, other)
        verdict = listed.get(number, other)
        if not found or found[-1][1] != verdict:
            found.append((number, verdict))
    return found


def _tree(ranges: list[tuple[int, Block]]) -> Block:
    """A binary search: about eight comparisons for each system call."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _tree(ranges[:middle]), _tree(ranges[middle:])
    if len(below) <= _FAR:
        return ((_AT_LEAST, len(below), 0, ranges[middle][0]), *below, *above)
    return ((_AT_LEAST, 0, 1, ranges[middle][0]), (_JUMP, 0, 0, len(below)), *below, *above)
