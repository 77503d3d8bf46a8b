"""The drawing and the words of the Fusion room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, cross, fit, label, path, rect, stepped, text_width, wrapped
from widgets.draw.table import Table
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import fusion
from widgets.relax.fusion import FusionRows, NodeRow
from widgets.relax.shapes_picture import around

SHOWN = 22
GUTTER, NAME, KIND, WHY, RIGHT = 66.0, 84.0, 236.0, 372.0, 668.0
PHASES = 3
ABOUT = (
    "anchors, and what is at most Broadcast",
    "Injective nodes, and what is at most Broadcast",
    "what is at most Broadcast and still apart",
)
GROUNDS = ("var(--tint)", "var(--app)")


def table(rows: FusionRows) -> Table:
    """One row a node, with the reason of each refusal."""
    nodes = rows.nodes
    return Table(
        ("node", "kernel", "kind", "evidence", "post-dominator", "group", "phase", "why"),
        tuple(
            (
                n.called,
                n.label,
                n.kind,
                n.evidence,
                nodes[n.parent].called if n.parent >= 0 else "",
                f"{n.group}{', anchor' * n.anchor}" if n.group else "alone",
                f"taken in phase {n.phase}" if n.phase >= 0 else "refused",
                n.reason,
            )
            for n in nodes
        ),
        tuple(n.ops for n in nodes),
        caption(rows),
    )


def caption(rows: FusionRows) -> str:
    """What became of how many nodes, and whether this is what runs."""
    taken = sum(n.phase >= 0 for n in rows.nodes)
    groups = f"{rows.groups} group{'' if rows.groups == 1 else 's'}"
    return (
        f"{len(rows.nodes)} nodes, {taken} taken into {groups}, "
        f"{len(rows.nodes) - taken} refused; {rows.about}"
    )


def figure(rows: FusionRows, selected: str = "") -> Svg:
    """Nodes from the top down, each with an arc to its post-dominator."""
    shown = around(rows.nodes, [selected in n.ops for n in rows.nodes], SHOWN)
    first = rows.nodes.index(shown[0]) if shown else 0
    marks = [*_heads(rows), *_phases(rows)]
    lines = [wrapped(_verdict(n), RIGHT - WHY - 20) for n in shown]
    tops, y = [], 78.0
    for said in lines:
        tops.append(y)
        y += 14 * len(said) + 8
    for node, top, said in zip(shown, tops, lines, strict=True):
        marks += _node(node, top, said)
    marks += _arcs(shown, first, tops, y - 14)
    if len(rows.nodes) > len(shown):
        rest = f"and {len(rows.nodes) - len(shown):,} more nodes, all of them in the table"
        marks.append(label(12, y + 8, rest, "q"))
    return Svg(680, y + 20, "".join(marks), f"Fusion: {caption(rows)}", selected)


def _heads(rows: FusionRows) -> Iterator[str]:
    count, rest = caption(rows).split("; ", 1)
    yield label(12, 20, count, "i w")
    yield label(12, 36, rest, "i" if rows.ran else "q")
    heads = ((12, "leads to"), (NAME, "node"), (KIND, "pattern kind"), (WHY, "phase, or why not"))
    for x, text in heads:
        yield label(x, 56, text, "q")


def _verdict(n: NodeRow) -> str:
    return f"phase {n.phase}: {n.reason}" if n.phase >= 0 else n.reason


def _node(n: NodeRow, y: float, lines: Sequence[str]) -> Iterator[str]:
    yield stepped("".join(_outcome(n, y, lines)), _moment(n))
    mark = _mark(n)
    room = KIND - NAME - 12 - (text_width(mark) + 8 if mark else 0)
    yield label(
        NAME, y, fit(n.called, room), "i", ops=n.ops, title=f"{n.called}; {n.name} in the program"
    )
    yield _badge(n, y)


def _mark(n: NodeRow) -> str:
    words = (f"g{n.group}" * bool(n.group), "anchor" * n.anchor, "output" * n.output)
    return " ".join(filter(None, words))


def _moment(n: NodeRow) -> int:
    """When its fate is known: in its phase, or after the last one."""
    return n.phase if n.phase >= 0 else PHASES


def _outcome(n: NodeRow, y: float, lines: Sequence[str]) -> Iterator[str]:
    """What became of a node, and why."""
    high = 14 * len(lines) + 8
    ground = GROUNDS[n.group % 2] if n.group else "none"
    wide = RIGHT - NAME + 8
    yield rect(NAME - 8, y - 13, wide, high - 1, ground, 'class="ground"', ops=n.ops)
    if n.group:
        said = f"group {n.group}"
        yield rect(NAME - 8, y - 13, 4, high, "var(--ink2)", title=said, ops=n.ops)
    yield label(KIND - 10, y, _mark(n), "q", anchor="end", title=f"group {n.group}")
    if n.phase < 0 and n.group:
        yield path(f"M{WHY + 1:g} {y - 4:g}h7m0 -4v8", "var(--ink2)", 'stroke-width="1.6"')
    elif n.phase < 0:
        yield cross(WHY + 5, y - 4, 3.5)
    else:
        yield path(f"M{WHY + 1:g} {y - 4:g}l3 3l5 -7", "var(--ok)", 'stroke-width="1.6"')
    for i, line in enumerate(lines):
        yield label(WHY + 16, y + 14 * i, line, "i" if n.phase >= 0 else "")


def _phases(rows: FusionRows) -> Iterator[str]:
    """What each phase did, in words: the page walks through them."""
    for phase, about in enumerate(ABOUT):
        taken = sum(n.phase == phase for n in rows.nodes)
        yield stepped("", phase, f"phase {phase}, {about}: {taken} nodes are taken")
    apart = sum(n.phase < 0 for n in rows.nodes)
    yield stepped("", PHASES, f"after the last phase: {apart} nodes go no further, and why")


def _badge(n: NodeRow, y: float) -> str:
    """The kind; a hover says what it was read off."""
    edge = f'rx="3" stroke="var(--{"ink" if n.anchor else "line2"})" stroke-width="{1 + n.anchor}"'
    said = f"{n.kind}: {n.evidence}"
    return (
        f"<g><title>{escape(said)}</title>{rect(KIND, y - 12, 128, 16, 'var(--pane)', edge)}"
        f"{label(KIND + 6, y, n.kind, 'i w' if n.anchor else 'i')}</g>"
    )


def _arcs(
    shown: Sequence[NodeRow], first: int, tops: Sequence[float], bottom: float
) -> Iterator[str]:
    """From each node to its post-dominator; out of the picture below where that is not in it."""
    for i, node in enumerate(shown):
        y = tops[i] - 4
        if node.parent < 0:
            yield path(f"M{GUTTER:g} {y:g}h-6m0 -3v6", "var(--ink3)")
            continue
        to = node.parent - first
        inside = to < len(shown)
        end = tops[to] - 4 if inside else bottom
        x = max(12.0, GUTTER - 10 - 5 * min(to - i, 9))
        ink = "var(--ink)" if node.phase >= 0 else "var(--edge)"
        extra = "" if node.phase >= 0 else 'stroke-dasharray="3 2"'
        yield path(
            f"M{GUTTER:g} {y:g}C{x:g} {y:g} {x:g} {end:g} {GUTTER - 5:g} {end:g}", ink, extra
        )
        if inside:
            yield f'<path d="M{GUTTER:g} {end:g}l-6 -3v6z" fill="{ink}"/>'


def _draw(s: OnShow, op: str) -> Drawn:
    rows = s.house.kept("fusion", (), lambda: fusion.data(s.now.compiled, s.house.operators))
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="fusion",
    title="Fusion",
    words="How FuseOps groups operators by pattern kind, and why one stays out.",
    stage=Stage.LEGALIZED,
    about="operator",
    draw=_draw,
)
