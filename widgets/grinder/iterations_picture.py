"""The drawing and the words of a loop's trips: one after the other, with what ran in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from explorer.errors import BadOption
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, stepped, text_width
from widgets.draw.table import Table, count_text, time_text
from widgets.draw.theme import family_token
from widgets.grinder.iterations import IterationRows, Node, Shown, data, loops
from widgets.model.brick_wall import NAMES
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Family, Picture, controls

WIDTH, LEFT, RIGHT, X0 = 780.0, 12.0, 768.0, 84.0
TOP, FLOOR = 66.0, 122.0  # of the times of all trips
LANES, HIGH, PITCH = 176.0, 20.0, 24.0
NODE = 20.0
MOST_TIMES, MOST_NODES, MOST_LANES, MOST_ROWS = 684, 40, 16, 2000
NAMED = 60.0  # pixels of a gap that has room for a word
WIDER = 2.0  # times the median trip is as long as there is room for


def table(rows: IterationRows) -> Table:
    """One row a trip, or a turn of several, of those that one can go to."""
    columns = ("trips", "from µs", "time µs", "bricks", "operators that ran")
    found = tuple(
        (s.name, s.begin_us, s.us, s.bricks, ", ".join(sorted(s.ran))) for s in rows.shown
    )
    return Table(columns, found[:MOST_ROWS], (), caption(rows))


def caption(rows: IterationRows) -> str:
    """How many trips, and how long they took."""
    times = rows.times_us
    told = f", times of the first {len(times):,}" if len(times) * rows.turn < rows.trips else ""
    middle, low, high = (time_text(f(times)) for f in (np.median, np.min, np.max))
    return (
        f"{rows.loop}: {count_text(rows.trips, 'trip')}{told}; a {rows.unit} took {middle} in the "
        f"median, {low} to {high}, measured on {rows.device}"
    )


def figure(rows: IterationRows) -> Svg:
    """Above, the time of every trip; then the bricks of one, and the uTasks that ran in it."""
    head, rest = caption(rows).split("; ", 1)
    lanes = min(rows.walls.lanes, MOST_LANES)
    bottom = LANES + lanes * PITCH
    first = bottom + 62
    widest = WIDER * float(np.median(rows.times_us)) or 1.0
    nodes = rows.nodes[:MOST_NODES]
    marks = [
        '<g data-scrub="trips" data-first="0"></g>',
        label(LEFT, 20, fit(head, RIGHT - LEFT), "i w", title=head),
        label(LEFT, 36, fit(rest, RIGHT - LEFT), "q", title=rest),
        *_all(rows),
        *_axis(lanes, rows, widest, bottom),
    ]
    for n, shown in enumerate(rows.shown):
        parts = [*_place(rows, shown), *_bricks(rows, shown, widest)]
        for i, node in enumerate(nodes):
            if node.below & shown.ran:
                parts.append(rect(LEFT, first + NODE * i, 470, NODE - 2, "var(--soft)"))
        hidden = "" if n == 0 else ' visibility="hidden"'
        group = f'<g class="only"{hidden}>{"".join(parts)}</g>'
        span = (shown.begin_us, shown.begin_us + shown.us)
        body = _ground(rows, n) + group
        marks.append(stepped(body, n, _said(rows, shown), shown.name, span))
    marks.append(label(LEFT, first - 10, "uTasks of the loop", "i w"))
    marks.append(label(LEFT + 108, first - 10, "lit: ran in this trip", "q"))
    for i, node in enumerate(nodes):
        marks += _node(rows, node, first + NODE * i)
    y = first + NODE * len(nodes)
    if len(rows.nodes) > len(nodes):
        marks.append(label(LEFT, y + 14, f"… and {len(rows.nodes) - len(nodes)} more", "q"))
        y += NODE
    return Svg(WIDTH, y + 12, "".join(marks), f"Iterations. {caption(rows)}")


def _x(rows: IterationRows, at: float) -> float:
    """Of a trip among all."""
    return X0 + (at + 0.5) / len(rows.times_us) * (RIGHT - X0)


def _high(rows: IterationRows) -> float:
    """The time at the top: of few slow trips the bars are cut."""
    return float(min(np.max(rows.times_us), 3 * np.median(rows.times_us))) or 1.0


def _all(rows: IterationRows) -> Iterator[str]:
    """The time of every trip; where there are more than pixels, the slowest of each pixel."""
    high, times = _high(rows), rows.times_us
    columns = np.array_split(times, min(len(times), MOST_TIMES))
    wide = (RIGHT - X0) / len(columns)
    yield label(LEFT, TOP - 12, f"time of each {rows.unit}", "i w")
    for part in (0.0, 0.5, 1.0):
        y = FLOOR - part * (FLOOR - TOP)
        yield path(f"M{X0} {y:g}H{RIGHT}", "var(--line)")
        yield label(X0 - 8, y + 4, time_text(part * high) if part else "0", "q", anchor="end")
    d = []
    for i, column in enumerate(columns):
        tall = min(float(np.max(column)) / high, 1.0) * (FLOOR - TOP)
        gap = 0.5 if wide > 3 else 0.0
        d.append(f"M{X0 + i * wide + gap:.1f} {FLOOR}v{-tall:.1f}h{wide - 2 * gap:.1f}v{tall:.1f}z")
    yield f'<path d="{"".join(d)}" fill="var(--t2)"/>'
    yield path(f"M{X0} {FLOOR}H{RIGHT}", "var(--ink2)")
    yield label(X0 + 10, FLOOR + 16, "trip 1", "q")
    yield label(RIGHT, FLOOR + 16, f"trip {int(rows.trips):,}", "q", anchor="end")


def _place(rows: IterationRows, shown: Shown) -> Iterator[str]:
    """Where the trip is among all."""
    x = _x(rows, shown.at)
    yield path(f"M{x:.1f} {TOP - 4}V{FLOOR}", "var(--accent)", 'stroke-width="1.6"')
    yield f'<path d="M{x - 4:.1f} {FLOOR + 8:g}h8l-4 -6z" fill="var(--accent)"/>'
    said = f"{shown.name}, at {time_text(shown.begin_us)}: {time_text(shown.us)}"
    yield label(LEFT, LANES - 12, said, "i w")


def _ground(rows: IterationRows, n: int) -> str:
    """Room to point at a trip."""
    at = [s.at for s in rows.shown]
    left = X0 if n == 0 else (_x(rows, at[n - 1]) + _x(rows, at[n])) / 2
    right = RIGHT if n + 1 == len(at) else (_x(rows, at[n]) + _x(rows, at[n + 1])) / 2
    return rect(left, TOP - 4, right - left, FLOOR - TOP + 4, "transparent")


def _axis(lanes: int, rows: IterationRows, widest: float, bottom: float) -> Iterator[str]:
    """The lanes, units first, and the time from the beginning of the trip."""
    for lane in range(lanes):
        y = LANES + lane * PITCH
        yield rect(X0, y, RIGHT - X0, HIGH, "var(--app)")
        yield label(LEFT, y + 14, rows.walls.lane_name(lane), "mono i")
    for part in range(5):
        x = X0 + part / 4 * (RIGHT - X0)
        yield path(f"M{x:.1f} {LANES}V{bottom}", "var(--line)")
        anchor = "end" if part == 4 else "middle" if part else ""
        text = time_text(part / 4 * widest) if part else "0"
        yield label(x, bottom + 14, text, "q", anchor=anchor)
    yield label(LEFT, bottom + 14, "of the trip", "q")
    told = "filled: a brick, measured; hatched: idle, by its cause"
    yield label(X0, bottom + 28, told, "q")


def _bricks(rows: IterationRows, shown: Shown, widest: float) -> Iterator[str]:
    """The bricks of a trip: filled, they were measured; what is later than there is room is cut."""
    scale = (RIGHT - X0) / widest
    for g in shown.idle:
        wide = (min(g.end_us, widest) - g.start_us) * scale
        if g.lane >= MOST_LANES or wide < NAMED / 12:
            continue
        x, y, name = X0 + g.start_us * scale, LANES + g.lane * PITCH, NAMES[g.cause]
        said = f"idle, {name}: {g.end_us - g.start_us:.2f} µs"
        yield rect(x, y, wide, HIGH, f"url(#p-g-{g.cause})", title=said)
        if text_width(name) + 10 < wide:
            room = text_width(name) + 6
            yield rect(x + (wide - room) / 2, y + 4, room, 13, "var(--app)")
            yield label(x + wide / 2, y + 14, name, anchor="middle")
    for b in shown.laid:
        if b.lane >= MOST_LANES or b.start_us >= widest:
            continue
        call = rows.walls.calls[b.call]
        wide = max(2.0, (min(b.end_us, widest) - b.start_us) * scale)
        y = LANES + b.lane * PITCH
        said = f"{call.name} ({call.family}): {b.end_us - b.start_us:.2f} µs"
        edge = 'stroke="var(--pane)"' if wide > 5 else ""
        token = family_token(call.family)
        fill = f"url(#p-{token})" if wide > 5 else f"var(--{token})"
        yield rect(X0 + b.start_us * scale, y, wide, HIGH, fill, edge, title=said, ops=call.ops)
    if shown.us > widest:
        end = LANES + min(rows.walls.lanes, MOST_LANES) * PITCH
        yield label(RIGHT, end + 28, f"cut: it took {time_text(shown.us)}", "i", anchor="end")


def _node(rows: IterationRows, node: Node, y: float) -> Iterator[str]:
    x = LEFT + 8 + 18 * node.depth
    style = "i" if node.kind == "operator" else "i w"
    yield label(x, y + 13, fit(node.name, 400 - x), style, ops=node.ops)
    if node.kind != "operator":
        yield label(474, y + 13, node.kind, "q", anchor="end")
    of = f"of {len(rows.times_us):,} {'trips' if rows.turn == 1 else 'turns'}"
    share = node.turns / len(rows.times_us)
    yield rect(496, y + 4, 80, 9, "transparent", 'stroke="var(--edge)"')
    yield rect(496, y + 4, 80 * share, 9, "var(--t2)")
    yield label(586, y + 13, f"ran in {node.turns:,} {of}")


def _said(rows: IterationRows, shown: Shown) -> str:
    operators = [n for n in rows.nodes if n.kind in ("operator", "library")]
    names = [n.name.rsplit("/", 1)[-1] for n in operators if n.below & shown.ran]
    told = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f"{time_text(shown.us)}; ran {len(names)} of {len(operators)} operators: {told}"


def _loop(s: OnShow) -> str:
    """The loop of the view, else the first; "" where none made a trip."""
    known = loops(s.walls.measured)
    if s.view.loop and s.view.loop not in known:
        told = ", ".join(known) or "none"
        raise BadOption(f"no loop {s.view.loop[:40]!r} made a trip", expected=told)
    return s.view.loop or (known[0] if known else "")


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Which loop."""
    known, mine = loops(s.walls.measured), _loop(s)
    if not known:
        return {}
    return controls(s, ("loop", "loop", list(known), known.index(mine)))


TRIPS = Family("trips", _controls)


def _draw(s: OnShow, op: str) -> Drawn:
    measured, tree, loop = s.walls.measured, s.now.compiled.program.decisions.tasks, _loop(s)
    if measured is None or tree is None or not loop:
        words = "No loop made a trip in a measured run. Give inputs with which one does."
        drawing = Svg(WIDTH, 40, label(LEFT, 24, words, "i"), words)
        return (), drawing, Table(("loop",), (("none",),), ((),), words)
    rows = data(measured, tree, loop)
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="iterations",
    title="Iterations",
    words="The trips of a loop in the measured run, one by one: its bricks, and which uTasks ran; "
    "the wall follows.",
    stage=Stage.TASKED,
    family=TRIPS,
    draw=_draw,
    of_run=True,
)
