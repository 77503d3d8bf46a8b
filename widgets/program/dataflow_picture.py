"""The drawing and the words of the dataflow graph."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table
from widgets.draw.theme import family_token
from widgets.model.dataflow_graph import Graph, Node
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture


def table(graph: Graph) -> Table:
    """Every node with what it reads."""
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
    )


WIDTH, PITCH, HIGH, WIDE = 480, 26, 18, 150
BESIDE = 5  # lanes for edges that run beside the graph


def figure(graph: Graph, selected: str = "") -> Svg:
    """The whole graph from top to bottom, for a report or a page without a browser's canvas."""
    left = 24.0
    place: dict[int, tuple[float, float, float]] = {}
    for y, row in enumerate(graph.rows):
        wide = min(WIDE, (WIDTH - left) / max(len(row), 1) - 8)
        for x, node in enumerate(row):
            centre = left + (WIDTH - left) * (x + 0.5) / len(row)
            place[node] = (centre, 6 + y * PITCH, wide)
    marks = [_edge(graph, at, place, selected) for at in range(len(graph.edges))]
    marks += [_node(graph.nodes[v], *place[v], selected) for v in range(len(graph.nodes))]
    title = f"Dataflow graph: {len(graph.nodes)} nodes for {graph.operators} source operators"
    return Svg(WIDTH, 12 + len(graph.rows) * PITCH, "".join(marks), title)


def _edge(
    graph: Graph, at: int, place: dict[int, tuple[float, float, float]], selected: str
) -> str:
    a, b = graph.edges[at]
    ends = graph.nodes[a].ops + graph.nodes[b].ops
    ink = 'class="edge sel"' if selected and selected in ends else 'class="edge"'
    ax, ay, aw = place[a]
    bx, by, bw = place[b]
    if by - ay > PITCH and at not in graph.routes:
        lane = 8 + 3 * (at % BESIDE)
        d = f"M{ax - aw / 2:.1f} {ay + 9}H{lane}V{by + 9}H{bx - bw / 2:.1f}"
        return path(d, "var(--edge)", f'{ink} stroke-dasharray="3 2"')
    d, bottom = f"M{ax:.1f} {ay + HIGH}", ay + HIGH
    for x, top, _ in (*(place[v] for v in graph.routes.get(at, ())), place[b]):
        d += f"C{ax:.1f} {bottom + 4} {x:.1f} {top - 4} {x:.1f} {top}"
        ax, bottom = x, top
        if top != by:
            d += f"V{top + HIGH}"
            bottom = top + HIGH
    return path(d, "var(--edge)", ink)


def _node(node: Node, x: float, y: float, wide: float, selected: str) -> str:
    on = bool(selected) and selected in node.ops
    edge, ground = ("var(--accent)", "var(--soft)") if on else ("var(--line2)", "var(--pane)")
    box = rect(
        x - wide / 2,
        y,
        wide,
        HIGH,
        ground,
        f'rx="3" stroke="{edge}"',
        title=node.name,
        ops=node.ops,
    )
    swatch = ""
    if node.family:
        fill = f"url(#p-{family_token(node.family)})"
        swatch = rect(x - wide / 2 + 3, y + 3, 10, HIGH - 6, fill, 'stroke="var(--line2)"')
    text = label(x - wide / 2 + 17, y + 13, fit(node.label, wide - 40), "i w" if on else "i")
    return box + swatch + text + label(x + wide / 2 - 6, y + 13, node.note, "q", anchor="end")


def _draw(s: OnShow, op: str) -> Drawn:
    rows = s.house.graph("operators")
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="dataflow",
    title="Dataflow graph",
    words="What reads what: every source operator below those that it reads.",
    stage=Stage.IMPORTED,
    draw=_draw,
)
