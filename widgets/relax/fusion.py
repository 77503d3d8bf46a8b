"""FuseOps at work: pattern kinds with their evidence, the post-dominator tree, and the groups.

Each node has the phase in which it joined a group, or the reason why it stays out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from explorer.compiler.operators import Operator, distinct_labels, in_words
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.relax.fusion import plan as plan_of
from explorer.relax.fusion_graph import FusionNode, FusionPlan
from widgets.draw.slide import (
    LINE,
    NARROW,
    PX,
    cut_to,
    fold_columns,
    label_width,
    legend,
    node,
    pipe,
    tick,
    tip,
)
from widgets.draw.svg import Svg, label, rect, step_group, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.relax.levels import lowered_program

RAN = "FuseOps ran: these groups became kernels"
BASELINE = "baseline: what FuseOps would do; Welder's groups are what runs"
WIDE, SLIM, HIGH, LINK, PAD = 126.0, 114.0, 52.0, 12.0, 6.0  # sizes of nodes, links and padding
WORDS, RAIL, FOOT = 40.0, 48.0, 34.0  # refused edge's text, its margin, legend
PHASES = 3
ABOUT = (
    "anchors, and what is at most Broadcast",
    "Injective nodes, and what is at most Broadcast",
    "what is at most Broadcast and still apart",
)
FAMILIES = {  # the operator family whose colour a pattern kind has
    "ElementWise": "elementwise",
    "Broadcast": "elementwise",
    "Injective": "layout",
    "CommReduce": "reduction",
    "OutEWiseFusable": "matmul",
    "Opaque": "library call",
}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A binding with its display name.

    `evidence` is the reason for its kind. `parent` is the position of its immediate post-dominator,
    -1 for none. `phase` is -1 where it was not fused: `reason` then says why. `group` counts from
    1 and is 0 where the node is alone. `anchor`: it is the group's OutEWiseFusable node.
    """

    name: str
    display_name: str
    label: str
    kind: str
    rank: int
    evidence: str
    parent: int
    phase: int
    reason: str
    group: int
    anchor: bool
    last: bool
    output: bool
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FusionRows:
    """The nodes of the main function in program order; `groups` counts those of several nodes."""

    nodes: tuple[NodeRow, ...]
    groups: int
    ran: bool

    @property
    def about(self) -> str:
        """The role of these groups: compiled into kernels, or only a baseline."""
        return RAN if self.ran else BASELINE


def data(c: Compiled, operators: Sequence[Operator] = ()) -> FusionRows:
    """Return the plan that was carried out, else the one that FuseOps would make.

    `operators` are the source operators, from which the nodes' display names come.
    """
    program = lowered_program(c)
    done = [p for p in c.program.decisions.fusion if isinstance(p, FusionPlan)]
    mine = next((p for p in done if p.graph.function == program.main.name), None)
    plan = mine or plan_of(program, program.main)
    return of_plan(plan, _origins(c, plan), mine is not None, operators)


def _origins(c: Compiled, plan: FusionPlan) -> dict[str, tuple[str, ...]]:
    """Return the source operators of every node, from the last program that has all nodes."""
    names = {node.name for node in plan.graph.nodes}
    for step in reversed(c.snapshots):
        origins = {v.name: tuple(sorted(b.origin)) for b in step.after.main.body for v in b.vars}
        if names <= origins.keys() and len(step.after.main.body) == len(names):
            return origins
    return {}


def of_plan(
    plan: FusionPlan,
    origins: dict[str, tuple[str, ...]],
    ran: bool,
    operators: Sequence[Operator] = (),
) -> FusionRows:
    """Return the rows of a plan."""
    together = [g for g in plan.groups if len(g.members) > 1]
    number = {m: i + 1 for i, g in enumerate(together) for m in g.members}
    anchors = {g.anchor for g in plan.groups if g.anchor}
    ends = {g.name for g in plan.groups}
    rows = tuple(
        _node_row(
            node, plan, number.get(node.name, 0), node.name in anchors, node.name in ends, origins
        )
        for node in plan.graph.nodes
    )
    display_names = distinct_labels(operators, {r.name: (r.ops, r.label) for r in rows})
    named = (
        replace(r, display_name=display_names[r.name], reason=in_words(r.reason, display_names))
        for r in rows
    )
    return FusionRows(tuple(named), len(together), ran)


