"""The images of a run: those that its code shows, and the matplotlib figures that it leaves open, as PNG.

It does not import matplotlib: without it, or without open figures, there is nothing to take.
"""

from __future__ import annotations

import sys
from binascii import b2a_base64
from io import BytesIO

IMAGES_MAX = 4
BASE64_BYTES_MAX = 2_000_000
_BOUNDS = f"at most {IMAGES_MAX} and {BASE64_BYTES_MAX:,} bytes of base64 per run"
_DPI = 100
_NAMES_MAX = 5


class Images:
    def __init__(self) -> None:
        self.begin_run()

    def begin_run(self) -> None:
        self.taken: list[dict[str, str]] = []
        self._room = BASE64_BYTES_MAX
        self._left_out: list[str] = []
        self._left_out_count = 0

    def add(self, mime_type: str, data: bytes) -> bool:
        """Whether it fits."""
        # Known before it is encoded, which may be more than there is memory for.
        size = (len(data) + 2) // 3 * 4
        if not data or self.full() or size > self._room:
            return False
        self._room -= size
        self.taken.append({"mime_type": mime_type, "base64": b2a_base64(data, newline=False).decode()})
        return True

    def full(self) -> bool:
        return len(self.taken) >= IMAGES_MAX

    def show(self, mime_type: str, data: bytes) -> None:
        """Adds it, or has it named among those left out."""
        if not self.add(mime_type, data):
            self._left_out_count += 1
            if len(self._left_out) < _NAMES_MAX:
                self._left_out.append(f"{mime_type} of {len(data):,} bytes")

    def note_left_out(self, notes: list[str]) -> None:
        if self._left_out:
            unnamed = self._left_out_count - len(self._left_out)
            more = f" and {unnamed} more" if unnamed else ""
            notes.append(f"images left out: {', '.join(self._left_out)}{more} ({_BOUNDS}); keep them with .save(path)")


# The one of this process, for results that know no run: one is shown in the run that shows it, whichever made it.
IMAGES = Images()


def take_figures(images: Images, notes: list[str]) -> None:
    """Adds and closes them. May run user code, hence may raise anything."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot is not None else []
    if pyplot is None or not numbers:
        return
    left_out = []
    try:
        for number in numbers:
            file = BytesIO()
            if not images.full():
                pyplot.figure(number).savefig(file, format="png", dpi=_DPI)
            if not images.add("image/png", file.getvalue()):
                left_out.append(str(number))
    finally:
        pyplot.close("all")
    if left_out:
        notes.append(f"figures left out and closed: {', '.join(left_out)} ({_BOUNDS}); save them with savefig")
