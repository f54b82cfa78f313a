"""Describes the sandbox and a confined worker for the handshake, as the kernel shows them.

It does not judge: the bridge compares the description with what it asked the engine for.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from errno import EPERM
from fcntl import F_GETFD, FD_CLOEXEC, fcntl
from mmap import PAGESIZE
from stat import S_ISCHR, S_ISDIR, S_ISLNK, S_ISREG

from . import system_calls
from .type_names import Any

_V1_NO_LIMIT = 1 << 60
_CAPABILITIES = ("cap_eff", "cap_prm", "cap_inh", "cap_bnd", "cap_amb")
_RLIMITS = {
    "core": "Max core file size",
    "data": "Max data size",
    "nofile": "Max open files",
    "nproc": "Max processes",
}
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def posture(inherited: list[str], tries_network: bool = False) -> dict[str, object]:
    """Describes this sandbox. `inherited`: the descriptors that the engine gave to PID 1."""
    mounts, machine = _mounts(), os.uname()
    interfaces = [line.split(":")[0].strip() for line in read("/proc/self/net/dev").splitlines() if ":" in line]
    return {
        **_process("self"),
        "kernel": f"{machine.release} {machine.version}",
        "root_read_only": any(mount["target"] == "/" and "ro" in mount["options"] for mount in mounts)
        or bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "mounts": mounts,
        "visible": _visible(),
        "fds": inherited,
        "interfaces": interfaces,
        "reachable": _reachable() if tries_network and interfaces != ["lo"] else [],
        "namespaces": _namespaces(),
        "user_namespace": read("/proc/self/uid_map").split()[:3] != ["0", "0", "4294967295"],
        "memory_max_bytes": _limit("memory", "memory.max", "memory.limit_in_bytes"),
        "pids_max": _limit("pids", "pids.max", "pids.max"),
        "cpu_max_millis": _cpu(),
        **_landlock(),
    }


def _reachable() -> list[str]:
    from .network_probe import reachable

    return reachable()


def worker_posture(pid: int, fds: list[str], landlock: int) -> dict[str, object]:
    """Describes a worker. `landlock`: the version that restricts it, as it said before it ran any code."""
    return {**_process(str(pid)), "fds": fds, "landlock": landlock, "memory_closed": _is_memory_closed(pid)}


def closed_by_exec() -> frozenset[int]:
    """Returns the descriptors that libraries have opened. To be called before this process opens any.

    They are marked close-on-exec, so they were not inherited. libffi, which ctypes uses, maps a file of its own
    whenever it needs room for callbacks (since version 3.5 in Debian).
    """
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if fcntl(number, F_GETFD) & FD_CLOEXEC:
                found.add(number)
        except OSError:  # the one that listed the directory
            pass
    return frozenset(found)


def descriptors(process: str, left_out: Collection[int]) -> list[str]:
    """Names what each descriptor is, in the order of their numbers. Files have their paths."""
    found = []
    folder = f"/proc/{process}/fd"
    for number in sorted(set(map(int, os.listdir(folder))).difference(left_out)):
        try:
            target = os.readlink(f"{folder}/{number}")
        except FileNotFoundError:  # the one that listed the directory
            continue
        kind = target.partition(":")[0]
        if target == "/dev/null":
            kind = "null"
        found.append(f"file {target}" if kind.startswith("/") else kind)
    return found


def has_own_group(memory_bytes: int) -> bool:
    """Whether the control groups that are mounted here are those of this sandbox: they have its limit of memory.

    Where the engine makes no group for a sandbox, as rootless Podman on cgroup v1, they are those of the machine.
    """
    limit = _limit("memory", "memory.max", "memory.limit_in_bytes")
    return limit is not None and limit // PAGESIZE == memory_bytes // PAGESIZE


def oom_kills() -> int:
    """Returns how many processes of this sandbox the kernel has killed so far because memory ran out."""
    for controller, name in (("", "memory.events"), ("memory", "memory.oom_control")):
        for line in _cgroup(controller, name).splitlines():
            key, _, count = line.partition(" ")
            if key == "oom_kill":
                return int(count)
    return 0


def bytes_of_processes() -> int | None:
    """Returns the anonymous memory of all processes of this sandbox; None if no cgroup counts it."""
    if _limit("memory", "memory.max", "memory.limit_in_bytes") is None:
        return None
    for controller, key in (("", "anon"), ("memory", "total_rss")):
        for line in _cgroup(controller, "memory.stat").splitlines():
            name, _, count = line.partition(" ")
            if name == key and count.isdigit():
                return int(count)
    return None


def private_bytes(pid: int | str = "self") -> int:
    """Returns the anonymous memory of a process, including what it shares with its copies."""
    with open(f"/proc/{pid}/statm", "rb") as file:
        _, resident, shared = file.read().split()[:3]
    return (int(resident) - int(shared)) * PAGESIZE


def _is_memory_closed(pid: int) -> bool:
    """Whether this process, which has the same user, cannot open the worker's memory. True if the worker has ended."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except (PermissionError, ProcessLookupError, FileNotFoundError):
        return True
    return False


