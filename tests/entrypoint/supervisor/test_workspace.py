"""The files of the workspace: what is told of them, and what is put back."""

from __future__ import annotations

import base64
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar_sandbox.wire import workspace_scan
from belljar_sandbox.worker.workspace_watch import WorkspaceWatch
from sandbox import Frame, Sandbox


class Kept:
    """The bridge's side: what it has been told."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | None] = {}
        self.executable: set[str] = set()
        self.left_out: list[str] = []
        self.pieces = 0

    def ask(self, sandbox: Sandbox, seq: int = 1, everything: bool = False) -> Kept:
        sandbox.supervise({"type": "keep", "seq": seq, "everything": everything})
        self.pieces = 0
        part = b""
        while True:
            frame = sandbox.next()
            match frame:
                case {"type": "file_gone", "path": path}:
                    del self.files[path]
                case {"type": "file", "path": path, "folder": True}:
                    self.files[path] = None
                case {"type": "file", "path": path}:
                    self.pieces += 1
                    assert 0 <= frame["modified_us"] < 2**64
                    part = part if frame["offset"] else b""
                    assert frame["offset"] == len(part)
                    part += base64.b64decode(frame["base64"])
                    if frame["last"]:
                        self.files[path] = part
                        (self.executable.add if frame["executable"] else self.executable.discard)(path)
                case {"type": "kept"}:
                    assert frame["seq"] == seq and len(frame["left_out"]) <= min(5, frame["left_out_total"])
                    self.left_out = frame["left_out"]
                    return self


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "w"


@pytest.fixture
def sandbox(root: Path) -> Iterator[Sandbox]:
    root.mkdir()
    with Sandbox(workspace=str(root)) as started:
        yield started


def changed(sandbox: Sandbox, code: str) -> bool:
    return "files_changed" in sandbox.run(code)


def test_a_run_says_whether_files_have_changed(sandbox: Sandbox, root: Path) -> None:
    assert not changed(sandbox, "x = 1")
    assert changed(sandbox, f"import os; os.chdir({str(root)!r}); open('a', 'w').write('1')")
    assert not changed(sandbox, "open('a').read()")
    assert changed(sandbox, "open('a', 'a').write('2')")
    assert changed(sandbox, "os.makedirs('d/e')")
    assert changed(sandbox, "os.remove('a')")
    assert not changed(sandbox, "os.makedirs('.cache/pip'); open('.cache/pip/x', 'w').close()")
    assert changed(sandbox, "import sys; open('b', 'w').close(); os.scandir = None; sys.setrecursionlimit(60)")


def test_what_has_changed_is_told_once_and_whole(sandbox: Sandbox, root: Path) -> None:
    kept = Kept()
    (root / "deep/er").mkdir(parents=True)
    big = bytes(range(256)) * 3_000
    (root / "deep/er/big.bin").write_bytes(big)
    (root / "é.csv").write_text("1,2")
    (root / "empty").touch(0o755)
    wanted = {"deep": None, "deep/er": None, "deep/er/big.bin": big, "é.csv": b"1,2", "empty": b""}
    assert kept.ask(sandbox).files == wanted
    assert kept.executable == {"empty"}
    assert kept.ask(sandbox, 2).pieces == 0
    (root / "é.csv").write_text("3,4,5")
    (root / "deep/er/big.bin").unlink()
    (root / "deep/er").rmdir()
    (root / "deep").rmdir()
    (root / "deep").write_bytes(b"a file now")
    assert kept.ask(sandbox).files == {"deep": b"a file now", "é.csv": b"3,4,5", "empty": b""}
    assert kept.pieces == 2
    (root / "empty").unlink()
    assert kept.ask(sandbox, everything=True).files == {"deep": b"a file now", "é.csv": b"3,4,5"}
    assert kept.pieces == 2


def test_what_is_no_plain_file_is_left_out_with_the_reason(sandbox: Sandbox, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    Path(os.fsdecode(bytes(root) + b"/\xff")).touch()
    kept = Kept().ask(sandbox)
    assert kept.files == {}
    assert sorted(kept.left_out) == [
        "'\\udcff': a name that is no text, or too long",
        "folder: a link",
        "link: a link",
        "pipe: no plain file",
    ]


def test_more_bytes_than_the_limit_are_left_out_and_not_even_read(sandbox: Sandbox, root: Path) -> None:
    (root / "a").write_bytes(bytes(1_500_000))
    with open(root / "sparse", "wb") as file:
        file.truncate(1 << 40)
    kept = Kept().ask(sandbox)
    assert (list(kept.files), kept.left_out) == (["a"], ["sparse: more bytes than are kept"])
    (root / "sparse").unlink()
    for name in "bcdefgh":
        (root / name).write_bytes(bytes(400_000))
    kept.ask(sandbox)
    assert "a" in kept.files and len(kept.left_out) > 0, "what was kept stays"
    (root / "a").unlink()
    (root / "a").symlink_to("b")
    assert "a" not in kept.ask(sandbox).files


def test_more_files_than_the_limit_are_left_out(sandbox: Sandbox, root: Path) -> None:
    for number in range(60):
        (root / f"{number}").touch()
    kept = Kept().ask(sandbox)
    assert len(kept.files) == 50 and len(kept.left_out) == 5
    assert kept.left_out[0].endswith("more than 50 files and folders")
    assert changed(sandbox, "1")


def test_a_file_with_a_time_beyond_the_bridges_is_kept(sandbox: Sandbox, root: Path) -> None:
    (root / "late").write_text("x")
    os.utime(root / "late", ns=(0, 2**62 * 10**9))
    known = Kept().ask(sandbox)
    assert "late" in known.files and not known.left_out


def put(sandbox: Sandbox, path: str, data: bytes, **other: object) -> None:
    piece: Frame = {"path": path, "folder": False, "executable": False, "modified_us": 1_700_000_000_000_001}
    encoded = base64.b64encode(data).decode()
    sandbox.supervise({"type": "file", **piece, "offset": 0, "base64": encoded, "last": True, **other})


def test_files_are_put_back_before_the_first_run_and_are_known(sandbox: Sandbox, root: Path) -> None:
    put(sandbox, "a/b.txt", b"one ", last=False)
    put(sandbox, "a/b.txt", b"two", offset=4)
    put(sandbox, "run.sh", b"#!/bin/sh", executable=True)
    put(sandbox, "d", b"", folder=True)
    sandbox.run(f"import os; os.chdir({str(root)!r}); print(open('a/b.txt').read())")
    assert (root / "a/b.txt").read_text() == "one two"
    assert (root / "a/b.txt").stat().st_mtime_ns == 1_700_000_000_000_001_000
    assert os.access(root / "run.sh", os.X_OK) and (root / "d").is_dir()
    # The folder above is told, as only its file was put there.
    kept = Kept().ask(sandbox)
    assert (kept.files, kept.pieces) == ({"a": None}, 0)


def test_what_cannot_be_put_back_is_a_fault_and_no_end(sandbox: Sandbox, root: Path) -> None:
    (root / "a").write_text("a file")
    put(sandbox, "a/b", b"x")
    assert "could not be put back" in sandbox.wait("fault")["message"]
    put(sandbox, "c", b"x", base64="!")
    sandbox.supervise({"type": "file", "path": "c"})
    assert sandbox.run("1")["value"] == "1"


def test_a_file_that_does_not_fit_any_more_is_not_taken_for_the_whole_one(root: Path) -> None:
    root.mkdir()
    # A limit of the process stands for a full disk: both end a write in its middle.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    prefix = (sys.executable, "-c", f"{limit}; import os, sys; os.execv(sys.argv[1], sys.argv[1:])")
    with Sandbox(prefix=prefix, workspace=str(root)) as sandbox:
        put(sandbox, "big", bytes(200_000))
        assert "could not be put back" in sandbox.wait("fault")["message"]
        kept = Kept()
        kept.files = {"big": bytes(200_000)}
        assert kept.ask(sandbox).files == {"big": bytes(200_000)}, "it is told neither as gone nor as changed"


def test_without_a_workspace_nothing_is_kept() -> None:
    with Sandbox() as sandbox:
        assert not changed(sandbox, "open('/tmp/x-of-belljar', 'w').close()")
        sandbox.supervise({"type": "keep", "seq": 1, "everything": False})
        assert "no workspace" in sandbox.wait("fault")["message"]


def test_files_are_told_of_also_while_the_worker_is_busy_or_gone(sandbox: Sandbox, root: Path) -> None:
    run = sandbox.start(f"open({str(root / 'a')!r}, 'w').write('1')\nimport os; os._exit(3)")
    sandbox.wait("worker_exited")
    assert Kept().ask(sandbox).files == {"a": b"1"}
    assert run == 1


def saved(done: Frame) -> object:
    return done.get("saved")


def test_files_are_handed_over_from_anywhere(sandbox: Sandbox, root: Path, tmp_path: Path) -> None:
    (tmp_path / "fig.png").write_bytes(b"png")
    begin = f"from mcp import runtime; import os; os.chdir({str(root)!r})\n"
    done = sandbox.run(begin + f"runtime.save({str(tmp_path / 'fig.png')!r})")
    assert (saved(done), done["value"]) == (["fig.png"], repr(str(root / "fig.png")))
    assert done["files_changed"] and (root / "fig.png").read_bytes() == b"png"
    done = sandbox.run("os.mkdir('out'); open('out/a', 'w').close(); runtime.save('out/a'); runtime.save('out/a')")
    assert saved(done) == ["out/a"]
    assert saved(sandbox.run("runtime.save('out/a', 'copies/b')")) == ["copies/b"]
    assert saved(sandbox.run("1")) is None


def test_what_cannot_be_handed_over_is_an_error_that_says_why(sandbox: Sandbox, root: Path) -> None:
    for code, says in [
        ("runtime.save('nothing')", "'nothing' is not there"),
        ("runtime.save('/dev/null')", "'/dev/null' is no plain file"),
        ("runtime.save(b'x')", "path is text or a Path, not bytes"),
        (f"runtime.save({str(root)!r})", "is a folder; save its files"),
        ("runtime.save('/etc/passwd', '../x')", "is no name of a file below"),
        ("runtime.save('/etc/passwd', '/x')", "is no name of a file below"),
        ("[runtime.save('/etc/passwd', str(n)) for n in range(21)]", "at most 20 files"),
    ]:
        done = sandbox.run(f"from mcp import runtime\n{code}")
        assert says in done["error"]["message"], done
    with Sandbox() as without:
        done = without.run("from mcp import runtime\nruntime.save('/etc/passwd')")
        assert "keeps no files" in done["error"]["message"]


def test_state_written_by_threads_and_jobs_at_once_loses_nothing(sandbox: Sandbox) -> None:
    code = (
        "import os, threading\nfrom mcp.runtime import state\n"
        "def fill(name):\n    for i in range(50): state[f'{name}{i}'] = 'x' * 400\n"
        "threads = [threading.Thread(target=fill, args=(name,)) for name in 'ab']\n"
        "[thread.start() for thread in threads]\n"
        "if (other := os.fork()) == 0:\n    fill('c')\n    os._exit(0)\n"
        "[thread.join() for thread in threads]\n"
        "os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]), len(state)"
    )
    assert sandbox.run(code)["value"] == "(0, 150)"


def test_state_is_read_and_written_whole(sandbox: Sandbox, root: Path) -> None:
    begin = "from mcp import runtime\nfrom mcp.runtime import state\n"
    code = "state['a'] = {'b': [1, None]}\nstate['c'] = 1\ndel state['c']\nlen(state), 'c' in state, state"
    done = sandbox.run(begin + code)
    assert done["value"] == "(1, False, runtime.state({'a': {'b': [1, None]}}))"
    assert done["files_changed"] and sorted(path.name for path in root.iterdir()) == [".state.json"]
    assert sandbox.run("runtime.state['a']['b']")["value"] == "[1, None]"
    for code, says in [
        ("state['x'] = {1, 2}", "takes JSON values"),
        ("state['x'] = float('nan')", "takes JSON values"),
        ("state[1] = 1", "is a str, not int"),
        ("state['x'] = 'x' * 300_000", "at most 262,144 bytes"),
        ("state['x']", "x"),
        ("runtime.stat", "has no attribute 'stat'"),
    ]:
        assert says in sandbox.run(code)["error"]["message"], code
    (root / ".state.json").write_text("[")
    assert "is no JSON" in sandbox.run("state['a']")["error"]["message"]
    (root / ".state.json").unlink()
    assert sandbox.run("dict(state)")["value"] == "{}"


def test_files_that_are_kept_come_before_new_ones(sandbox: Sandbox, root: Path) -> None:
    for number in range(49):
        (root / f"old{number}").touch()
    kept = Kept().ask(sandbox)
    for number in range(49):
        (root / f"a-new{number}").touch()
    kept.ask(sandbox)
    assert len(kept.files) == 50 and sum(name.startswith("old") for name in kept.files) == 49


def test_what_cannot_be_looked_at_is_not_told_as_gone(sandbox: Sandbox, root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("1")
    kept = Kept().ask(sandbox)
    root.rename(tmp_path / "aside")
    kept.ask(sandbox)
    assert kept.files == {"a": b"1"} and kept.left_out[0].endswith("w: No such file or directory")
    (tmp_path / "aside").rename(root)
    (root / "a").unlink()
    assert kept.ask(sandbox).files == {}


def test_files_that_programs_make_again_are_neither_told_nor_told_as_gone(sandbox: Sandbox, root: Path) -> None:
    put(sandbox, ".cache/m", b"1")
    kept = Kept()
    kept.files = {".cache/m": b"1"}
    assert kept.ask(sandbox).files[".cache/m"] == b"1"
    done = sandbox.run(f"from mcp import runtime\nruntime.save({str(root / '.cache/m')!r})")
    assert "would not be kept" in done["error"]["message"]


def test_a_later_piece_of_a_file_that_did_not_fit_makes_none(sandbox: Sandbox, root: Path) -> None:
    put(sandbox, "big", b"abcd", offset=8)
    assert "could not be put back" in sandbox.wait("fault")["message"]
    assert not (root / "big").exists()


def test_a_change_whose_time_was_set_back_is_seen(sandbox: Sandbox, root: Path) -> None:
    (root / "a").write_text("1")
    about = (root / "a").stat()
    kept = Kept().ask(sandbox)
    (root / "a").write_text("2")
    os.utime(root / "a", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert kept.ask(sandbox).files == {"a": b"2"}


def test_an_empty_folder_is_not_listed_again_until_something_is_put_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = WorkspaceWatch(str(tmp_path), (10, 1000))
    assert not watch.has_changed()
    (tmp_path / "at-once").touch()
    assert watch.has_changed()
    (tmp_path / "at-once").unlink()
    assert watch.has_changed()
    times = os.stat(tmp_path)
    time.sleep(1.1)
    assert not watch.has_changed()
    with monkeypatch.context() as context:
        context.delattr(workspace_scan, "_scandir")
        assert not watch.has_changed()
        (tmp_path / "later").touch()
        assert watch.has_changed(), "what cannot be looked at may have changed"
    # The time of the folder's content can be set back, that of its change cannot.
    os.utime(tmp_path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert watch.has_changed() and not watch.has_changed()
