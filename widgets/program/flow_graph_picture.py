"""Drawing, table and sentences of the control-flow graph of a kernel's low-level code."""

from __future__ import annotations

from html import escape

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table, count_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.program import flow_graph
from widgets.program.flow_graph import FlowNode, FlowRows, successors
from widgets.program.generated_source import kernel_of

WIDE, LEAST_WIDTH, HIGH, PITCH, ROOM = 168, 560, 34, 54, 12
LETTERS = 22  # of the source in a box
BEND = 16  # of an edge that passes a row
LANES, LANE, BESIDE = 8, 5, 48  # edges that run beside the graph, on the left and on the right
DEEPEST_SHADE = 3
GROUNDS = ("var(--pane)", "var(--app)", "var(--tint)", "var(--line2)")  # by loops around

Place = tuple[float, float]  # the middle of a node's upper edge


def table(rows: FlowRows) -> Table:
    """Return every block, or folded loop, with its successors."""
    return Table(
        ("block", "instructions", "loops around", "begins a loop", "goes on to", "lines", "source"),
        tuple(
            (
                n.name,
                n.instructions,
                n.depth,
                "yes" if n.begins else "",
                ", ".join(rows.nodes[b].name for b in successors(rows, at)) or "its end",
                ", ".join(f"{a + 1} to {b + 1}" for a, b in n.spans),
                ", ".join(map(str, n.sources)),
            )
            for at, n in enumerate(rows.nodes)
        ),
        (),
        caption(rows),
        see(rows),
    )


def caption(rows: FlowRows) -> str:
    """Return the number of blocks and loops, and of nodes if some are folded."""
    language = "PTX" if rows.language == "llvm" else "assembly"
    counts = (
        f"{count_text(rows.blocks, 'block')} and {count_text(rows.loops, 'loop')} of {language}"
    )
    folded = len(rows.nodes) < rows.blocks
    return f"{rows.kernel}: {counts}" + (f", folded to {len(rows.nodes)} nodes" if folded else "")


def see(rows: FlowRows) -> tuple[Sentence, ...]:
    """Return the sentences: the number of blocks and loops, the largest block, the deepest loop."""
    if not rows.nodes:
        return ()
    count, loops = count_text(rows.blocks, "block"), count_text(rows.loops, "loop")
    shown = Mark(count_text(len(rows.nodes), "box").replace("boxs", "boxes"), "block")
    folded = (", folded to ", shown, ".") if len(rows.nodes) < rows.blocks else (".",)
    total = sum(n.instructions for n in rows.nodes)
    at = max(range(len(rows.nodes)), key=lambda n: rows.nodes[n].instructions)
    most = rows.nodes[at]
    sentences: list[Sentence] = [
        (Mark(count, "block"), " and ", Mark(loops, "loop"), *folded)
        if rows.loops
        else (Mark(count, "block"), *folded),
        (
            Mark(most.name, f"at{at}"),
            f" holds most, {most.instructions:,} of {total:,} instructions.",
        ),
    ]
    deepest = max(n.depth for n in rows.nodes)
    if deepest:
        inside = sum(n.depth == deepest for n in rows.nodes)
        boxes = Mark(f"{inside:,} of the boxes", f"depth{deepest}")
        verb = "lies" if inside == 1 else "lie"
        sentences.append((boxes, f" {verb} in {count_text(deepest, 'loop')}."))
    return tuple(sentences)


def figure(rows: FlowRows) -> Svg:
    """Draw the graph from top to bottom, with back edges on the right."""
    count = len(rows.nodes)
    widths = [[(WIDE if v < count else BEND) + ROOM for v in row] for row in rows.layers.rows]
    width = max(LEAST_WIDTH, 2 * BESIDE + max(map(sum, widths), default=0))
    place: dict[int, Place] = {}
    for y, (row, wide) in enumerate(zip(rows.layers.rows, widths)):
        left = (width - sum(wide)) / 2
        for node, node_width in zip(row, wide):
            place[node] = (left + node_width / 2, 8 + y * PITCH)
            left += node_width
    marks = [_forward(rows, at, place) for at in range(len(rows.forward))]
    marks += [_back(n, a, b, place, width) for n, (a, b) in enumerate(rows.back)]
    marks += [_box(rows, at, *place[at]) for at in range(len(rows.nodes))]
    height = 16 + len(rows.layers.rows) * PITCH
    return Svg(width, height, "".join(marks), caption(rows))


