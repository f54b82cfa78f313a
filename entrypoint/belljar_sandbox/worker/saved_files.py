"""The files that a run saves for the user: they are in the workspace, and the reply names them."""

from __future__ import annotations

import os

from ..wire.workspace_scan import NOT_KEPT

FILES_MAX = 20


class SavedFiles:
    """The saved files of the current run. `root`: the workspace; empty if the bridge stores no files."""

    def __init__(self) -> None:
        self.root = ""
        self.paths: list[str] = []

    def begin_run(self) -> None:
        self.paths = []

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> str:
        """Saves a file and returns its path in the workspace. A file from elsewhere is copied there."""
        if not self.root:
            raise RuntimeError("this sandbox keeps no files")
        given = os.fspath(path)
        if not isinstance(given, str):
            raise TypeError(
                f"path is text or a Path, not {type(given).__name__}; open(path, 'wb') writes bytes to a file"
            )
        source = os.path.realpath(given)
        if not os.path.isfile(source):
            what = "is no plain file" if os.path.lexists(source) else "is not there"
            if os.path.isdir(source):
                what = "is a folder; save its files, or an archive of them"
            raise FileNotFoundError(f"{given!r} {what}")
        root = os.path.realpath(self.root)
        inside = os.path.commonpath((root, source)) == root
        if inside and name is None:
            kept = os.path.relpath(source, root)
        else:
            kept = os.path.normpath(os.path.basename(source) if name is None else name)
            if os.path.isabs(kept) or kept.split("/")[0] in ("..", "."):
                raise ValueError(f"{name!r} is no name of a file below {self.root}")
        if not NOT_KEPT.isdisjoint(kept.split("/")):
            raise ValueError(f"{kept!r} would not be kept, as nothing in {', '.join(sorted(NOT_KEPT))} is; give a name")
        if kept not in self.paths and len(self.paths) == FILES_MAX:
            raise ValueError(f"a run hands over at most {FILES_MAX} files; put them into one archive")
        target = os.path.join(root, kept)
        if target != source:
            import shutil  # at need: a first run waits for what is imported above

            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target)
        if kept not in self.paths:
            self.paths.append(kept)
        return os.path.join(self.root, kept)


SAVED = SavedFiles()
