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
from hotcell_sandbox import seccomp

SUPERVISOR = 1
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOWED, KILLED = "allowed", "killed"
EPERM, ENOSYS = 1, 38

# What must be refused, whatever the filter's own tables say.
REQUIRED = (
    "socket unshare setns mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr "
    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp keyctl add_key request_key bpf io_uring_setup "
    "io_uring_enter io_uring_register perf_event_open userfaultfd memfd_create memfd_secret splice vmsplice tee shmget "
    "shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop mq_open mq_unlink execveat "
    "open_by_handle_at name_to_handle_at fanotify_init swapon swapoff reboot kexec_load kexec_file_load init_module "
    "finit_module delete_module quotactl quotactl_fd acct settimeofday clock_settime adjtimex clock_adjtime nfsservctl"
)
REQUIRED_ON_X86 = ["modify_ldt", "iopl", "ioperm", "uselib"]
NEEDED = (
    "read write openat close mmap mprotect munmap brk futex execve wait4 exit_group kill tgkill pipe2 dup3 getdents64 "
    "fcntl ioctl ppoll epoll_pwait sendmsg recvmsg connect getrandom statx sched_getaffinity setrlimit getrlimit "
    "close_range pidfd_open copy_file_range sendfile setsid prctl rseq set_robust_list"
)


def numbers(machine: str) -> dict[str, int]:
    """By the kernel's own headers."""
    path = "x86_64-linux-gnu/asm/unistd_64.h" if machine == "x86_64" else "asm-generic/unistd.h"
    text = Path("/usr/include", path).read_text()
    found = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    assert len(found) > 250
    return found


