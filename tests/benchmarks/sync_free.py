"""Steps whose question is data against steps that the host decides, at three sizes of batch:
`python -m tests.benchmarks.sync_free`. Adam, a scaled loss; the ratio is the ordinary form's time
over the sync-free one's, with its 99 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.frontends.tracing.structure import flatten
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, LossScale, cross_entropy, first_state
from explorer.training.runs.programs import Beginning, Ordinary, Setting, SyncFree
from explorer.training.runs.timeline import Timeline
from explorer.training.step import Recipe
from tests.benchmarks.turns import Racer, race

WIDTHS = {"tiny": (16, 32, 4), "small": (64, 128, 10), "large": (784, 512, 10)}


def loss(p: Any, x: Any, y: Any) -> Any:
    return cross_entropy(enp.relu(x @ p["w"]) @ p["v"], y)


def made(form: str, size: str, rows: int, threads: int) -> Callable[[], float]:
    """One step, over and over."""
    ins, hidden, outs = WIDTHS[size]
    draw = np.random.default_rng(0)
    params = {
        "w": (draw.standard_normal((ins, hidden)) / np.sqrt(ins)).astype(np.float32),
        "v": (draw.standard_normal((hidden, outs)) / np.sqrt(hidden)).astype(np.float32),
    }
    batch = draw.standard_normal((rows, ins)).astype(np.float32), draw.integers(0, outs, rows)
    options = explorer.Options(rammer=RammerOptions(threads=threads))
    setting = Setting(Recipe(loss, LossScale()), Adam(1e-4), options)
    state = first_state(setting.optimizer, params, setting.recipe.scale)
    numbers = setting.optimizer.numbers
    begin = Beginning(setting, params, state, numbers, batch, lambda: False)
    step = SyncFree(begin) if form == "sync-free" else Ordinary(begin, Timeline())
    arrays = [np.array(a) for a in flatten((params, state))[0]]
    return lambda: float(step(arrays, numbers, batch, 0))


def main() -> None:
    """Print a row for each model, batch and number of threads."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--threads", default="1,2")
    asked.add_argument("--seconds", type=float, default=2.0)
    found = asked.parse_args()
    for size in WIDTHS:
        for rows in (16, 64, 256):
            for threads in map(int, found.threads.split(",")):
                with ExitStack() as stack:
                    racers = []
                    for form in ("sync-free", "ordinary"):
                        racers.append(Racer(partial(made, form, size, rows, threads), threads))
                        stack.callback(racers[-1].close)
                    first = zip(*(r.values(10) for r in racers), strict=True)
                    apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in first)
                    told = race(racers[0], racers[1], found.seconds)
                print(f"{size}, {rows} rows, {threads} threads: {told}; {apart:.0e}", flush=True)


if __name__ == "__main__":
    main()
