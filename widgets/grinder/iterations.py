"""The Iterations picture: the trips of a measured loop, their bricks, and the operators run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.errors import BadOption
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import Trip
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.svg import Svg, fit, label, path, rect, step_group, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.draw.theme import family_token
from widgets.model.brick_wall import CAUSES, NAMES, WallRows
from widgets.model.picture import HEIGHT, WIDTH, Drawn, Family, OnShow, Picture, controls

MOST_SHOWN, LEAST_SHOWN, FIRST, SLOWEST = 48, 12, 8, 3  # selectable trips
MOST_BRICKS, ALL_BRICKS = 64, 2400  # drawn per trip, and in total
MOST_GAPS = 16  # per trip
PX, BOLD, LINE = 13, 1.07, 17.0
AXIS, LEAST_ROW, NODE = 72.0, 18.0, 21.0  # width of names; heights of a lane and of a uTask
MOST_TIMES, MOST_LANES, MOST_ROWS = 684, 16, 2000
NAMED = 60.0  # pixels from which a gap is labelled
WIDER = 2.0  # width of the time axis in median iterations

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Brick:
    """A brick: its lane, microseconds from the start of the trip, and the position of its call."""

    lane: int
    start_us: float
    end_us: float
    call: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap: its lane, microseconds from the start of the trip, and its cause."""

    lane: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class ShownIteration:
    """A trip that the scrubber can show, or an unrolled iteration of several trips.

    It has the longest of its bricks and gaps; `bricks` counts all bricks, and `ran` holds
    the bindings of the operators that ran.
    """

    at: int
    first: int
    count: int
    begin_us: float
    us: float
    longest_bricks: tuple[Brick, ...]
    longest_gaps: tuple[Gap, ...]
    bricks: int
    ran: frozenset[str]

    @property
    def name(self) -> str:
        """The label, with trips counted from 1."""
        if self.count == 1:
            return f"iteration {self.first + 1:,}"
        return f"iterations {self.first + 1:,} to {self.first + self.count:,}"


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A uTask of the loop.

    `below` are the operators in its subtree; `turns` counts the iterations in which one of them
    ran.
    """

    depth: int
    kind: str
    name: str
    below: frozenset[str]
    ops: tuple[str, ...]
    turns: int


@dataclass(frozen=True, eq=False)
class IterationRows:
    """The trips of a loop.

    `trips` counts all of them; those with times are in order. `times_us` holds the time of each
    iteration, which is `turn` unrolled trips.
    """

    loop: str
    device: str
    walls: WallRows
    trips: int
    turn: int
    times_us: NDArray[np.float64]
    shown: tuple[ShownIteration, ...]
    nodes: tuple[TaskNode, ...]

    @property
    def unit(self) -> str:
        """The span that one time covers: an iteration, or several unrolled ones."""
        return "iteration" if self.turn == 1 else f"{self.turn} unrolled iterations"


def loops(measured: WallRows | None) -> tuple[str, ...]:
    """Return the bindings of the loops that made a trip, in the order of first entry."""
    trips = measured.trips if measured is not None else ()
    return tuple(dict.fromkeys(t.binding for t in trips))


def data(measured: WallRows, tree: TaskTree, loop: str) -> IterationRows:
    """Return the trips of the loop with binding `loop`."""
    mine = [t for t in measured.trips if t.binding == loop]
    begins = np.array([t.begin_us for t in mine])
    ends = np.array([t.end_us for t in mine])
    turn_of = np.searchsorted(begins, measured.start, "right") - 1
    inside = (turn_of >= 0) & (measured.start < ends[np.maximum(turn_of, 0)])
    turn_of = np.where(inside, turn_of, -1)
    firsts = np.cumsum([0, *(t.count for t in mine)])
    shown = tuple(
        _shown_iteration(measured, mine[at], at, int(firsts[at]), np.flatnonzero(turn_of == at))
        for at in _select_iterations(ends - begins, len(measured.start))
    )
    turns = _turns(measured, turn_of)
    task = next((t for t in _every_task(tree) if t.binding == loop and t.kind == "loop"), None)
    nodes = tuple(_nodes(task, 0, turns)) if task is not None else ()
    trips = next((r.trips for r in measured.ran if r.binding == loop), int(firsts[-1]))
    most = max(t.count for t in mine)
    times = ends - begins
    return IterationRows(loop, measured.device, measured, trips, most, times, shown, nodes)


def _select_iterations(times: NDArray[np.float64], bricks: int) -> list[int]:
    """Select the iterations to show.

    All of them if they are few; else the first ones, the slowest, the last, and evenly spaced ones.
    """
    each = min(MOST_BRICKS, max(1, bricks // max(1, len(times))))
    most = max(LEAST_SHOWN, min(MOST_SHOWN, ALL_BRICKS // each))
    if len(times) <= most:
        return list(range(len(times)))
    slowest = np.argsort(times)[-SLOWEST:].tolist()
    first = range(min(FIRST, most // 2))
    remaining = most - len(first) - SLOWEST
    spread = np.linspace(0, len(times) - 1, remaining).astype(int).tolist()
    return sorted({*first, *slowest, *spread})


def _shown_iteration(
    rows: WallRows, trip: Trip, at: int, first: int, bricks: Int64Array
) -> ShownIteration:
    longest = bricks[np.argsort(rows.start[bricks] - rows.end[bricks])][:MOST_BRICKS]
    laid = tuple(
        Brick(
            int(rows.unit[i]),
            float(rows.start[i]) - trip.begin_us,
            float(rows.end[i]) - trip.begin_us,
            int(rows.call[i]),
        )
        for i in sorted(longest.tolist())
    )
    ran = frozenset(rows.calls[n].name for n in set(rows.call[bricks].tolist()))
    us, idle = trip.end_us - trip.begin_us, tuple(_find_gaps(rows, trip))
    return ShownIteration(at, first, trip.count, trip.begin_us, us, laid, idle, len(bricks), ran)


def _find_gaps(rows: WallRows, trip: Trip) -> Iterator[Gap]:
    """Yield the longest gaps of a trip, clipped to it."""
    start = np.maximum(rows.gap_start, trip.begin_us) - trip.begin_us
    end = np.minimum(rows.gap_end, trip.end_us) - trip.begin_us
    inside = np.flatnonzero(end > start)
    for i in inside[np.argsort(start[inside] - end[inside])][:MOST_GAPS].tolist():
        yield Gap(int(rows.gap_unit[i]), float(start[i]), float(end[i]), CAUSES[rows.cause[i]])


def _turns(rows: WallRows, turn_of: Int64Array) -> dict[str, frozenset[int]]:
    """Return the iterations in which each call ran, by binding."""
    pairs = {*zip(rows.call[turn_of >= 0].tolist(), turn_of[turn_of >= 0].tolist())}
    turns_by_call: dict[str, set[int]] = {}
    for call, turn in pairs:
        turns_by_call.setdefault(rows.calls[call].name, set()).add(turn)
    return {name: frozenset(turns) for name, turns in turns_by_call.items()}


def _every_task(tree: TaskTree) -> Iterator[TaskTree]:
    yield tree
    for part in tree.parts:
        yield from _every_task(part)


def _nodes(tree: TaskTree, depth: int, turns: dict[str, frozenset[int]]) -> Iterator[TaskNode]:
    """Yield a uTask and its descendants; an operator that unrolling repeats is yielded once."""
    below = frozenset(t.binding for t in _every_task(tree) if t.kind in ("operator", "library"))
    ran = frozenset[int]().union(*(turns.get(name, frozenset()) for name in below))
    name = tree.name or tree.kind
    yield TaskNode(depth, tree.kind, name, below, tuple(sorted(tree.origin)), len(ran))
    seen: set[str] = set()
    for part in tree.parts:
        if part.kind != "operator" or part.binding not in seen:
            seen.add(part.binding)
            yield from _nodes(part, depth + 1, turns)


@dataclass(frozen=True, slots=True)
class Layout:
    """Vertical positions of the parts of the picture, in pixels.

    The times of all iterations lie between `top` and `floor`; below are the lanes of one iteration,
    each `pitch` high, then `nodes` uTasks from `first` on.
    """

    wide: float
    high: float
    top: float
    floor: float
    lanes: float
    pitch: float
    count: int
    first: float
    nodes: int

    @property
    def right(self) -> float:
        """The right end of the axes."""
        return self.wide - 8

    @property
    def bottom(self) -> float:
        """The bottom of the lanes."""
        return self.lanes + self.count * self.pitch


def layout_of(rows: IterationRows, wide: float, high: float) -> Layout:
    """Compute the layout: a seventh of the height for the times, then the lanes and uTasks."""
    count = min(rows.walls.lanes, MOST_LANES)
    top, tall = 30.0, max(28.0, high * 0.14)
    lanes = top + tall + 64
    pitch = min(28.0, max(LEAST_ROW, (high - lanes - 172) / count))
    count = max(1, min(count, int((high - lanes - 122) / pitch)))
    first = lanes + count * pitch + 84
    room = int((high - first) / NODE)
    nodes = len(rows.nodes) if len(rows.nodes) <= room else max(0, room - 1)
    return Layout(wide, high, top, top + tall, lanes, pitch, count, first, nodes)


def table(rows: IterationRows) -> Table:
    """Return one row per shown iteration, which may be several unrolled ones."""
    columns = ("iterations", "from µs", "time µs", "tasks", "operators that ran")
    cells = tuple(
        (s.name, s.begin_us, s.us, s.bricks, ", ".join(sorted(s.ran))) for s in rows.shown
    )
    return Table(columns, cells[:MOST_ROWS], (), caption(rows), see(rows))


def caption(rows: IterationRows) -> str:
    """Describe how many iterations there are, and how long they took."""
    times = rows.times_us
    note = f", times of the first {len(times):,}" if len(times) * rows.turn < rows.trips else ""
    middle, low, high = (time_text(f(times)) for f in (np.median, np.min, np.max))
    return (
        f"{rows.loop}: {counted(rows.trips, 'iteration')}{note}; {rows.unit} took {middle} in "
        f"the median, {low} to {high}, measured on {rows.device}"
    )


def figure(rows: IterationRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """Draw the time of every iteration, then the tasks of one and the uTasks that ran in it."""
    wide, high = size
    at = layout_of(rows, wide, high)
    widest = WIDER * float(np.median(rows.times_us)) or 1.0
    nodes = rows.nodes[: at.nodes]
    marks = ['<g data-scrub="iterations" data-first="0"></g>', *_draw_times(rows, at)]
    marks += _axis(rows, at, widest)
    for n, shown in enumerate(rows.shown):
        parts = [*_draw_position(rows, at, shown), *_bricks(rows, at, shown, widest)]
        for i, node in enumerate(nodes):
            if node.below & shown.ran:
                y = at.first + NODE * i
                parts.append(rect(0, y - 15, wide, NODE - 2, "var(--soft)"))
        hidden = "" if n == 0 else ' visibility="hidden"'
        group = f'<g class="only"{hidden}>{"".join(parts)}</g>'
        span = (shown.begin_us, shown.begin_us + shown.us)
        body = _draw_pointer_area(rows, at, n) + group
        marks.append(step_group(body, n, _describe_iteration(rows, shown), shown.name, span))
    if nodes:
        marks.append(label(0, at.first - 22, "uTasks of the loop", "big"))
        name = text_width("uTasks of the loop", 16) * BOLD + 8
        marks.append(label(name, at.first - 22, "lit: ran in this iteration", "q"))
        for i, node in enumerate(nodes):
            marks += _node(rows, node, at.first + NODE * i, wide)
        if len(rows.nodes) > len(nodes):
            note = f"and {len(rows.nodes) - len(nodes)} more, in the table"
            marks.append(label(0, at.first + NODE * len(nodes), note, "q"))
    return Svg(wide, high, "".join(marks), f"Iterations. {caption(rows)}", px=PX)


def _x(rows: IterationRows, at: Layout, place: float) -> float:
    """Return the x of an iteration among all."""
    return AXIS + (place + 0.5) / len(rows.times_us) * (at.right - AXIS)


def _high(rows: IterationRows) -> float:
    """Return the time at the top of the axis; the bars of a few slow iterations are clipped."""
    return float(min(np.max(rows.times_us), 3 * np.median(rows.times_us))) or 1.0


def _draw_times(rows: IterationRows, at: Layout) -> Iterator[str]:
    """Draw the time of every iteration; with more iterations than pixels, the slowest per pixel."""
    high, times, tall = _high(rows), rows.times_us, at.floor - at.top
    columns = np.array_split(times, min(len(times), MOST_TIMES))
    wide = (at.right - AXIS) / len(columns)
    yield label(0, 16, f"Time of each {rows.unit}".replace("each 1 ", "each "), "big")
    for part in (0.0, 1.0):
        y = at.floor - part * tall
        yield path(f"M{AXIS} {y:g}H{at.right:g}", "var(--line2)")
        text = time_text(part * high) if part else "0"
        yield label(AXIS - 8, y + 4.5, text, "i", anchor="end")
    d = []
    for i, column in enumerate(columns):
        up = min(float(np.max(column)) / high, 1.0) * tall
        gap = 0.5 if wide > 3 else 0.0
        d.append(
            f"M{AXIS + i * wide + gap:.1f} {at.floor:.1f}v{-up:.1f}h{wide - 2 * gap:.1f}v{up:.1f}z"
        )
    yield lit_by(f'<path d="{"".join(d)}" fill="var(--ink2)"/>', "all")
    yield path(f"M{AXIS} {at.floor:.1f}H{at.right:g}", "var(--ink2)")
    yield label(AXIS, at.floor + 24, "1", "i")
    yield label(at.right, at.floor + 24, f"{int(rows.trips):,}", "i", anchor="end")
    yield label((AXIS + at.right) / 2, at.floor + 24, "iteration", "q", anchor="middle")


def _draw_position(rows: IterationRows, at: Layout, shown: ShownIteration) -> Iterator[str]:
    """Mark the position of an iteration among all, and write its title."""
    x = _x(rows, at, shown.at)
    yield path(f"M{x:.1f} {at.top - 4:g}V{at.floor:.1f}", "var(--accent)", 'stroke-width="2"')
    yield f'<path d="M{x - 5:.1f} {at.floor + 9:g}h10l-5 -8z" fill="var(--accent)"/>'
    name, when, left = _title(shown)
    yield label(0, at.lanes - 12, name, "big")
    yield label(left, at.lanes - 12, when, "i")


def _title(shown: ShownIteration) -> tuple[str, str, float]:
    """Return an iteration's name, its time, and where that begins behind the name."""
    name = shown.name[:1].upper() + shown.name[1:]
    when = f"{time_text(shown.us)}, from {time_text(shown.begin_us)} on"
    return name, when, text_width(name, 16) * BOLD + 8


