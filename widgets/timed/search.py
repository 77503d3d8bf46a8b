"""Search over the tiles of one kernel: the order of trials, predicted and measured times."""

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
from explorer.roller.tiles.weigh import label_of, weigh
from explorer.roller.tiling_space import space_of
from explorer.tuning.answers import agree
from explorer.tuning.kernel_timing import Operands, prepare
from explorer.tuning.search_strategies import evolve
from widgets.roller.tiled_kernel import TiledKernel

MODEL, SEARCH = "the model's order", "evolutionary search"
FIRST, MORE, SEED = 8, 24, 1  # trials of each
SECONDS = 0.03  # of each trial, after it is compiled


@dataclass(frozen=True, slots=True)
class Trial:
    """One tile that was tried; `seconds` includes its compilation."""

    tiling: Tiling
    by: str
    modelled_us: float
    measured: Measurement
    seconds: float


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A tile in the order of trials; before any trial, in the model's order.

    `rank` is its position among the tiles to choose from, -1 if it is not one of them.
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
        """The trials that were measured."""
        return tuple(t for t in self.trials if t.measured)

    @property
    def best_us(self) -> tuple[float, ...]:
        """The least measured time after each trial."""
        return tuple(accumulate((t.measured.median_us for t in self.tried if t.measured), min))

    @property
    def first(self) -> TrialRow | None:
        """The model's guess: its first tile, if that was measured."""
        return next((t for t in self.tried if t.by == MODEL), None)

    @property
    def best(self) -> TrialRow | None:
        """The fastest trial."""
        times = [(t.measured.median_us, n) for n, t in enumerate(self.tried) if t.measured]
        return self.tried[min(times)[1]] if times else None


def data(rolled: TiledKernel, threads: int, tried: Sequence[Trial]) -> SearchRows:
    """Return the trials; without trials, the tiles to choose from in the model's order."""
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
    """Try the model's best tiles, then an evolutionary search over all legal ones.

    Each is compiled and timed alone, one after another. Every result is compared with the first
    one's. Raises AnswerMismatch if a tile gives another result.
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
    trials = {t.tiling: t for t in done}

    def trial(tiling: Tiling, best_us: float) -> tuple[float, float]:
        if tiling not in trials:
            trials[tiling] = tried(tiling, SEARCH)
            done.append(trials[tiling])
        return trials[tiling].measured.median_us, trials[tiling].seconds

    for _ in evolve(space_of(kernel, here, env, sizes), MORE, trial, SEED):
        yield tuple(done)