def _landlock() -> dict[str, object]:
    """Returns the Landlock version that this sandbox can use, 0 if none, and whether the engine forbids Landlock."""
    try:
        return {"landlock": system_calls.landlock_version(), "landlock_forbidden": False}
    except OSError as error:
        return {"landlock": 0, "landlock_forbidden": error.errno == EPERM}


def _process(process: str) -> dict[str, object]:
    status = dict(line.split(":", 1) for line in read(f"/proc/{process}/status").splitlines() if ":" in line)
    filters = status.get("Seccomp_filters", "").strip()
    return {
        "uid": int(status["Uid"].split()[0]),
        "gid": int(status["Gid"].split()[0]),
        "groups": [int(group) for group in status.get("Groups", "").split()],
        **{name: status.get(name.title().replace("_", ""), "").strip() for name in _CAPABILITIES},
        # gVisor does not have this field. A process inherits the value from its parent.
        "no_new_privs": int(status.get("NoNewPrivs", system_calls.has_no_new_privileges())),
        "seccomp": int(status.get("Seccomp", "0")),
        # Since Linux 5.9.
        "seccomp_filters": int(filters) if filters else None,
        "rlimits": _rlimits(process),
        "oom_score_adj": _oom_score_adj(process),
    }


def _rlimits(process: str) -> dict[str, int | None]:
    lines = read(f"/proc/{process}/limits").splitlines()
    found: dict[str, int | None] = {}
    if not lines:  # gVisor has no such file
        import resource

        for name in _RLIMITS:
            number = getattr(resource, f"RLIMIT_{name.upper()}")
            hard = resource.prlimit(0 if process == "self" else int(process), number)[1]
            found[name] = None if hard == resource.RLIM_INFINITY else hard
        return found
    for name, title in _RLIMITS.items():
        most = next((line[len(title) :].split()[1] for line in lines if line.startswith(title)), "")
        found[name] = int(most) if most.isdigit() else None
    return found


def _oom_score_adj(process: str) -> int | None:
    try:
        return int(read(f"/proc/{process}/oom_score_adj"))
    except ValueError:
        return None


def _mounts() -> list[dict[str, Any]]:
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        fields = line.split()
        separator = fields.index("-", 6)
        target, options, kind = fields[4], fields[5], fields[separator + 1]
        mount: dict[str, Any] = {"target": target, "type": kind, "options": options.split(",")}
        try:
            about = os.stat(target)
            mode = about.st_mode
            # Devices do not count as writable mounts, since they have to be writable.
            mount["writable"] = (S_ISDIR(mode) or S_ISREG(mode)) and os.access(target, os.W_OK)
            if kind == "tmpfs":
                size = os.statvfs(target)
                mount["size_bytes"] = size.f_blocks * size.f_frsize
            if target.startswith("/mnt/"):
                mount["identity"] = [about.st_dev, about.st_ino]
        except OSError:  # the target is below a folder that cannot be entered, or covered by another mount
            mount["writable"] = False
        found.append(mount)
    return found


def _visible() -> list[str]:
    """Lists kernel files that the engine does not mask. A masked file is /dev/null, a masked folder is empty."""
    found = []
    for folder in ("/proc", "/sys", "/sys/fs"):
        try:
            names = os.listdir(folder)
        except OSError:  # sysfs is not mounted
            continue
        for name in names:
            path = f"{folder}/{name}"
            try:
                mode = 0 if name.isdigit() else os.lstat(path).st_mode
                if mode and not (S_ISLNK(mode) or S_ISCHR(mode) or (S_ISDIR(mode) and not os.listdir(path))):
                    found.append(path)
            except OSError:  # a folder that only root can read
                pass
    return sorted(found)


def _namespaces() -> dict[str, int]:
    found = {}
    for name in _NAMESPACES:
        try:
            found[name] = int(os.readlink(f"/proc/self/ns/{name}").partition("[")[2].rstrip("]"))
        except (OSError, ValueError):  # the kernel does not have this namespace
            pass
    return found


def _limit(controller: str, v2_name: str, v1_name: str) -> int | None:
    found = _cgroup("", v2_name).strip() or _cgroup(controller, v1_name).strip()
    if not found.isdigit() or int(found) >= _V1_NO_LIMIT:
        return None
    return int(found)


def _cpu() -> int | None:
    quota, _, period = _cgroup("", "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = _cgroup("cpu", "cpu.cfs_quota_us").strip(), _cgroup("cpu", "cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) * 1000 // int(period)


def _cgroup(controller: str, name: str) -> str:
    """Reads a cgroup file. Controller "" is the v2 tree. In a cgroup namespace, the mount is this process's group."""
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            mount = f"/sys/fs/cgroup/{controller}".rstrip("/")
            # Without a namespace, the path is the host's, which may be missing in the container's mount.
            return read(f"{mount}{path.rstrip('/')}/{name}") or read(f"{mount}/{name}")
    return ""


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