def _draw_pointer_area(rows: IterationRows, at: Layout, n: int) -> str:
    """Draw the pointer area of an iteration."""
    places = [s.at for s in rows.shown]
    left = AXIS if n == 0 else (_x(rows, at, places[n - 1]) + _x(rows, at, places[n])) / 2
    last = n + 1 == len(places)
    right = at.right if last else (_x(rows, at, places[n]) + _x(rows, at, places[n + 1])) / 2
    return rect(left, at.top - 4, right - left, at.floor - at.top + 4, "transparent")


def _axis(rows: IterationRows, at: Layout, widest: float) -> Iterator[str]:
    """Draw the lanes, cores first, and the time axis from the start of the iteration."""
    for lane in range(at.count):
        y = at.lanes + lane * at.pitch
        yield rect(AXIS, y, at.right - AXIS, at.pitch - 4, "var(--app)")
        name = f"core {lane}" if lane < rows.walls.units else "host"
        yield label(0, y + at.pitch / 2 + 2.5, name, "i")
    ends = -1.0
    for part in range(5):
        x, text = AXIS + part / 4 * (at.right - AXIS), time_text(part / 4 * widest) if part else "0"
        wide = text_width(text, PX)
        left = min(max(AXIS, x - wide / 2), at.right - wide)
        if left < ends + 12:
            continue
        yield path(f"M{x:.1f} {at.bottom:g}v5", "var(--edge)")
        yield label(left, at.bottom + 20, text, "i")
        ends = left + wide
    legend = "time in the iteration; filled: a task, measured; hatched: idle, by its cause"
    if text_width(legend, PX) > at.wide - AXIS:
        legend = "filled: a task, measured; hatched: idle"
    yield label(AXIS, at.bottom + 37, fit(legend, at.wide - AXIS, PX), "q", title=legend)


