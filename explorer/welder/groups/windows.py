"""Loads in sliding windows, which reach from a tile into its neighbours."""

from __future__ import annotations

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Read
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.sliding import slides


def is_window(read: Read, compute: Compute) -> bool:
    """Return True if a load is in a window that overlaps with the next one or is reduced.

    A load past the border counts as well.
    """
    if read.fill is not None:
        return True
    if not slides(compute, read) or is_cut(read, compute):
        return False
    return contraction(compute) is None or any(
        _overlaps(i, compute) for i in read.index if isinstance(i, Affine)
    )


def is_cut(read: Read, compute: Compute) -> bool:
    """Return True if a load goes through a tensor in pieces of rows and reads each element once.

    It is a part of a long reduction.
    """
    first, *others = read.index or (None,)
    extents = {a.name: a.extent for a in compute.reduce}
    bare = [i.bare if isinstance(i, Affine) else None for i in others]
    if not isinstance(first, Affine) or len(first.terms) != 2 or first.const != 0:
        return False
    if None in bare or len({*bare} - first.variables) != len(others):
        return False
    inner = [n for n, f in first.terms if f == 1 and n in extents]
    return len(inner) == 1 and all(f == extents[inner[0]] for n, f in first.terms if n not in inner)


def _overlaps(index: Affine, compute: Compute) -> bool:
    """Return True if a step of an axis is no longer than the reach of the reduced axes."""
    summed = {a.name: a.extent for a in compute.reduce}
    steps = [f for n, f in index.terms if n not in summed]
    reach = sum((f * (summed[n] - 1) for n, f in index.terms if n in summed), start=0)
    is_numeric = isinstance(reach, int) and all(isinstance(f, int) for f in steps)
    return not is_numeric or any(abs(int(f)) <= int(reach) for f in steps)


def is_shifted(read: Read) -> bool:
    """Return True if a load has one axis a dim, from any start: half of the channels of a gate."""
    terms = [i.terms for i in read.index if isinstance(i, Affine) and i.terms]
    names = [t[0][0] for t in terms]
    is_affine = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return (
        is_affine and len(set(names)) == len(names) and all(len(t) == 1 == t[0][1] for t in terms)
    )
