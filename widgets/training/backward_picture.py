"""The drawing and the words of the backward graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.training.backward import BackwardRows, Node, Saved, data

WIDTH, PITCH, HIGH, WIDE = 780, 24.0, 18.0, 196.0
LEFT, MIDDLE, RIGHT = 12.0, 292.0, 572.0
TOP = 72.0
SHOWN = 36  # forward nodes: of more, those whose values are kept, the largest first
GROUNDS = {"forward": "pane", "backward": "tint", "recomputed": "soft", "update": "pane"}
Places = dict[int, tuple[float, float]]


def table(rows: BackwardRows) -> Table:
    """A row for each node, with what the backward part reads of it."""
    kept = {s.made: s for s in rows.saved}
    lines: list[tuple[Cell, ...]] = []
    for n, node in enumerate(rows.nodes):
        s = kept.get(n)
        readers = ", ".join(rows.nodes[r].name for r in s.readers) if s else ""
        lines.append((node.name, node.label, node.phase, s.bytes if s else 0, readers))
    lines += [
        (s.name, "input", "read again", s.bytes, ", ".join(rows.nodes[r].name for r in s.readers))
        for s in rows.inputs
    ]
    ops = (*(n.ops for n in rows.nodes), *(() for _ in rows.inputs))
    return Table(
        ("value", "what", "part", "bytes kept", "read by"), tuple(lines), ops, caption(rows)
    )


def caption(rows: BackwardRows) -> str:
    """The two graphs in one sentence."""
    count = {phase: sum(n.phase == phase for n in rows.nodes) for phase in GROUNDS}
    if not count["backward"]:
        return f"{count_text(count['forward'], 'forward node')} and no gradient"
    again = f", {count['recomputed']} recomputed" if count["recomputed"] else ""
    return (
        f"{count_text(count['forward'], 'forward node')}, {count['backward']} backward{again}; "
        f"{count_text(len(rows.saved), 'value')} kept in between, {size_text(rows.saved_bytes)}"
    )


def figure(rows: BackwardRows, selected: str = "") -> Svg:
    """Forward from top to bottom, backward beside what it is the derivative of, and so from bottom
    to top; lines in between are values that are kept.
    """
    shown = _shown(rows)
    places, floor = _places(rows.nodes, shown)
    words = caption(rows)
    marks = [
        label(LEFT, 22, words, "i w"),
        label(LEFT, 40, f"as the step {rows.step} leaves them" if rows.step else "", "q"),
        label(LEFT, TOP - 10, "forward, downwards", "q"),
        label(MIDDLE, TOP - 10, "values kept", "q"),
        label(RIGHT, TOP - 10, "backward, upwards", "q"),
    ]
    for s in rows.saved:
        marks += _value(s, places)
    for n, place in places.items():
        marks.append(_node(rows.nodes[n], *place, selected))
    hidden = sum(n.phase == "forward" for n in rows.nodes) - len(shown)
    if hidden > 0:
        marks.append(label(LEFT, floor + 14, f"and {hidden} more forward nodes, in the table", "q"))
    if rows.inputs:
        many = size_text(sum(i.bytes for i in rows.inputs))
        largest = max(rows.inputs, key=lambda i: i.bytes).name
        again = f"inputs read again: {len(rows.inputs)}, {many}; the largest is {largest}"
        marks.append(label(LEFT, floor + 32, again, "q"))
    return Svg(WIDTH, floor + 44, "".join(marks), f"Backward graph: {words}")


def _shown(rows: BackwardRows) -> list[int]:
    forward = [n for n, node in enumerate(rows.nodes) if node.phase == "forward"]
    kept = {s.made: s.bytes for s in rows.saved}
    return sorted(sorted(forward, key=lambda n: -kept.get(n, 0))[:SHOWN])


def _places(nodes: Sequence[Node], shown: Sequence[int]) -> tuple[Places, float]:
    """Left corners by node: each forward one begins a band, in which its derivatives stand."""
    bands: dict[int, list[int]] = {n: [] for n in shown}
    for n, node in enumerate(nodes):
        if node.phase in ("backward", "recomputed") and node.band in bands:
            bands[node.band].append(n)
    places: Places = {}
    y = TOP
    for first, beside in bands.items():
        places[first] = (LEFT, y)
        for row, n in enumerate(reversed(beside)):
            places[n] = (RIGHT, y + PITCH * row)
        y += PITCH * max(1, len(beside))
    return places, y


def _value(s: Saved, places: Places) -> Iterator[str]:
    """From its maker to its readers, with its bytes."""
    if s.made not in places:
        return
    x, y = places[s.made][0] + WIDE, places[s.made][1] + HIGH / 2
    for reader in s.readers:
        if reader in places:
            to = places[reader][1] + HIGH / 2
            far = RIGHT - 60
            d = f"M{x:g} {y:g}H{MIDDLE + 160:g}C{far:g} {y:g} {far:g} {to:g} {RIGHT:g} {to:g}"
            yield path(d, "var(--edge)")
    said = f"{s.name}: {s.bytes:,} B"
    yield rect(MIDDLE - 4, y - 8, 158, 16, "var(--pane)", title=said)
    yield label(MIDDLE, y + 4, fit(s.name, 92, mono=True), "mono i", title=s.name)
    yield label(MIDDLE + 150, y + 4, size_text(s.bytes), "i", anchor="end")


def _node(node: Node, x: float, y: float, selected: str) -> str:
    on = bool(selected) and selected in node.ops
    edge = "var(--accent)" if on else "var(--edge)"
    dashed = ' stroke-dasharray="3 2"' if node.phase == "recomputed" else ""
    ground = f"var(--{GROUNDS[node.phase]})"
    box = rect(x, y, WIDE, HIGH, ground, f'rx="3" stroke="{edge}"{dashed}', title=node.name,
               ops=node.ops)  # fmt: skip
    words = f"again: {node.label}" if node.phase == "recomputed" else node.label
    size = label(x + WIDE - 6, y + 13, size_text(node.bytes), "q", anchor="end")
    text = label(x + 8, y + 13, fit(words, WIDE - 80), "i w" if on else "i", title=node.name)
    return box + text + size


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(s.now.compiled, dict(s.now.sizes))
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="backward",
    title="Backward graph",
    words="What is computed forward and backward, and which values are kept in between.",
    draw=_draw,
    stage=Stage.DIFFERENTIATED,
    about="operator",
)
