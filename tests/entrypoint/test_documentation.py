"""The reference of the Python API names every helper of `runtime`."""

from pathlib import Path

from mcp import runtime

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python-api.md"


def test_every_helper_is_described() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(dir(runtime)) == len(set(dir(runtime)))
    names = [name for name in dir(runtime) if not name.endswith("_sync")]
    assert len(names) > 40
    assert [name for name in names if f"runtime.{name}" not in page] == []
