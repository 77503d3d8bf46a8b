"""The uTask tree picture: a lane for each hardware level, from the host down to one core."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlSchedule, TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.views.grinder import TaskRow, task_rows
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.draw.theme import family_token
from widgets.grinder.shown_tasks import (
    REST,
    ShownTask,
    TaskFacts,
    build_tree,
    fold_to_fit,
    leaves,
    static_profile,
    walk_tasks,
)
from widgets.grinder.view import (
    SCHEDULED,
    crossings,
    launches,
    on_host,
    plan_schedule,
    selected_schedule,
)
from widgets.model.picture import HEIGHT, WIDTH, Drawn, OnShow, Picture, placeholder

FOLD_ABOVE = 6  # longer runs of plain operators become one row
NARROW = 640  # narrower pages show a list
LINE, FOOT = 26.0, 24.0  # heights of a list row and of the legend
PLAIN = ("operator", "library", "more")
PX, BOLD, LANES = 13, 1.07, 3
GUTTER, GAP = 124.0, 12.0  # width of the lanes' names; gap between columns
LEAST, MOST = 92.0, 208.0  # limits of a box's width
HIGH, TALLEST, PAD = 44.0, 56.0, 20.0  # limits of a box's height; gap to the next row
LINE_HIGH, EMPTY = 16.0, 54.0  # heights of a text line and of an empty lane


@dataclass(frozen=True, slots=True)
class TreeRows:
    """A program's uTasks as drawn and as rows; `lanes` describe what runs at each level.

    `launched` and `on_host` count the launches of a run: of this plan, and with all on the host.
    """

    tree: ShownTask
    rows: tuple[TaskRow, ...]
    lanes: tuple[tuple[str, str], ...]
    launched: int | None = None
    on_host: int | None = None
    iterations: int | None = None


def lanes_of(device: Device) -> tuple[tuple[str, str], ...]:
    """Return the name of each level and what runs there."""
    unit = device.unit_word
    together = counted(device.units, unit)
    if device.units > 1:
        together += " in step"
    return ("host", "1 thread"), ("device", together), (unit, f"1 {unit} alone")


def see(rows: TreeRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the control flow and its levels, the inner loop, the launches."""
    nodes = list(walk_tasks(rows.tree))
    sentences: list[Sentence] = []
    loops = sum(n.kind == "loop" and n.under != REST for n in nodes)
    branches = sum(n.kind == "branch" for n in nodes)
    calls = sum(n.kind == "call" and bool(n.parts) for n in nodes)
    kinds = [("loop", loops), ("branch", branches), ("call", calls)]
    counts = [(kind, n) for kind, n in kinds if n]
    kernels = sum(n.bodies for n in nodes if n.kind == "operator")
    if not counts:
        sentences.append(("No loop, branch or call: all is one launch of ", _count(kernels), "."))
        return tuple(sentences)
    parts: list[str | Mark] = []
    for at, (kind, n) in enumerate(counts):
        parts.append(" and " if at and at + 1 == len(counts) else ", " if at else "")
        plural = f"{n:,} {kind}{'' if n == 1 else 'es' if kind == 'branch' else 's'}"
        parts.append(Mark(plural, f"k:{kind}"))
    hosted = sum(n.lane == 0 and n.kind in ("loop", "branch", "call") for n in nodes)
    where = Mark(f"{hosted:,}" if hosted else "none", "lv0")
    sentences.append((*(p for p in parts if p), ", ", where, " on the host."))
    if loops:
        around = any(
            p.kind == "loop" for n in nodes if n.kind == "loop" for p in [*walk_tasks(n)][1:]
        )
        which = "inner loop" if around else "loop" if loops == 1 else "first loop"
        word = Mark(f"The {which}", "inner")
        often = f" makes {counted(rows.iterations or 0, 'iteration')}."
        sentences.append(
            (word, often if rows.iterations is not None else " ends when its data say so.")
        )
    if rows.launched is not None:
        now = Mark(counted(rows.launched, "launch", "launches"), "lv0")
        more = rows.on_host is not None and rows.on_host != rows.launched
        sentences.append((now, f" instead of {rows.on_host:,}." if more else " per run."))
    return tuple(sentences)


