"""The worker's system call filter: the program by interpreting it for both architectures, and its effect for real."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import ENTRYPOINT, LIMITS, Sandbox

sys.path.insert(0, str(ENTRYPOINT))
from belljar_sandbox.kernel import seccomp

SUPERVISOR = 1
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOWED, ASKED, KILLED = "allowed", "asked", "killed"
EPERM, ENOSYS = 1, 38

# What programs need, whatever the filter's own table says; and how many calls the table may hold.
NEEDED = (
    "read write openat close mmap mprotect munmap brk futex execve wait4 exit_group kill tgkill pipe2 dup3 getdents64 "
    "fcntl ppoll epoll_pwait sendmsg recvmsg getrandom statx sched_getaffinity getrlimit "
    "close_range copy_file_range sendfile setsid rseq set_robust_list"
)
COUNT_MAX = 170
# Later calls that libraries look for and can do without, and those that are refused with EPERM all the same.
ABSENT = (
    "clone3 openat2 pidfd_open pidfd_send_signal epoll_pwait2 futex_waitv preadv2 pwritev2 pkey_alloc pkey_mprotect "
    "landlock_create_ruleset set_mempolicy_home_node"
)
REFUSED_LATER = (
    "io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick pidfd_getfd "
    "process_madvise mount_setattr quotactl_fd memfd_secret process_mrelease"
)
# With which arguments the others may be called: those that pass, and those that do not.
O_NONBLOCK, O_CLOEXEC = 0x800, 0x80000
Arguments = tuple[int, ...]
ARGUMENTS: dict[str, tuple[list[Arguments], list[Arguments]]] = {
    "socketpair": (
        [(1, kind | flags, 0) for kind in (1, 5) for flags in (0, O_NONBLOCK, O_CLOEXEC, O_NONBLOCK | O_CLOEXEC)],
        [(1, 0, 0), (1, 2, 0), (1, 3, 0), (1, 2 | O_CLOEXEC, 0), *((family, 1, 0) for family in (0, *range(2, 50)))],
    ),
    "sendto": (
        [(3, 4096, 1, 0x4040, 0, 0)],
        [(3, 4096, 1, 1, 0, 0), (3, 4096, 1, 0x41, 0, 0), (3, 4096, 1, 0, 4096, 16), (3, 4096, 1, 0, 1 << 32, 16)],
    ),
    "recvfrom": ([(3, 4096, 1, 2, 0, 0), (3, 4096, 1, 0, 4096, 4096)], [(3, 4096, 1, 1, 0, 0)]),
    "sendmsg": ([(3, 4096, 0x4040)], [(3, 4096, 1), (3, 4096, 0x41)]),
    "recvmsg": ([(3, 4096, 0x40000040)], [(3, 4096, 1), (3, 4096, 0x40000001)]),
    "setsockopt": (
        [(3, 1, option, 4096, 4) for option in (2, 7, 8, 9, 13, 18, 20, 21, 66, 67)],
        # Filters and their lock, groups of ports, credentials, busy polling, zero copy; and other levels.
        [
            *((3, 1, option, 4096, 4) for option in (16, 26, 27, 36, 42, 44, 46, 47, 50, 51, 52, 60)),
            *((3, level, 7, 4096, 4) for level in (0, 6, 17, 41, 270, 0xFFFFFFFF)),
        ],
    ),
    "prlimit64": ([(0, 7)], [(1, 7), (2, 7), (2**32 - 1, 7)]),
    "setpriority": ([(0, 0, 5)], [(0, 1, 5), (1, 0, 5), (2, 0, 5), (2, 65534, 5)]),
    "sched_setaffinity": ([(0, 8, 4096), (17, 8, 4096)], [(SUPERVISOR, 8, 4096)]),
    # fork, vfork, threads of glibc and of musl; namespaces, PIDFD, PTRACE, PARENT, IO.
    "clone": (
        [(flags,) for flags in (0x1200011, 0x4111, 0x3D0F00, 0x7D0F00)],
        [
            *(
                (flags | denied,)
                for flags in (0, 0x1200011, 0x4111, 0x3D0F00)
                for denied in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
            ),
            *((17 | denied,) for denied in (0x1000, 0x2000, 0x8000, 0x80000000, 0x10000000 | 1 << 40)),
        ],
    ),
    "prctl": (
        [(4, 0), *((option, 1) for option in (1, 2, 3, 15, 16, 21, 23, 36, 38, 39, 41, 0x53564D41))],
        # KEEPCAPS, SECCOMP, CAPBSET_DROP, TSC, SECUREBITS, MM, AMBIENT, dispatch, SCHED_CORE, memory's merge, PTRACER.
        [
            *((4, dumpable) for dumpable in (1, 2)),
            *((option, 1) for option in (8, 22, 24, 26, 28, 31, 32, 33, 35, 47, 53, 59, 62, 67, 0x59616D61)),
        ],
    ),
    "ioctl": (
        [(0, 1 << 32 | 0x5401), *((0, request) for request in (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x802C542A))],
        # TIOCSTI, TIOCCONS, TIOCLINUX, TIOCSETD, FICLONE, namespaces, seccomp's listener.
        [
            (0, 1 << 32 | 0x5412),
            *((0, request) for request in (0x5412, 0x541D, 0x541C, 0x5423, 0x40049409, 0xB701, 0xC0502100)),
        ],
    ),
    "arch_prctl": ([(0x1002, 4096), (0x1023, 18)], [(0x1012, 0), (0x2001, 4096)]),
    "fcntl": ([(3, command) for command in (0, 1, 2, 3, 4, 6, 1030, 1031, 1032)], [(3, 1024, 1), (3, 1026, 1)]),
    "madvise": ([(4096, 4096, advice) for advice in (0, 4, 8, 14)], [(4096, 4096, 12)]),
    # The mode counts only with O_CREAT or O_TMPFILE.
    "open": (
        [*((4096, flags) for flags in (0, 1, 2, 0x80002)), (4096, 0x41, 0o755), (4096, 0x10000, 0o4755)],
        [
            *((4096, flags) for flags in (3, 0x103, 1 << 32 | 3)),
            *((4096, flags, mode) for flags in (0x41, 0x410001) for mode in (0o4755, 0o2755, 0o6000)),
        ],
    ),
    "openat": (
        [*((3, 4096, flags) for flags in (0, 1, 2, 0x80002)), (3, 4096, 0x41, 0o755), (3, 4096, 0x10000, 0o4755)],
        [
            *((3, 4096, flags) for flags in (3, 0x103)),
            *((3, 4096, flags, mode) for flags in (0x41, 0x410001) for mode in (0o4755, 0o2755, 0o6000)),
        ],
    ),
    "mknod": (
        [(4096, mode) for mode in (0o010600, 0o100600, 0o600)],
        [(4096, kind | 0o600) for kind in (0x2000, 0x6000, 0xC000, 0o104000, 0o102000)],
    ),
    "mknodat": (
        [(3, 4096, mode) for mode in (0o010600, 0o100600, 0o600)],
        [(3, 4096, kind | 0o600) for kind in (0x2000, 0x6000, 0xC000, 0o104000, 0o102000)],
    ),
    "chmod": ([(4096, 0o1755)], [(4096, mode) for mode in (0o4755, 0o2755, 0o6000)]),
    "fchmod": ([(3, 0o1755)], [(3, mode) for mode in (0o4755, 0o2755, 0o6000)]),
    "fchmodat": ([(3, 4096, 0o1755)], [(3, 4096, mode) for mode in (0o4755, 0o2755, 0o6000)]),
    "renameat2": ([(3, 4096, 3, 8192, flags) for flags in (0, 1, 2)], [(3, 4096, 3, 8192, flags) for flags in (4, 5)]),
}

# What the interpreter below has executed.
INSTRUCTIONS: list[int] = []


def numbers(machine: str) -> dict[str, int]:
    """By the kernel's own headers."""
    path = "x86_64-linux-gnu/asm/unistd_64.h" if machine == "x86_64" else "asm-generic/unistd.h"
    text = Path("/usr/include", path).read_text()
    found = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    # Those of 64-bit times are for machines of 32 bits.
    found = {name: number for name, number in found.items() if not 403 <= number < 424}
    assert len(found) > 250
    if "fstatat" in found:
        found["newfstatat"] = found.pop("fstatat")
    return found


