"""Shows objects: as an image if they have one, otherwise as text.

`images` decides how many images fit into a reply.
"""

from __future__ import annotations

import os
from binascii import a2b_base64

from .images import IMAGES, SHOWN_TYPES, kind_of
from .matplotlib_figures import close, drawn, figure_of, is_open
from .values import shown

# How many blocks of a result are looked at.
_BLOCKS_MAX = 100
_METHODS = (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"))


def show(thing: object) -> None:
    """Implements `runtime.show` for everything except results of calls."""
    figure = figure_of(thing)
    if figure is not None:
        IMAGES.show("image/png", drawn(figure))
        close(figure)
        return
    if isinstance(thing, str | os.PathLike):
        thing = _content_of(thing)
    picture = _bytes_of(thing) if isinstance(thing, bytes | bytearray | memoryview) else _own_picture(thing)
    if picture is not None:
        IMAGES.show(*picture)
    else:
        print(shown(thing))


def show_value(value: object) -> None:
    """Shows the image of a last expression in addition to its text. If that fails, the run does not fail."""
    try:
        of_result = [value, *value[:_BLOCKS_MAX]] if isinstance(value, list) else [value]
        for picture in map(_of_result, of_result):
            if picture is not None:
                IMAGES.show(*picture)
        picture = _own_picture(value)
        if picture is None:
            figure = figure_of(value)
            if figure is not value or is_open(figure):
                return
            picture = ("image/png", drawn(figure))
        IMAGES.show(*picture)
    except Exception:
        pass


def _of_result(thing: object) -> tuple[str, bytes] | None:
    """Returns the image that a tool has returned."""
    make = getattr(type(thing), "_belljar_picture", None)
    return None if make is None else make(thing)


def _content_of(named: str | os.PathLike[str]) -> object:
    """Returns the content of the image file that a text names, or else the text. OSError if there is no such file."""
    path = os.fspath(named)
    is_image = path.lower().endswith(tuple(f".{ending}" for ending in (*SHOWN_TYPES.values(), "jpeg")))
    if "\n" in path or not is_image:
        return named
    with open(path, "rb") as file:
        return file.read()


def _bytes_of(thing: bytes | bytearray | memoryview) -> tuple[str, bytes] | None:
    data = bytes(thing)
    kind = kind_of(data)
    return None if kind is None else (kind, data)


def _own_picture(thing: object) -> tuple[str, bytes] | None:
    """Returns the image that an object draws of itself for notebooks. The method is looked up on the class, since some
    objects have an attribute of every name."""
    for mime_type, name in _METHODS:
        make = getattr(type(thing), name, None)
        made = make(thing) if make is not None and not isinstance(thing, type) else None
        # The method may return a tuple of the image and metadata, and the image as bytes or base64.
        data = made[0] if isinstance(made, tuple) and made else made
        if isinstance(data, str):
            data = a2b_base64(data)
        if isinstance(data, bytes):
            return mime_type, data
    return None
