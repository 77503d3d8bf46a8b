"""The graph of what reads what: by source operator, or with everything that one kernel computes
folded into one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.ir.calls import Branch, Loop, Var
from explorer.ir.program import Binding, Function, Program
from widgets.draw.layered import layered
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table
from widgets.draw.theme import family_token
from widgets.model.compiled import Compiled
from widgets.model.operators import Operator, call_family, head, is_call, operators, short_label

FOLD_ABOVE = 60  # more operators than this are first shown folded by kernel


@dataclass(frozen=True, slots=True)
class Node:
    """`kind` is "operator", "kernel", "input" or "output"; `ops` are the source operators that it
    stands for.
    """

    name: str
    label: str
    kind: str
    family: str = ""
    ops: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges with their layers: `rows` and `routes` as in `layered.Layers`; `operators`
    counts the source.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, ...], ...]
    routes: dict[int, tuple[int, ...]]
    operators: int
    folded: bool


def data(c: Compiled, folded: bool | None = None, known: tuple[Operator, ...] = ()) -> Graph:
    """The graph of a compilation; what no kernel computes is left out and its edges joined."""
    known = known or operators(c)
    shown = [o for o in known if o.calls]
    if folded is None:
        folded = len(shown) > FOLD_ABOVE
    program = c.program if folded else c.model.program
    nodes = _kernel_nodes(program, known) if folded else _operator_nodes(program, shown)
    return _graph(program, nodes, len(known), folded)


def _operator_nodes(program: Program, shown: Iterable[Operator]) -> dict[str, Node]:
    """The node of each binding that is drawn, by the binding's first value."""
    by_name = {o.name: o for o in shown}
    nodes = {}
    for _, binding in program.bindings():
        for name in binding.origin & by_name.keys():
            o = by_name[name]
            nodes[binding.vars[0].name] = Node(name, o.label, "operator", o.family, (name,))
    return nodes


def _kernel_nodes(program: Program, known: tuple[Operator, ...]) -> dict[str, Node]:
    order = {o.name: i for i, o in enumerate(known)}
    nodes = {}
    for _, binding in program.bindings():
        if not is_call(binding):
            continue
        ops = [known[i] for i in sorted(order[o] for o in binding.origin & order.keys())]
        name, first, kind = binding.vars[0].name, head(ops), call_family(binding, ops)
        text = first.label if first and first.family == kind else short_label(name, name)
        more = f"+{len(ops) - 1}" if len(ops) > 1 else ""
        nodes[name] = Node(name, text, "kernel", kind, tuple(o.name for o in ops), more)
    return nodes


def _graph(program: Program, drawn: dict[str, Node], count: int, folded: bool) -> Graph:
    nodes: list[Node] = []
    index: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = {}
    makers: dict[str, frozenset[int]] = {}  # for each value, the drawn nodes that it comes from

    def add(key: str, node: Node) -> int:
        index[key] = len(nodes)
        nodes.append(node)
        return index[key]

    def read(variables: Iterable[Var]) -> frozenset[int]:
        return frozenset[int]().union(*(makers.get(v.name, frozenset()) for v in variables))

    def walk(function: Function) -> None:
        for binding in function.body:
            sources = read(binding.reads)
            node = drawn.get(binding.vars[0].name)
            if node is not None:
                at = add(binding.vars[0].name, node)
                edges.update(dict.fromkeys((s, at) for s in sorted(sources)))
                sources = frozenset((at,))
            inner = frozenset[int]()
            for name in _bodies(binding):
                body = program.function(name)
                makers.update((p.name, sources) for p in body.params)
                walk(body)
                inner |= read(body.outputs)
            makers.update((v.name, inner or sources) for v in binding.vars)

    main = program.main
    for param in main.params:
        makers[param.name] = frozenset((add(param.name, _input(param)),))
    walk(main)
    names = main.output_names or tuple(v.name for v in main.outputs)
    for var, name in zip(main.outputs, names):
        at = add("output " + name, Node("output " + name, name, "output"))
        edges.update(dict.fromkeys((s, at) for s in sorted(read((var,)))))
    layers = layered(len(nodes), tuple(edges))
    return Graph(tuple(nodes), tuple(edges), layers.rows, layers.routes, count, folded)


def _input(param: Var) -> Node:
    shape = getattr(param.type, "shape", None)
    dims = "" if shape is None else f" [{', '.join(map(str, shape))}]"
    return Node("input " + param.name, param.name + dims, "input")


def _bodies(binding: Binding) -> tuple[str, ...]:
    match binding.expr:
        case Branch(_, then, orelse, _):
            return (then, orelse)
        case Loop(body):
            return (body,)
    return ()


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