def _bricks(rows: IterationRows, at: Layout, shown: ShownIteration, widest: float) -> Iterator[str]:
    """Draw the measured tasks of an iteration, filled, and its gaps, hatched.

    Anything later than `widest` microseconds is clipped.
    """
    scale, tall = (at.right - AXIS) / widest, at.pitch - 4
    for g in shown.longest_gaps:
        wide = (min(g.end_us, widest) - g.start_us) * scale
        if g.lane >= at.count or wide < NAMED / 12:
            continue
        x, y, name = AXIS + g.start_us * scale, at.lanes + g.lane * at.pitch, NAMES[g.cause]
        tip = f"idle, {name}: {g.end_us - g.start_us:.2f} µs"
        yield rect(x, y, wide, tall, f"url(#p-g-{g.cause})", title=tip)
        room = text_width(name, PX) + 8
        if room + 4 < wide:
            yield rect(x + (wide - room) / 2, y + 1, room, tall - 2, "var(--app)")
            yield label(x + wide / 2, y + tall / 2 + 4.5, name, anchor="middle")
    for b in shown.longest_bricks:
        if b.lane >= at.count or b.start_us >= widest:
            continue
        call = rows.walls.calls[b.call]
        left = AXIS + b.start_us * scale
        wide = min(max(2.0, (min(b.end_us, widest) - b.start_us) * scale), at.right - left)
        y = at.lanes + b.lane * at.pitch
        tip = f"{call.name} ({call.family}): {b.end_us - b.start_us:.2f} µs"
        edge = 'stroke="var(--pane)"' if wide > 5 else ""
        token = family_token(call.family)
        fill = f"url(#p-{token})" if wide > 5 else f"var(--{token})"
        yield rect(left, y, wide, tall, fill, edge, title=tip, ops=call.ops)
    if shown.us > widest:
        _, when, left = _title(shown)
        free = at.right - left - text_width(when, PX) - 8
        words = (f"cut: it took {time_text(shown.us)}", "cut")
        text = next((w for w in words if text_width(w, PX) <= free), "")
        yield label(at.right, at.lanes - 12, text, "i", anchor="end")


