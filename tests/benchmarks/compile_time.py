"""How long a model takes to compile: with an empty cache, and again in a new process.

    python -m tests.benchmarks compile_time [MODEL ...] [--json]

A row is a model: seconds without imports until its first answer, cold and warm; the steps that took
longest; kernels and the median seconds of one; the largest resident memory of the process, and of
all its helpers together where there were any.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

MODELS = ("zoo:resnet50", "zoo:densenet121", "zoo:squeezenet", "zoo:inception_v2")
EVERY = 0.02  # seconds between two looks at the memory of the helpers


def children_bytes() -> int:
    """The resident memory of the processes that this one has started."""
    total = 0
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text().split():
            try:
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                total += sum(int(t.split()[1]) * 1024 for t in lines if t.startswith("VmRSS:"))
            except OSError:  # it is gone
                continue
    return total


@contextmanager
def watched() -> Iterator[list[int]]:
    """The largest memory of the helpers while the block runs, in its only element."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            most[0] = max(most[0], children_bytes())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def measure(model: str) -> dict[str, object]:
    """One compilation and the first run in this process; of no model, only the machine's card."""
    import explorer
    from explorer.compiler.pipeline import compile  # imports are not what is measured
    from explorer.measure.this_cpu import this_cpu

    this_cpu()
    if not model:
        return {}
    before = explorer.counters.kernel_compiles
    begin = perf_counter()
    given = explorer.load(model)
    loaded = perf_counter()
    with watched() as helpers:
        made = compile(given)
        compiled = perf_counter()
    inputs = made.random_inputs()
    drawn = perf_counter()
    made.run(inputs)
    end = perf_counter()
    codes = {code.key: code.machine.seconds for code in made.codes.values()}
    steps = {s.name: s.seconds for s in made.steps}
    return {
        "seconds": compiled - begin + end - drawn,
        "phases": {"load": loaded - begin, **steps, "first run": end - drawn},
        "calls": len(made.codes),
        "kernels": len(codes),
        "compiled_now": explorer.counters.kernel_compiles - before,
        "kernel_seconds": median(codes.values()) if codes else 0.0,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "helper_bytes": helpers[0],
    }


def apart(model: str, folder: str) -> dict[str, object]:
    """The same in a process of its own, with a cache of its own."""
    words = [sys.executable, "-m", "tests.benchmarks.compile_time", "--one", model]
    env = {**os.environ, "IRONWORKS_CACHE": folder}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"problem": (done.stderr.splitlines() or ["no output"])[-1]}
    found: dict[str, object] = json.loads(lines[-1])
    return found


def pair(model: str) -> dict[str, object]:
    """Cold, then warm."""
    with tempfile.TemporaryDirectory(prefix="ironworks-compile-time-") as folder:
        apart("", folder)  # the machine is measured once, not once a model
        return {"model": model, "cold": apart(model, folder), "warm": apart(model, folder)}


def row(found: dict[str, object]) -> str:
    """A line for people."""
    words = [f"{found['model']!s:>20}"]
    for when in ("cold", "warm"):
        one = found[when]
        assert isinstance(one, dict)
        if "problem" in one:
            return f"{words[0]} {one['problem']}"
        slowest = sorted(one["phases"].items(), key=lambda p: -p[1])[:4]
        size = f"{one['bytes'] >> 20} + {one['helper_bytes'] >> 20} MB"
        words.append(f"{when} {one['seconds']:6.2f} s {size:>14}")
        words.append("(" + ", ".join(f"{name} {took:.2f}" for name, took in slowest) + ")")
        if when == "cold":
            words.append(f"{one['kernels']} kernels, median {one['kernel_seconds']:.3f} s;")
    return " ".join(words)


def main(arguments: Sequence[str] | None = None) -> None:
    """The rows that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", help="files, or names such as zoo:resnet50")
    parser.add_argument("--json", action="store_true", help="everything, one object a line")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one is not None:
        print(json.dumps(measure(given.one)))
        return
    for model in given.models or MODELS:
        found = pair(model)
        print(json.dumps(found) if given.json else row(found), flush=True)


if __name__ == "__main__":
    main()
