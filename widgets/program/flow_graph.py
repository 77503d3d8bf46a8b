"""Control-flow graph of a kernel's assembly or PTX: basic blocks, loops, and their drawing.

A node is a block with its source lines; loops are folded if there are many.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape

from explorer.devices.listing import Listing
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.layered import Layers, layered
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Mark, Sentence, Table
from widgets.model.compiled import Kernel
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program.generated_source import PTX_COMMENT, kernel_of

MOST_NODES = 60  # more of them are folded, the innermost loops first; chosen
WIDE, LEAST_WIDTH, HIGH, PITCH, ROOM = 168, 560, 34, 54, 12
LETTERS = 22  # of the source in a box
BEND = 16  # of an edge that passes a row
LANES, LANE, BESIDE = 8, 5, 48  # edges that run beside the graph, on the left and on the right
DEEPEST_SHADE = 3
GROUNDS = ("var(--pane)", "var(--app)", "var(--tint)", "var(--line2)")  # by loops around
Place = tuple[float, float]  # the middle of a node's upper edge


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One block, or a folded loop of several.

    `spans` are the first and last lines of its blocks in the text, from 0. `sources` are the source
    lines that most of it comes from, best first. `begins`: a loop begins here. `head` is the block,
    or the header of the folded loop.
    """

    name: str
    blocks: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    instructions: int
    depth: int
    begins: bool
    sources: tuple[int, ...]
    head: int


@dataclass(frozen=True, slots=True)
class FlowRows:
    """The nodes with their layers, as in `layered.Layers`, over the forward edges.

    `back` are the back edges. `language` is that of the text: assembly, or PTX in place of LLVM IR.
    """

    kernel: str
    language: str
    nodes: tuple[FlowNode, ...]
    forward: tuple[tuple[int, int], ...]
    back: tuple[tuple[int, int], ...]
    layers: Layers
    blocks: int
    loops: int
    source: tuple[str, ...]


def data(kernel: Kernel, most: int = MOST_NODES, opened: Collection[int] = frozenset()) -> FlowRows:
    """Return the control-flow graph of a kernel's assembly, or of a thread block's PTX.

    `opened` are the headers of loops that are never folded.
    """
    listings = kernel.listings
    ptx = listings.llvm.text.startswith(PTX_COMMENT)
    listing = listings.llvm if ptx else listings.assembly
    graph = flow(listing.text)
    groups = _fold_loops(graph, most, opened)
    nodes = tuple(_node(graph, head, group, listing) for head, group in groups.items())
    of = {block: n for n, node in enumerate(nodes) for block in node.blocks}
    edges = {(of[a], of[b]): None for a, b in graph.edges if (a, b) not in graph.back}
    forward = tuple((a, b) for a, b in edges if a != b)
    back = {(of[a], of[b]): None for a, b in sorted(graph.back)}
    inside = tuple((a, b) for a, b in back if a != b or len(nodes[a].blocks) == 1)
    layers = layered(len(nodes), forward)
    language = "llvm" if ptx else "assembly"
    source = tuple(kernel.source.rstrip("\n").split("\n"))
    count = len(graph.blocks), len(graph.loops)
    return FlowRows(kernel.name, language, nodes, forward, inside, layers, *count, source)