def _node(rows: IterationRows, node: TaskNode, y: float, wide: float) -> Iterator[str]:
    """Draw a uTask with the number of iterations in which it ran."""
    x, all_ = 16.0 * node.depth + 4, len(rows.times_us)
    style = "i" if node.kind == "operator" else "w i"
    parts = "iterations" if rows.turn == 1 else "unrolled parts"
    share = f"{node.turns:,} of {all_:,}" + (f" {parts}" if wide >= 640 else "")
    room = text_width(share, PX) + 4
    bar = 96.0 if wide >= 640 else 0.0
    kind = "" if node.kind in ("operator", "sequence") else node.kind
    names = wide - x - room - bar - text_width(kind, PX) - 40
    name = fit(node.name, names / BOLD, PX)
    marks = label(x, y, name, style, ops=node.ops, title=node.name)
    if kind and kind not in name:
        marks += label(x + text_width(name, PX) * BOLD + 10, y, kind, "q")
    if bar:
        left = wide - room - bar - 8
        marks += rect(left, y - 10, bar, 9, "none", 'stroke="var(--edge)"')
        marks += rect(left, y - 10, bar * node.turns / all_, 9, "var(--ink2)")
    marks += label(wide - 4, y, share, "i", anchor="end")
    yield lit_by(marks, f"uTask k:{node.kind}")


