"""The worker's own system call filter, as a classic BPF program: what Python programs need stays, ways out do not.

It does not install itself (`kernel` does), and relies on no filter of the engine: those differ.
"""

from __future__ import annotations

from _struct import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# code, jump if true, jump if false, constant
Instruction = tuple[int, int, int, int]

EPERM, ENOSYS = 1, 38
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Later ones are not there, for what nobody has looked at; nor are those of x32, whose numbers are above 1 << 30.
NEWEST = 462


def _table(text: str) -> dict[str, tuple[int, int]]:
    """One string: a literal of that size would cost each start 2 ms to compile."""
    rows = (row.split() for row in text.split(";") if row)
    return {name: (int(x86_64), int(aarch64)) for name, x86_64, aarch64 in rows}


# Name, number on x86-64 and on aarch64; -1 where there is none. These are never needed.
DENIED = _table(
    # Sockets: without a network there is nobody to speak to, and AF_VSOCK, AF_ALG and netlink reach past it.
    "socket 41 198;"
    # Namespaces and mounts.
    "unshare 272 97;setns 308 268;mount 165 40;umount2 166 39;pivot_root 155 41;chroot 161 51;"
    "open_tree 428 428;move_mount 429 429;fsopen 430 430;fsconfig 431 431;fsmount 432 432;fspick 433 433;"
    "mount_setattr 442 442;"
    # Other processes' memory and descriptors.
    "ptrace 101 117;process_vm_readv 310 270;process_vm_writev 311 271;process_madvise 440 440;"
    "process_mrelease 448 448;pidfd_getfd 438 438;kcmp 312 272;"
    # Large parts of the kernel with a long record of defects.
    "add_key 248 217;request_key 249 218;keyctl 250 219;bpf 321 280;io_uring_setup 425 425;"
    "io_uring_enter 426 426;io_uring_register 427 427;perf_event_open 298 241;userfaultfd 323 282;"
    "splice 275 76;tee 276 77;vmsplice 278 75;modify_ldt 154 -1;"
    # Files that no mount option covers, and programs that are no files.
    "memfd_create 319 279;memfd_secret 447 447;execveat 322 281;open_by_handle_at 304 265;"
    "name_to_handle_at 303 264;fanotify_init 300 262;fanotify_mark 301 263;"
    # System V IPC and POSIX message queues: memory that no process's end gives back.
    "shmget 29 194;shmat 30 196;shmctl 31 195;shmdt 67 197;semget 64 190;semop 65 193;semctl 66 191;"
    "semtimedop 220 192;msgget 68 186;msgsnd 69 189;msgrcv 70 188;msgctl 71 187;mq_open 240 180;"
    "mq_unlink 241 181;mq_timedsend 242 182;mq_timedreceive 243 183;mq_notify 244 184;mq_getsetattr 245 185;"
    # The machine's.
    "swapon 167 224;swapoff 168 225;reboot 169 142;kexec_load 246 104;kexec_file_load 320 294;"
    "init_module 175 105;finit_module 313 273;delete_module 176 106;quotactl 179 60;quotactl_fd 443 443;"
    "acct 163 89;settimeofday 164 170;clock_settime 227 112;adjtimex 159 171;clock_adjtime 305 266;"
    "sethostname 170 161;setdomainname 171 162;syslog 103 116;vhangup 153 58;nfsservctl 180 42;"
    "lookup_dcookie 212 18;iopl 172 -1;ioperm 173 -1;uselib 134 -1;_sysctl 156 -1;create_module 174 -1;"
)

# Its arguments cannot be seen from here, so that the C library must fall back to clone.
ABSENT = {"clone3": (435, 435)}

# With these arguments alone: argument and value.
ONLY_WITH = {
    # AF_UNIX: event loops wake themselves up through it.
    "socketpair": ((53, 199), ((0, 1),)),
    # Of the calling process: the supervisor has the same user.
    "prlimit64": ((302, 261), ((0, 0),)),
    "setpriority": ((141, 140), ((0, 0), (1, 0))),
    "ioprio_set": ((251, 30), ((0, 1), (1, 0))),
    # To read it.
    "personality": ((135, 92), ((0, 0xFFFFFFFF),)),
}

# Of any process but the supervisor, which is the first argument: libraries pin their own threads.
NEVER_OF_THE_SUPERVISOR = {
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}

CLONE = (56, 220)
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; that of time is clone3's alone.
CLONE_NEW = 0x7E020000


def program(machine: str, supervisor: int) -> list[Instruction]:
    """For a worker whose supervisor has this process number; `machine` as uname says it."""
    if machine not in _AUDIT:
        raise OSError(f"there is no table of system calls for {machine}")
    column = list(_AUDIT).index(machine)
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, NEWEST + 1),
        (_RETURN, 0, 0, ERRNO | ENOSYS),
        *_rules(column, supervisor),
        (_RETURN, 0, 0, ALLOW),
    ]


def packed(instructions: list[Instruction]) -> bytes:
    """As the kernel takes them."""
    return b"".join(pack("=HBBI", *instruction) for instruction in instructions)


def _rules(column: int, supervisor: int) -> Iterator[Instruction]:
    denied = (_RETURN, 0, 0, ERRNO | EPERM)
    allowed = (_RETURN, 0, 0, ALLOW)
    for numbers in DENIED.values():
        if numbers[column] >= 0:
            yield from _of(numbers[column], [denied])
    for numbers in ABSENT.values():
        yield from _of(numbers[column], [(_RETURN, 0, 0, ERRNO | ENOSYS)])
    for numbers, arguments in ONLY_WITH.values():
        tests: list[Instruction] = []
        for position, value in arguments:
            tests += [_argument(position), (_EQUAL, 1, 0, value), denied]
        yield from _of(numbers[column], [*tests, allowed])
    for numbers in NEVER_OF_THE_SUPERVISOR.values():
        yield from _of(numbers[column], [_argument(0), (_EQUAL, 0, 1, supervisor), denied, allowed])
    yield from _of(CLONE[column], [_argument(0), (_ANY_BIT, 0, 1, CLONE_NEW), denied, allowed])


def _of(number: int, verdict: list[Instruction]) -> Iterator[Instruction]:
    """The verdict on this system call; what follows is for the others."""
    yield (_EQUAL, 0, len(verdict), number)
    yield from verdict


def _argument(position: int) -> Instruction:
    # Its lower half: all of these are ints, of which the kernel looks at no more.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position)
