"""Drawing, table and sentences of the dataflow graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.slide import NARROW, PX, cut_to, node
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.draw.theme import family_token
from widgets.model.dataflow_graph import Graph, GraphNode
from widgets.model.picture import Drawn, OnShow, Picture


def table(graph: Graph) -> Table:
    """Return every node with the nodes that it reads."""
    reads: list[list[str]] = [[] for _ in graph.nodes]
    for a, b in graph.edges:
        reads[b].append(graph.nodes[a].label)
    return Table(
        ("node", "family", "operators", "reads"),
        tuple(
            (n.label, n.family or n.kind, len(n.ops), ", ".join(r))
            for n, r in zip(graph.nodes, reads)
        ),
        tuple(n.ops for n in graph.nodes),
        see=see(graph),
    )


WIDEST, HIGH, GAP = 190.0, 32.0, 14.0  # a node, and between two
PITCH, ROOMY = 52.0, 84.0  # from a row to the next, at least and at most
BEND, BESIDE, LANES = 10.0, 30.0, 5  # a long edge's place in a row, and those beside the graph
MAP, DOT = 96.0, 6.0  # the whole graph in small, beside the rows that are drawn
FOOT = 22.0


def see(graph: Graph) -> tuple[Sentence, ...]:
    """Return the sentences: operators, rows, families, and the node with the most readers."""
    real = [v for v, n in enumerate(graph.nodes) if n.kind not in ("input", "output")]
    if not real:
        return ()
    rows = [[v for v in row if v < len(graph.nodes)] for row in graph.rows]
    widest = max(range(len(rows)), key=lambda n: len(rows[n]))
    kind = "kernel" if graph.folded else "operator"
    head = Mark(counted(len(real), kind), "op")
    beside = Mark(f"{len(rows[widest])} side by side", "widest")
    count = counted(len(rows), "row")
    sentences: list[Sentence] = [
        (head, f" in {count}, at most ", beside, ".")
        if len(rows[widest]) > 1
        else (head, f" in a chain of {count}.")
    ]
    families = Counter(graph.nodes[v].family for v in real if graph.nodes[v].family)
    named = [
        part
        for family, count in families.most_common(FAMILIES)
        for part in (", ", Mark(f"{count:,} {family}", _family_key(family)))
    ]
    if named:
        sentences.append((*named[1:], "."))
    readers = Counter(a for a, _ in graph.edges)
    most = _most_read(graph)
    if most is not None and readers[most] > 1:
        name = Mark(graph.nodes[most].label, "most")
        sentences.append((name, f" is read by {readers[most]:,}, more than any other."))
    return tuple(sentences)


FAMILIES = 3  # that a sentence counts


def _family_key(family: str) -> str:
    return f"family:{family.replace(' ', '-')}"


def _most_read(graph: Graph) -> int | None:
    most_common = Counter(a for a, _ in graph.edges).most_common(1)
    return most_common[0][0] if most_common else None


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows that are drawn, from `first` on, with the middle, top and width of their nodes.

    `places` includes bends. `left` is the leftmost edge, `pitch` the distance from row to row.
    """

    first: int
    count: int
    places: Mapping[int, tuple[float, float, float]]
    left: float
    pitch: float


