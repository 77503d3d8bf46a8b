"""Which loop nest of one program's kernels is which of the other's: loops move from kernel to
kernel when kernels are welded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from explorer.differences.listed import Node
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Compute
from explorer.ir.kernels.nameless import loop_text


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest of a kernel that a binding calls, its number among all that are looked at."""

    number: int
    node: Node
    loop: Compute


def nests(nodes: Sequence[Node]) -> list[Nest]:
    """All loop nests of the kernels that these call."""
    found: list[Nest] = []
    for node in nodes:
        if isinstance(node.binding.expr, KernelCall):
            for loop in node.binding.expr.kernel.computes:
                found.append(Nest(len(found), node, loop))
    return found


def paired(
    before: Sequence[Nest], after: Sequence[Nest], pairs: dict[int, int]
) -> list[tuple[Nest, Nest]]:
    """The nests that are one: first those of two kernels that are a pair (`pairs` of bindings) and
    do the same, then equal ones anywhere, then such as come from the same source operators, then
    what is left of two such kernels.
    """
    found: dict[int, Nest] = {}
    taken: set[int] = set()

    def alike(key: Callable[[Nest], Hashable], other: Callable[[Nest], Hashable]) -> None:
        waiting: dict[Hashable, list[Nest]] = defaultdict(list)
        for nest in reversed(after):
            if nest.number not in taken:
                waiting[other(nest)].append(nest)
        for nest in before:
            if nest.number not in found and waiting.get(key(nest)):
                mate = waiting[key(nest)].pop()
                found[nest.number] = mate
                taken.add(mate.number)

    def here(nest: Nest) -> Hashable:
        return pairs.get(nest.node.at, ("none", nest.node.at))

    alike(lambda n: (here(n), _does(n)), lambda n: (n.node.at, _does(n)))
    alike(lambda n: (_from(n), _does(n)), lambda n: (_from(n), _does(n)))
    alike(lambda n: (here(n), _from(n)), lambda n: (n.node.at, _from(n)))
    alike(
        lambda n: (_from(n), n.loop.combiner) if _from(n) else ("before", n.number),
        lambda n: (_from(n), n.loop.combiner),
    )
    alike(here, lambda n: n.node.at)
    return [(nest, found[nest.number]) for nest in before if nest.number in found]


def _does(nest: Nest) -> str:
    return loop_text(nest.loop)[0]


def _from(nest: Nest) -> frozenset[str]:
    return nest.loop.origin or nest.node.binding.origin
