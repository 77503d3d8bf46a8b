"""How long a process takes to its first step of training: on an empty cache, and after another.

    python -m tests.benchmarks training_start [--models mlp,gpt2] [--pairs 5]

Each start is a process of its own; the clock runs from before the model is traced, behind all
imports, until the first loss is there. A pair is an empty cache and, at once, the same again: the
ratio is their time over each other (property B5.8: at least 5), the middle of the pairs with their
least and greatest. The losses have to have the same bits, and the later process compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

ALONE = """
import json, sys, time
import explorer, explorer.compiler.pipeline
from tests.benchmarks.training_step import Ours
start = time.perf_counter()
with explorer.counters.delta() as did:
    losses = [(step := Ours(sys.argv[1], 2))()]
seconds = time.perf_counter() - start
losses += [step() for _ in range(2)]
print(json.dumps([seconds, losses, did.pass_runs, did.kernel_compiles, did.program_hits]))
"""


def started(name: str, folder: str) -> tuple[float, list[float], int, int, int]:
    """Seconds, first losses, and counts of passes, kernels and programs found."""
    found = subprocess.run(
        [sys.executable, "-c", ALONE, name],
        env=os.environ | {"IRONWORKS_CACHE": folder},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    seconds, losses, passes, kernels, hits = json.loads(found.stdout)
    return seconds, losses, passes, kernels, hits


def raced(name: str, pairs: int) -> None:
    """Print a row."""
    colds, warms = [], []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            cold, losses, _, kernels, _ = started(name, f"{folder}/cache")
            warm, again, *did = started(name, f"{folder}/cache")
        if again != losses or did != [0, 0, 1]:
            raise SystemExit(f"{name}: the second process gives {again} for {losses}, did {did}")
        colds.append(cold)
        warms.append(warm)
    ratios = [cold / warm for cold, warm in zip(colds, warms, strict=True)]
    print(
        f"{name}, {kernels} kernels: {statistics.median(colds):.2f} s, then "
        f"{statistics.median(warms):.3f} s: {statistics.median(ratios):.1f} "
        f"[{min(ratios):.1f}, {max(ratios):.1f}] times as fast in {pairs} pairs",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--models", default="mlp,gpt2")
    asked.add_argument("--pairs", type=int, default=5)
    found = asked.parse_args(arguments)
    for name in found.models.split(","):
        raced(name, found.pairs)


if __name__ == "__main__":
    main()
