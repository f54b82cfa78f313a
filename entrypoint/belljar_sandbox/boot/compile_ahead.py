"""Compiles what every sandbox imports up to its first run, so that later sandboxes of the same image need not.

The bridge stores the code and sends it with later bundles. Otherwise, compiling takes most of the time of a start.
"""

from __future__ import annotations

from binascii import b2a_base64
from marshal import dumps

from ..kernel.type_names import Any
from ..wire.frames import Frame

# What a worker imports up to its first run, about in this order.
_OF_WORKER = (
    *("boot.worker", "worker", "worker.confinement", "kernel.landlock", "kernel.seccomp", "worker.streams"),
    *("calls", "calls.port", "calls.resources", "calls.results", "calls.awaitable", "display", "display.images"),
    *("calls.placeholder", "worker.saved_files", "calls.call_check", "calls.calls", "worker.run_origin"),
    *("worker.after_import", "calls.arguments", "calls.proxies", "run", "run.interpreter"),
    *("display.matplotlib_figures", "run.mutation_check", "run.report", "display.text", "worker.interrupts"),
    *("run.sources", "run.left_running", "run.python_warnings", "skills", "skills.loader", "worker.account"),
    *(
        "worker.channel",
        "worker.fork_start_method",
        "worker.frozen_copy",
        "worker.import_memory",
        "worker.workspace_watch",
    ),
)
NAMES = ("mcp.runtime", *(f"belljar_sandbox.{name}" for name in _OF_WORKER), "mcp.servers", "mcp")


def compile_ahead(importer: Any) -> Frame:
    """Returns the frame with the code of what PID 1 has imported and of what a worker will import.

    `importer`: that of bootstrap.py. Called before the first worker exists, so that user code cannot have changed what
    is in the frame.
    """
    # Public as importlib.util.MAGIC_NUMBER, whose import would take a millisecond.
    from _frozen_importlib_external import MAGIC_NUMBER

    importer.fresh.pop(__name__)
    for name in NAMES:
        importer.compiled(name)
    importer.code.update((name, dumps(code)) for name, code in importer.fresh.items())
    importer.fresh.clear()
    modules = {name: b2a_base64(code, newline=False).decode() for name, code in importer.code.items()}
    return {"type": "code", "magic": MAGIC_NUMBER.hex(), "modules": modules}
