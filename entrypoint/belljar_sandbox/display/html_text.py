"""Extracts the text of HTML, for objects that have no other text.

Rows of tables become lines, and cells are separated by bars. Imported when there is such an object.
"""

from __future__ import annotations

from html.parser import HTMLParser

_SILENT = frozenset(("script", "style", "head", "title"))
_LINES = frozenset(("br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "pre", "table", "tr", "ul", "ol"))
_CELLS = frozenset(("td", "th"))
# How much of the source is read. The caller cuts the text again.
_SOURCE_CHARACTERS_MAX = 200_000


def text_of(source: str) -> str:
    reader = _Reader()
    reader.feed(source[:_SOURCE_CHARACTERS_MAX])
    reader.close()
    lines = ("".join(reader.parts)).split("\n")
    cleaned = (" ".join(line.split()).strip(" |") for line in lines)
    return "\n".join(line for line in cleaned if line)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _LINES:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _CELLS:
            self.parts.append(" | ")
        elif tag in _LINES:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data.replace("\n", " "))
