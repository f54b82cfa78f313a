"""The order of the folders of the runtime, and that no module is part of an import cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ENTRYPOINT = Path(__file__).parents[2] / "entrypoint"
# From the lowest to the highest, with the process in which its code runs. A folder imports from lower ones only.
FOLDERS = {
    "remote": "supervisor",
    "kernel": "both",
    "wire": "both",
    "supervisor": "supervisor",
    "worker": "worker",
    "display": "worker",
    "calls": "worker",
    "programs": "worker",
    "run": "worker",
    "skills": "worker",
    "llm": "worker",
    "mcp": "worker",
    "boot": "both",
}
FILES_MAX = 15


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ENTRYPOINT.rglob("*.py")):
        parts = path.relative_to(ENTRYPOINT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(module: str, path: Path) -> Iterator[str]:
    """Every import of one of our modules: at the top, in functions, for type checkers, and by name as text."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=name, names=aliases, level=level):
                base = ".".join([*(package[: len(package) - level + 1] if level else ()), *([name] if name else ())])
                for alias in aliases:
                    inner = f"{base}.{alias.name}"
                    yield inner if inner in MODULES else base
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.Constant(value=str(name)) if name.startswith("belljar_sandbox."):
                yield name
            case ast.Call(func=ast.Name(id="import_module" | "__import__"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def edges() -> dict[str, set[str]]:
    found = {module: {name for name in imported(module, path) if name in MODULES} for module, path in MODULES.items()}
    return {module: names - {module} for module, names in found.items()}


EDGES = edges()


def folder(module: str) -> str:
    """Empty for the package itself."""
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "belljar_sandbox" else top


def test_each_file_is_in_a_folder_of_the_table() -> None:
    assert {folder(module) for module in MODULES} - {"", "bootstrap"} == set(FOLDERS)


def test_no_module_imports_itself_by_way_of_others() -> None:
    open_edges = {module: set(names) for module, names in EDGES.items()}
    while True:
        leaves = {module for module, names in open_edges.items() if not names}
        if not leaves:
            break
        open_edges = {module: names - leaves for module, names in open_edges.items() if module not in leaves}
    # A package and its own modules aside: mcp lists its two.
    assert open_edges == {}


def test_folders_import_from_lower_folders_only() -> None:
    order = list(FOLDERS)
    upward = [
        f"{module} imports {name}"
        for module, names in EDGES.items()
        for name in names
        if folder(name) and folder(module) and order.index(folder(name)) > order.index(folder(module))
    ]
    assert upward == []


def test_neither_process_imports_code_of_the_other() -> None:
    others = {"supervisor": "worker", "worker": "supervisor"}
    crossing = [
        f"{module} imports {name}"
        for module, names in EDGES.items()
        for name in names
        if folder(name) and folder(module) and FOLDERS[folder(name)] == others.get(FOLDERS[folder(module)])
    ]
    assert crossing == []


def test_folders_are_small() -> None:
    counts = {name: sum(folder(module) == name for module in MODULES) - 1 for name in FOLDERS}
    assert {name: count for name, count in counts.items() if count > FILES_MAX} == {}


def test_the_check_sees_every_kind_of_import() -> None:
    assert "belljar_sandbox.supervisor.main" in EDGES["belljar_sandbox.boot.main"], "in a function"
    assert "belljar_sandbox.calls.calls" in EDGES["belljar_sandbox.run.interpreter"], "for type checkers"
    assert "belljar_sandbox.run.checkpoint_api" in EDGES["mcp.runtime"], "as text"
    assert "belljar_sandbox.kernel.seccomp" in EDGES["belljar_sandbox.supervisor.denials"], "of a package"
