"""Pairs of loop nests of two programs' kernels; fusion moves loops between kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from explorer.differences.listed import BindingNode
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Compute
from explorer.ir.kernels.kernel_text import loop_text


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest of a kernel that a binding calls, numbered among all nests."""

    number: int
    node: BindingNode
    loop: Compute


def nests(nodes: Sequence[BindingNode]) -> list[Nest]:
    """Return all loop nests of the kernels that these bindings call."""
    loop_nests: list[Nest] = []
    for node in nodes:
        if isinstance(node.binding.expr, KernelCall):
            for loop in node.binding.expr.kernel.computes:
                loop_nests.append(Nest(len(loop_nests), node, loop))
    return loop_nests


def paired(
    before: Sequence[Nest], after: Sequence[Nest], pairs: dict[int, int]
) -> list[tuple[Nest, Nest]]:
    """Return the pairs of loop nests.

    First come equal nests of paired kernels (`pairs` of bindings), then equal ones anywhere, then
    those with the same source operators, then the remaining ones of two such kernels.
    """
    mates: dict[int, Nest] = {}
    taken: set[int] = set()

    def alike(key: Callable[[Nest], Hashable], other: Callable[[Nest], Hashable]) -> None:
        """Pair unpaired nests that have equal keys."""
        waiting: dict[Hashable, list[Nest]] = defaultdict(list)
        for nest in reversed(after):
            if nest.number not in taken:
                waiting[other(nest)].append(nest)
        for nest in before:
            if nest.number not in mates and waiting.get(key(nest)):
                mate = waiting[key(nest)].pop()
                mates[nest.number] = mate
                taken.add(mate.number)

    def here(nest: Nest) -> Hashable:
        """Return the kernel of the second program that a nest is expected in."""
        return pairs.get(nest.node.at, ("none", nest.node.at))

    alike(lambda n: (here(n), _does(n)), lambda n: (n.node.at, _does(n)))
    alike(lambda n: (_from(n), _does(n)), lambda n: (_from(n), _does(n)))
    alike(lambda n: (here(n), _from(n)), lambda n: (n.node.at, _from(n)))
    alike(
        lambda n: (_from(n), n.loop.combiner) if _from(n) else ("before", n.number),
        lambda n: (_from(n), n.loop.combiner),
    )
    alike(here, lambda n: n.node.at)
    return [(nest, mates[nest.number]) for nest in before if nest.number in mates]


def _does(nest: Nest) -> str:
    """Return the signature of a loop nest."""
    return loop_text(nest.loop)[0]


def _from(nest: Nest) -> frozenset[str]:
    """Return the source operators of a loop nest."""
    return nest.loop.origin or nest.node.binding.origin
