"""Size of the code base, as a reader meets it: `python -m tests.architecture.size [ROOT]`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

SMALL_LINES = 60  # of a module that one other alone imports
LONG_LINES = 50  # of a function
KIND = re.compile(r"""\.kind\s*(?:==|!=|in\b|not in\b)\s*[("']*(?:cpu|gpu)""")
LOADED = """
import sys, time
begin, used = time.perf_counter(), time.process_time()
import explorer
explorer.compile("zoo:tiny_bert")
used, seconds = time.process_time() - used, time.perf_counter() - begin
print(used, seconds, sum(m.partition(".")[0] in ("explorer", "widgets") for m in sys.modules))
"""
PEERS = """
import time
begin, used = time.perf_counter(), time.process_time()
import numba, onnx, sympy, networkx
print(time.process_time() - used, time.perf_counter() - begin)
"""
TURNS = 5  # of each start, one after the other


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
    with tempfile.TemporaryDirectory() as folder:
        for name, text in starts(root, Path(folder)):
            print(f"{name:46} {text}")


def starts(root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the modules and seconds of first compiles, and the seconds of importing the peers.

    Bytecode is there, as for a user. Compiles with a warm cache and imports take turns, because
    other processes disturb them alike.
    """
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "code")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(script: str, cache: str) -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**env, "IRONWORKS_CACHE": str(folder / cache)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(done.stderr[-300:])
        return [float(word) for word in done.stdout.split()]

    run(LOADED, "warm")  # writes the bytecode
    run(PEERS, "warm")
    rows: dict[str, list[list[float]]] = {"cold": [], "warm": [], "peers": []}
    for turn in range(TURNS):
        rows["cold"].append(run(LOADED, f"cold {turn}"))
        rows["warm"].append(run(LOADED, "warm"))
        rows["peers"].append(run(PEERS, "warm"))
    for what, found in rows.items():
        used, seconds, *modules = zip(*found, strict=True)
        count = f"{modules[0][0]:.0f} modules, " if modules else ""
        spread = f"{min(used):.2f} to {max(used):.2f}"
        text = f"{count}{median(used):.2f} s of a core ({spread}), {median(seconds):.2f} s"
        yield f"start, {what}", text
    warm, peers = (median(row[0] for row in rows[what]) for what in ("warm", "peers"))
    yield "start, warm / peers", f"{warm / peers:.2f}"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
