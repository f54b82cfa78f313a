"""A preprocessor of mdBook: makes links of the repository work in the book.

A page that names a file in a line `<!-- page: ../../FILE.md -->` becomes that file's text. Links to such a file lead to
its page. Links to other files outside the book, such as sources, become plain text. On a code host the pages work as
they are.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE = re.compile(r"^<!-- page: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"\[([^\]\n]*(?:\n[^\]\n]+)?)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def chapters(items: list[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def relinked(text: str, source: Path, page: Path, page_of: dict[Path, Path], inside: set[Path]) -> str:
    """The text of a file as it stands at a page of the book."""

    def link(found: re.Match[str]) -> str:
        label, path, anchor = found[1], found[2], found[3] or ""
        if not path:
            return found[0]
        target = (source.parent / path).resolve()
        target = page_of.get(target, target)
        if target not in inside:
            return label
        return f"[{label}]({os.path.relpath(target, page.parent)}{anchor})"

    return outside_code(text, lambda prose: LINK.sub(link, prose))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("```") else change(block) for block in blocks)


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    root = (Path(context["root"]) / context["config"]["book"]["src"]).resolve()
    pages = {root / chapter["path"]: chapter for chapter in chapters(book["items"]) if chapter["path"]}
    sources = {}
    for page, chapter in pages.items():
        found = PAGE.search(chapter["content"])
        sources[page] = (page.parent / found[1]).resolve() if found else page
    page_of = {source: page for page, source in sources.items()}
    for page, source in sources.items():
        text = pages[page]["content"] if source == page else source.read_text(encoding="utf-8")
        pages[page]["content"] = relinked(text, source, page, page_of, set(pages))
    json.dump(book, sys.stdout)


main()