def verdict(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> object:
    """What the kernel would do: an interpreter of classic BPF, with the instructions that seccomp allows for."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(value & (1 << 64) - 1 for value in values))
    at, accumulator = 0, 0
    while True:
        code, jump_true, jump_false, constant = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        match code:
            case 0x20:  # load a word
                accumulator = struct.unpack_from("=I", data, constant)[0]
            case 0x15:
                at += jump_true if accumulator == constant else jump_false
            case 0x35:
                at += jump_true if accumulator >= constant else jump_false
            case 0x45:
                at += jump_true if accumulator & constant else jump_false
            case 0x06:
                action, value = constant & 0xFFFF0000, constant & 0xFFFF
                return {0x7FFF0000: ALLOWED, 0x00050000: value, 0x80000000: KILLED}[action]
            case _:
                raise AssertionError(f"instruction {code:#x} at {at}")


class Filter:
    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.numbers = numbers(machine)
        self.program = seccomp.packed(seccomp.program(machine, SUPERVISOR))

    def __call__(self, name: str, *arguments: int) -> object:
        return verdict(self.program, ARCHITECTURES[self.machine], self.numbers[name], arguments)


@pytest.fixture(params=ARCHITECTURES)
def asked(request: pytest.FixtureRequest) -> Filter:
    return Filter(request.param)


def test_numbers_are_the_kernels_own(asked: Filter) -> None:
    column = list(ARCHITECTURES).index(asked.machine)
    tables = {**seccomp.DENIED, **seccomp.ABSENT, **seccomp.NEVER_OF_THE_SUPERVISOR, "clone": seccomp.CLONE}
    tables |= {name: found for name, (found, _) in seccomp.ONLY_WITH.items()}
    ours = {name: found[column] for name, found in tables.items()}
    # Of the calls that an architecture lacks, nothing may stand in the table.
    assert ours == {name: asked.numbers.get(name, -1) for name in tables}


def test_every_way_out_is_refused_with_any_arguments(asked: Filter) -> None:
    names = {*REQUIRED.split(), *(name for name in seccomp.DENIED if name in asked.numbers)}
    names |= set(REQUIRED_ON_X86) if asked.machine == "x86_64" else set()
    for arguments in ((), (1, 1, 1, 1, 1, 1), (2**64 - 1,) * 6):
        assert {name: asked(name, *arguments) for name in names} == dict.fromkeys(names, EPERM)
    assert asked("clone3", 0, 0) == ENOSYS


def test_what_programs_need_is_allowed(asked: Filter) -> None:
    assert {name: asked(name) for name in NEEDED.split() if name in asked.numbers} == {
        name: ALLOWED for name in NEEDED.split() if name in asked.numbers
    }


def test_clone_is_for_processes_and_threads_and_not_for_namespaces(asked: Filter) -> None:
    fork, vfork, thread = 0x1200011, 0x4111, 0x3D0F00
    assert [asked("clone", flags) for flags in (fork, vfork, thread)] == [ALLOWED] * 3
    for namespace in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert [asked("clone", flags | namespace) for flags in (0, fork, vfork, thread)] == [EPERM] * 4
        # The kernel looks at the lower half only.
        assert asked("clone", fork | namespace | 1 << 40) == EPERM


def test_sockets_are_pairs_within_the_machine_only(asked: Filter) -> None:
    assert asked("socketpair", 1, 1, 0) == ALLOWED
    assert {asked("socketpair", family, 1, 0) for family in range(50) if family != 1} == {EPERM}


def test_limits_and_priorities_are_of_the_caller_only(asked: Filter) -> None:
    assert [asked("prlimit64", pid, 7) for pid in (0, 1, 2, 2**32 - 1)] == [ALLOWED, EPERM, EPERM, EPERM]
    assert [asked("setpriority", which, who) for which, who in ((0, 0), (0, 1), (1, 0), (2, 0))] == [
        ALLOWED,
        EPERM,
        EPERM,
        EPERM,
    ]
    assert [asked("ioprio_set", which, who) for which, who in ((1, 0), (1, 1), (2, 0), (3, 65534))] == [
        ALLOWED,
        EPERM,
        EPERM,
        EPERM,
    ]
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert [asked(name, pid) for pid in (0, 17, SUPERVISOR)] == [ALLOWED, ALLOWED, EPERM]


def test_personality_can_be_read_and_not_changed(asked: Filter) -> None:
    assert [asked("personality", value) for value in (0xFFFFFFFF, 0, 8, 0x0040000)] == [ALLOWED, EPERM, EPERM, EPERM]


def test_other_architectures_are_killed_and_unknown_numbers_are_absent(asked: Filter) -> None:
    others = {I386, ARM, *ARCHITECTURES.values()} - {ARCHITECTURES[asked.machine]}
    assert {verdict(asked.program, other, number) for other in others for number in (0, 1, 41, 2**32 - 1)} == {KILLED}
    own = ARCHITECTURES[asked.machine]
    # x32: the numbers of x86-64 with one more bit; and those of its own, which old kernels take without it.
    x32 = [1 << 30 | number for number in range(600)]
    for number in (*x32, *range(512, 548), seccomp.NEWEST + 1, 2**32 - 1):
        assert verdict(asked.program, own, number) == ENOSYS
    assert verdict(asked.program, own, seccomp.NEWEST) == ALLOWED


def test_programs_fit_the_kernel_and_jump_forward_within_bounds(asked: Filter) -> None:
    count = len(asked.program) // 8
    assert count <= 4096
    for at in range(count):
        code, jump_true, jump_false, _ = struct.unpack_from("=HBBI", asked.program, 8 * at)
        assert code in (0x06, 0x20) or at + 1 + max(jump_true, jump_false) < count


def test_another_machine_has_no_program() -> None:
    with pytest.raises(OSError, match="no table of system calls for riscv64"):
        seccomp.program("riscv64", SUPERVISOR)


@pytest.mark.skipif(os.uname().machine not in ARCHITECTURES, reason="there is no table for this machine")
def test_the_kernel_refuses_what_the_program_refuses(sandbox: Sandbox) -> None:
    column = list(ARCHITECTURES).index(os.uname().machine)
    denied = {name: found[column] for name, found in seccomp.DENIED.items() if found[column] >= 0}
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
    assert sandbox.run("import os; os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)")["value"] == "1"


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
