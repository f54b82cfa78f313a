"""The images of a run: those that fit its reply, and the others as files.

It makes none: whoever has one gives it here.
"""

from __future__ import annotations

import os
from binascii import b2a_base64

IMAGES_MAX = 4
BASE64_BYTES_MAX = 2_000_000
FILES_MAX = 16
# What clients show as pictures, and how files of it are named.
SHOWN_TYPES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_FOLDERS = ("/workspace", "/tmp")
_ENDING_CHARACTERS_MAX = 10
_open, _is_dir = open, os.path.isdir


class Images:
    def __init__(self) -> None:
        self.begin_run(0)

    def begin_run(self, run: int) -> None:
        self.taken: list[dict[str, str]] = []
        self._run = run
        self._count = 0
        self._room = BASE64_BYTES_MAX
        self._files: list[str] = []
        self._left_out = 0

    def show(self, mime_type: str, data: bytes) -> None:
        """Adds it to the reply, or where it does not fit writes it to a file that the reply names."""
        self._count += 1
        # Known before it is encoded, which may be more than there is memory for.
        size = (len(data) + 2) // 3 * 4
        if not data:
            self._left_out += 1
        elif mime_type in SHOWN_TYPES and len(self.taken) < IMAGES_MAX and size <= self._room:
            self._room -= size
            self.taken.append({"mime_type": mime_type, "base64": b2a_base64(data, newline=False).decode()})
        elif not self._save(mime_type, data):
            self._left_out += 1

    def leave_out(self, count: int) -> None:
        """So many more that nobody has made."""
        self._left_out += count

    def has_room(self) -> bool:
        """Whether one more could be shown or saved."""
        return len(self.taken) < IMAGES_MAX or len(self._files) < FILES_MAX

    def note(self, notes: list[str]) -> None:
        """Where those are that the reply does not show."""
        bounds = f"a reply shows {IMAGES_MAX} images of {BASE64_BYTES_MAX // 1_000_000} MB in all"
        if self._files:
            notes.append(f"images saved as files: {', '.join(self._files)} ({bounds})")
        if self._left_out:
            notes.append(f"images left out: {self._left_out} ({bounds}, and saves {FILES_MAX})")

    def _save(self, mime_type: str, data: bytes) -> bool:
        if len(self._files) >= FILES_MAX:
            return False
        path = f"{_folder()}/image-{self._run}-{self._count}.{_ending(mime_type)}"
        try:
            with _open(path, "wb") as file:
                file.write(data)
        except OSError:  # no room left
            return False
        self._files.append(path)
        return True


# The one of this process, for results that know no run: one is shown in the run that shows it, whichever made it.
IMAGES = Images()


def kind_of(data: bytes) -> str | None:
    """The MIME type of an image, told from its first bytes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _folder() -> str:
    return next(folder for folder in _FOLDERS if _is_dir(folder))


def _ending(mime_type: str) -> str:
    named = "".join(filter(str.isalnum, mime_type.partition("/")[2].partition("+")[0]))
    return SHOWN_TYPES.get(mime_type) or named[:_ENDING_CHARACTERS_MAX] or "bin"
