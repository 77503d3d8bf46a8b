"""Basic blocks of a kernel as nodes with their source lines; loops are folded if there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from explorer.codegen.listing import Listing
from widgets.draw.layered import Layers, layered
from widgets.model.compiled import Kernel
from widgets.program.basic_blocks import Flow, flow
from widgets.program.generated_source import PTX_COMMENT

MOST_NODES = 60  # more of them are folded, the innermost loops first; chosen


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
