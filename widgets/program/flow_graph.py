"""The basic blocks of a kernel as nodes, each with the lines of its source; loops folded where they
are many.
"""

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
class Node:
    """One block, or a folded loop of several. `spans` are its lines in the text, from 0, first and
    last; `sources` the lines of the source that most of it comes from, best first. `begins`: it is
    where a loop begins. `head` is the block, or that where the folded loop begins.
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
    """The nodes with their layers as in `layered.Layers`, over the forward edges; `back` leads to
    the beginnings of loops. `language` is that of the text: assembly, or PTX in LLVM IR's place.
    """

    kernel: str
    language: str
    nodes: tuple[Node, ...]
    forward: tuple[tuple[int, int], ...]
    back: tuple[tuple[int, int], ...]
    layers: Layers
    blocks: int
    loops: int
    source: tuple[str, ...]


def data(kernel: Kernel, most: int = MOST_NODES, opened: Collection[int] = frozenset()) -> FlowRows:
    """The flow of a kernel's assembly, or of a thread block's PTX. `opened`: the first blocks of
    loops that are not folded, however many there are.
    """
    found = kernel.listings
    ptx = found.llvm.text.startswith(PTX_COMMENT)
    listing = found.llvm if ptx else found.assembly
    known = flow(listing.text)
    groups = _folded(known, most, opened)
    nodes = tuple(_node(known, head, group, listing) for head, group in groups.items())
    of = {block: n for n, node in enumerate(nodes) for block in node.blocks}
    edges = {(of[a], of[b]): None for a, b in known.edges if (a, b) not in known.back}
    forward = tuple((a, b) for a, b in edges if a != b)
    back = {(of[a], of[b]): None for a, b in sorted(known.back)}
    inside = tuple((a, b) for a, b in back if a != b or len(nodes[a].blocks) == 1)
    layers = layered(len(nodes), forward)
    language = "llvm" if ptx else "assembly"
    source = tuple(kernel.source.rstrip("\n").split("\n"))
    count = len(known.blocks), len(known.loops)
    return FlowRows(kernel.name, language, nodes, forward, inside, layers, *count, source)


def _folded(known: Flow, most: int, opened: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The blocks of each node by the first: innermost loops become one as long as there are many,
    then those that are opened do not, and show the loops that are folded in them.
    """
    of, folded = list(range(len(known.blocks))), []
    for header in sorted(known.loops, key=lambda h: len(known.loops[h])):
        if len(set(of)) <= most:
            break
        folded.append(header)
        for block in known.loops[header]:
            of[block] = header
    of = list(range(len(known.blocks)))
    for header in folded:
        for block in known.loops[header] if header not in opened else ():
            of[block] = header
    groups: dict[int, list[int]] = {}
    for block, head in enumerate(of):
        groups.setdefault(head, []).append(block)
    return {head: tuple(groups[head]) for head in sorted(groups)}


def _node(known: Flow, head: int, group: tuple[int, ...], listing: Listing) -> Node:
    blocks = [known.blocks[b] for b in group]
    lines = [line for b in blocks for line in b.lines]
    sources = Counter(listing.lines[at] for at in lines if listing.lines)
    del sources[0]
    spans = tuple((b.lines[0], b.lines[-1]) for b in blocks)
    best = tuple(n for n, _ in sources.most_common(3))
    name = f"B{group[0]}" if len(group) == 1 else f"loop of {len(group)} blocks from B{group[0]}"
    begins = any(b in known.loops for b in group)
    depth = min(b.depth for b in blocks)
    return Node(name, group, spans, len(lines), depth, begins, best, head)


def follows(rows: FlowRows, node: int) -> Sequence[int]:
    """The nodes that one goes on to."""
    return [b for a, b in (*rows.forward, *rows.back) if a == node]