def verdict(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> object:
    """What the kernel would do: an interpreter of classic BPF, with the instructions that seccomp allows for."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(value & (1 << 64) - 1 for value in values))
    at, accumulator = 0, 0
    while True:
        code, jump_true, jump_false, constant = struct.unpack_from("=HBBI", program, 8 * at)
        INSTRUCTIONS.append(code)
        at += 1
        match code:
            case 0x20:  # load a word
                accumulator = struct.unpack_from("=I", data, constant)[0]
            case 0x05:
                at += constant
            case 0x15:
                at += jump_true if accumulator == constant else jump_false
            case 0x35:
                at += jump_true if accumulator >= constant else jump_false
            case 0x45:
                at += jump_true if accumulator & constant else jump_false
            case 0x06:
                action, value = constant & 0xFFFF0000, constant & 0xFFFF
                return {0x7FFF0000: ALLOWED, 0x7FC00000: ASKED, 0x00050000: value, 0x80000000: KILLED}[action]
            case _:
                raise AssertionError(f"instruction {code:#x} at {at}")


class Filter:
    def __init__(
        self, machine: str, extra: tuple[int, ...] = (), notify: bool = False, memory_watched: bool = False
    ) -> None:
        self.machine = machine
        self.numbers = numbers(machine)
        self.column = list(ARCHITECTURES).index(machine)
        self.allowed = {name: found[self.column] for name, found in seccomp.ALLOWED.items() if found[self.column] >= 0}
        self.program = seccomp.packed(seccomp.program(machine, SUPERVISOR, extra, notify, memory_watched))

    def __call__(self, name: str, *arguments: int) -> object:
        return verdict(self.program, ARCHITECTURES[self.machine], self.numbers[name], arguments)


@pytest.fixture(params=ARCHITECTURES)
def asked(request: pytest.FixtureRequest) -> Filter:
    return Filter(request.param)


def test_numbers_are_the_kernels_own(asked: Filter) -> None:
    # Of the calls that an architecture lacks, nothing may stand in the table.
    ours = {name: found[asked.column] for name, found in seccomp.ALLOWED.items()}
    assert ours == {name: asked.numbers.get(name, -1) for name in seccomp.ALLOWED}
    assert len(ours) <= COUNT_MAX


def test_the_table_of_all_calls_has_the_kernels_numbers(asked: Filter) -> None:
    table = Path(__file__).parents[3] / "crates/belljar-protocol/src/system_calls.txt"
    lines = map(str.split, table.read_text().splitlines())
    rows = {name: numbers[asked.column] for name, *numbers in lines}
    # These headers may be older than the table; the generic ones have a few that the table of aarch64 does not.
    both = {name for name in asked.numbers if rows.get(name, "-") != "-"}
    assert {name: rows[name] for name in both} == {name: str(asked.numbers[name]) for name in both}
    assert len(both) > 250
    assert asked.allowed.keys() <= both


def test_every_listed_call_is_allowed(asked: Filter) -> None:
    plain = [name for name in asked.allowed if name not in ARGUMENTS]
    for arguments in ((), (1, 1, 1, 1, 1, 1), (2**64 - 1,) * 6):
        assert {name: asked(name, *arguments) for name in plain} == dict.fromkeys(plain, ALLOWED)
    assert set(NEEDED.split()) & asked.numbers.keys() <= asked.allowed.keys()


def test_every_other_call_is_refused(asked: Filter) -> None:
    own = ARCHITECTURES[asked.machine]
    listed = set(asked.allowed.values())
    others = set(range(1024)) - listed
    for arguments in ((), (1, 1, 1, 1, 1, 1), (2**64 - 1,) * 6):
        verdicts = {number: verdict(asked.program, own, number, arguments) for number in others}
        assert set(verdicts.values()) == {EPERM, ENOSYS}
    known = {number: name for name, number in asked.numbers.items() if number in others}
    absent = {*ABSENT.split(), *(name for number, name in known.items() if number >= 424)} - set(REFUSED_LATER.split())
    assert {name: verdicts[number] for number, name in known.items()} == {
        name: ENOSYS if name in absent | {"pkey_free"} else EPERM for name in known.values()
    }


def test_arguments_are_checked(asked: Filter) -> None:
    for name, (passing, refused) in ARGUMENTS.items():
        if name in asked.numbers:
            assert {each: asked(name, *each) for each in passing} == dict.fromkeys(passing, ALLOWED), name
            assert {each: asked(name, *each) for each in refused} == dict.fromkeys(refused, EPERM), name
    assert set(seccomp.checks(SUPERVISOR)) == set(ARGUMENTS)


def test_shared_memory_without_a_file_is_refused_where_memory_is_watched(asked: Filter) -> None:
    watched = Filter(asked.machine, memory_watched=True)
    shared, private, validated, anonymous, huge = 1, 2, 3, 0x20, 0x40000
    for flags in (shared, validated, private, private | anonymous, private | anonymous | huge):
        assert watched("mmap", 0, 4096, 3, flags, 3, 0) == ALLOWED
    for flags in (shared, validated):
        for more in (anonymous, anonymous | huge, anonymous | 1 << 32):
            assert watched("mmap", 0, 4096, 3, flags | more, 2**64 - 1, 0) == EPERM
            assert asked("mmap", 0, 4096, 3, flags | more, 2**64 - 1, 0) == ALLOWED
    for call in asked.allowed:
        if call not in ARGUMENTS and call != "mmap":
            assert watched(call, *[2**64 - 1] * 6) == ALLOWED
    for call in ("memfd_create", "shmget", "remap_file_pages"):
        assert watched(call) == EPERM


def test_where_memory_is_watched_no_process_chooses_its_processors(asked: Filter) -> None:
    watched = Filter(asked.machine, memory_watched=True)
    for process in (0, SUPERVISOR, 17, 2**32 - 1):
        assert watched("sched_setaffinity", process, 8, 4096) == EPERM
    assert watched("sched_getaffinity", 0, 8, 4096) == ALLOWED


def test_extra_calls_are_allowed_and_nothing_else(asked: Filter) -> None:
    extra = asked.numbers["mincore"]
    widened = Filter(asked.machine, (extra, -1))
    own = ARCHITECTURES[asked.machine]
    for number in range(600):
        expected = ALLOWED if number == extra else verdict(asked.program, own, number)
        assert verdict(widened.program, own, number) == expected


def test_refusals_are_asked_for_in_the_diagnostic_mode(asked: Filter) -> None:
    traced = Filter(asked.machine, (), True)
    own = ARCHITECTURES[asked.machine]
    for number in range(600):
        for arguments in ((), (2**64 - 1,) * 6):
            plain, asks = (verdict(each.program, own, number, arguments) for each in (asked, traced))
            assert asks == (plain if plain in (ALLOWED, KILLED) else ASKED)
            if asks == ASKED:
                assert seccomp.error_number(asked.machine, number) == plain


def test_other_architectures_are_killed_and_unknown_calls_are_absent(asked: Filter) -> None:
    others = {I386, ARM, *ARCHITECTURES.values()} - {ARCHITECTURES[asked.machine]}
    assert {verdict(asked.program, other, number) for other in others for number in (0, 1, 41, 2**32 - 1)} == {KILLED}
    own = ARCHITECTURES[asked.machine]
    # x32: the numbers of x86-64 with one more bit; and those of its own, which old kernels take without it.
    x32 = KILLED if asked.machine == "x86_64" else ENOSYS
    for number in (*(1 << 30 | number for number in range(600)), 2**31, 2**32 - 2):
        assert verdict(asked.program, own, number) == x32
    for number in (*range(512, 548), 2**30 - 1, 2**32 - 1):
        assert verdict(asked.program, own, number) == ENOSYS


def test_programs_fit_the_kernel_and_jump_forward_within_bounds(asked: Filter) -> None:
    count = len(asked.program) // 8
    assert count <= 4096
    for at in range(count):
        code, jump_true, jump_false, _ = struct.unpack_from("=HBBI", asked.program, 8 * at)
        assert code in (0x05, 0x06, 0x20) or at + 1 + max(jump_true, jump_false) < count


def test_verdicts_take_few_instructions(asked: Filter) -> None:
    own = ARCHITECTURES[asked.machine]
    taken = []
    for number in asked.allowed.values():
        before = len(INSTRUCTIONS)
        verdict(asked.program, own, number)
        taken.append(len(INSTRUCTIONS) - before)
    plain = sorted(taken)[len(taken) // 2]
    assert 8 <= plain <= 14


def test_another_machine_has_no_program() -> None:
    with pytest.raises(OSError, match="no table of system calls for riscv64"):
        seccomp.program("riscv64", SUPERVISOR)


@pytest.mark.skipif(os.uname().machine not in ARCHITECTURES, reason="there is no table for this machine")
def test_the_kernel_refuses_what_the_program_refuses(sandbox: Sandbox) -> None:
    asked = Filter(os.uname().machine)
    listed = set(asked.allowed.values())
    others = {name: number for name, number in asked.numbers.items() if number not in listed}
    denied = {name: number for name, number in others.items() if seccomp.error_number(asked.machine, number) == EPERM}
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def ask(number, *arguments):\n"
        "    ctypes.set_errno(0)\n"
        "    libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))\n"
        "    return ctypes.get_errno()\n"
        f"[name for name, number in {denied!r}.items() if ask(number, *[-1] * 6) != 1]"
    )
    assert sandbox.run(code)["value"] == "[]"
    for action in (
        "import socket; socket.socket(socket.AF_UNIX)",
        "import socket; socket.socket(socket.AF_VSOCK)",
        "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))",
        "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "import os; os.sched_setaffinity(os.getppid(), [0])",
        "import os; os.memfd_create('x')",
    ):
        assert sandbox.run(action)["error"]["type"] == "PermissionError", action
    lower = (
        "import os; os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1) - os.getpriority(os.PRIO_PROCESS, 0)"
    )
    assert sandbox.run(lower)["value"] == "0"


@pytest.mark.skipif(os.uname().machine not in ARCHITECTURES, reason="there is no table for this machine")
def test_refused_calls_are_counted_in_the_diagnostic_mode() -> None:
    asked = Filter(os.uname().machine)
    code = (
        "import os, socket, subprocess, threading\n"
        "def refused(action, *arguments):\n"
        "    try: action(*arguments)\n"
        "    except OSError as error: return error.errno\n"
        "t = threading.Thread(target=lambda: refused(os.sync)); t.start(); t.join()\n"
        "child = subprocess.run(['sync', '--help'], capture_output=True).returncode\n"
        "[refused(socket.socket), refused(os.memfd_create, 'x'), refused(os.pidfd_open, 1), child]"
    )
    with Sandbox(trace_denied=1, frozen_copy_bytes=1 << 30) as sandbox:
        worker = next(frame for frame in sandbox.seen if frame["type"] == "worker_started")
        # The listener is not the worker's.
        assert worker["posture"]["fds"] == ["null", "pipe", "pipe", "socket", "socket", "socket"]
        for times in (1, 2):
            assert sandbox.run(code)["value"] == f"[{EPERM}, {EPERM}, {ENOSYS}, 0]"
            denied = [frame for frame in sandbox.seen if frame["type"] == "denied"][-1]
            assert (denied["machine"], denied["further"]) == (asked.machine, 0)
            counts = {call["number"]: call["count"] for call in denied["calls"]}
            for name in ("socket", "memfd_create", "pidfd_open"):
                assert counts[asked.numbers[name]] == times
            assert {call["process"][:6] for call in denied["calls"]} == {"python"}
        # So are those of a copy of the worker, and of a fresh one.
        sandbox.start("import os; os._exit(1)")
        sandbox.wait("worker_exited")
        sandbox.wait("worker_started", worker=2)
        assert sandbox.run("import os\ntry: os.memfd_create('x')\nexcept OSError as e: r = e.errno\nr")["value"] == "1"
        sandbox.supervise({"type": "replace", "worker": 2, "restore": False})
        sandbox.wait("worker_started", worker=3)
        assert sandbox.run(code)["value"] == f"[{EPERM}, {EPERM}, {ENOSYS}, 0]"
        denied = [frame for frame in sandbox.seen if frame["type"] == "denied"][-1]
        counts = {call["number"]: call["count"] for call in denied["calls"]}
        assert (counts[asked.numbers["memfd_create"]], counts[asked.numbers["socket"]]) == (4, 3)


@pytest.mark.skipif(os.uname().machine not in ARCHITECTURES, reason="there is no table for this machine")
def test_calls_that_the_user_adds_are_allowed_in_every_worker() -> None:
    number = Filter(os.uname().machine).numbers["memfd_create"]
    with Sandbox(greet=False) as sandbox:
        extra = {"x86_64": [number], "aarch64": [number]}
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits, "extra_system_calls": extra})
        sandbox.wait("worker_started")
        for worker in (1, 2):
            sandbox.worker = worker
            assert sandbox.run("import os; os.close(os.memfd_create('x'))")["outcome"] == "finished"
            sandbox.supervise({"type": "replace", "worker": worker, "restore": False})
            sandbox.wait("worker_started")


def test_children_of_the_worker_have_its_filter(sandbox: Sandbox) -> None:
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import socket; socket.socket()']).returncode"
    done = sandbox.run(code)
    assert (done["value"], "PermissionError" in done["stderr"]) == ("1", True)


def test_supervisor_reports_the_worker_as_it_is_before_it_runs_anything() -> None:
    with Sandbox(greet=False, memory_bytes=1 << 30) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits})
        own = sandbox.wait("hello")["posture"]
        started = sandbox.wait("worker_started")
        seen = started["posture"]
        assert (seen["seccomp"], seen["no_new_privs"]) == (2, 1)
        assert seen["seccomp_filters"] == (own["seccomp_filters"] or 0) + 1
        assert seen["fds"] == ["null", "pipe", "pipe", "socket", "socket", "socket"]
        assert (seen["rlimits"]["core"], seen["rlimits"]["data"]) == (0, (1 << 30) - (1 << 26))
        # So has a later one.
        assert sandbox.run("import os; os.getpid()")["outcome"] == "finished"
        sandbox.supervise({"type": "replace", "worker": 1, "restore": False})
        assert sandbox.wait("worker_started", worker=2)["posture"] == seen


def test_a_worker_that_cannot_be_filtered_does_not_start() -> None:
    # There the machine calls itself one that has no table.
    prefix = ("setarch", "linux32")
    machine = "i686" if os.uname().machine == "x86_64" else "armv8l"
    message = f"no filter for system calls could be installed: there is no table of system calls for {machine}"
    with Sandbox(greet=False, prefix=prefix) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": LIMITS})
        sandbox.start("print('never')")
        sandbox.wait("hello")
        assert sandbox.next() == {"type": "fault", "message": message, "field": "seccomp"}
        assert sandbox.process.wait(30) == 1
    with Sandbox(greet=False, prefix=prefix, allow_unfiltered=1) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits})
        own = sandbox.wait("hello")["posture"]
        assert sandbox.wait("worker_started")["posture"]["seccomp_filters"] == own["seccomp_filters"]
        assert sandbox.run("1")["value"] == "1"


def test_processes_are_counted_where_no_cgroup_counts_them() -> None:
    with Sandbox(greet=False, processes=77) as sandbox:
        sandbox.supervise({"type": "hello", "version": 1, "limits": sandbox.limits})
        own = sandbox.wait("hello")["posture"]
        nproc = sandbox.wait("worker_started")["posture"]["rlimits"]["nproc"]
        counted = own["pids_max"] is not None and own["pids_max"] <= 77
        assert (nproc == 77) == (own["user_namespace"] and not counted)


# Whether shared memory without a file can be mapped, and /dev/zero opened for writing and for reading.
MEMORY = """
import mmap
def attempt(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return 0
attempt(lambda: mmap.mmap(-1, 4096)), *(attempt(lambda: open("/dev/zero", mode).close()) for mode in ("wb", "rb"))
"""


@pytest.mark.parametrize(
    ("memory_bytes", "own_kernel", "expected"),
    # No cgroup of these tests has just this limit.
    [(2**40 + 4096, 0, "(1, 13, 0)"), (2**40 + 4096, 1, "(0, 0, 0)"), (0, 0, "(0, 0, 0)")],
)
def test_memory_that_cannot_be_counted_is_refused_where_no_cgroup_limits_it(
    memory_bytes: int, own_kernel: int, expected: str
) -> None:
    with Sandbox(greet=False, memory_bytes=memory_bytes, own_kernel=own_kernel) as sandbox:
        sandbox.say_hello()
        landlock = sandbox.wait("worker_started")["posture"]["landlock"]
        assert sandbox.run(MEMORY)["value"] == (expected if landlock else expected.replace("13", "0"))


@pytest.mark.parametrize("memory_bytes", [2**40 + 4096, 0])
def test_where_memory_is_watched_code_leaves_one_processor(memory_bytes: int) -> None:
    processors = len(os.sched_getaffinity(0))
    is_watched = memory_bytes > 0
    with Sandbox(greet=False, memory_bytes=memory_bytes) as sandbox:
        sandbox.say_hello()
        left = max(processors - is_watched, 1)
        assert sandbox.run("import os; len(os.sched_getaffinity(0))")["value"] == str(left)
        # The supervisor can use all of them.
        assert len(os.sched_getaffinity(sandbox.process.pid)) == processors
        taken = sandbox.run(f"os.sched_setaffinity(0, {os.sched_getaffinity(0)})")
        assert ("error" in taken) == is_watched


def test_descriptors_of_libraries_are_neither_reported_nor_taken_from_them(tmp_path: Path) -> None:
    # libffi opens its own file in some distributions; this does the same in all of them.
    library = tmp_path / "library.so"
    source = "#include <fcntl.h>\n__attribute__((constructor)) static void begin(void) { open(PATH, O_CLOEXEC); }"
    compiler = ["cc", "-shared", "-fPIC", f'-DPATH="{library}"', "-x", "c", "-", "-o", str(library)]
    subprocess.run(compiler, input=source.encode(), check=True)
    with Sandbox(prefix=("env", f"LD_PRELOAD={library}")) as sandbox:
        assert sandbox.hello["posture"]["fds"] == ["pipe", "pipe", "pipe"]
        worker = next(frame for frame in sandbox.seen if frame["type"] == "worker_started")
        assert worker["posture"]["fds"] == ["null", "pipe", "pipe", "socket", "socket", "socket"]
        assert sandbox.run("import os; os.readlink('/proc/self/fd/3')")["value"] == repr(str(library))


def test_inherited_descriptors_are_reported(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")
    prefix = ("sh", "-c", f'exec "$@" 5<{secret} 6<{tmp_path}', "sh")
    with Sandbox(prefix=prefix) as sandbox:
        fds = sandbox.hello["posture"]["fds"]
        assert fds == ["pipe", "pipe", "pipe", f"file {secret}", f"file {tmp_path}"]
