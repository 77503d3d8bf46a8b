"""The tile graph of a group: operators, the tiles that pass between them, and virtual nodes.

From Welder, section 3.1. An operator tile is a compute of the group's kernel. Operators connected
in a memory or nearer are one virtual node there; a virtual node is one node of the next farther
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel, Read, reads
from explorer.ir.kernels.contraction import contraction


@dataclass(frozen=True, slots=True)
class Link:
    """An intermediate of a group: the computes that write and read it, by number.

    `near` is how near to the registers its tile can pass at most: 0 in registers (each value is
    used at its own point), 1 in the next memory (row by row), 2 only with a task's tile. `shared`
    is the number of its leading dims that its writer and its readers iterate over together.
    `of_product`: a contraction writes or reads it, whose register tiles iterate over a task's
    columns and then its rows.
    """

    tensor: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    near: int
    shared: int
    of_product: bool = False


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """Operators whose tiles pass in `level` or nearer, by number, in order.

    `parts` are the nodes of the next nearer memory, one for each operator in registers.
    """

    level: str
    numbers: tuple[int, ...]
    parts: tuple[VirtualNode, ...] = ()


def links(kernel: Kernel) -> tuple[Link, ...]:
    """Return every intermediate of a group, in the order in which they are written."""
    links_in_order = []
    for t in dict.fromkeys(c.out for c in kernel.computes):
        if t in kernel.outputs:
            continue
        sources = tuple(n for n, c in enumerate(kernel.computes) if c.out == t)
        targets = tuple(
            n for n, c in enumerate(kernel.computes) if any(r.tensor == t for r in reads(c.expr))
        )
        uses = _uses(kernel, t, sources, targets)
        near = max((n for n, _ in uses), default=2)
        shared = min((s for _, s in uses), default=0)
        product = any(contraction(kernel.computes[n]) is not None for n in (*sources, *targets))
        links_in_order.append(Link(t, sources, targets, near, shared, product))
    return tuple(links_in_order)


def _uses(
    kernel: Kernel, tensor: str, sources: Sequence[int], targets: Sequence[int]
) -> list[tuple[int, int]]:
    """Return how near to each of its readers a value can pass, and over how many dims."""
    if len(sources) > 1:
        return []
    writer = kernel.computes[sources[0]]
    return [
        _use(writer, kernel.computes[n], r)
        for n in targets
        for r in reads(kernel.computes[n].expr)
        if r.tensor == tensor
    ]


def _use(writer: Compute, reader: Compute, read: Read) -> tuple[int, int]:
    if read.fill is not None or any(not isinstance(i, Affine) for i in read.index):
        return 2, 0
    names = [i.bare for i in read.index if isinstance(i, Affine)]
    mine = [a.name for a in reader.axes]
    shared = 0
    while shared < min(len(names), len(mine)) and names[shared] == mine[shared]:
        shared += 1
    if not writer.is_plain or not shared:
        return 2, 0
    if names == mine and not reader.reduce:
        return 0, shared
    walked = {a.name for a in reader.reduce} | set(mine[shared:])
    return (1 if walked.issuperset(filter(None, names[shared:])) else 2), shared


def virtual_nodes(
    kernel: Kernel, levels: Mapping[str, int], names: Sequence[str]
) -> tuple[VirtualNode, ...]:
    """Return the nodes of the farthest of the memories `names` (nearest first), with their parts.

    `levels` is the memory through which each intermediate passes.
    """
    nodes = tuple(VirtualNode("", (n,)) for n in range(len(kernel.computes)))
    for at, name in enumerate(names):
        nodes = _merge_nodes(kernel, levels, nodes, at, name)
    return nodes


def _merge_nodes(
    kernel: Kernel,
    levels: Mapping[str, int],
    nodes: tuple[VirtualNode, ...],
    at: int,
    name: str,
) -> tuple[VirtualNode, ...]:
    group = {n: node.numbers[0] for node in nodes for n in node.numbers}
    for link in links(kernel):
        if levels[link.tensor] > at:
            continue
        ends = {group[n] for n in (*link.sources, *link.targets)}
        group = {n: min(ends) if g in ends else g for n, g in group.items()}
    merged = []
    for first in sorted(set(group.values())):
        numbers = tuple(n for n, g in sorted(group.items()) if g == first)
        inside = tuple(node for node in nodes if node.numbers[0] in numbers)
        merged.append(VirtualNode(name, numbers, inside if at else ()))
    return tuple(merged)


def sub_kernel(kernel: Kernel, numbers: Sequence[int]) -> tuple[Kernel, tuple[str, ...]]:
    """Return some computes as a kernel, and the tensors beside its output that others read."""
    computes = tuple(kernel.computes[n] for n in numbers)
    written = dict.fromkeys(c.out for c in computes)
    taken = dict.fromkeys(r.tensor for c in computes for r in reads(c.expr))
    used = {
        r.tensor for n, c in enumerate(kernel.computes) if n not in numbers for r in reads(c.expr)
    } | {*kernel.outputs}
    outputs = tuple(t for t in written if t in used)
    inputs = tuple(t for t in taken if t not in written)
    names = {*written, *inputs}
    part = replace(
        kernel,
        tensors=tuple(t for t in kernel.tensors if t.name in names),
        computes=computes,
        inputs=inputs,
        outputs=outputs[-1:],
        constants=kernel.constants & set(inputs),
        updates=tuple(u for u in kernel.updates if u[0] == outputs[-1] and u[1] in names),
    )
    return part, outputs[:-1]
