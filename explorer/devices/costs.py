"""Overheads of kernels on one machine, in cycles, fitted once a machine; times of Python steps.

These are the constants of the micro performance model (Roller, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

NAMES = (
    "tile", "sum", "row", "edge_row", "edge_vector", "edge_element", "pack", "turn", "strip",
    "run", "vector", "element", "strided", "horizontal", "function", "start",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fit:
    """A kernel that the constants were fitted to: its measured and its modelled time."""

    probe: str
    measured_us: float
    modelled_us: float
    spread: float = 0.0  # of its repeated measurements: the median over the least, less 1


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles of one unit, in the order of `NAMES`; the defaults are those of a Zen 5 core.

    Of contractions: start and end of a register tile (`tile`), one vector of its sums zeroed and
    stored (`sum`), an entry of the row table (`row`), a row of a register tile that goes through L1
    (`edge_row`), and there a vector (`edge_vector`) and an element past the last whole one
    (`edge_element`). Of copies: an element packed alone (`pack`), transposed in a block (`turn`),
    or the start of a row of blocks (`strip`). Of other loops: the start of an innermost loop
    (`run`), one operation on a vector (`vector`), on an element past the last whole vector
    (`element`), one lane of a load or store that is not dense (`strided`), the sum across a vector
    (`horizontal`), and the share of its listed cycles that an elementary function takes
    (`function`). A task starts in `start`.

    Of memory, and not fitted: the wait for a line that misses the nearest cache, and the next, with
    other misses in flight (`misses`); the wait for a page's first line, with others in flight
    (`jump`); the number of pages that a core can stream at once with prefetching
    (`prefetched_pages`); the share of a shared memory's time that computing does not hide, though
    it could (`unhidden`).
    """

    tile: float = 30.0
    sum: float = 2.0
    row: float = 4.0
    edge_row: float = 20.0
    edge_vector: float = 2.0
    edge_element: float = 2.0
    pack: float = 1.6
    turn: float = 0.5
    strip: float = 10.0
    run: float = 8.0
    vector: float = 0.5
    element: float = 0.5
    strided: float = 1.0
    horizontal: float = 12.0
    function: float = 1.0
    start: float = 20.0
    misses: tuple[float, ...] = (20.0, 120.0)
    jump: float = 12.0
    prefetched_pages: int = 16
    unhidden: float = 0.1
    stores: tuple[tuple[str, float], ...] = ()  # a byte stored to a level, in bytes read from it
    together: tuple[tuple[str, float], ...] = ()  # GB/s of a level for each unit, when all read
    fits: tuple[Fit, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        """The cycles, in the order of `NAMES`."""
        return tuple(getattr(self, name) for name in NAMES)

    def with_values(self, cycles: Sequence[float]) -> Costs:
        """Return the same with other cycles, in the order of `NAMES`."""
        named: dict[str, Any] = dict(zip(NAMES, cycles, strict=True))
        return replace(self, **named)


def costs_from(fields: Mapping[str, Any]) -> Costs:
    """Return costs from the result of `dataclasses.asdict`, also after a trip through JSON."""
    named = dict(fields)
    for name in ("stores", "together"):
        named[name] = tuple((str(level), float(x)) for level, x in named[name])
    named["misses"] = tuple(map(float, named["misses"]))
    return Costs(**named | {"fits": tuple(Fit(**fit) for fit in named["fits"])})


@dataclass(frozen=True, slots=True)
class PythonTimes:
    """Overheads of Python in microseconds.

    `copy_us`: NumPy's copy of a small array. `look_us`: reading a scalar. `region_us`: launching
    within a call that Python executes. `library_us`: calling a library and returning.

    The defaults are those of CPython 3.11 on a Zen 5 core: `tests.benchmarks.control_schedules`.
    """

    copy_us: float = 0.5
    look_us: float = 0.2
    region_us: float = 30.0
    library_us: float = 10.0
