"""The cost of a run over the size of one symbol: plans, breaks between them, and measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from explorer.devices.target import target_of
from explorer.errors import BadOption, IronworksError
from explorer.ir.stage import Stage
from explorer.measure.compare import Measurement
from explorer.passes.random_inputs import random_inputs
from explorer.plain_text import counted
from explorer.process.cancellation import report_progress
from widgets.draw.plots import colours, spread_axis, styled
from widgets.draw.table import Mark, Sentence, Table, time_text
from widgets.model.compiled import COLUMNS, Arrays, cells, measured_text, whiskers
from widgets.model.house import House
from widgets.model.knobs import Setting, stops, symbols
from widgets.model.picture import Clock, Drawn, Family, OnShow, Picture, controls

TILE, PROGRAMS, TASKS = "another tile", "another number of programs", "another number of tasks"
KINDS = (TILE, PROGRAMS, TASKS)  # a break is named after the first that changes
LEAST_PLANS, MOST_PLANS, CALLS = 12, 64, 1200  # numbers of plans; fewer for many calls
GRID_CALLS = 8  # calls that take as long to plan as one whose thread blocks are weighed; measured
BETWEEN = 1  # sizes between two stops
SECONDS = 0.1  # of each size that is measured
LONGEST_US = 5e5  # of a run that is measured
NAME = "sizes"
SYMBOLS = {TILE: "square", PROGRAMS: "diamond", TASKS: "line-ns-open"}
WORDS = "%{customdata}<extra></extra>"


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
    calls = len(c.program.kernel_calls) * (
        GRID_CALLS if target_of(c.device).uses_thread_blocks else 1
    )
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
        target_of(c.device).is_emitted,
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
        differences.append(f"{counted(after.programs, 'program')}, {before.programs} before")
    differences += [
        f"{name}: {counted(n, 'task')}, {before.tasks.get(name, 0)} before"
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


def symbol_of(s: OnShow) -> str:
    """Return the symbol of the view, else the last that inputs have; "" if they have none.

    Raises BadOption for an unknown symbol.
    """
    names = symbols(s.now.compiled.model.program)
    if s.view.symbol and s.view.symbol not in names:
        known_names = ", ".join(names) or "none"
        raise BadOption(f"there is no symbol {s.view.symbol[:40]!r}", expected=known_names)
    return s.view.symbol or (names[-1] if names else "")


def caption(rows: SizeRows) -> str:
    """Return the number of planned sizes, and where the plan changes."""
    others = "".join(f", {name} = {size}" for name, size in rows.others)
    text = f"{rows.symbol} on {rows.device}{others}: predicted at {len(rows.planned)} sizes"
    if rows.at:
        text += f", {time_text(rows.at.us)} at {rows.now}"
    if rows.measured:
        text += f", {len(rows.measured)} measured"
    elif rows.own:
        text += ", none measured yet"
    left = "; search not finished" if rows.left else ""
    tiled = " and for ".join(map(str, rows.tiled))
    chosen = f"; tiles are chosen for {tiled}" if tiled else ""
    return f"{text}{chosen}; plan changes at {counted(len(rows.breaks), 'size')}{left}"


def see(rows: SizeRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The time of the current size, the breaks of the plan, and the measurement, or without one the
    growth of the time.
    """
    if not rows.planned:
        return ()
    at = rows.at or rows.planned[0]
    us = Mark(time_text(at.us), "current" if rows.at else f"predicted size:{at.size}")
    took = dict(rows.measured).get(at.size)
    clock: Sentence = (".",)
    if took:
        clock = (", measured ", Mark(time_text(took.median_us), f"measured size:{at.size}"), ".")
    of = f"A run of {rows.symbol} = {at.size:,} is predicted to take "
    sentences: list[Sentence] = [(of, us, *clock)]
    if rows.breaks:
        first = rows.breaks[0].size
        count = Mark(counted(len(rows.breaks), "size"), "change")
        more = " or more" if rows.left else ""
        begin = Mark(f"{first:,}", f"change size:{first}")
        sentences.append(("The plan changes at ", count, f"{more}, first at ", begin, "."))
    elif not rows.left:
        sizes = Mark(counted(len(rows.planned), "size"), "predicted")
        sentences.append(("One plan serves all ", sizes, "."))
    return (*sentences, *_farthest(rows))


def _farthest(rows: SizeRows) -> Iterator[Sentence]:
    """Yield the size with the largest prediction error; unmeasured, the growth of the time."""
    planned_us = {p.size: p.us for p in rows.planned if p.us > 0}
    off = [
        (m.median_us / planned_us[n], n)
        for n, m in rows.measured
        if planned_us.get(n) and m.median_us
    ]
    if off:
        ratio, size = max(off, key=lambda x: max(x[0], 1 / x[0]))
        at = Mark(f"{size:,}", f"size:{size}")
        count = Mark(counted(len(off), "size"), "measured")
        yield (
            "Measured at ",
            count,
            ", farthest off at ",
            at,
            f": {ratio:.2f} times the prediction.",
        )
    elif len(planned_us) > 1:
        (least, us), (most, longest) = min(planned_us.items()), max(planned_us.items())
        ends = Mark(f"{longest / us:.3g} times", f"size:{least}|size:{most}")
        yield f"From {least:,} to {most:,} it takes ", ends, " as long."


