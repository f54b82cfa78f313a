"""The limits that the bridge sets in its hello.

A plain class, because the import of dataclasses takes 7 ms at each start.
"""

from __future__ import annotations


class Limits:
    # Each limit that is a number, with its value if the bridge does not set it.
    frame_to_sandbox_bytes = 64 << 20
    frame_to_bridge_bytes = 16 << 20
    frozen_copy_bytes = 0
    checkpoints = 0
    checkpoint_bytes = 0
    frame_depth = 128
    calls_in_flight = 64
    arguments_in_flight_bytes = 32 << 20
    memory_bytes = 0
    open_files = 1024
    own_kernel = 0
    own_user = 0
    executable_places = 0
    network_denied = 0
    processes = 0
    jobs = 0
    heartbeat_ms = 0
    allow_unfiltered = 0
    workspace_files = 0
    workspace_bytes = 0
    trace_denied = 0

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
        for name, default in vars(Limits).items():
            if type(default) is int and name in given:
                value = given[name]
                if type(value) is not int or value < 0:
                    raise ValueError(f"limits.{name} is not an unsigned integer")
                setattr(self, name, value)
        self.workspace = workspace
        self.writable = [str(path) for path in writable] if isinstance(writable, list | tuple) else []
        self.extra_system_calls = extra_system_calls or {}
