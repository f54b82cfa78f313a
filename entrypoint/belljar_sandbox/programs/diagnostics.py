"""Parses the messages of compilers and interpreters about a source. Messages that it does not know are not changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

DIAGNOSTICS_MAX = 100
MESSAGE_CHARACTERS_MAX = 500
TEXT_CHARACTERS_MAX = 200_000

_COMPILER = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:(?P<severity>error|warning|note)|fatal error): "
    r"(?P<message>.+)$",
    re.MULTILINE,
)
_LINKER = re.compile(
    r"^(?:.*?[ :])?(?P<file>[\w./+-]+\.\w+):\([^)\n]*\): "
    r"(?P<message>(?:undefined reference to|multiple definition of).+)$",
    re.MULTILINE,
)
_PYTHON = re.compile(
    r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+)\n(?:    (?P<source>.*)\n(?:    (?P<space> *)\^+.*\n)?)?'
    r"(?:Syntax|Indentation|Tab)Error: (?P<message>.+)$",
    re.MULTILINE,
)
_JAVASCRIPT = re.compile(
    r"^(?P<file>\S.*):(?P<line>\d+)\n.*\n(?P<space>[ \t]*)\^+\n+SyntaxError: (?P<message>.+)$", re.MULTILINE
)
_RUBY = re.compile(r"^(?:ruby: )?(?P<file>\S+?\.rb):(?P<line>\d+): (?P<message>syntax error.*)$", re.MULTILINE)
_PHP = re.compile(r"^(?:PHP )?Parse error: +(?P<message>.+) in (?P<file>\S+) on line (?P<line>\d+)$", re.MULTILINE)
_BASH = re.compile(r"^(?P<file>\S+): line (?P<line>\d+): (?P<message>syntax error.*)$", re.MULTILINE)
_PATTERNS = {
    "python": (_PYTHON,),
    "bash": (_BASH,),
    "javascript": (_JAVASCRIPT,),
    "c": (_COMPILER, _LINKER),
    "c++": (_COMPILER, _LINKER),
    "ruby": (_RUBY,),
    "php": (_PHP,),
}


class Diagnostic:
    """One message about a source. `line` and `column` count from 1, and are None if unknown."""

    __slots__ = ("column", "file", "line", "message", "severity")

    def __init__(self, file: str, line: int | None, column: int | None, severity: str, message: str) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.severity = severity
        self.message = message

    def __repr__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.severity}: {self.message}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Diagnostic) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


def diagnostics(language: str, text: str, folder: str, sources: dict[str, str]) -> list[Diagnostic]:
    """Returns the messages in a text about files in this folder. `sources`: texts by file name."""
    # The text is cut, since the patterns are tried again at each of its lines.
    text = text[:TEXT_CHARACTERS_MAX].replace(f"{folder}/", "")
    found = sorted(_found(language, text, sources), key=lambda one: one[0])
    return [diagnostic for _, diagnostic in found[:DIAGNOSTICS_MAX]]


def _found(language: str, text: str, sources: dict[str, str]) -> Iterator[tuple[int, Diagnostic]]:
    for pattern in _PATTERNS[language]:
        for count, match in enumerate(pattern.finditer(text)):
            if count == DIAGNOSTICS_MAX:
                break
            parts = match.groupdict()
            line = parts.get("line")
            column = parts.get("column")
            number = int(column) if column else _column(parts, sources)
            severity = parts.get("severity") or "error"
            message = parts["message"].strip()[:MESSAGE_CHARACTERS_MAX]
            diagnostic = Diagnostic(parts["file"], int(line) if line else None, number, severity, message)
            yield match.start(), diagnostic


def _column(parts: dict[str, str | None], sources: dict[str, str]) -> int | None:
    """Returns the column of the caret below the line. Python shows the line without its indentation."""
    space = parts.get("space")
    if space is None:
        return None
    shown, lines = parts.get("source"), sources.get(parts["file"] or "", "").splitlines()
    number = int(parts["line"] or 0)
    if shown is None or number > len(lines):
        return len(space) + 1
    line = lines[number - 1]
    return len(line) - len(line.lstrip()) + len(space) + 1
