"""A snapshot of the workspace: all files are as they were, whatever was done to them meanwhile."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar_sandbox.supervisor.workspace_snapshot import _SNAPSHOT as SNAPSHOT
from sandbox import Sandbox


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Outside of containers, all sandboxes of this machine have the same snapshot. The tests may run at once."""
    with Path(tempfile.gettempdir(), f"belljar-test-snapshot-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A test before may have left one.
        shutil.rmtree(SNAPSHOT, ignore_errors=True)
        yield


def snapshot(sandbox: Sandbox, what: str) -> object:
    """Returns why it failed."""
    sandbox.supervise({"type": what})
    return sandbox.wait("snapshot_done").get("failed")


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
        assert snapshot(sandbox, "restore_snapshot") is None, "there is none"
        assert snapshot(sandbox, "take_snapshot") is None
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
        assert snapshot(sandbox, "restore_snapshot") is None
        assert not os.path.lexists(SNAPSHOT)
    (root / "pipe").unlink()
    assert everything(root) == before
    assert (root / "same").stat().st_ino == same.st_ino, "what is as it was is left alone"


def test_a_snapshot_that_fails_says_why_and_runs_go_on(tmp_path: Path) -> None:
    with Sandbox(workspace=str(tmp_path / "missing")) as sandbox:
        failed = snapshot(sandbox, "take_snapshot")
        assert isinstance(failed, str) and failed.startswith("[Errno 2] No such file or directory: ")
        assert sandbox.run("print(1)")["outcome"] == "finished"


def test_a_symlink_that_code_puts_in_place_of_a_folder_is_restored_as_one(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (root / "folder", outside):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name)
    with Sandbox(workspace=str(root)) as sandbox:
        assert snapshot(sandbox, "take_snapshot") is None
        # In the snapshot, which code can write to as well.
        copied = Path(SNAPSHOT, "folder")
        assert (copied / "file").read_text() == "folder"
        (copied / "file").unlink()
        copied.rmdir()
        copied.symlink_to(outside)
        assert snapshot(sandbox, "restore_snapshot") is None
    assert (root / "folder").is_symlink()
    assert (outside / "file").read_text() == "outside"
