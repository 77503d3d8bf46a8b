"""Roller's tiles against random and evolutionary search over the same legal space.

    python -m tests.benchmarks tile_search [--trials 64] [--operators conv,softmax] [--threads 2]
        [--partial FILE] [--json]

A search has a budget of timed trials, in which compiling counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from os import environ
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.measure.machine import machine
from explorer.measure.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_cpu import measured_cpu, this_cpu
from explorer.roller.tiling_space import TilingSpace, space_of
from explorer.tuning.tile_search import SearchResult, Trial, evolve
from tests.benchmarks.rows import parser_of, say
from tests.benchmarks.tile_prediction import in_rounds, operators, rollers_first

TRIAL_US = 3000.0  # of launches of a tiling; chosen
HOPELESS_RATIO = 5.0  # of the best so far: such a tiling is run no more than it was; chosen
AGAIN, ROUNDS = 3, 12  # the best of each strategy that are timed again, beside Roller's
FEW, MANY = (
    ("matmul 512", "matmul 127", "scores", "conv 3x3 128", "conv 1x1", "depthwise", "softmax",
     "transpose"),
    ("matmul 512", "softmax"),
)  # fmt: skip
MANY_TRIALS = 200


@dataclass(frozen=True, slots=True)
class Contender:
    """A strategy, or Roller's first or first ten: what it spent, and what its best takes, all timed
    in turns at the end.
    """

    name: str
    trials: int
    seconds: float
    tiling: str
    us: float


@dataclass(frozen=True, slots=True)
class Rivalry:
    """One operator: `time_ratio` is the quicker search's seconds over those of Roller's first;
    `quality` are the best found time over Roller's, above 1 where Roller is faster.
    """

    operator: str
    trials: int
    space: int
    contenders: tuple[Contender, ...]
    time_ratio: float
    top1_quality: float
    top10_quality: float


class Bench:
    """Compiles and times tilings of one kernel, and says what that took."""

    def __init__(self, kernel: Kernel, device: Device, env: ShapeEnv) -> None:
        self.kernel, self.device, self.env = kernel, device, env
        self.operands = Operands(kernel, {})

    def ready(self, tiling: Tiling) -> tuple[PreparedKernel, float]:
        """A tiling compiled, and the seconds that it takes to compile; a second time costs what the
        first did.
        """
        begin = perf_counter()
        made = prepare(self.kernel, tiling, self.operands, this_cpu(), self.device.units, self.env)
        return made, max(perf_counter() - begin, made.code.machine.seconds)

    def trial(self, tiling: Tiling, best_us: float) -> tuple[float, float]:
        """Microseconds of a tiling, and the seconds spent."""
        made, seconds = self.ready(tiling)
        begin = perf_counter()
        us = made.best_us(0.0)
        if us < HOPELESS_RATIO * best_us:
            us = min(us, made.best_us(TRIAL_US))
        return us, seconds + perf_counter() - begin


def rivalry(name: str, kernel: Kernel, device: Device, trials: int) -> Rivalry:
    """Roller against every strategy on one operator."""
    env = ShapeEnv()
    bench, space = Bench(kernel, device, env), space_of(kernel, device, env, {})
    spent: dict[str, tuple[int, float, list[Tiling]]] = {}
    begin = perf_counter()
    first = rollers_first(kernel, device, env, 10)
    constructed = perf_counter() - begin
    _, compiled = bench.ready(first[0])
    spent["top-1"] = (0, constructed + compiled, first[:1])
    timed = [bench.trial(t, float("inf")) for t in first]
    spent["top-10"] = (len(first), constructed + sum(s for _, s in timed), first)
    say(f"{name}: Roller's first in {spent['top-1'][1]:.2f} s, ten in {spent['top-10'][1]:.2f} s")
    for label, strategy in STRATEGIES.items():
        found = strategy(space, trials, _telling(bench.trial, label, trials), 1)
        spent[label] = (found.trials, found.seconds, found.leaders(AGAIN))
        say(f"{name}: {label}, {found.trials} trials in {found.seconds:.1f} s")
    return _compared(name, trials, space.count, spent, bench)


def _telling(trial: Trial, label: str, trials: int) -> Trial:
    """The trial, told of now and then."""
    done = 0

    def told(tiling: Tiling, best_us: float) -> tuple[float, float]:
        nonlocal done
        done += 1
        if done % 50 == 0:
            say(f"  {label} {done}/{trials}, best {best_us:.1f} us")
        return trial(tiling, best_us)

    return told


def _compared(
    name: str,
    trials: int,
    count: int,
    spent: dict[str, tuple[int, float, list[Tiling]]],
    bench: Bench,
) -> Rivalry:
    """The best of each side, timed again in turns."""
    every = list(dict.fromkeys(t for _, _, tilings in spent.values() for t in tilings))
    times = dict(zip(every, in_rounds([bench.ready(t)[0] for t in every], ROUNDS), strict=True))
    rows = []
    for label, (tried, seconds, tilings) in spent.items():
        best = min(tilings, key=lambda t: times[t])
        rows.append(Contender(label, tried, round(seconds, 3), best.words, round(times[best], 3)))
    by_name = {r.name: r for r in rows}
    searched = [by_name[label] for label in STRATEGIES]
    best_us = min(r.us for r in searched)
    return Rivalry(
        name,
        trials,
        count,
        tuple(rows),
        round(min(r.seconds for r in searched) / by_name["top-1"].seconds, 1),
        round(best_us / by_name["top-1"].us, 3),
        round(best_us / by_name["top-10"].us, 3),
    )


def summary(rows: Sequence[Rivalry]) -> dict[str, float]:
    """The least and the median of what is wanted: times less time, and the share of the best."""
    if not rows:
        return {"operators": 0}
    return {
        "operators": len(rows),
        "least_time_ratio": min(r.time_ratio for r in rows),
        "median_time_ratio": median([r.time_ratio for r in rows]),
        "least_top1_quality": min(r.top1_quality for r in rows),
        "least_top10_quality": min(r.top10_quality for r in rows),
        "median_top1_quality": median([r.top1_quality for r in rows]),
        "median_top10_quality": median([r.top10_quality for r in rows]),
    }


def line(r: Rivalry) -> str:
    """One operator in a line."""
    times = ", ".join(f"{c.name} {c.us:.1f} us in {c.seconds:.1f} s" for c in r.contenders)
    return (
        f"{r.operator}: {times}; {r.time_ratio:.0f} times less time, top-1 {r.top1_quality:.2f}x "
        f"and top-10 {r.top10_quality:.2f}x of the best found"
    )


def rivalries(
    words: Sequence[str], trials: int, threads: int, partial: Path | None
) -> list[Rivalry]:
    """Every operator that a word names; those in the partial file with as many trials are there."""
    done = _read(partial)
    device = replace(measured_cpu(), units=threads)
    out = []
    for name, kernel in operators().items():
        if not any(word in name for word in words):
            continue
        row = done.get((name, trials))
        if row is None:
            row = rivalry(name, kernel, device, trials)
            if partial is not None:
                with partial.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        say(line(row))
        out.append(row)
    return out


def _read(partial: Path | None) -> dict[tuple[str, int], Rivalry]:
    """What an earlier run had come to."""
    if partial is None or not partial.exists():
        return {}
    rows = (json.loads(text) for text in partial.read_text(encoding="utf-8").splitlines() if text)
    made = (
        Rivalry(**row | {"contenders": tuple(Contender(**c) for c in row["contenders"])})
        for row in rows
    )
    return {(r.operator, r.trials): r for r in made}


def _warm(device: Device) -> None:
    """What the first kernel of a process pays for is paid before the clock runs."""
    name, kernel = next(iter(operators().items()))
    Bench(kernel, device, ShapeEnv()).trial(Tiling(), float("inf"))
    say(f"warmed up with {name}")


@contextmanager
def _fresh_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        environ["IRONWORKS_CACHE"] = folder
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, with a cache folder of its own that is gone at the end."""
    parser = parser_of(__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--trials", type=int, default=64, help="timed trials of each strategy")
    parser.add_argument("--operators", default="", help="words of names, separated by commas")
    parser.add_argument("--threads", type=int, default=0, help="default: all cores")
    parser.add_argument("--partial", type=Path, help="rows are kept here, and not made again")
    flags = parser.parse_args(arguments)
    device = measured_cpu()  # remembered where the user's cache is
    usual = MANY if flags.trials > MANY_TRIALS else FEW
    words = [w for w in flags.operators.split(",") if w] or usual
    with _fresh_cache():
        _warm(device)
        rows = rivalries(words, flags.trials, flags.threads or device.units, flags.partial)
    told = summary(rows)
    if flags.json:
        made = {"machine": machine().line, "trials": flags.trials, **told}
        print(json.dumps(made | {"rows": [asdict(r) for r in rows]}, indent=1))
    else:
        print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())


def random_search(space: TilingSpace, trials: int, trial: Trial, seed: int) -> SearchResult:
    """Try random legal tilings."""
    result, begin = SearchResult(), perf_counter()
    for tiling in space.drawn(seed):
        if result.trials == trials:
            break
        drawing = perf_counter() - begin
        us, seconds = trial(tiling, result.best_us)
        result.add(us, tiling, seconds + drawing)
        begin = perf_counter()
    return result


def evolutionary_search(space: TilingSpace, trials: int, trial: Trial, seed: int) -> SearchResult:
    """Try generations of tilings whose parents are the best so far.

    A child mixes the choices of two parents, or changes one choice of one; some of each generation
    are random.
    """
    every = deque(evolve(space, trials, trial, seed), maxlen=1)
    return every.pop() if every else SearchResult()


Strategy: TypeAlias = Callable[[TilingSpace, int, Trial, int], SearchResult]


STRATEGIES: dict[str, Strategy] = {"random": random_search, "evolutionary": evolutionary_search}
