"""The entry point: starts the supervisor, and the worker in each fork of it."""

from __future__ import annotations

from .precompile import Precompiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .precompile import Importer


def main(rest: bytes, importer: Importer) -> NoReturn:
    """`rest`: the bytes that were read after the bundle."""
    precompiler = Precompiler(importer)
    # Imported only now, while the other process compiles.
    from ..supervisor.main import supervise

    worker = supervise(rest, precompiler.take, _preload)
    from .worker import main as work

    work(*worker)


def _preload() -> None:
    from .preload import load_the_rest

    load_the_rest()
