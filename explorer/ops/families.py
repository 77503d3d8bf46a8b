"""Families of kernels by what they compute: the colours of every picture."""

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
    """Return the family of a kernel, one of `FAMILIES`."""
    families = {_compute(c) for c in kernel.computes}
    return next(f for f in (*FAMILIES[:2], "reduction", "elementwise", "layout") if f in families)


def _compute(c: Compute) -> str:
    """Return the family of a compute; a sum of products over sliding windows is a conv."""
    if c.combiner is not None:
        match c.expr:
            case Apply("mul", (Read() as a, Read() as b)) if c.combiner == "sum":
                if a.tensor != b.tensor:
                    return "conv" if _slides(a, c) or _slides(b, c) else "matmul"
        return "reduction"
    return "layout" if isinstance(c.expr, Read) or not list(reads(c.expr)) else "elementwise"


def _slides(read: Read, c: Compute) -> bool:
    """Return True if reduced axes slide inside of windows.

    They do in two dims, or in one dim where the windows overlap. One dim split in two, such as
    heads by width in attention, is no window.
    """
    extents = {a.name: a.extent for a in c.reduce}
    windows = [i for i in read.index if isinstance(i, Affine) and _is_window(i, extents)]
    return len(windows) > 1 or any(not _is_split(i, extents) for i in windows)


def _is_window(index: Affine, summed: Mapping[str, Dim]) -> bool:
    return any(n in summed for n in index.variables) and any(
        n not in summed for n in index.variables
    )


def _is_split(index: Affine, summed: Mapping[str, Dim]) -> bool:
    """Return True for `outer * extent + inner` with the inner axis reduced."""
    factors = dict(index.terms)
    inner = [n for n in factors if n in summed]
    outer = [n for n in factors if n not in summed]
    is_pair = len(inner) == 1 and len(outer) == 1 and index.const == 0
    return is_pair and factors[inner[0]] == 1 and factors[outer[0]] == summed[inner[0]]
