"""Which family a kernel belongs to, by what it does: the colours of every picture."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import Apply, Compute, Kernel, Read, reads
from explorer.ir.shapes.dims import Dim

FAMILIES = (
    "conv",
    "matmul",
    "elementwise",
    "reduction",
    "layout",
    "control flow",
    "library call",
)


@by_identity
def kernel_family(kernel: Kernel) -> str:
    """One of `FAMILIES`."""
    found = {_compute(c) for c in kernel.computes}
    return next(f for f in (*FAMILIES[:2], "reduction", "elementwise", "layout") if f in found)


def _compute(c: Compute) -> str:
    """A sum of products is a conv where windows slide over an operand."""
    if c.combiner is not None:
        match c.expr:
            case Apply("mul", (Read() as a, Read() as b)) if c.combiner == "sum":
                if a.tensor != b.tensor:
                    return "conv" if _slides(a, c) or _slides(b, c) else "matmul"
        return "reduction"
    return "layout" if isinstance(c.expr, Read) or not list(reads(c.expr)) else "elementwise"


def _slides(read: Read, c: Compute) -> bool:
    """Whether summed variables step inside of windows: in two dims, or in one where they overlap.

    One dim seen as two, such as heads by width in attention, is no window.
    """
    extents = {a.name: a.extent for a in c.reduce}
    windows = [i for i in read.index if isinstance(i, Affine) and _is_window(i, extents)]
    return len(windows) > 1 or any(not _is_split(i, extents) for i in windows)


def _is_window(index: Affine, summed: Mapping[str, Dim]) -> bool:
    return any(n in summed for n in index.variables) and any(
        n not in summed for n in index.variables
    )


def _is_split(index: Affine, summed: Mapping[str, Dim]) -> bool:
    """`outer * extent + inner`, the inner one summed."""
    factors = dict(index.terms)
    inner = [n for n in factors if n in summed]
    outer = [n for n in factors if n not in summed]
    one = len(inner) == 1 and len(outer) == 1 and index.const == 0
    return one and factors[inner[0]] == 1 and factors[outer[0]] == summed[inner[0]]
