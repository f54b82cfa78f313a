"""Shows things: a picture of them where there is one, else their text.

It does not decide how many pictures a reply has room for; `images` does.
"""

from __future__ import annotations

from binascii import a2b_base64

from .images import IMAGES, kind_of
from .matplotlib_figures import close, drawn, figure_of, is_open
from .values import shown

_METHODS = (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"))


def show(thing: object) -> None:
    """What `runtime.show` does."""
    figure = figure_of(thing)
    if figure is not None:
        IMAGES.show("image/png", drawn(figure))
        close(figure)
        return
    picture = _bytes_of(thing) if isinstance(thing, bytes | bytearray | memoryview) else _own_picture(thing)
    if picture is not None:
        IMAGES.show(*picture)
    else:
        print(shown(thing))


def show_value(value: object) -> None:
    """The picture of a last expression beside its text. One that cannot be made is no reason to fail."""
    try:
        picture = _own_picture(value)
        if picture is None:
            figure = figure_of(value)
            if figure is not value or is_open(figure):
                return
            picture = ("image/png", drawn(figure))
        IMAGES.show(*picture)
    except Exception:
        pass


def _bytes_of(thing: bytes | bytearray | memoryview) -> tuple[str, bytes] | None:
    data = bytes(thing)
    kind = kind_of(data)
    return None if kind is None else (kind, data)


def _own_picture(thing: object) -> tuple[str, bytes] | None:
    """As notebooks ask for it; of the class, since an object may answer to any name."""
    for mime_type, name in _METHODS:
        make = getattr(type(thing), name, None)
        made = make(thing) if make is not None and not isinstance(thing, type) else None
        # With or without metadata, as bytes or as base64.
        data = made[0] if isinstance(made, tuple) and made else made
        if isinstance(data, str):
            data = a2b_base64(data)
        if isinstance(data, bytes):
            return mime_type, data
    return None
