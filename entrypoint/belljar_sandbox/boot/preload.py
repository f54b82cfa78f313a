"""Imports, while the sandbox is idle, what is otherwise imported when it is used."""

from __future__ import annotations


def load_the_rest() -> None:
    """Imports everything that a worker and its runs may need. A first run that comes at once does not wait for it."""

    from ..run.report import prepare
    from ..worker import channel, event_loop, frozen_copy, import_memory, workspace_watch  # noqa: F401

    prepare()
