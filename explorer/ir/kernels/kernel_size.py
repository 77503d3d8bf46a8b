"""How large a kernel is: what a bound on it is told in, and what its text and code grow with."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Expr, Kernel, Read


@dataclass(frozen=True, slots=True)
class Size:
    """`operations` are scalar functions, counted where they stand; `depth` is how many of them, and
    of loads at indices that are loaded, nest.
    """

    operations: int = 0
    depth: int = 0

    def within(self, bound: Size) -> bool:
        """Whether neither number is above the bound's."""
        return self.operations <= bound.operations and self.depth <= bound.depth


@by_identity
def size_of(kernel: Kernel) -> Size:
    """The operations of all computes, and the depth of the deepest."""
    found = [expr_size(c.expr) for c in kernel.computes]
    return Size(sum(s.operations for s in found), max((s.depth for s in found), default=0))


def expr_size(expr: Expr) -> Size:
    """The size of one expression."""
    match expr:
        case Apply(_, args):
            found = [expr_size(a) for a in args]
            operations = 1 + sum(s.operations for s in found)
            return Size(operations, 1 + max((s.depth for s in found), default=0))
        case Read(_, index, _):
            found = [expr_size(i) for i in index if not isinstance(i, Affine)]
            if found:
                return Size(sum(s.operations for s in found), 1 + max(s.depth for s in found))
    return Size()
