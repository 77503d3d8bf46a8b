"""What the files of the compiler and of the pictures import, by their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("explorer", "widgets")


@cache
def modules() -> dict[str, Path]:
    """Every module by its name; a package is its `__init__`."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports before anything runs; for types alone, too."""
    known = modules()
    for node in _outside_functions(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (a.name for a in names if a.name in known)
            case ast.ImportFrom(str() as module, names, 0):
                whole = [f"{module}.{a.name}" for a in names]
                yield from (name for name in whole if name in known)
                if module in known and any(name not in known for name in whole):
                    yield module


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            yield from _outside_functions(node)
