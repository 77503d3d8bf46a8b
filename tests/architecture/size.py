"""Size of the code base, as a reader meets it: `python -m tests.architecture.size [ROOT]`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

SMALL_LINES = 60  # of a module that one other alone imports
LONG_LINES = 50  # of a function
KIND = re.compile(r"""\.kind\s*(?:==|!=|in\b|not in\b)\s*[("']*(?:cpu|gpu)""")
LOADED = """
import sys, time
begin = time.perf_counter()
import explorer
explorer.compile("zoo:tiny_bert")
seconds = time.perf_counter() - begin
ours = [m for m in sys.modules if m.partition(".")[0] in ("explorer", "widgets")]
print(len(ours), round(seconds, 2))
"""
PEERS = """
import time
begin = time.perf_counter()
import numba, onnx, sympy, networkx
print(round(time.perf_counter() - begin, 2))
"""


def sources(root: Path, *rooms: str) -> dict[str, str]:
    """Return the text of each module by its path."""
    files = sorted(f for room in rooms for f in (root / room).rglob("*.py"))
    return {str(f.relative_to(root)): f.read_text("utf-8") for f in files}


def imports(texts: dict[str, str]) -> Counter[str]:
    """Return how many modules import each module."""
    importers: Counter[str] = Counter()
    for text in texts.values():
        names: set[str] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        importers.update(names)
    return importers


def table(root: Path) -> dict[str, object]:
    """Return the figures by name."""
    library = sources(root, "explorer", "widgets")
    tests = sources(root, "tests")
    importers = imports(library)
    modules = {path[:-3].replace("/", ".").removesuffix(".__init__"): path for path in library}
    single = [
        path
        for name, path in modules.items()
        if importers[name] == 1 and library[path].count("\n") < SMALL_LINES
    ]
    functions = [
        node
        for text in library.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = sum(text.count("\n") for text in library.values())
    import_lines = sum(
        node.end_lineno - node.lineno + 1
        for text in library.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno
    )
    outside = (
        text
        for path, text in library.items()
        if not path.startswith(("explorer/targets/", "explorer/devices/"))
    )
    return {
        "files of explorer": sum(path.startswith("explorer") for path in library),
        "files of widgets": sum(path.startswith("widgets") for path in library),
        "files of tests": len(tests),
        "folders of explorer and widgets": len({Path(path).parent for path in library}),
        "lines of explorer": sum(t.count("\n") for p, t in library.items() if p[0] == "e"),
        "lines of widgets": sum(t.count("\n") for p, t in library.items() if p[0] == "w"),
        "lines of tests": sum(text.count("\n") for text in tests.values()),
        "share of import lines": f"{100 * import_lines / lines:.1f} %",
        f"modules of one importer under {SMALL_LINES} lines": len(single),
        f"functions over {LONG_LINES} lines": sum(
            (f.end_lineno or 0) - f.lineno + 1 > LONG_LINES for f in functions
        ),
        "comparisons of a device's kind": sum(len(KIND.findall(text)) for text in outside),
        "empty __init__.py": sum(
            not text.strip() for path, text in library.items() if path.endswith("__init__.py")
        ),
    }


def main(root: Path) -> None:
    """Print the figures, and what a first compile loads."""
    for name, value in table(root).items():
        print(f"{name:46} {value:>10,}" if isinstance(value, int) else f"{name:46} {value:>10}")
    for name, script in (
        ("modules and seconds of a first compile", LOADED),
        ("peers alone", PEERS),
    ):
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=root, capture_output=True, text=True
        )
        print(f"{name:46} {done.stdout.strip() or done.stderr[-300:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
