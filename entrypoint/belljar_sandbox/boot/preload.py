"""Imports what is imported at need otherwise, while nobody waits for it."""

from __future__ import annotations


def load_the_rest() -> None:
    """All that a worker and its runs may need: a first run that comes at once does not wait for it."""

    from ..run.report import prepare
    from ..worker import channel, event_loop, frozen_copy, import_memory, workspace_watch  # noqa: F401

    prepare()
