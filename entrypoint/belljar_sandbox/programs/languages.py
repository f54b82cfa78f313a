"""The languages of runtime.run: their names, their compilers or interpreters, and errors for those that are missing."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from shutil import which

BUILD = "belljar image build --with-languages"


class Language:
    """How a source file becomes a process. `compiler` makes ./program from it; without one, `command` runs the file."""

    def __init__(
        self,
        name: str,
        file: str,
        command: tuple[str, ...] = (),
        compiler: tuple[str, ...] = (),
        libraries: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.file = file
        self.command = command
        self.compiler = compiler
        self.libraries = libraries
        self.endings = (f".{file.partition('.')[2]}",) if compiler else ()

    def program(self) -> str | None:
        """The path of the interpreter or compiler; None if the image does not have it."""
        return which((self.command or self.compiler)[0])


# A compiled program is linked statically and position independent, since `native` has to start it without executing a
# file.
_WHOLE = ("-O1", "-Wall", "-static-pie", "-fPIE", "-fdiagnostics-color=never", "-o", "program")
LANGUAGES = {
    language.name: language
    for language in (
        # Without -I, which hides the modules beside the file.
        Language("python", "main.py", (sys.executable or "python3", "-E", "-s", "-u")),
        Language("bash", "main.sh", ("bash", "--noprofile", "--norc")),
        Language("javascript", "main.js", ("node",)),
        Language("c", "main.c", compiler=("gcc", *_WHOLE), libraries=("-lm",)),
        Language("c++", "main.cpp", compiler=("g++", *_WHOLE)),
        Language("ruby", "main.rb", ("ruby",)),
        Language(
            "php", "main.php", ("php", "-d", "display_errors=stderr", "-d", "log_errors=0", "-d", "html_errors=0")
        ),
    )
}
_OTHER_NAMES = {
    "cpp": "c++",
    "cxx": "c++",
    "js": "javascript",
    "node": "javascript",
    "nodejs": "javascript",
    "py": "python",
    "python3": "python",
    "rb": "ruby",
    "sh": "bash",
    "shell": "bash",
}


def language(name: str) -> Language:
    """Returns the language of this name. ValueError if it is unknown or the image does not have it."""
    if type(name) is not str:
        raise TypeError(f"the language is a str, not {type(name).__name__}")
    plain = name.strip().lower()
    found = LANGUAGES.get(_OTHER_NAMES.get(plain, plain))
    if found is None:
        near = get_close_matches(plain, [*LANGUAGES, *_OTHER_NAMES], 1)
        guess = f"did you mean {_OTHER_NAMES.get(near[0], near[0])!r}? " if near else ""
        raise ValueError(f"runtime.run knows no language {name[:40]!r}; {guess}it runs {', '.join(LANGUAGES)}")
    if found.program() is None:
        raise RuntimeError(
            f"{found.name} is not in this sandbox's image, which has {', '.join(available())}; "
            f"the user adds it with `{BUILD} {found.name} --use`, or without a container engine by installing it"
        )
    return found


def available() -> tuple[str, ...]:
    """Returns the names of the languages that the image has."""
    return tuple(name for name, language in LANGUAGES.items() if language.program() is not None)
