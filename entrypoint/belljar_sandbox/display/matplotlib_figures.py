"""Shows matplotlib's figures as images of the run: at plt.show(), and at the end of the run those still open.

It does not import matplotlib: code that has not imported it has no figures.
"""

from __future__ import annotations

import sys
from io import BytesIO

from ..kernel.type_names import Any
from ..worker.after_import import after_import
from .images import IMAGES

_DPI = 100


def take_figures() -> None:
    """Shows and closes all open figures. It may run user code, and so may raise anything."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot is not None else []
    if pyplot is None or not numbers:
        return
    try:
        for done, number in enumerate(numbers):
            if not IMAGES.has_room():
                IMAGES.left_out += len(numbers) - done
                break
            IMAGES.show("image/png", drawn(pyplot.figure(number)))
    finally:
        pyplot.close("all")


def drop_figures() -> None:
    """Closes the figures of a run that failed half-way, which would appear in the next run's reply."""
    try:
        close("all")
    except BaseException:  # raised by callbacks of user code
        pass


def figure_of(thing: object) -> Any:
    """Returns the figure that an object is or belongs to; None if there is none."""
    artist = getattr(sys.modules.get("matplotlib.artist"), "Artist", None)
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if not (isinstance(artist, type) and isinstance(figure, type) and isinstance(thing, artist)):
        return None
    found = getattr(thing, "figure", None)
    return found if isinstance(found, figure) else None


def is_open(figure: object) -> bool:
    """Whether the figure is open, and so shown at the end of the run anyway."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return pyplot is not None and bool(pyplot.fignum_exists(getattr(figure, "number", None)))


def close(figure: object) -> None:
    """Closes the figure, so that it is not shown again at the end of the run. "all" closes all."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)


def drawn(figure: Any) -> bytes:
    """Draws the figure as PNG."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()


def install() -> None:
    """Makes plt.show() show figures. That of the backend only warns, since the backend has no window."""

    def show(*_: object, block: bool | None = None, **__: object) -> None:
        """Shows all open figures, and closes them."""
        # plt.pause() calls this with block=False, and continues to use the figure.
        if block is not False:
            take_figures()

    after_import("matplotlib.pyplot", lambda pyplot: vars(pyplot).update(show=show))
