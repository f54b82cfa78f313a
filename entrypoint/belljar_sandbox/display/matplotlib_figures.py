"""matplotlib's figures as images of the run: those that are open at its end, and those of plt.show() as they are then.

It does not import matplotlib: without it there are none.
"""

from __future__ import annotations

import sys
from io import BytesIO

from ..worker.after_import import AfterImport
from .images import IMAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_DPI = 100


def take_figures() -> None:
    """Shows and closes them. May run user code, hence may raise anything."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    numbers = pyplot.get_fignums() if pyplot is not None else []
    if pyplot is None or not numbers:
        return
    try:
        for done, number in enumerate(numbers):
            if not IMAGES.has_room():
                IMAGES.leave_out(len(numbers) - done)
                break
            IMAGES.show("image/png", drawn(pyplot.figure(number)))
    finally:
        pyplot.close("all")


def figure_of(thing: object) -> Any:
    """The figure that it is, or is part of; None when it is neither."""
    artist = getattr(sys.modules.get("matplotlib.artist"), "Artist", None)
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if not (isinstance(artist, type) and isinstance(figure, type) and isinstance(thing, artist)):
        return None
    found = getattr(thing, "figure", None)
    return found if isinstance(found, figure) else None


def is_open(figure: object) -> bool:
    """Whether it is shown at the end anyway."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return pyplot is not None and bool(pyplot.fignum_exists(getattr(figure, "number", None)))


def close(figure: object) -> None:
    """So that it is not shown again at the end."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)


def drawn(figure: Any) -> bytes:
    """As PNG."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()


def install() -> None:
    """From here on plt.show() shows, where the backend that draws to memory would only warn."""

    def show(*_: object, block: bool | None = None, **__: object) -> None:
        """Shows all open figures, and closes them."""
        # plt.pause() shows without waiting, and goes on with the figure.
        if block is not False:
            take_figures()

    def replace_show(pyplot: ModuleType) -> None:
        vars(pyplot)["show"] = show

    sys.meta_path.insert(0, AfterImport("matplotlib.pyplot", replace_show))
