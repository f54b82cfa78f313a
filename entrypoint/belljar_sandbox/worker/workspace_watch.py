"""Detects whether files of the workspace have changed since the last run.

The supervisor finds out which files have changed when the bridge asks.
"""

from __future__ import annotations

from os import lstat as _lstat
from time import time_ns as _time_ns

from ..wire.workspace_scan import Bounds, State, WorkspaceScan, state_of

# Two changes within a tick of the file system's clock have the same time.
_SETTLED_NS = 1_000_000_000


class WorkspaceWatch:
    """Says whether files have changed since it was last asked."""

    def __init__(self, root: str, bounds: Bounds) -> None:
        self._root = root
        self._bounds = bounds
        self._found: dict[str, State] = {}
        # The fingerprint of an empty workspace: while it stays the same, the workspace is still empty.
        self._empty: State | None = None

    def has_changed(self) -> bool:
        """Never raises. True if it cannot find out."""
        try:
            folder = _lstat(self._root)
            if self._empty == state_of(folder):
                return False
            scan = WorkspaceScan(self._root, self._bounds, self._found)
        except Exception:  # for example, user code has left no recursion depth
            return True
        changed = scan.left_out_total > 0 or scan.found != self._found
        self._found = scan.found
        is_settled = _time_ns() - max(folder.st_mtime_ns, folder.st_ctime_ns) > _SETTLED_NS
        self._empty = state_of(folder) if is_settled and not scan.found and not scan.left_out_total else None
        return changed
