"""The size of kernels, which their text and code grow with and which bounds are stated in."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Expr, Kernel, Read


@dataclass(frozen=True, slots=True)
class Size:
    """A number of scalar functions, each occurrence counted, and their nesting depth.

    Loads at indices that are loaded count as a level of nesting.
    """

    operations: int = 0
    depth: int = 0

    def within(self, bound: Size) -> bool:
        """Return True if neither number is above the bound's."""
        return self.operations <= bound.operations and self.depth <= bound.depth


@by_identity
def size_of(kernel: Kernel) -> Size:
    """Return the operations of all computes, and the depth of the deepest."""
    sizes = [expr_size(c.expr) for c in kernel.computes]
    return Size(sum(s.operations for s in sizes), max((s.depth for s in sizes), default=0))


def expr_size(expr: Expr) -> Size:
    """Return the size of one expression."""
    match expr:
        case Apply(_, args):
            sizes = [expr_size(a) for a in args]
            operations = 1 + sum(s.operations for s in sizes)
            return Size(operations, 1 + max((s.depth for s in sizes), default=0))
        case Read(_, index, _):
            sizes = [expr_size(i) for i in index if not isinstance(i, Affine)]
            if sizes:
                return Size(sum(s.operations for s in sizes), 1 + max(s.depth for s in sizes))
    return Size()