def _node_row(
    node: FusionNode,
    plan: FusionPlan,
    group: int,
    anchor: bool,
    last: bool,
    origins: dict[str, tuple[str, ...]],
) -> NodeRow:
    parent = plan.graph.parent(node.number)
    phase, reason = _describe_outcome(node, plan, group, last)
    return NodeRow(
        node.name,
        node.name,
        node.label,
        node.kind.word,
        int(node.kind),
        node.why or "nothing is loaded",
        -1 if parent is None else parent.number,
        phase,
        reason,
        group,
        anchor and group > 0,
        last,
        node.extern,
        origins.get(node.name, ()),
    )


def _describe_outcome(
    node: FusionNode, plan: FusionPlan, group: int, last: bool
) -> tuple[int, str]:
    """Return the phase in which a node was fused and how, or -1 and the reason why not."""
    for step in plan.steps:
        if step.taken and (step.node == node.name or node.name in step.merged):
            via = "" if step.node == node.name else f"on the way of {step.node}: "
            return step.phase, via + step.reason
    refused = next((s for s in plan.refusals if s.node == node.name), None)
    reason = refused.reason if refused else "no phase reached it"
    return -1, f"the group ends here: {reason}" if group and last else reason


def table(rows: FusionRows) -> Table:
    """Return one row per node, with the reason of each refusal."""
    nodes = rows.nodes
    return Table(
        ("node", "kernel", "kind", "evidence", "post-dominator", "group", "phase", "why"),
        tuple(
            (
                n.display_name,
                n.label,
                n.kind,
                n.evidence,
                nodes[n.parent].display_name if n.parent >= 0 else "",
                f"{n.group}{', anchor' * n.anchor}" if n.group else "alone",
                f"taken in phase {n.phase}" if n.phase >= 0 else "refused",
                n.reason,
            )
            for n in nodes
        ),
        tuple(n.ops for n in nodes),
        caption(rows),
        see(rows),
    )


def caption(rows: FusionRows) -> str:
    """Describe how many nodes were fused or refused, and the role of the groups."""
    taken = sum(n.phase >= 0 for n in rows.nodes)
    groups = f"{rows.groups} group{'' if rows.groups == 1 else 's'}"
    return (
        f"{len(rows.nodes)} nodes, {taken} taken into {groups}, "
        f"{len(rows.nodes) - taken} refused; {rows.about}"
    )


