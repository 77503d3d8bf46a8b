"""Steps whose question is data against steps that the host decides, at three sizes of batch.

    python -m tests.benchmarks sync_free [--threads 1,2] [--seconds 2] [--json]

Adam, a scaled loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.frontends.python.tracing.structure import flatten
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, LossScale, cross_entropy, first_state
from explorer.training.fitted import Timeline
from explorer.training.programs import Ordinary, Setting, StepInputs, SyncFree
from explorer.training.step import Recipe
from tests.benchmarks.racer import racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of

FORMS = ("sync-free", "ordinary")
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
    begin = StepInputs(setting, params, state, numbers, batch, lambda: False)
    step = SyncFree(begin) if form == "sync-free" else Ordinary(begin, Timeline())
    arrays = [np.array(a) for a in flatten((params, state))[0]]
    return lambda: float(step(arrays, numbers, batch, 0))


def row(size: str, rows: int, threads: int, seconds: float) -> Row:
    """Time both forms, each in a process of its own."""
    with ExitStack() as stack:
        makes = {form: partial(made, form, size, rows, threads) for form in FORMS}
        both = racers(stack, makes, threads)
        losses = zip(*(r.values(10) for r in both.values()), strict=True)
        apart = max(abs(a - b) / max(abs(b), 1e-6) for a, b in losses)
        name, details = f"{size}, {rows} rows, {threads} threads", {"losses_apart": apart}
        return row_of(name, turns_of(both, seconds), base="sync-free", details=details)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model, batch and number of threads."""
    flags = parser_of(__doc__, threads="1,2", seconds=2.0).parse_args(arguments)
    cases = product(WIDTHS, (16, 64, 256), flags.threads)
    report((row(*case, flags.seconds) for case in cases), flags.json, ("losses_apart",))


if __name__ == "__main__":
    main()
