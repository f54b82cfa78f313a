"""Files of the workspace put aside and back: all of them as they were, whatever was done to them meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox import Sandbox

SNAPSHOT = "__import__('belljar_sandbox.worker.workspace_snapshot').worker.workspace_snapshot"


def content(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return path.read_text() if path.is_file() else ""


def everything(root: Path) -> dict[str, tuple[int, str]]:
    found = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder) / name
            found[str(path.relative_to(root))] = (path.lstat().st_mode, content(path))
    return found


def test_all_is_as_it_was_whatever_runs_did_meanwhile(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    (root / "in" / "deep").mkdir(parents=True)
    for name in ("same", "changed", "appended", "gone", "becomes-a-folder", "in/deep/x", "in/becomes-a-link"):
        (root / name).write_text(name)
    (root / "script").write_text("x")
    (root / "script").chmod(0o700)
    (root / "link").symlink_to("same")
    (root / "empty").mkdir()
    before = everything(root)
    same = (root / "same").stat()
    with Sandbox(workspace=str(root)) as sandbox:
        assert sandbox.run(f"{SNAPSHOT}.put_aside()")["outcome"] == "finished"
        (root / "changed").write_text("CHANGED")
        # Of the same size and times.
        about = (root / "appended").stat()
        (root / "appended").write_text("APPENDED")
        os.utime(root / "appended", ns=(about.st_atime_ns, about.st_mtime_ns))
        (root / "gone").unlink()
        (root / "becomes-a-folder").unlink()
        (root / "becomes-a-folder").mkdir()
        (root / "becomes-a-folder" / "x").write_text("x")
        (root / "in" / "becomes-a-link").unlink()
        (root / "in" / "becomes-a-link").symlink_to("/etc/passwd")
        (root / "link").unlink()
        (root / "link").symlink_to("gone")
        (root / "new").mkdir()
        (root / "new" / "y").write_text("y")
        (root / "empty").rmdir()
        os.mkfifo(root / "pipe")
        assert sandbox.run(f"{SNAPSHOT}.put_back()")["outcome"] == "finished"
    (root / "pipe").unlink()
    assert everything(root) == before
    assert (root / "same").stat().st_ino == same.st_ino, "what is as it was is left alone"