def see(rows: FusionRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the groups, the refused edges, and the role of the groups."""
    grouped = sum(n.group > 0 for n in rows.nodes)
    refused = sum(n.phase < 0 for n in rows.nodes)
    return (
        (
            Mark(f"{grouped} of {counted(len(rows.nodes), 'node')}", "node"),
            " form ",
            Mark(counted(rows.groups, "group"), "group"),
            ".",
        ),
        (
            Mark(counted(refused, "edge"), "refused"),
            " is refused." if refused == 1 else " are refused.",
        ),
        (
            "These groups run."
            if rows.ran
            else "They are a baseline: what runs are Welder's groups.",
        ),
    )


@dataclass(frozen=True, slots=True)
class FusionRow:
    """A group, or a node that is alone."""

    nodes: tuple[NodeRow, ...]

    @property
    def last(self) -> NodeRow:
        """The node at which it ends, whose outgoing edge is refused."""
        return next((n for n in self.nodes if n.last), self.nodes[-1])


def rows_of(rows: FusionRows) -> tuple[FusionRow, ...]:
    """Return each group and each lone node, in the order of their first nodes."""
    numbered = [(n.group or -i, n) for i, n in enumerate(rows.nodes, 1)]
    order = {key: i for i, key in reversed([*enumerate(k for k, _ in numbered)]) for key in [key]}
    numbered.sort(key=lambda t: order[t[0]])
    return tuple(
        FusionRow(tuple(n for _, n in mine)) for _, mine in groupby(numbered, lambda t: t[0])
    )


def figure(rows: FusionRows, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw a row per group: its nodes joined from left to right, and the refused edge."""
    width, height = size
    all_rows = rows_of(rows)
    narrow = width < NARROW
    beside = max(2, int((width - 330) / (WIDE + LINK))) if not narrow else 2
    step = HIGH + 2 * PAD + (12 if not narrow else 46)
    count = max(1, int((height - FOOT) / step))
    at = next((i for i, r in enumerate(all_rows) if any(selected in n.ops for n in r.nodes)), 0)
    first = max(0, min(at - count // 2, len(all_rows) - count))
    shown = all_rows[first : first + count]
    marks: list[str] = list(_phases(rows))
    for i, r in enumerate(shown):
        marks += _row(r, rows, i * step, beside, size, selected)
    if not narrow:
        marks += _draw_refused_edges(
            shown, rows, _ends(shown, rows, step, beside, size, selected), width
        )
    marks += _foot(first, len(all_rows) - first - len(shown), size)
    return Svg(width, height, "".join(marks), f"Fusion: {caption(rows)}", selected, PX)


def _parts(r: FusionRow, beside: int, selected: str) -> tuple[tuple[int, ...], ...]:
    on = next((i for i, n in enumerate(r.nodes) if selected in n.ops), len(r.nodes) - 1)
    return fold_columns(len(r.nodes), beside, on)


def _each(width: int) -> float:
    """Return the width of a node; a narrow page has room for three next to each other."""
    slim = min(SLIM, (width - 4 - 2 * PAD - 2 * LINK) / 3)
    return slim if width < NARROW else WIDE


def _wide(r: FusionRow, beside: int, width: int, selected: str) -> float:
    """Return the width of all nodes of a row."""
    return len(_parts(r, beside, selected)) * (_each(width) + LINK) - LINK


def _row(
    r: FusionRow, rows: FusionRows, y: float, beside: int, size: tuple[int, int], selected: str
) -> Iterator[str]:
    """Draw the joined nodes of a group, and its refused edge to the right, or below if narrow."""
    parts, each = _parts(r, beside, selected), _each(size[0])
    w = _wide(r, beside, size[0], selected)
    if r.nodes[0].group:
        tip_text = f"group {r.nodes[0].group}"
        edge = 'rx="8" stroke="var(--ink)" stroke-width="2"'
        box = rect(1, y + 1, w + 2 * PAD, HIGH + 2 * PAD, "var(--app)", edge, title=tip_text)
        yield step_group(lit_by(box, "group"), max(n.phase for n in r.nodes))
    for i, part in enumerate(parts):
        x = 1 + PAD + i * (each + LINK)
        if i:
            line = pipe(f"M{x - LINK:g} {y + PAD + HIGH / 2:g}H{x - 7:g}") + tip(
                x, y + PAD + HIGH / 2, "right"
            )
            yield step_group(lit_by(line, "joined"), max(0, *(r.nodes[n].phase for n in part)))
        yield _node([r.nodes[n] for n in part], x, y + PAD, each, selected)
    yield step_group("".join(_refused(r, rows, 1 + w + 2 * PAD, y, size)), PHASES)


def _node(nodes: Sequence[NodeRow], x: float, y: float, w: float, selected: str) -> str:
    n = nodes[0]
    if len(nodes) > 1:
        names = ", ".join(m.display_name for m in nodes)
        ops = [op for m in nodes for op in m.ops]
        return node(x, y, w, HIGH, f"{len(nodes)} more", dashed=True, title=names, ops=ops)
    kind = f"{n.kind}, anchor" if n.anchor and n.kind != "OutEWiseFusable" else n.kind
    return node(
        x, y, w, HIGH, n.display_name, kind, family=FAMILIES.get(n.kind, ""), ops=n.ops,
        on=bool(selected) and selected in n.ops,
        title=f"{n.display_name}; {n.name} in the program; {n.kind}: {n.evidence}",
        keys="node anchor" if n.anchor else "node",
    )  # fmt: skip


def _words(n: NodeRow, rows: FusionRows, room: float) -> list[str]:
    """Return text lines for the refused edge: its target and the reason."""
    parent = rows.nodes[n.parent].display_name if n.parent >= 0 else ""
    why = n.reason.removeprefix("the group ends here: ").split(": ")[0]
    head = cut_to(f"not into {parent}:" if parent else "it ends here:", room, bold=True)
    return [head, *wrap_text(why, room, PX)]


def _refused(
    r: FusionRow, rows: FusionRows, x: float, y: float, size: tuple[int, int]
) -> Iterator[str]:
    """Draw the edge out of a group with a cross, and the reason of its refusal."""
    n = r.last
    if n.phase >= 0:
        return
    if size[0] < NARROW:
        top = y + HIGH + 2 * PAD + 16
        lines = wrap_text(" ".join(_words(n, rows, 1e9)), size[0] - 34, PX)[:2]
        body = tick(13, top - 4, good=False)
        body += "".join(label(26, top + LINE * i, t, title=n.reason) for i, t in enumerate(lines))
        yield lit_by(body, "refused")
        return
    middle = y + PAD + HIGH / 2
    body = pipe(f"M{x:g} {middle:g}h28", ink="edge", dashed="5 4")
    body += tick(x + 14, middle, good=False)
    lines = _words(n, rows, size[0] - x - WORDS - RAIL)
    top = middle + 5 - LINE * (len(lines) - 1) / 2
    for i, line in enumerate(lines):
        body += label(x + WORDS, top + LINE * i, line, "" if i else "i w", title=n.reason)
    yield lit_by(body, "refused")


def _draw_refused_edges(
    shown: Sequence[FusionRow], rows: FusionRows, at: dict[str, tuple[float, float]], width: int
) -> Iterator[str]:
    """Draw a line from each refused edge to the row of its post-dominator, along the right margin.

    `at` holds the middle of each node's row, and the right end of its text.
    """
    tracks: dict[str, int] = {}
    for r in shown:
        n = r.last
        parent = rows.nodes[n.parent].name if n.parent >= 0 else ""
        if n.phase >= 0 or parent not in at or at[parent][0] <= at[n.name][0]:
            continue
        x = width - 8 - 7 * (tracks.setdefault(parent, len(tracks)) % 4)
        (y0, x0), (y1, x1) = at[n.name], at[parent]
        d = f"M{x0:g} {y0:g}H{x:g}V{y1 + 9:g}H{x1 + 6:g}"
        body = pipe(d, ink="edge", width=1.5, dashed="5 4") + tip(x1, y1 + 9, "left", "edge")
        yield lit_by(body, "refused")


def _ends(
    shown: Sequence[FusionRow],
    rows: FusionRows,
    step: float,
    beside: int,
    size: tuple[int, int],
    op: str,
) -> dict[str, tuple[float, float]]:
    """Return the middle of each node's row, and the right end of its text."""
    ends: dict[str, tuple[float, float]] = {}
    for i, r in enumerate(shown):
        right = 1 + _wide(r, beside, size[0], op) + 2 * PAD
        lines = _words(r.last, rows, size[0] - right - WORDS - RAIL)
        bold = [label_width(t, bold=not n) for n, t in enumerate(lines)]
        end = right + WORDS + max(bold) if r.last.phase < 0 else right
        ends |= {n.name: (i * step + PAD + HIGH / 2, end + 8) for n in r.nodes}
    return ends


def _foot(before: int, after: int, size: tuple[int, int]) -> Iterator[str]:
    more = [f"{counted(n, 'row')} {word}" for n, word in ((before, "above"), (after, "below")) if n]
    remainder = ", ".join(more)
    items = [("group", "box", "one group")]
    items += [
        ("node", f, k)
        for k, f in (
            ("OutEWiseFusable", "matmul"),
            ("ElementWise", "elementwise"),
            ("Injective", "layout"),
            ("CommReduce", "reduction"),
        )
    ]
    yield from legend(
        items, size[1] - 9, size[0] - (label_width(remainder) + 14 if remainder else 0)
    )
    if remainder:
        yield label(size[0], size[1] - 9, remainder, anchor="end")


def _phases(rows: FusionRows) -> Iterator[str]:
    """Yield the text of each phase, through which the page steps."""
    for phase, about in enumerate(ABOUT):
        taken = sum(n.phase == phase for n in rows.nodes)
        yield step_group("", phase, f"phase {phase}, {about}: {counted(taken, 'node')} taken")
    apart = sum(n.phase < 0 for n in rows.nodes)
    yield step_group("", PHASES, f"after the last phase: {counted(apart, 'edge')} refused, and why")


def _draw(s: OnShow, op: str) -> Drawn:
    rows = s.house.cached("fusion", (), lambda: data(s.now.compiled, s.house.operators))
    return rows, figure(rows, s.view.size, op), table(rows)


PICTURE = Picture(
    name="fusion",
    title="Fusion",
    words="How FuseOps groups operators by pattern kind, and why others are not fused.",
    stage=Stage.LEGALIZED,
    about="operator",
    draw=_draw,
)
