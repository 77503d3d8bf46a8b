"""Runs one benchmark, or lists all: `python -m tests.benchmarks [NAME [flags]]`."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Return the first sentence of every module here that has a `main`."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(arguments: Sequence[str]) -> int:
    """Replace this process by the benchmark's; return 2 for a name that no benchmark has."""
    known = benchmarks()
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, known))
        print("\n".join(f"{name:{width}}  {sentence}" for name, sentence in known.items()))
        print("\npython -m tests.benchmarks NAME --help has the flags of one")
        return 0
    name, *flags = arguments
    if name not in known:
        print(f"no benchmark is known as {name!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    os.execv(sys.executable, [sys.executable, "-m", f"tests.benchmarks.{name}", *flags])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