def _forward(rows: FlowRows, at: int, place: dict[int, Place]) -> str:
    a, b = rows.forward[at]
    (ax, ay), (bx, by) = place[a], place[b]
    if by - ay > PITCH and at not in rows.layers.routes:
        lane = 4 + LANE * (at % LANES)
        d = f"M{ax - WIDE / 2:.1f} {ay + HIGH / 2}H{lane}V{by + HIGH / 2}H{bx - WIDE / 2:.1f}"
        return path(d, "var(--edge)", 'class="edge" stroke-dasharray="3 2"')
    d, bottom = f"M{ax:.1f} {ay + HIGH}", ay + HIGH
    for x, top in (*(place[v] for v in rows.layers.routes.get(at, ())), place[b]):
        d += f"C{ax:.1f} {bottom + 8} {x:.1f} {top - 8} {x:.1f} {top}"
        ax, bottom = x, top
        if top != by:
            d += f"V{top + HIGH}"
            bottom = top + HIGH
    return path(d, "var(--edge)", 'class="edge"')


def _back(n: int, a: int, b: int, place: dict[int, Place], width: float) -> str:
    """Return a back edge with an arrow head; only back edges go upwards."""
    (ax, ay), (bx, by) = place[a], place[b]
    lane, low, high = width - 4 - LANE * (n % LANES), ay + HIGH - 8, by + 8
    d = f"M{ax + WIDE / 2:.1f} {low}H{lane}V{high}H{bx + WIDE / 2 + 5:.1f}"
    head = f"M{bx + WIDE / 2:.1f} {high}l6 -3v6z"
    return path(d, "var(--ink2)", 'class="edge back"') + f'<path d="{head}" fill="var(--ink2)"/>'


def _box(rows: FlowRows, at: int, x: float, y: float) -> str:
    node = rows.nodes[at]
    spans = " ".join(f"{a}-{b}" for a, b in node.spans)
    description = escape(words(rows, at), quote=True)
    ground = GROUNDS[min(node.depth, DEEPEST_SHADE)]
    style = f'class="bx" rx="3" stroke="var(--line2)"{_dash(node)}'
    left = x - WIDE / 2
    head = label(left + 8, y + 14, fit(node.name, 100), "i w")
    count = label(left + WIDE - 8, y + 14, f"{node.instructions:,}", "i", anchor="end")
    low = label(left + 8, y + 28, _source(rows, node), "mono i")
    header = f' data-first="{node.head}"'
    header += f' data-loop="{node.head}"' if len(node.blocks) > 1 else ""
    loop = " loop" if node.begins or len(node.blocks) > 1 or node.depth else ""
    return (
        f'<g class="block" data-k="block at{at} depth{node.depth}{loop}" data-lines="{spans}" '
        f'data-language="{rows.language}"{header} '
        f'role="button" '
        f'tabindex="{-1 if at else 0}" aria-label="{description}"><title>{description}</title>'
        f"{rect(left, y, WIDE, HIGH, ground, style)}{head}{count}{low}</g>"
    )


def _dash(node: FlowNode) -> str:
    """Return the dashed border of a folded loop."""
    return ' stroke-dasharray="4 2"' if len(node.blocks) > 1 else ""


def _source(rows: FlowRows, node: FlowNode) -> str:
    """Return the source line that most of a node comes from."""
    if not node.sources:
        return ""
    text = f"{node.sources[0]}: {rows.source[node.sources[0] - 1].strip()}"
    shown = text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
    return shown.replace(" ", "\u00a0")


def words(rows: FlowRows, at: int) -> str:
    """Describe a node in a sentence."""
    node = rows.nodes[at]
    depth = f", in {count_text(node.depth, 'loop')}" if node.depth else ""
    begins = ", where a loop begins" if node.begins and len(node.blocks) == 1 else ""
    onward = ", ".join(rows.nodes[b].name for b in successors(rows, at)) or "the end"
    opens = ". A double click or + opens it, - folds all" if len(node.blocks) > 1 else ""
    summary = f"{node.name}: {count_text(node.instructions, 'instruction')}{depth}{begins}"
    return f"{summary}; then {onward}{opens}"


def _draw(s: OnShow, op: str) -> Drawn:
    opened = {int(n) for n in s.view.opened.split(",") if n.isascii() and n.isdigit()}
    rows = flow_graph.data(kernel_of(s, op), opened=opened)
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="flow",
    title="Control-flow graph",
    words="The basic blocks of a kernel's instructions with their branches, shaded by loop depth; "
    "a folded loop is opened by a double click or +.",
    draw=_draw,
    stage=Stage.EMITTED,
    about="kernel",
)
