#!/usr/bin/env python3
"""Counts the lines of the product's code by top-level module: no tests, comments, docstrings or blank lines."""

import ast
import sys
from collections import Counter
from pathlib import Path


def rust_lines(text: str) -> int:
    """Counts the lines of a Rust file. An item below `#[cfg(test)]` ends at a line of its own indentation."""
    count, end = 0, None
    for line in text.splitlines():
        code = line.strip()
        if end is not None:
            is_over = line.startswith(end) if end else code.endswith((";", "}"))
            if is_over:
                end = None
            elif not end and code.endswith("{"):
                end = line[: len(line) - len(line.lstrip())] + "}"
        elif code.startswith(("#[cfg(test)]", "#[cfg(all(test")):
            end = ""
        elif code and not code.startswith("//"):
            count += 1
    return count


def python_lines(text: str) -> int:
    """Counts the lines of a Python file that belong to statements other than docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return sum(1 for number, line in lines if line and not line.startswith("#") and number not in docstrings)


def main() -> None:
    """Prints one line for each module, and the sum."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    counts: Counter[str] = Counter()
    for path in [*root.glob("src/**/*.rs"), *root.glob("crates/*/src/**/*.rs")]:
        if not path.stem.endswith("_tests") and not path.stem.startswith("test_"):
            parts = path.relative_to(root).parts
            module = parts[1] if parts[0] == "crates" else f"src/{parts[1].removesuffix('.rs')}"
            counts[module] += rust_lines(path.read_text())
    for path in (root / "entrypoint").rglob("*.py"):
        counts["entrypoint"] += python_lines(path.read_text())
    for module, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:>7} {module}")
    print(f"{counts.total():>7} in all")


if __name__ == "__main__":
    main()