def see(rows: IterationRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the iterations, the slowest one, and what ran only in some."""
    times = rows.times_us
    count = Mark(counted(rows.trips, "iteration"), "all")
    middle = time_text(float(np.median(times)))
    each = "each" if rows.turn == 1 else f"for each {rows.turn}, unrolled,"
    sentences: list[Sentence] = [(count, f" took {middle} {each} in the median.")]
    slow = int(np.argmax(times))
    first = 1 + slow * rows.turn
    lead = f"The slowest began with number {first:,} and took "
    sentences.append((lead, Mark(time_text(float(times[slow])), "all"), "."))
    some = [n for n in rows.nodes if 0 < n.turns < len(times) and n.kind == "operator"]
    if some:
        node = min(some, key=lambda n: n.turns)
        often = Mark(f"{node.turns:,} of {len(times):,}", "uTask k:operator")
        sentences.append((f"{node.name.rsplit('/', 1)[-1]} ran in ", often, "."))
    return tuple(sentences)


def _describe_iteration(rows: IterationRows, shown: ShownIteration) -> str:
    operators = [n for n in rows.nodes if n.kind in ("operator", "library")]
    names = [n.name.rsplit("/", 1)[-1] for n in operators if n.below & shown.ran]
    listing = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f"{time_text(shown.us)}; ran {len(names)} of {len(operators)} operators: {listing}"


def _loop(s: OnShow) -> str:
    """Return the loop of the view, else the first, else "" if none made a trip."""
    loop_names = loops(s.walls.measured)
    if s.view.loop and s.view.loop not in loop_names:
        expected = ", ".join(loop_names) or "none"
        raise BadOption(f"no loop {s.view.loop[:40]!r} made an iteration", expected=expected)
    return s.view.loop or (loop_names[0] if loop_names else "")


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choice of loops."""
    loop_names, current = loops(s.walls.measured), _loop(s)
    if not loop_names:
        return {}
    return controls(s, ("loop", "loop", list(loop_names), loop_names.index(current)))


TRIPS = Family("trips", _controls)


def _draw(s: OnShow, op: str) -> Drawn:
    measured, tree, loop = s.walls.measured, s.now.compiled.program.decisions.tasks, _loop(s)
    if measured is None or tree is None or not loop:
        words = "No loop made an iteration in a measured run. Give inputs with which one does."
        lines = wrap_text(words, s.view.size[0] - 16, PX)
        marks = [label(8, 24 + 20 * n, line, "i") for n, line in enumerate(lines)]
        drawing = Svg(*s.view.size, "".join(marks), words, px=PX)
        return (), drawing, Table(("loop",), (("none",),), ((),), words)
    rows = data(measured, tree, loop)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="iterations",
    title="Iterations",
    words="The iterations of a loop in the measured run, one by one: its tasks, and which uTasks "
    "ran; the wall follows.",
    stage=Stage.TASKED,
    family=TRIPS,
    draw=_draw,
    of_run=True,
)
