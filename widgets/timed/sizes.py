"""The cost of a run over the size of one symbol: plans, breaks between them, and measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from explorer.errors import IronworksError
from explorer.measure.compare import Measurement
from explorer.passes.pipeline.progress import report_progress
from explorer.passes.pipeline.random_inputs import random_inputs
from widgets.draw.table import count_text
from widgets.model.knobs import Setting, stops

TILE, PROGRAMS, TASKS = "another tile", "another number of programs", "another number of tasks"
KINDS = (TILE, PROGRAMS, TASKS)  # a break is named after the first that changes
LEAST_PLANS, MOST_PLANS, CALLS = 12, 64, 1200  # numbers of plans; fewer for many calls
GRID_CALLS = 8  # calls that take as long to plan as one whose thread blocks are weighed; measured
BETWEEN = 1  # sizes between two stops
SECONDS = 0.1  # of each size that is measured
LONGEST_US = 5e5  # of a run that is measured


@dataclass(frozen=True, slots=True)
class Shape:
    """The decisions for a size: each call's tile and number of tasks; the number of programs."""

    tiles: Mapping[str, str]
    programs: int
    tasks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """A size, its planned time, and the decisions for it."""

    size: int
    us: float
    shape: Shape


@dataclass(frozen=True, slots=True)
class Break:
    """A size from which on the plan differs from that of the size before, and the difference."""

    size: int
    us: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class SizeRows:
    """The cost over the size of `symbol`, at `others` of the other symbols.

    `breaks` were searched for with a bounded number of plans: `left` intervals between planned
    sizes hold more of them. `tiled` are the sizes that tiles were chosen for.
    """

    symbol: str
    others: tuple[tuple[str, int], ...]
    device: str
    own: bool
    now: int
    planned: tuple[PlannedSize, ...]
    breaks: tuple[Break, ...]
    left: int
    measured: tuple[tuple[int, Measurement], ...]
    tiled: tuple[int, ...] = ()

    @property
    def at(self) -> PlannedSize | None:
        """The size on show."""
        return next((p for p in self.planned if p.size == self.now), None)


def data(now: Setting, symbol: str, measured: Sequence[tuple[int, Measurement]] = ()) -> SizeRows:
    """Return the cost over a symbol's sizes, and every break that the search reached."""
    c = now.compiled
    calls = len(c.program.kernel_calls) * (GRID_CALLS if c.device.kind == "gpu" else 1)
    most = max(LEAST_PLANS, min(MOST_PLANS, CALLS // max(1, calls)))
    plans = dict[int, PlannedSize]()

    def plan(size: int) -> None:
        report_progress(f"predict sizes of {symbol}", len(plans), most)
        _plan(now, symbol, size, plans)

    for size in sample_sizes(now, symbol)[:most]:
        plan(size)
    _bisect_breaks(plans, most, plan)
    planned = tuple(plans[size] for size in sorted(plans))
    pairs = [(a, b) for a, b in pairwise(planned) if a.shape != b.shape]
    return SizeRows(
        symbol,
        tuple((name, size) for name, size in now.sizes if name != symbol),
        c.device.name,
        c.device.kind == "cpu",
        now.size(symbol),
        planned,
        tuple(_break(a, b) for a, b in pairs if b.size == a.size + 1),
        sum(b.size > a.size + 1 for a, b in pairs),
        tuple(measured),
    )


def sample_sizes(now: Setting, symbol: str) -> list[int]:
    """Return the size on show, the stops of the symbol's slider, and sizes between them."""
    slider_stops = stops(now.compiled.program.env.of(symbol), now.size(symbol))
    between = [
        a + (b - a) * n // (BETWEEN + 1)
        for a, b in pairwise(slider_stops)
        for n in range(1, BETWEEN + 1)
    ]
    return list(dict.fromkeys([now.size(symbol), *slider_stops, *between]))


def _plan(now: Setting, symbol: str, size: int, plans: dict[int, PlannedSize]) -> None:
    """Plan a size; a size that the model refuses is left out."""
    sizes = {**dict(now.sizes), symbol: size}
    try:
        wall = now.compiled.planned_wall(sizes)
        schedules = now.compiled.schedules(sizes)
    except IronworksError:
        return
    tiles, tasks = dict[str, str](), dict[str, int]()
    for s in schedules:
        for program in s.placement.programs:
            for placed in program:
                operator = s.facts.operators[placed.operator]
                kernel = operator.kernel(placed.kernel)
                tiles[operator.name], tasks[operator.name] = kernel.name, kernel.tasks
    programs = sum(len(s.placement.programs) for s in schedules)
    plans[size] = PlannedSize(size, wall.total_us, Shape(tiles, programs, tasks))


def _bisect_breaks(plans: dict[int, PlannedSize], most: int, plan: Callable[[int], None]) -> None:
    """Bisect the intervals whose ends have different plans.

    Intervals of the first kinds come first, then the narrowest. Stops when all breaks lie between
    neighbours, or after `most` plans.
    """
    refused = set[int]()
    while len(plans) + len(refused) < most:
        ordered = [plans[size] for size in sorted(plans)]
        open_ = [
            (KINDS.index(kind_of(a.shape, b.shape)), b.size - a.size, (a.size + b.size) // 2)
            for a, b in pairwise(ordered)
            if a.shape != b.shape and b.size > a.size + 1
        ]
        open_ = [o for o in open_ if o[2] not in refused]
        if not open_:
            return
        middle = min(open_)[2]
        plan(middle)
        if middle not in plans:
            refused.add(middle)


def kind_of(a: Shape, b: Shape) -> str:
    """Return the kind of difference between two plans."""
    if a.tiles != b.tiles:
        return TILE
    return PROGRAMS if a.programs != b.programs else TASKS


def _break(a: PlannedSize, b: PlannedSize) -> Break:
    before, after = a.shape, b.shape
    kind, differences = kind_of(before, after), list[str]()
    differences += [
        f"{name}: the {tile} tile, {before.tiles.get(name, 'none')} before"
        for name, tile in after.tiles.items()
        if before.tiles.get(name) != tile
    ]
    if before.programs != after.programs:
        differences.append(f"{count_text(after.programs, 'program')}, {before.programs} before")
    differences += [
        f"{name}: {count_text(n, 'task')}, {before.tasks.get(name, 0)} before"
        for name, n in after.tasks.items()
        if before.tasks.get(name) != n
    ]
    more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
    return Break(b.size, b.us, kind, "; ".join(differences[:3]) + more)


def measure_sizes(now: Setting, symbol: str) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """Time the program at each stop of the slider, the smallest first."""
    c: Any = now.compiled
    every = stops(c.program.env.of(symbol), now.size(symbol))
    timings = list[tuple[int, Measurement]]()
    for n, size in enumerate(every):
        sizes = {**dict(now.sizes), symbol: size}
        try:
            if c.planned_wall(sizes).total_us <= LONGEST_US:
                inputs = random_inputs(c.model.program, sizes)
                timings.append((size, c.time(inputs, seconds=SECONDS)))
        except IronworksError:
            continue
        yield n + 1, len(every), tuple(timings)
