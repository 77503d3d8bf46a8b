"""What a run costs over the size of one symbol: planned at many sizes, the sizes from which on the
plan is another one, and what a clock said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from explorer.errors import IronworksError
from explorer.measure.compare import Measurement
from explorer.passes.pipeline.progress import told
from explorer.passes.pipeline.random_inputs import random_inputs
from widgets.draw.table import count_text
from widgets.model.knobs import Setting, stops

TILE, PROGRAMS, TASKS = "another tile", "another number of programs", "another number of tasks"
KINDS = (TILE, PROGRAMS, TASKS)  # the first that changes is what a break is called
LEAST_PLANS, MOST_PLANS, CALLS = 12, 64, 1200  # so many plans, fewer where there are many calls
GRID_CALLS = 8  # calls that take as long to plan as one whose thread blocks are weighed; measured
BETWEEN = 1  # sizes between two stops
SECONDS = 0.1  # of each size that is measured
LONGEST_US = 5e5  # of a run that is measured


@dataclass(frozen=True, slots=True)
class Shape:
    """What is decided for a size: by call the tile that runs and how many tasks it has, and how
    many programs a run is.
    """

    tiles: Mapping[str, str]
    programs: int
    tasks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """A size, what a run of it is planned to take, and what was decided for it."""

    size: int
    us: float
    shape: Shape


@dataclass(frozen=True, slots=True)
class Break:
    """From `size` on, not one before, the plan is another one: which kind, and in words."""

    size: int
    us: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class SizeRows:
    """The cost over the size of `symbol`, at `others` of the other symbols. `breaks` were searched
    for in a bounded number of plans: `left` intervals between planned sizes hold more of them.
    `tiled`: the sizes that tiles were chosen for.
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
    """The cost over a symbol's sizes, and every break that was found."""
    c = now.compiled
    calls = len(c.program.kernel_calls) * (GRID_CALLS if c.device.kind == "gpu" else 1)
    most = max(LEAST_PLANS, min(MOST_PLANS, CALLS // max(1, calls)))
    known = dict[int, PlannedSize]()

    def plan(size: int) -> None:
        told(f"predict sizes of {symbol}", len(known), most)
        _plan(now, symbol, size, known)

    for size in sampled(now, symbol)[:most]:
        plan(size)
    _bisected(known, most, plan)
    planned = tuple(known[size] for size in sorted(known))
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


def sampled(now: Setting, symbol: str) -> list[int]:
    """The stops of the symbol's slider, that on show first, then sizes between them."""
    found = stops(now.compiled.program.env.of(symbol), now.size(symbol))
    between = [
        a + (b - a) * n // (BETWEEN + 1) for a, b in pairwise(found) for n in range(1, BETWEEN + 1)
    ]
    return list(dict.fromkeys([now.size(symbol), *found, *between]))


def _plan(now: Setting, symbol: str, size: int, known: dict[int, PlannedSize]) -> None:
    """Plan a size; one that the model does not take is left out."""
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
    known[size] = PlannedSize(size, wall.total_us, Shape(tiles, programs, tasks))


def _bisected(known: dict[int, PlannedSize], most: int, plan: Callable[[int], None]) -> None:
    """Halve the intervals whose ends are planned unlike each other, those of the first kinds first
    and then the narrowest, until all breaks stand between neighbours or enough was planned.
    """
    refused = set[int]()
    while len(known) + len(refused) < most:
        ordered = [known[size] for size in sorted(known)]
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
        if middle not in known:
            refused.add(middle)


def kind_of(a: Shape, b: Shape) -> str:
    """What changes from one plan to the other."""
    if a.tiles != b.tiles:
        return TILE
    return PROGRAMS if a.programs != b.programs else TASKS


def _break(a: PlannedSize, b: PlannedSize) -> Break:
    before, after = a.shape, b.shape
    kind, said = kind_of(before, after), list[str]()
    said += [
        f"{name}: the {tile} tile, {before.tiles.get(name, 'none')} before"
        for name, tile in after.tiles.items()
        if before.tiles.get(name) != tile
    ]
    if before.programs != after.programs:
        said.append(f"{count_text(after.programs, 'program')}, {before.programs} before")
    said += [
        f"{name}: {count_text(n, 'task')}, {before.tasks.get(name, 0)} before"
        for name, n in after.tasks.items()
        if before.tasks.get(name) != n
    ]
    more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
    return Break(b.size, b.us, kind, "; ".join(said[:3]) + more)


def measuring(now: Setting, symbol: str) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """Run the program at each stop of the slider, the smallest first."""
    c: Any = now.compiled
    every = stops(c.program.env.of(symbol), now.size(symbol))
    found = list[tuple[int, Measurement]]()
    for n, size in enumerate(every):
        sizes = {**dict(now.sizes), symbol: size}
        try:
            if c.planned_wall(sizes).total_us <= LONGEST_US:
                given = random_inputs(c.model.program, sizes)
                found.append((size, c.time(given, seconds=SECONDS)))
        except IronworksError:
            continue
        yield n + 1, len(every), tuple(found)
