"""What the supervisor can see of its own sandbox, for the handshake.

It does not judge: the bridge compares it with what it asked the engine for.
"""

from __future__ import annotations

import os

_V1_NO_LIMIT = 1 << 60


def posture() -> dict[str, object]:
    status = dict(line.split(":", 1) for line in _read("/proc/self/status").splitlines() if ":" in line)
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "cap_eff": status.get("CapEff", "").strip(),
        "cap_bnd": status.get("CapBnd", "").strip(),
        "no_new_privs": int(status.get("NoNewPrivs", "0")),
        "seccomp": int(status.get("Seccomp", "0")),
        "root_read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "interfaces": [line.split(":")[0].strip() for line in _read("/proc/self/net/dev").splitlines() if ":" in line],
        "user_namespace": _read("/proc/self/uid_map").split()[:3] != ["0", "0", "4294967295"],
        "memory_max_bytes": _limit("memory", "memory.max", "memory.limit_in_bytes"),
        "pids_max": _limit("pids", "pids.max", "pids.max"),
        "cpu_max_millis": _cpu(),
    }


def oom_kills() -> int:
    """How many processes of this sandbox the kernel has killed for memory so far."""
    for controller, name in (("", "memory.events"), ("memory", "memory.oom_control")):
        for line in _cgroup(controller, name).splitlines():
            key, _, count = line.partition(" ")
            if key == "oom_kill":
                return int(count)
    return 0


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
    """A cgroup file; controller "" is the v2 tree. With a cgroup namespace the own group is the root of the mount."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            mount = f"/sys/fs/cgroup/{controller}".rstrip("/")
            # Without one the path is the host's, which a container's mount may not show.
            return _read(f"{mount}{path.rstrip('/')}/{name}") or _read(f"{mount}/{name}")
    return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
