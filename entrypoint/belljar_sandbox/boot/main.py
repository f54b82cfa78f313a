"""The first function of the sandbox: it starts the supervisor, and in each fork of it the worker."""

from __future__ import annotations

from .precompile import Precompiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .precompile import Importer


def main(rest: bytes, importer: Importer) -> NoReturn:
    """`rest`: the bytes that were read beyond the bundle."""
    precompiler = Precompiler(importer)
    # Only now: the other process compiles meanwhile.
    from ..supervisor.main import supervise

    worker = supervise(rest, precompiler.take, _preload)
    from .worker import main as work

    work(*worker)


def _preload() -> None:
    from .preload import load_the_rest

    load_the_rest()