def _count(kernels: int) -> Mark:
    return Mark(counted(kernels, "kernel"), "k:operator")


def tree_rows(
    program: Program,
    device: Device,
    facts: TaskFacts,
    ran: Sequence[ControlFlowCounts] = (),
    host: TaskTree | None = None,
) -> TreeRows | None:
    """Return the uTasks of a program, None if Grinder has not run.

    `host` is the tree with all control flow on the host.
    """
    tree = program.decisions.tasks
    if tree is None:
        return None
    facts = replace(facts, decided={d.binding: d for d in program.decisions.control})
    deepest = max(loops_of(tree, 0), key=lambda x: x[0], default=(0, ""))[1]
    return TreeRows(
        build_tree(tree, facts),
        task_rows(program, ran, facts.labels, FOLD_ABOVE),
        lanes_of(device),
        launches(tree, facts.ran),
        launches(host, facts.ran) if host is not None else None,
        facts.ran[deepest].trips if deepest in facts.ran else None,
    )


def loops_of(tree: TaskTree, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the loops of a tree by binding, each with the number of loops around it."""
    if tree.kind == "loop":
        yield depth, tree.binding
    for part in tree.parts:
        yield from loops_of(part, depth + (tree.kind == "loop"))


def table(rows: tuple[TaskRow, ...], see: tuple[Sentence, ...] = ()) -> Table:
    """Return one row per uTask."""
    return Table(
        (
            "uTask",
            "kind",
            "level",
            "operators",
            "barriers each time",
            "reason",
            "schedules, predicted",
            "per run, measured",
        ),
        tuple(
            (
                "  " * r.depth + r.name,
                r.kind,
                r.level,
                r.count,
                r.barriers_per_trip,
                r.reason,
                "; ".join(map(schedule_text, r.schedules)),
                r.ran,
            )
            for r in rows
        ),
        tuple(r.ops for r in rows),
        see=see,
    )


def schedule_text(weighed: Candidate[ControlSchedule]) -> str:
    """Return a control-flow schedule with its predicted time, or the reason against it."""
    result = f"no: {weighed.refused}" if weighed.refused else time_text(weighed.cost_us)
    return f"{weighed.label} {result}"


@dataclass(frozen=True, slots=True)
class NodePosition:
    """Position of a node: its box's centre x, its row in its lane, and its parent's index."""

    node: ShownTask
    x: float
    row: int
    parent: int


def fits(tree: ShownTask, wide: float, high: float) -> bool:
    """Return True if the whole tree is legible in `wide` × `high` pixels."""
    room = (wide - GUTTER - GAP) / (LEAST + GAP)
    return leaves(tree) <= room and TreeLayout(tree, wide, high).fits


class TreeLayout:
    """Layout of a tree: a column for each leaf and, in each lane, a row for each nesting depth."""

    def __init__(self, tree: ShownTask, wide: float, high: float) -> None:
        """Lay out `tree` in `wide` × `high` pixels."""
        self.wide = wide
        self.column = (wide - GUTTER - GAP) / leaves(tree)
        self.across = min(MOST, self.column - GAP)
        self.places: list[NodePosition] = []
        self._place(tree, 0, -1)
        self.rows = [
            1 + max((p.row for p in self.places if p.node.lane == lane), default=-1)
            for lane in range(LANES)
        ]
        used = [n for n in self.rows if n]
        pitch = (high - EMPTY * (LANES - len(used)) - 4 * LANES) / (sum(used) + 0.3 * len(used))
        lines = max((len(self.lines(p.node)) for p in self.places), default=2)
        least = HIGH + LINE_HIGH * max(0, lines - 2)
        self.box = min(TALLEST + LINE_HIGH * max(0, lines - 2), pitch - PAD)
        self.tops: list[tuple[float, float]] = []
        y = 0.0
        for count in self.rows:
            tall = (count + 0.3) * pitch if count else EMPTY
            self.tops.append((y, tall))
            y += tall + 4
        cut = any("…" in text for p in self.places for text, _ in self.lines(p.node))
        self.fits = self.box >= least and self.across >= (MOST if cut else LEAST)

    def _place(self, node: ShownTask, leaf: int, parent: int) -> tuple[float, int]:
        """Place a node and its parts; return its x and the next free column."""
        at = len(self.places)
        self.places.append(NodePosition(node, 0.0, self._row(node.lane, parent), parent))
        xs = []
        for part in node.parts:
            x, leaf = self._place(part, leaf, at)
            xs.append(x)
        if not xs:
            xs, leaf = [GUTTER + self.column * (leaf + 0.5)], leaf + 1
        self.places[at] = replace(self.places[at], x=(xs[0] + xs[-1]) / 2)
        return self.places[at].x, leaf

    def _row(self, lane: int, parent: int) -> int:
        """Return how many ancestors of a node are in its lane."""
        row = 0
        while parent >= 0:
            row += self.places[parent].node.lane == lane
            parent = self.places[parent].parent
        return row

    def y(self, place: NodePosition) -> float:
        """Return the y of the centre of a box."""
        top, tall = self.tops[place.node.lane]
        return top + 4 + tall * (place.row + 0.5) / self.rows[place.node.lane]

    def lines(self, node: ShownTask) -> list[tuple[str, bool]]:
        """Return the lines of a node's label, each with True if it belongs to the name.

        The name comes first, then the note under it; each is wrapped where it is too wide.
        """
        room = self.across - (28 if node.kind == "branch" else 10)
        names, under = _wrapped(node.name, room / BOLD, 3), _wrapped(node.under, room, 2)
        return [*((x, True) for x in names), *((x, False) for x in under)]


def _wrapped(text: str, room: float, most: int) -> list[str]:
    """Break a text into at most `most` lines, after words and separators.

    A text that needs more lines is shortened to one.
    """
    lines = [""]
    for piece in re.findall(r"[^\s_./:]*[\s_./:]*", text):
        longer = lines[-1] + piece
        if lines[-1] and text_width(longer.strip(), PX) > room:
            lines.append(piece)
        else:
            lines[-1] = longer
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) > most or any(text_width(line, PX) > room for line in lines):
        return [fit(text, room, PX)]
    return lines


def figure(rows: TreeRows, size: tuple[int, int] = (WIDTH, HEIGHT), selected: str = "") -> Svg:
    """Draw the tree from the host down; on a narrow page, an indented list."""
    wide, high = size
    title = f"uTask tree of {len(rows.rows)} tasks"
    tree = fold_to_fit(rows.tree, lambda t: fits(t, wide, high), selected)
    if wide < NARROW or not fits(tree, wide, high):
        most = int((high - FOOT) / LINE)
        tree = fold_to_fit(
            rows.tree, lambda t: len([*islice(walk_tasks(t), most + 1)]) <= most, selected
        )
        body = "".join(_list(tree, rows.lanes, wide, high))
        return Svg(wide, high, body, title, selected, px=PX)
    plan = TreeLayout(tree, wide, high)
    body = "".join([*_lanes(plan, rows.lanes), *_edges(plan), *_boxes(plan)])
    return Svg(wide, high, body, title, selected, px=PX)


def _lanes(plan: TreeLayout, lanes: Sequence[tuple[str, str]]) -> Iterator[str]:
    for lane, (name, what) in enumerate(lanes):
        y, tall = plan.tops[lane]
        marks = rect(0, y, plan.wide, tall, "var(--app)")
        marks += rect(0, y, 8, tall, f"var(--v{lane})")
        marks += label(20, y + 24, name, "big") + label(20, y + 44, what)
        yield lit_by(marks, f"lane lv{lane}")


def _edges(plan: TreeLayout) -> Iterator[str]:
    """Draw an edge from each uTask to its parts.

    An edge that changes the level is thicker and on top; neighbours launched at once share one
    line.
    """
    half, thick = plan.box / 2, []
    for above, mine in _group_parts(plan):
        lane = min(place.node.lane for place in mine)
        at, crosses, alone = plan.y(above) + half, lane != above.node.lane, len(mine) == 1
        bar = plan.tops[lane][0] + 6 if crosses and not alone else at + 8
        for place in mine:
            down = f"V{plan.y(place) - half:.1f}"
            begin = f"M{place.x:.1f} {bar:.1f}"
            if alone or not crosses:
                begin = f"M{above.x:.1f} {at:.1f}V{bar:.1f}H{place.x:.1f}"
            edge = lit_by(_line(begin + down, heavy=crosses and alone), f"e {_keys(place.node)}")
            if crosses and alone:
                thick.append(edge)
            else:
                yield edge
        if crosses and not alone:
            left, right = mine[0].x, mine[-1].x
            x = min(max(above.x, left), right)
            yield lit_by(_line(f"M{left:.1f} {bar:.1f}H{right:.1f}", heavy=False), f"e lv{lane}")
            trunk = f"M{above.x:.1f} {at:.1f}V{at + 8:.1f}H{x:.1f}V{bar:.1f}"
            thick.append(lit_by(_line(trunk, heavy=True), f"e lv{lane}"))
    yield from thick


def _group_parts(plan: TreeLayout) -> Iterator[tuple[NodePosition, list[NodePosition]]]:
    """Yield each uTask with its parts, those on another level and those on its own level apart."""
    parts = sorted((p for p in plan.places if p.parent >= 0), key=lambda p: (p.parent, p.x))
    levels = [place.node.lane for place in plan.places]
    for (parent, _), mine in groupby(parts, lambda p: (p.parent, p.node.lane == levels[p.parent])):
        yield plan.places[parent], list(mine)


def _line(commands: str, *, heavy: bool) -> str:
    ink, width = ("var(--ink)", 2) if heavy else ("var(--edge)", 1.5)
    return path(commands, ink, f'stroke-width="{width}" stroke-linejoin="round"')


def _keys(node: ShownTask) -> str:
    """Return the highlight keys of a node: its level, its kind, and the kinds folded into it."""
    kinds = {node.kind, *node.holds} - {"inner"}
    inner = " inner" if node.inner or "inner" in node.holds else ""
    return f"lv{node.lane} {' '.join(f'k:{k}' for k in sorted(kinds))}{inner}"


def _boxes(plan: TreeLayout) -> Iterator[str]:
    for place in plan.places:
        yield lit_by("".join(_box(plan, place)), f"n {_keys(place.node)}")


def _box(plan: TreeLayout, place: NodePosition) -> Iterator[str]:
    """Draw a node: a loop stacked, a branch as a hexagon, an operator with its family's strip."""
    node, wide, high, middle = place.node, plan.across, plan.box, plan.y(place)
    x, y = place.x - wide / 2, middle - high / 2
    if node.kind == "loop" or node.count > 1:
        for by in (8, 4):
            yield rect(x + by, y - by, wide, high, "var(--pane)", 'rx="4" stroke="var(--edge)"')
    tip = "; ".join(filter(None, (node.name, node.under, node.note)))
    plain = node.kind in PLAIN
    if node.kind == "branch":
        yield _hexagon(x, y, wide, high, node.lane)
    elif plain:
        edge = 'rx="4" stroke="var(--ink2)" class="ground"'
        yield rect(x, y, wide, high, "var(--pane)", edge, title=tip, ops=node.ops)
        yield from _strip(node, x + 1.5, y + 1.5, wide - 3)
    else:
        edge = 'rx="4" stroke="var(--ink)" stroke-width="1.5"'
        yield rect(x, y, wide, high, f"var(--v{node.lane})", edge, title=tip)
    style = "i" if plain or node.lane < 2 else "inv"
    lines = plan.lines(node)
    line = middle + (4 if plain else 0) + 4.5 - LINE_HIGH / 2 * (len(lines) - 1)
    for text, named in lines:
        css = f"w {style}" if named else "" if plain else style
        ops = node.ops if named and node.bodies == 1 else ()
        yield label(place.x, line, text, css, anchor="middle", ops=ops, title=tip)
        line += LINE_HIGH


def _hexagon(x: float, y: float, wide: float, high: float, lane: int) -> str:
    corners = (
        f"M{x + 12:.1f} {y:.1f}H{x + wide - 12:.1f}L{x + wide:.1f} {y + high / 2:.1f}"
        f"L{x + wide - 12:.1f} {y + high:.1f}H{x + 12:.1f}L{x:.1f} {y + high / 2:.1f}z"
    )
    return f'<path d="{corners}" fill="var(--v{lane})" stroke="var(--ink)" stroke-width="1.5"/>'


def _strip(node: ShownTask, x: float, y: float, wide: float) -> Iterator[str]:
    """Draw the families of the operators next to each other."""
    each = wide / max(1, len(node.families))
    for n, family in enumerate(node.families):
        yield rect(x + n * each, y, each, 8, f"url(#p-{family_token(family)})", title=family)


def _depths(node: ShownTask, depth: int) -> Iterator[tuple[ShownTask, int]]:
    yield node, depth
    for part in node.parts:
        yield from _depths(part, depth + 1)


def _list(
    tree: ShownTask, lanes: Sequence[tuple[str, str]], wide: float, high: float
) -> Iterator[str]:
    """Draw one uTask per row, parts indented under their parent."""
    rows = list(_depths(tree, 0))
    pitch = min(40.0, (high - FOOT) / len(rows))
    letters = ", ".join(f"{name[:1].upper()} {name}: {what}" for name, what in lanes)
    yield label(0, high - 6, fit(letters, wide, PX), "q", title=letters)
    tall, last = pitch - 5, dict[int, float]()
    for n, (node, depth) in enumerate(rows):
        x, y = 14.0 * depth, 2 + n * pitch
        if depth:
            line = f"M{x - 6:.1f} {last[depth - 1]:.1f}V{y + tall / 2:.1f}H{x:.1f}"
            yield path(line, "var(--edge)", 'stroke-width="1.5"')
        last[depth] = y + tall
        middle = y + tall / 2 + 4.5
        box = min(text_width(node.name, PX) * BOLD + 42, wide - x)
        name = fit(node.name, (box - 40) / BOLD, PX)
        marks = rect(
            x, y, box, tall, "var(--pane)", 'rx="4" stroke="var(--edge)" class="ground"',
            title=node.note, ops=node.ops,
        )  # fmt: skip
        marks += rect(x, y, 24, tall, f"var(--v{node.lane})", 'rx="4"')
        letter = lanes[node.lane][0][:1].upper()
        marks += label(
            x + 12, middle, letter, "inv w" if node.lane == 2 else "i w", anchor="middle"
        )
        marks += label(x + 32, middle, name, "i w", ops=node.ops, title=node.name)
        if wide - x - box > 50:
            note = fit(node.under, wide - x - box - 10, PX)
            marks += label(wide, middle, note, anchor="end", title=node.under)
        yield lit_by(marks, f"n {_keys(node)}")


def _draw(s: OnShow, op: str) -> Drawn:
    plan = plan_schedule(s, selected_schedule(s))
    measured = s.walls.measured
    ran = measured.ran if measured is not None else ()
    host = on_host(s)
    tree = plan.program.decisions.tasks
    profile = {r.binding: r for r in ran} or (
        static_profile(tree, _static(s, tree)) if tree else {}
    )
    names, families = ({c.name: getattr(c, of) for c in plan.calls} for of in ("label", "family"))
    all_on_host = host.program.decisions.tasks if host is not None else None
    facts = TaskFacts(names, families, profile)
    rows = tree_rows(plan.program, s.now.compiled.device, facts, ran, all_on_host)
    if rows is None:
        return placeholder("Grinder has not run.")
    return rows, figure(rows, s.view.size, op), table(rows.rows, see(rows))


def _static(s: OnShow, tree: TaskTree) -> Mapping[str, int]:
    """Return the trips per entry of the loops whose trip count follows from sizes and constants."""
    if not any(True for _ in loops_of(tree, 0)):
        return {}
    return {x.loop: x.trips for x in crossings(s) if x.trips is not None}


PICTURE = Picture(
    name="grinder",
    title="Grinder's uTask tree",
    short="Control flow",
    words="Loops, branches and calls as uTasks, each at the hardware level that runs it.",
    stage=Stage.TASKED,
    family=SCHEDULED,
    draw=_draw,
    of_run=True,
)
