"""Kills and full disks: a process ends, or cannot write, while it compiles; the next one is right.

A child compiles with a cache of its own and is killed at a random moment, or may write files of
so many bytes only: a write stops half-way, as on a full disk. Then another compiles with what is in
the cache by then.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.fuzz.judge import Failure, judge
from tests.fuzz.saved import load_case, save
from tests.fuzz.settings import PLAIN
from tests.strategies.onnx.graphs import case

ROOT = Path(__file__).parents[2]
SECONDS = 240.0
LONGEST_LIFE = 6.0


def crash(seed: int, scratch: Path) -> list[Failure]:
    """What is wrong after the crash of a seed."""
    rng = np.random.default_rng((seed, 5))
    path = save(case(int(rng.integers(1 << 30))), "", scratch, "graph")
    first = _child(path, scratch)
    if not first.startswith(("right", "refused")):
        return []  # such a graph is the business of other tries
    for file in (scratch / "cache").rglob("*"):  # an empty cache again
        if file.is_file():
            file.unlink()
    if rng.random() < 0.5:
        what = "a kill"
        _child(path, scratch, life=float(rng.uniform(0, LONGEST_LIFE)))
    else:
        size = int(rng.choice((0, 1, 100, 4096, 20_000)))
        what = f"files of {size} bytes at most"
        said = _child(path, scratch, size=size)
        if said != first:
            return [Failure("wrong", "full disk", f"with {what}: {said} instead of {first}")]
    again = _child(path, scratch)
    if again == first:
        return []
    return [Failure("wrong", what.split(" of ")[0], f"after {what}: {again} instead of {first}")]


def _child(path: Path, scratch: Path, life: float = SECONDS, size: int | None = None) -> str:
    """What a process of its own says of a saved case."""

    cache = scratch / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "IRONWORKS_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.fuzz.crash",
            str(path),
            *([] if size is None else [str(size)]),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    try:
        said, _ = child.communicate(timeout=life)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.communicate()
        return "killed"
    lines = said.strip().splitlines() or [f"exit code {child.returncode}"]
    return lines[-1][-500:]  # before it stands the warning that nothing can be kept


def main(path: Path, *size: str) -> str:
    """One word on a saved case: right, refused, or how it is wrong."""
    given = load_case(path)
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size[0]), int(size[0])))
    verdict = judge(path, given.feeds, [PLAIN], blames=False)
    wrong = [f for f in verdict.failures if f.kind != "oracle"]
    if wrong:
        return f"wrong: {wrong[0].at}: {wrong[0].story}"
    return "refused" if verdict.unsupported else "right"


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), *sys.argv[2:]))