def table(rows: SizeRows) -> Table:
    """Return one row per size."""
    columns = (rows.symbol, "predicted µs", *COLUMNS, "plan changes")
    breaks = {b.size: f"{b.kind}: {b.words}" for b in rows.breaks}
    took, planned_us = dict(rows.measured), {p.size: p.us for p in rows.planned}
    cells_of_rows = tuple(
        (
            size,
            round(planned_us[size], 3) if size in planned_us else "",
            *cells(took.get(size)),
            breaks.get(size, ""),
        )
        for size in sorted({*planned_us, *took})
    )
    return Table(columns, cells_of_rows, tuple(() for _ in cells_of_rows), caption(rows), see(rows))


def chart(rows: SizeRows, title: str, theme: str) -> go.Figure:
    """Draw the planned time of a run at each size, a mark at each break, and measurements."""
    c, figure, name = colours(theme), go.Figure(), rows.symbol
    figure.add_scatter(
        x=[p.size for p in rows.planned],
        y=[p.us for p in rows.planned],
        name="predicted",
        mode="lines+markers",
        line={"color": c["ink2"], "width": 1.4},
        marker={"symbol": "circle-open", "size": 5, "color": c["ink2"]},
        customdata=[
            f"{name} = {p.size:,}: predicted {time_text(p.us)}{_each(p.us, p.size)}"
            for p in rows.planned
        ],
        meta={"k": [f"predicted size:{p.size}" for p in rows.planned]},
        hovertemplate=WORDS,
    )
    for kind in KINDS:
        _breaks(figure, rows, kind, c["bad"])
    if rows.measured:
        _add_measured(figure, rows, c["ink"])
    if rows.at is not None:
        figure.add_scatter(
            x=[rows.at.size],
            y=[rows.at.us],
            name=f"current: {rows.at.size:,}",
            mode="markers",
            marker={"symbol": "circle-open", "color": c["accent"], "size": 14, "line_width": 2},
            customdata=[f"{name} = {rows.at.size:,}, current: predicted {time_text(rows.at.us)}"],
            meta={"k": "current"},
            hovertemplate=WORDS,
        )
    if rows.planned[0].size > 0:
        figure.update_xaxes(title=f"{name} (elements)", type="log")
    else:
        figure.update_xaxes(title=f"{name} (elements)")
    times = [p.us for p in rows.planned]
    times += [us for _, m in rows.measured for us in (m.low_us, m.high_us)]
    figure.update_yaxes(title="time per run (µs)", **spread_axis(times))
    return styled(figure, theme, title, 480, showlegend=True)


def _breaks(figure: go.Figure, rows: SizeRows, kind: str, ink: str) -> None:
    """Add the breaks of one kind: sizes from which on the plan differs."""
    mine = [b for b in rows.breaks if b.kind == kind]
    if mine:
        figure.add_scatter(
            x=[b.size for b in mine],
            y=[b.us for b in mine],
            name=kind,
            mode="markers",
            marker={
                "symbol": SYMBOLS[kind],
                "color": ink,
                "size": 12 if kind == TASKS else 6,
                "line": {"width": 1.4, "color": ink},
            },
            customdata=[f"from {rows.symbol} = {b.size:,} on, {kind}<br>{b.words}" for b in mine],
            meta={"k": [f"change size:{b.size}" for b in mine]},
            hovertemplate=WORDS,
        )


def _add_measured(figure: go.Figure, rows: SizeRows, ink: str) -> None:
    timings = rows.measured
    figure.add_scatter(
        x=[size for size, _ in timings],
        y=[m.median_us for _, m in timings],
        name="measured, 99 % interval",
        mode="markers",
        marker={"symbol": "circle", "size": 7, "color": ink},
        error_y=whiskers([m for _, m in timings], ink, thickness=1.4, width=3),
        customdata=[
            f"{rows.symbol} = {size:,}: {measured_text(m)}{_each(m.median_us, size)}"
            for size, m in timings
        ],
        meta={"k": [f"measured size:{size}" for size, _ in timings]},
        hovertemplate=WORDS,
    )


def _each(us: float, size: int) -> str:
    return f", {time_text(us / size)} for each" if size > 1 else ""


def _draw(s: OnShow, op: str) -> Drawn:
    symbol = symbol_of(s)
    if not symbol:
        words = "every size of this model is fixed"
        return (), None, Table(("size",), (("fixed",),), ((),), words)
    if s.walls.planned is None:
        return (), None, Table(("size",), (), (), "no run is predicted yet")
    timings = s.clocked(NAME, symbol) or ()
    plain = s.house.cached(f"sizes {symbol}", s.now.sizes, lambda: data(s.now, symbol))
    tiled = dict.fromkeys(sizes[symbol] for sizes in s.now.compiled.planned_sizes)
    rows = replace(plain, measured=tuple(timings), tiled=tuple(tiled))
    return rows, None, table(rows)


def _about(s: OnShow, op: str) -> str | None:
    return symbol_of(s) or None if s.walls.planned is not None else None


def _under(now: Setting, about: str) -> Setting:
    """Return the setting without the size: measurements hold for all sizes on show."""
    return replace(now, sizes=tuple(pair for pair in now.sizes if pair[0] != about))


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    yield from measure_sizes(now, about)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the control of the symbol, if there are several."""
    names = list(symbols(s.now.compiled.model.program))
    if len(names) < 2:
        return controls(s)
    return controls(s, ("symbol", "symbol", names, names.index(symbol_of(s))))


PICTURE = Picture(
    name=NAME,
    title="Sizes",
    words="Time per run over the size of a symbol, and the sizes at which its plan changes.",
    stage=Stage.PLANNED,
    family=Family("sizes", _controls),
    draw=_draw,
    chart=chart,
    clock=Clock(
        "Measure the sizes",
        _about,
        _measured,
        lambda times: f"{counted(len(times), 'size')} measured" if times else "",
        _under,
    ),
)
