"""Collects the images of a run: those that fit into the reply, and the others as files."""

from __future__ import annotations

import os
from binascii import b2a_base64

IMAGES_MAX = 4
BASE64_BYTES_MAX = 2_000_000
FILES_MAX = 16
# The types that clients show, with the endings of their files.
SHOWN_TYPES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_FOLDERS = ("/workspace", "/tmp")
_ENDING_CHARACTERS_MAX = 10
_open, _is_dir = open, os.path.isdir


class Images:
    def __init__(self) -> None:
        self.begin_run(0)

    def begin_run(self, run: int, *, as_files: bool = False) -> None:
        self.taken: list[dict[str, str]] = []
        self._shown_max = 0 if as_files else IMAGES_MAX
        self._run = run
        self._count = 0
        self._room = BASE64_BYTES_MAX
        self._files: list[str] = []
        # Also those that were not even drawn.
        self.left_out = 0

    def show(self, mime_type: str, data: bytes) -> None:
        """Adds an image to the reply, or writes it to a file that the reply names if it does not fit."""
        self._count += 1
        # The size in base64, computed without encoding the image: that might need more memory than there is.
        size = (len(data) + 2) // 3 * 4
        if not data:
            self.left_out += 1
        elif mime_type in SHOWN_TYPES and len(self.taken) < self._shown_max and size <= self._room:
            self._room -= size
            self.taken.append({"mime_type": mime_type, "base64": b2a_base64(data, newline=False).decode()})
        elif not self._save(mime_type, data):
            self.left_out += 1

    def has_room(self) -> bool:
        """Whether one more image can be shown or saved."""
        return len(self.taken) < self._shown_max or len(self._files) < FILES_MAX

    def note(self, notes: list[str]) -> None:
        """Adds notes about images that the reply does not show."""
        bounds = f"a reply shows {IMAGES_MAX} images of {BASE64_BYTES_MAX // 1_000_000} MB in all"
        if self._shown_max == 0:
            bounds = "this client shows no images"
        if self._files:
            notes.append(f"images saved as files: {', '.join(self._files)} ({bounds})")
        if self.left_out:
            notes.append(f"images left out: {self.left_out} ({bounds}, and saves {FILES_MAX})")

    def _save(self, mime_type: str, data: bytes) -> bool:
        if len(self._files) >= FILES_MAX:
            return False
        path = f"{_folder()}/image-{self._run}-{self._count}.{_ending(mime_type)}"
        try:
            with _open(path, "wb") as file:
                file.write(data)
        except OSError:  # no space left
            return False
        self._files.append(path)
        return True


# The images of this process: an image belongs to the run that shows it, whichever run made it.
IMAGES = Images()


def kind_of(data: bytes) -> str | None:
    """Returns the MIME type of an image by its first bytes; None if it is none of the known ones."""
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
