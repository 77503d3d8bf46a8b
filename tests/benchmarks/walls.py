"""Planned against measured: how well the walls of the zoo foretell their runs.

    python -m tests.benchmarks walls [--models small_bert,tiny_vit] [--runs 15] [--rounds 5]

A row is a model: its makespan as planned from modelled task times, as measured (the median of
several stamped runs in a row), how far the plan is off, Spearman's rank correlation of its bricks'
durations, and the same for the plan from task times that were measured just before. Of the rounds
the one with the middle error is told. Models that take longer than `--seconds` to compile are left
out. The last lines say in how many models the makespan is within 20 %, and in how many the
correlation is 0.8 or more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from time import perf_counter

import explorer
from explorer.compiler.compilation import Compilation
from explorer.errors import Cancelled
from explorer.frontends import zoo
from explorer.measure.walls import WallComparison, compare_walls
from explorer.plain_text import table

WITHIN, ORDERED = 0.2, 0.8
SERIES_US, MOST_RUNS = 1e5, 500  # a series of short runs lasts this long


def models() -> dict[str, str]:
    """What is compared, by the name that a row shows."""
    return {name: f"zoo:{name}" for name in sorted(zoo.names())}


def compiled(model: str, seconds: float) -> Compilation | None:
    """The model, or None where that takes too long."""
    end = perf_counter() + seconds
    try:
        return explorer.compile(model, cancelled=lambda: perf_counter() > end)
    except Cancelled:
        return None


def compared(c: Compilation, runs: int, rounds: int) -> tuple[WallComparison, WallComparison]:
    """The plan from modelled times, and that from measured ones, each against runs of its own."""
    inputs = c.random_inputs()
    first_us = c.measured_wall(inputs, runs).total_us
    runs = max(runs, min(MOST_RUNS, int(SERIES_US / first_us)))
    modelled, profiled = [], []
    for _ in range(rounds):
        modelled.append(compare_walls(c.planned_wall(), c.measured_wall(inputs, runs)))
        again = c.profiled(inputs, runs, fresh=True)
        profiled.append(compare_walls(again.planned_wall(), again.measured_wall(inputs, runs)))
    return _middle(modelled), _middle(profiled)


def _middle(found: Sequence[WallComparison]) -> WallComparison:
    return sorted(found, key=lambda one: one.error)[len(found) // 2]


def row(name: str, found: Sequence[WallComparison]) -> tuple[str, ...]:
    """A model in words."""
    cells = [name]
    for one in found:
        cells += [
            f"{one.planned_us / 1e3:.3f}",
            f"{one.measured_us / 1e3:.3f}",
            f"{one.error:+.0%}",
            f"{one.rank_correlation:.2f}",
        ]
    return tuple(cells)


def within(found: Sequence[WallComparison]) -> str:
    """How many of the plans keep the two bounds."""
    near = sum(abs(one.error) <= WITHIN for one in found)
    known = [one for one in found if not isnan(one.rank_correlation)]
    ordered = sum(one.rank_correlation >= ORDERED for one in known)
    return (
        f"makespan within {WITHIN:.0%}: {near} of {len(found)}; "
        f"rank correlation >= {ORDERED}: {ordered} of {len(known)}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default="", help="some of them, by name")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="most to compile a model")
    parser.add_argument("--json", default="", help="a file that gets the rows too")
    flags = parser.parse_args(arguments)
    every = models()
    chosen = flags.models.split(",") if flags.models else list(every)
    rows, found = [], []
    for name in chosen:
        c = compiled(every.get(name, name), flags.seconds)
        if c is None:
            print(f"{name}: not compiled within {flags.seconds:g} s", flush=True)
            continue
        both = compared(c, flags.runs, flags.rounds)
        found.append(both)
        rows.append(row(name, both))
        print("  ".join(rows[-1]), flush=True)
    one = (">planned ms", ">measured ms", ">error", ">rank")
    print("\n" + table(("model", *one, *(f"{head}, profiled" for head in one)), rows) + "\n")
    for n, what in enumerate(("modelled times", "measured times")):
        print(f"{what}: {within([both[n] for both in found])}")
    if flags.json:
        Path(flags.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