def figure(graph: Graph, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw as many rows around the selected operator as fit, and an overview of the full graph."""
    width, height = size
    window = _window(graph, size, selected)
    keys = _keys(graph)
    marks = [_edge(graph, at, window, selected) for at in range(len(graph.edges))]
    marks += [
        _node(graph.nodes[v], place, keys[v], selected)
        for v, place in window.places.items()
        if v < len(graph.nodes)
    ]
    hidden_rows = len(graph.rows) - window.count
    if hidden_rows:
        above, below = window.first, hidden_rows - window.first
        directions = [f"{n:,} {where}" for n, where in ((above, "above"), (below, "below")) if n]
        words = f"{counted(hidden_rows, 'row')} more: {', '.join(directions)}"
        marks.append(label(0, height - 6, cut_to(words, width), title=words))
        if width >= NARROW:
            marks += _map(graph, window, keys, selected, (width - MAP, height - FOOT))
    title = f"Dataflow graph: {len(graph.nodes)} nodes for {graph.operators} source operators"
    return Svg(width, height, "".join(marks), title, selected, PX)


def _window(graph: Graph, size: tuple[int, int], selected: str) -> RowWindow:
    """Return the rows that fit: all, or those around the selected operator."""
    width, height = size
    most = max(1, int((height + PITCH - HIGH) / PITCH))
    if len(graph.rows) > most:
        most = max(1, int((height - FOOT + PITCH - HIGH - 4) / PITCH))
    ops = [[v for v in row if v < len(graph.nodes)] for row in graph.rows]
    at = next(
        (n for n, row in enumerate(ops) if any(selected in graph.nodes[v].ops for v in row)), 0
    )
    first = max(0, min(at - most // 2, len(graph.rows) - most))
    rows = graph.rows[first : first + most]
    has_hidden_rows = len(rows) < len(graph.rows)
    room = width - 2 - (MAP + 24 if has_hidden_rows and width >= NARROW else 0)
    pitch = PITCH if has_hidden_rows else (height - HIGH - 2) / max(1, len(rows) - 1)
    pitch = min(ROOMY, max(PITCH, pitch)) if len(rows) * PITCH <= height else pitch
    places: dict[int, tuple[float, float, float]] = {}
    for n, row in enumerate(rows):
        real = sum(v < len(graph.nodes) for v in row)
        bends = (len(row) - real) * (BEND + GAP)
        free = room - BESIDE - bends - GAP * (real - 1)
        each = min(WIDEST, free / max(1, real))
        total = each * real + bends + GAP * (real - 1)
        x = BESIDE + (room - BESIDE - total) / 2
        for v in row:
            wide_ = each if v < len(graph.nodes) else BEND
            places[v] = (x + wide_ / 2, 1 + n * pitch, wide_)
            x += wide_ + GAP
    left = min((x - w / 2 for x, _, w in places.values()), default=0.0)
    return RowWindow(first, len(rows), places, left, pitch)


def _keys(graph: Graph) -> list[str]:
    """Return the keys by which sentences highlight each node."""
    widest = max(graph.rows, key=lambda row: sum(v < len(graph.nodes) for v in row), default=())
    most = _most_read(graph)
    node_keys = []
    for v, n in enumerate(graph.nodes):
        words = [n.kind if n.kind in ("input", "output") else "op"]
        words += [_family_key(n.family)] if n.family else []
        words += ["widest"] if v in widest else []
        node_keys.append(" ".join([*words, *(["most"] if v == most else [])]))
    return node_keys


def _edge(graph: Graph, at: int, window: RowWindow, selected: str) -> str:
    """Return an edge between rows, or beside the graph if it is long; only its visible part."""
    a, b = graph.edges[at]
    places = window.places
    if a not in places or b not in places:
        return ""
    ends = graph.nodes[a].ops + graph.nodes[b].ops
    ink = 'class="edge sel"' if selected and selected in ends else 'class="edge"'
    ax, ay, aw = places[a]
    bx, by, bw = places[b]
    if by - ay > window.pitch + 1 and at not in graph.routes:
        lane = max(2.0, window.left - 12 - 5 * (at % LANES))
        d = f"M{ax - aw / 2:.1f} {ay + HIGH / 2}H{lane}V{by + HIGH / 2}H{bx - bw / 2:.1f}"
        body = path(d, "var(--edge)", f'{ink} stroke-dasharray="3 2"')
    else:
        d, bottom = f"M{ax:.1f} {ay + HIGH}", ay + HIGH
        for x, top, _ in (*(places[v] for v in graph.routes.get(at, ())), places[b]):
            d += f"C{ax:.1f} {bottom + 8} {x:.1f} {top - 8} {x:.1f} {top}"
            ax, bottom = x, top
            if top != by:
                d += f"V{top + HIGH}"
                bottom = top + HIGH
        body = path(d, "var(--edge)", ink)
    return lit_by(body, "edge most" if a == _most_read(graph) else "edge")


def _node(n: GraphNode, place: tuple[float, float, float], keys: str, selected: str) -> str:
    x, y, wide_ = place
    name = f"{n.label} {n.note}".strip()
    on = bool(selected) and selected in n.ops
    left, dashed = x - wide_ / 2, n.kind in ("input", "output")
    return node(
        left, y, wide_, HIGH, name, family=n.family, ops=n.ops, on=on, dashed=dashed, keys=keys,
        title=n.name,
    )  # fmt: skip


def _map(
    graph: Graph, window: RowWindow, keys: Sequence[str], selected: str, place: tuple[float, float]
) -> Iterator[str]:
    """Yield the overview: all rows in small, with a frame around those that are drawn."""
    x, high = place
    pitch = min(9.0, (high - 4) / len(graph.rows))
    dots: dict[tuple[str, str], str] = {}
    for n, row in enumerate(graph.rows):
        real = [v for v in row if v < len(graph.nodes)]
        each = min(DOT + 2, (MAP - 12) / max(1, len(real)))
        start = x + MAP / 2 - each * len(real) / 2
        for i, v in enumerate(real):
            on = bool(selected) and selected in graph.nodes[v].ops
            family = graph.nodes[v].family
            ink = "accent" if on else family_token(family) if family else "edge"
            w, h = max(1.0, each - 2), max(0.8, pitch * 0.66)
            box = f"M{start + each * i + 1:.1f} {2 + pitch * n:.1f}h{w:.1f}v{h:.1f}h-{w:.1f}z"
            dots[keys[v], ink] = dots.get((keys[v], ink), "") + box
    for (key, ink), d in dots.items():
        yield lit_by(f'<path d="{d}" fill="var(--{ink})"/>', key)
    top, tall = 1 + pitch * window.first, pitch * window.count
    yield rect(x, top, MAP - 1, tall + 1, "none", 'stroke="var(--ink)" rx="3"')


def _draw(s: OnShow, op: str) -> Drawn:
    rows = s.house.graph("operators")
    return rows, figure(rows, s.view.size, op), table(rows)


PICTURE = Picture(
    name="dataflow",
    title="Dataflow graph",
    words="The dataflow graph: every source operator below those that it reads.",
    stage=Stage.IMPORTED,
    draw=_draw,
)
