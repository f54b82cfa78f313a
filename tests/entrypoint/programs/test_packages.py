"""What `runtime.packages()` says: what is there, by the names under which it is installed."""

from __future__ import annotations

from pathlib import Path

from sandbox import Sandbox

CODE = "from mcp import runtime\nimport sys\n"


def test_packages_are_named_with_their_versions_and_languages(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    for folder, name in (
        ("zeta-2.dist-info", "zeta"),
        ("scikit_learn-1.7.dist-info", "scikit-learn"),
        ("broken-1.dist-info", ""),
    ):
        (packages / folder).mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {folder.split('-')[1].removesuffix('.dist')}\n"
        (packages / folder / "METADATA").write_text(metadata if name else "")
    only = f"sys.path[:] = [{str(packages)!r}, *[p for p in sys.path if not p.endswith('-packages')]]\n"
    with Sandbox() as sandbox:
        assert sandbox.run(f"{CODE}{only}dict(runtime.packages())")["value"] == "{'scikit-learn': '1.7', 'zeta': '2'}"
        said = sandbox.run("runtime.packages_sync()")["value"].splitlines()
        assert said[0] == "scikit-learn 1.7, zeta 2"
        assert said[1].startswith("languages: python, bash")


def test_of_two_copies_the_version_that_is_imported_is_named(tmp_path: Path) -> None:
    for folder, version in (("first", "3.1"), ("second", "1.5")):
        info = tmp_path / folder / f"two_copies-{version}.dist-info"
        info.mkdir(parents=True)
        name = "two-copies" if folder == "first" else "Two_Copies"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    path = [str(tmp_path / "first"), str(tmp_path / "second")]
    with Sandbox() as sandbox:
        found = sandbox.run(
            f"{CODE}sys.path[:0] = {path!r}\n[v for n, v in runtime.packages().items() if 'opies' in n]"
        )
        said = sandbox.run("runtime.packages()")["value"]
    assert found["value"] == "['3.1']"
    assert "also there, and hidden by other versions: Two_Copies 1.5" in said


def test_many_packages_are_shown_in_lines(sandbox: Sandbox) -> None:
    code = f"{CODE}p = runtime.packages()\np.update((f'package-{{n}}', '1.0') for n in range(40))\np"
    lines = sandbox.run(code)["value"].splitlines()
    assert all(len(line) <= 101 for line in lines)
    assert "package-39 1.0" in lines[-2]
