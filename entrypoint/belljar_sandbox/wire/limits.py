"""The limits that the bridge sets in its hello.

A plain class, because the import of dataclasses takes 7 ms at each start.
"""

from __future__ import annotations


class Limits:
    __slots__ = (
        "allow_unfiltered",
        "arguments_in_flight_bytes",
        "calls_in_flight",
        "checkpoint_bytes",
        "checkpoints",
        "extra_system_calls",
        "frame_depth",
        "frame_to_bridge_bytes",
        "frame_to_sandbox_bytes",
        "frozen_copy_bytes",
        "heartbeat_ms",
        "jobs",
        "memory_bytes",
        "open_files",
        "own_kernel",
        "processes",
        "trace_denied",
        "workspace",
        "workspace_bytes",
        "workspace_files",
        "writable",
    )

    def __init__(
        self,
        given: dict[str, object],
        workspace: str = "",
        writable: object = (),
        extra_system_calls: dict[str, list[int]] | None = None,
    ) -> None:
        """Raises ValueError for a limit that is not an unsigned integer.

        `workspace`: the folder whose files the bridge stores, empty if it stores none. `writable`: folders that code
        can write to. `extra_system_calls`: for each machine, the numbers of calls that the filter also allows.
        """

        def of(name: str, default: int) -> int:
            value = given.get(name, default)
            if type(value) is not int or value < 0:
                raise ValueError(f"limits.{name} is not an unsigned integer")
            return value

        self.frame_to_sandbox_bytes = of("frame_to_sandbox_bytes", 64 << 20)
        self.frame_to_bridge_bytes = of("frame_to_bridge_bytes", 16 << 20)
        self.frozen_copy_bytes = of("frozen_copy_bytes", 0)
        self.checkpoints = of("checkpoints", 0)
        self.checkpoint_bytes = of("checkpoint_bytes", 0)
        self.frame_depth = of("frame_depth", 128)
        self.calls_in_flight = of("calls_in_flight", 64)
        self.arguments_in_flight_bytes = of("arguments_in_flight_bytes", 32 << 20)
        self.memory_bytes = of("memory_bytes", 0)
        self.open_files = of("open_files", 1024)
        self.own_kernel = of("own_kernel", 0)
        self.processes = of("processes", 0)
        self.jobs = of("jobs", 0)
        self.heartbeat_ms = of("heartbeat_ms", 0)
        self.allow_unfiltered = of("allow_unfiltered", 0)
        self.workspace_files = of("workspace_files", 0)
        self.workspace_bytes = of("workspace_bytes", 0)
        self.trace_denied = of("trace_denied", 0)
        self.workspace = workspace
        self.writable = [str(path) for path in writable] if isinstance(writable, list | tuple) else []
        self.extra_system_calls = extra_system_calls or {}
