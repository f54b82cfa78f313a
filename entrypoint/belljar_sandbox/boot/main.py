"""The entry point: starts the supervisor, and the worker in each fork of it."""

from __future__ import annotations

import os
import time

from ..kernel.type_names import Any, NoReturn
from ..supervisor.main import supervise
from ..wire.frames import Frame
from .preload import load_the_rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from remote.stream import ResumableStream


def main(rest: bytes, importer: Any, wants_code: bool, stream: ResumableStream | None) -> NoReturn:
    """`rest`: the bytes that were read after the bundle. `importer`: that of bootstrap.py. `wants_code`: whether the
    bridge stores compiled code. `stream`: that of a bridge on another machine."""

    def compile_ahead() -> Frame:
        from .compile_ahead import compile_ahead

        return compile_ahead(importer)

    if not os.path.exists(f"/usr/share/zoneinfo/{os.environ.get('TZ', 'UTC')}"):
        # Without a tz database the C library takes UTC for the zone, and shows it under the zone's name.
        os.environ["TZ"] = "UTC"
        time.tzset()
    worker = supervise(rest, compile_ahead if wants_code else None, load_the_rest, stream)
    from .worker import main as work

    work(*worker)
