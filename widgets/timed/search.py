"""A search over the tiles of one kernel: which were tried, in which order, what the model thought
of each and what the clock said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from time import perf_counter

from explorer.devices.model import Device
from explorer.errors import AnswerMismatch
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.measure.compare import Measurement
from explorer.roller.enumerated import space_of
from explorer.roller.tiles.weigh import label_of, weigh
from explorer.tuning.answers import agree
from explorer.tuning.kernel_timing import Operands, prepare
from explorer.tuning.search_strategies import evolving
from widgets.roller.rolled import Rolled

MODEL, SEARCH = "the model's order", "evolutionary search"
FIRST, MORE, SEED = 8, 24, 1  # trials of each
SECONDS = 0.03  # of each trial, after it is compiled


@dataclass(frozen=True, slots=True)
class Trial:
    """One tile that was tried; `seconds` is what trying took, with compiling."""

    tiling: Tiling
    by: str
    modelled_us: float
    measured: Measurement
    seconds: float


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A tile in the order tried; before anything was, the model's order. `rank` is its place among
    the tiles to choose from, -1 where it is none of them.
    """

    tile: str
    by: str
    modelled_us: float
    measured: Measurement | None
    seconds: float
    rank: int
    used: bool


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The tiles tried for one kernel, in order."""

    kernel: str
    device: str
    own: bool
    threads: int
    trials: tuple[TrialRow, ...]
    ops: tuple[str, ...]

    @property
    def tried(self) -> tuple[TrialRow, ...]:
        """Those that were measured."""
        return tuple(t for t in self.trials if t.measured)

    @property
    def best_us(self) -> tuple[float, ...]:
        """After each trial the least measured so far."""
        return tuple(accumulate((t.measured.median_us for t in self.tried if t.measured), min))

    @property
    def first(self) -> TrialRow | None:
        """The model's guess: what it ranks first, where that was measured."""
        return next((t for t in self.tried if t.by == MODEL), None)

    @property
    def best(self) -> TrialRow | None:
        """What took least."""
        found = [(t.measured.median_us, n) for n, t in enumerate(self.tried) if t.measured]
        return self.tried[min(found)[1]] if found else None


def data(rolled: Rolled, threads: int, tried: Sequence[Trial]) -> SearchRows:
    """What was tried; where nothing was, the tiles to choose from as the model ranks them."""
    ranks = {c.tiling: n for n, c in enumerate(rolled.choices) if c.tiling is not None}
    rows = tuple(
        TrialRow(
            label_of(t.tiling),
            t.by,
            t.modelled_us,
            t.measured,
            t.seconds,
            ranks.get(t.tiling, -1),
            ranks.get(t.tiling, -1) == rolled.rank,
        )
        for t in tried
    ) or tuple(
        TrialRow(c.label, MODEL, c.modelled_us, None, 0.0, n, n == rolled.rank)
        for n, c in enumerate(rolled.choices)
    )
    return SearchRows(rolled.title, rolled.device.name, rolled.own, threads, rows, rolled.ops)


def search(
    kernel: Kernel,
    decision: TilingDecision,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    threads: int,
) -> Iterator[tuple[Trial, ...]]:
    """The model's first tiles, best first, then an evolutionary search over all legal ones; each is
    compiled and timed alone, one after another. Every result is held against the first one's.

    Raises AnswerMismatch where a tile gives another result.
    """
    here = replace(device, units=threads)
    done, operands = list[Trial](), Operands(kernel, sizes)
    expected = None

    def tried(tiling: Tiling, by: str) -> Trial:
        nonlocal expected
        begin = perf_counter()
        ready = prepare(kernel, tiling, operands, device, threads, env)
        ready.launch(1)
        outputs = {name: array.copy() for name, array in operands.outputs.items()}
        expected = expected or outputs
        if not all(agree(outputs[name], array) for name, array in expected.items()):
            raise AnswerMismatch(f"two tiles of {kernel.name} give different results")
        took = ready.measure(SECONDS)
        modelled = weigh(kernel, tiling, here, env, sizes).cost_us
        return Trial(tiling, by, modelled, took, perf_counter() - begin)

    legal = [c.value for c in decision.candidates if not c.refused]
    for tiling in [t for t in legal if isinstance(t, Tiling)][:FIRST]:
        done.append(tried(tiling, MODEL))
        yield tuple(done)
    known = {t.tiling: t for t in done}

    def trial(tiling: Tiling, best_us: float) -> tuple[float, float]:
        if tiling not in known:
            known[tiling] = tried(tiling, SEARCH)
            done.append(known[tiling])
        return known[tiling].measured.median_us, known[tiling].seconds

    for _ in evolving(space_of(kernel, here, env, sizes), MORE, trial, SEED):
        yield tuple(done)
