"""Loads that stand in sliding windows: what they take of a tile reaches into its neighbours."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Read
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.sliding import slides


def is_window(read: Read, compute: Compute) -> bool:
    """Whether a load goes past the border, stands in a window that reaches into the next one, or in
    a window that is reduced.
    """
    if read.fill is not None:
        return True
    if not slides(compute, read) or is_cut(read, compute):
        return False
    return contraction(compute) is None or any(
        _overlaps(i, compute) for i in read.index if isinstance(i, Affine)
    )


def is_cut(read: Read, compute: Compute) -> bool:
    """Whether a load goes through a tensor in pieces of rows, one after the other, and reads each
    element once: a part of a long reduction.
    """
    first, *rest = read.index or (None,)
    extents = {a.name: a.extent for a in compute.reduce}
    bare = [i.bare if isinstance(i, Affine) else None for i in rest]
    if not isinstance(first, Affine) or len(first.terms) != 2 or first.const != 0:
        return False
    if None in bare or len({*bare} - first.variables) != len(rest):
        return False
    inner = [n for n, f in first.terms if f == 1 and n in extents]
    return len(inner) == 1 and all(f == extents[inner[0]] for n, f in first.terms if n not in inner)


def _overlaps(index: Affine, compute: Compute) -> bool:
    """Whether a step of an axis goes no further than what is summed reaches."""
    summed = {a.name: a.extent for a in compute.reduce}
    steps = [f for n, f in index.terms if n not in summed]
    reach = sum((f * (summed[n] - 1) for n, f in index.terms if n in summed), start=0)
    known = isinstance(reach, int) and all(isinstance(f, int) for f in steps)
    return not known or any(abs(int(f)) <= int(reach) for f in steps)


def is_shifted(read: Read) -> bool:
    """Whether a load takes one axis a dim, from any place on: half of the channels of a gate."""
    terms = [i.terms for i in read.index if isinstance(i, Affine) and i.terms]
    names = [t[0][0] for t in terms]
    known = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return known and len(set(names)) == len(names) and all(len(t) == 1 == t[0][1] for t in terms)
