"""matplotlib figures that a run leaves open, as PNG.

It does not import matplotlib: without it, or without open figures, there is nothing to do.
"""

from __future__ import annotations

import sys
from binascii import b2a_base64
from io import BytesIO

FIGURES_MAX = 4
BASE64_BYTES_MAX = 2_000_000
_DPI = 100


def take_figures(images: list[dict[str, str]], notes: list[str]) -> None:
    """Adds and closes them. May run user code, hence may raise anything."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot is not None else []
    if pyplot is None or not numbers:
        return
    left_out = []
    room = BASE64_BYTES_MAX
    try:
        for number in numbers:
            file = BytesIO()
            if len(images) < FIGURES_MAX:
                pyplot.figure(number).savefig(file, format="png", dpi=_DPI)
            encoded = b2a_base64(file.getvalue(), newline=False).decode()
            if not encoded or len(encoded) > room:
                left_out.append(str(number))
                continue
            room -= len(encoded)
            images.append({"mime_type": "image/png", "base64": encoded})
    finally:
        pyplot.close("all")
    if left_out:
        notes.append(
            f"figures left out and closed: {', '.join(left_out)} (at most {FIGURES_MAX} and {BASE64_BYTES_MAX:,} bytes"
            " of base64 per run); save them with savefig"
        )