def _fold_loops(graph: Flow, most: int, opened: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return the blocks of each node by its head.

    Innermost loops are folded until at most `most` nodes are left. Then the loops in `opened` are
    unfolded, which shows the folded loops inside them.
    """
    of, folded = list(range(len(graph.blocks))), []
    for header in sorted(graph.loops, key=lambda h: len(graph.loops[h])):
        if len(set(of)) <= most:
            break
        folded.append(header)
        for block in graph.loops[header]:
            of[block] = header
    of = list(range(len(graph.blocks)))
    for header in folded:
        for block in graph.loops[header] if header not in opened else ():
            of[block] = header
    groups: dict[int, list[int]] = {}
    for block, head in enumerate(of):
        groups.setdefault(head, []).append(block)
    return {head: tuple(groups[head]) for head in sorted(groups)}


def _node(graph: Flow, head: int, group: tuple[int, ...], listing: Listing) -> FlowNode:
    blocks = [graph.blocks[b] for b in group]
    lines = [line for b in blocks for line in b.lines]
    sources = Counter(listing.lines[at] for at in lines if listing.lines)
    del sources[0]
    spans = tuple((b.lines[0], b.lines[-1]) for b in blocks)
    best = tuple(n for n, _ in sources.most_common(3))
    name = f"B{group[0]}" if len(group) == 1 else f"loop of {len(group)} blocks from B{group[0]}"
    begins = any(b in graph.loops for b in group)
    depth = min(b.depth for b in blocks)
    return FlowNode(name, group, spans, len(lines), depth, begins, best, head)


def successors(rows: FlowRows, node: int) -> Sequence[int]:
    """Return the successors of a node."""
    return [b for a, b in (*rows.forward, *rows.back) if a == node]


_LABEL = re.compile(r"^([.$\w]+):")
_FUNCTION = re.compile(r"^(?!\.)[\w$@?.]+:|^\{")  # where code begins: a name, or the brace of PTX
_INSTRUCTION = re.compile(r"^\s+(@!?%\w+\s+)?([a-z][\w.]*)\s*(.*)")
_TARGET = re.compile(r"[.$]\w+")
_JUMP = re.compile(r"j\w+|bra(\.\w+)?")
_ALWAYS = re.compile(r"jmp\w*|bra(\.\w+)?")
_END = re.compile(r"ret\w*|ud2|exit|trap")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """A basic block: `lines` are the positions of its instructions in the text, from 0.

    `label` is "" if no jump leads here. `header` is the header of its innermost loop, -1 outside
    all loops; `depth` counts the loops around it.
    """

    label: str
    lines: tuple[int, ...]
    header: int = -1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """A control-flow graph: the blocks in the order of the text, the first of which is the entry.

    `edges` go from block to block; those in `back` are back edges. `loops` holds the blocks of each
    loop by its header.
    """

    blocks: tuple[BasicBlock, ...]
    edges: tuple[tuple[int, int], ...]
    back: frozenset[tuple[int, int]]
    loops: dict[int, frozenset[int]]


def flow(text: str) -> Flow:
    """Return the control-flow graph of the first function of a text; empty if it has no code."""
    cut = _cut(text.split("\n"))
    names = {label: n for n, (label, _, _) in enumerate(cut) if label}
    edges: dict[tuple[int, int], None] = {}
    for n, (_, _, end) in enumerate(cut):
        target, goes_on = end
        if goes_on and n + 1 < len(cut):
            edges[n, n + 1] = None
        if target in names:
            edges[n, names[target]] = None
    return _with_loops([(label, tuple(lines)) for label, lines, _ in cut], tuple(edges))


End = tuple[str, bool]  # the target of a block's jump, "" without one; True if it may fall through


def _cut(lines: Sequence[str]) -> list[tuple[str, list[int], End]]:
    """Cut the text into blocks of instructions, in its order."""
    blocks: list[tuple[str, list[int], End]] = []
    label, mine, inside = "", list[int](), False
    for at, line in enumerate(lines):
        if not inside:
            inside = bool(_FUNCTION.match(line))
            continue
        if line.startswith((".Lfunc_end", "}")):
            break
        if head := _LABEL.match(line):
            if mine:
                blocks.append((label, mine, ("", True)))
            label, mine = head.group(1), []
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is None:
            continue
        mine.append(at)
        predicate, word, operands = instruction.groups()
        if _JUMP.fullmatch(word) or _END.fullmatch(word):
            target = _TARGET.search(operands) if _JUMP.fullmatch(word) else None
            always = not predicate and bool(_ALWAYS.fullmatch(word) or _END.fullmatch(word))
            blocks.append((label, mine, (target.group() if target else "", not always)))
            label, mine = "", []
    if mine:
        blocks.append((label, mine, ("", False)))
    return blocks


def _with_loops(
    cut: Sequence[tuple[str, tuple[int, ...]]], edges: tuple[tuple[int, int], ...]
) -> Flow:
    count = len(cut)
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    back = _back_edges(after)
    loops: dict[int, frozenset[int]] = {}
    for a, b in sorted(back):
        loops[b] = loops.get(b, frozenset()) | _body(a, b, before)
    blocks = []
    for n, (name, lines) in enumerate(cut):
        around = sorted((h for h, body in loops.items() if n in body), key=lambda h: len(loops[h]))
        blocks.append(BasicBlock(name, lines, around[0] if around else -1, len(around)))
    return Flow(tuple(blocks), edges, back, loops)


def _back_edges(after: Sequence[Sequence[int]]) -> frozenset[tuple[int, int]]:
    """Return the back edges: without them the graph is acyclic."""
    back_edges, state = set(), [0] * len(after)  # 0: not met, 1: on the way here, 2: done
    for root in range(len(after)):
        stack = [(root, 0)] if not state[root] else []
        while stack:
            node, place = stack.pop()
            state[node] = 1
            for n in range(place, len(after[node])):
                following = after[node][n]
                if state[following] == 1:
                    back_edges.add((node, following))
                elif not state[following]:
                    stack += [(node, n + 1), (following, 0)]
                    break
            else:
                state[node] = 2
    return frozenset(back_edges)


def _body(last: int, header: int, before: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return the blocks of a natural loop: those that reach its end without passing its header."""
    body, todo = {header}, [last]
    while todo:
        node = todo.pop()
        if node not in body:
            body.add(node)
            todo += before[node]
    return frozenset(body)


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
    counts = f"{counted(rows.blocks, 'block')} and {counted(rows.loops, 'loop')} of {language}"
    folded = len(rows.nodes) < rows.blocks
    return f"{rows.kernel}: {counts}" + (f", folded to {len(rows.nodes)} nodes" if folded else "")


def see(rows: FlowRows) -> tuple[Sentence, ...]:
    """Return the sentences: the number of blocks and loops, the largest block, the deepest loop."""
    if not rows.nodes:
        return ()
    count, loops = counted(rows.blocks, "block"), counted(rows.loops, "loop")
    shown = Mark(counted(len(rows.nodes), "box", "boxes"), "block")
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
        sentences.append((boxes, f" {verb} in {counted(deepest, 'loop')}."))
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
    depth = f", in {counted(node.depth, 'loop')}" if node.depth else ""
    begins = ", where a loop begins" if node.begins and len(node.blocks) == 1 else ""
    onward = ", ".join(rows.nodes[b].name for b in successors(rows, at)) or "the end"
    opens = ". A double click or + opens it, - folds all" if len(node.blocks) > 1 else ""
    summary = f"{node.name}: {counted(node.instructions, 'instruction')}{depth}{begins}"
    return f"{summary}; then {onward}{opens}"


def _draw(s: OnShow, op: str) -> Drawn:
    opened = {int(n) for n in s.view.opened.split(",") if n.isascii() and n.isdigit()}
    rows = data(kernel_of(s, op), opened=opened)
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
