"""Removes older copies of installed packages from the base image, so that one copy is imported as a whole.

Of two folders of one name, Python takes the one with an `__init__.py`, although it comes later on the path: parts of
the older copy would be imported beside the newer one. Only files that the distribution or a RECORD lists are removed.
usage: keep-one-copy.py LIST, a file with the `.dist-info` folders of what was installed
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path


def name_of(one: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower()


def files_of(info: Path) -> list[Path]:
    """Returns the files of a copy, which lie in the folder of its metadata; empty: nobody lists them."""
    folder, listed = info.parent, []
    try:
        owner = subprocess.run(["dpkg", "-S", str(info)], capture_output=True, text=True, check=False).stdout
        for package in owner.partition(": ")[0].split(", ") if ": " in owner else []:
            said = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout
            listed += [Path(line) for line in said.splitlines()]
    except FileNotFoundError:
        pass
    if not listed and (info / "RECORD").is_file():
        listed = [folder / file for file in Distribution.at(info).files or []]
    return [path for path in listed if folder in path.parents and ".." not in path.parts and not path.is_dir()]


def remove(path: Path, folder: Path) -> None:
    path.unlink(missing_ok=True)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc") if path.suffix == ".py" else []:
        compiled.unlink()
    for parent in (path.parent / "__pycache__", *path.parents):
        if parent == folder or (parent.is_dir() and any(parent.iterdir())):
            break
        if parent.is_dir():
            parent.rmdir()


def main() -> None:
    installed = [Path("/", line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    # Packages have copies of others in folders of their own, which are not on the path.
    kept = [info for info in installed if str(info.parent) in sys.path]
    new = {name_of(Distribution.at(info)): info for info in kept}
    ours = {info.parent / file for info in kept for file in Distribution.at(info).files or []}
    for folder in dict.fromkeys(Path(entry) for entry in sys.path if entry):
        for info in sorted([*folder.glob("*.dist-info"), *folder.glob("*.egg-info")]):
            old = Distribution.at(info)
            winner = new.get(name_of(old))
            if winner is None or info in kept or Distribution.at(winner).version == old.version:
                continue
            # It is read before its file goes.
            copy = f"{old.metadata['Name']} {old.version}"
            files = [path for path in files_of(info) if path not in ours]
            for path in files:
                remove(path, folder)
            said = "was removed" if files else "stays there, too, since nobody lists its files"
            version = Distribution.at(winner).version
            print(f"keep-one-copy: {copy} in {folder} {said}: code imports {version} from {winner.parent}")


if __name__ == "__main__":
    main()
