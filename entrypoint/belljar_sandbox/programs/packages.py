"""Lists what the image has: Python packages, and the languages of runtime.run. Imported when it is used."""

from __future__ import annotations

from importlib.metadata import distributions

from ..calls.awaitable import Awaitable
from ..display.values import filled
from .languages import available

LINE_CHARACTERS_MAX = 100
# Modules whose package has another name that one would not guess.
INSTALLED_AS = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "fitz": "pymupdf",
    "git": "GitPython",
    "jwt": "PyJWT",
    "pptx": "python-pptx",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "PyYAML",
}


class Packages(Awaitable, dict[str, str]):
    """The versions of packages by their names, sorted; `languages` has those of runtime.run."""

    def __init__(self) -> None:
        found: dict[str, tuple[str, str]] = {}
        self._hidden: list[str] = []
        for one in distributions():
            name = one.metadata["Name"]
            if not name:
                continue
            # Of several copies, the first on the path is imported.
            imported = found.setdefault(name.lower().replace("_", "-").replace(".", "-"), (name, one.version))
            if imported[1] != one.version:
                self._hidden.append(f"{name} {one.version}")
        super().__init__(sorted(found.values(), key=lambda item: item[0].lower()))
        self.languages = available()

    def __repr__(self) -> str:
        packages = ",\n".join(filled(map(" ".join, self.items()), LINE_CHARACTERS_MAX)) or "no package"
        hidden = [f"also there, and hidden by other versions: {', '.join(self._hidden)}"] if self._hidden else []
        return "\n".join([packages, *hidden, f"languages: {', '.join(self.languages)}"])


def installed_as(module: str) -> str:
    """Returns the name of the package that has this module."""
    return INSTALLED_AS.get(module, module)
