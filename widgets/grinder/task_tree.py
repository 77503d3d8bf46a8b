"""Drawing of the uTask tree: a lane for each hardware level, from the host down to one core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice

from explorer.ir.decisions.control import TaskTree
from explorer.ir.stage import Stage
from widgets.draw.see import lit_by
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.theme import family_token
from widgets.grinder.schedules import (
    SCHEDULED,
    on_host,
    plan_schedule,
    selected_schedule,
)
from widgets.grinder.shown_tasks import (
    ShownTask,
    TaskFacts,
    fold_to_fit,
    static_profile,
    walk_tasks,
)
from widgets.grinder.task_rows import table
from widgets.grinder.tree_places import BOLD, LINE_HIGH, PX, NodePosition, TreeLayout, fits
from widgets.grinder.tree_rows import TreeRows, loops_of, see, tree_rows
from widgets.grinder.view import crossings
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture, placeholder

NARROW = 640  # narrower pages show a list
LINE, FOOT = 26.0, 24.0  # heights of a list row and of the legend
PLAIN = ("operator", "library", "more")


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
