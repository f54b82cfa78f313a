"""Imports modules while the sandbox is idle, so that their first use does not have to wait for the import."""

from __future__ import annotations


def load_the_rest() -> None:
    """Imports modules that a worker and its runs may need. A first run that arrives at once does not wait for them."""

    from ..run.report import prepare
    from ..worker import channel, event_loop, frozen_copy, import_memory, workspace_watch  # noqa: F401

    prepare()
