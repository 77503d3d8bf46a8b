"""Accesses of a user's kernel outside of a tensor whose extents are symbolic.

`verify_kernel` compares indices with extents that are numbers. Of symbolic ones this module
searches for sizes within the bounds of the symbols for which an index lies outside: a
counterexample is never a false alarm, and sizes without one are no proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_dim, symbols_of
from explorer.ir.kernel import Axis, Kernel, reads

SIZES = (0, 1, 2, 3, 5, 8, 33, 100, 1000)  # above the least size of a symbol; chosen
MOST_BINDINGS = 400  # that are tried for one access; chosen
Access: TypeAlias = tuple[str, str, Affine, Dim, tuple[Axis, ...]]
"""What is done ("reads" or "writes"), the tensor, an index, its extent, and the axes around it."""


def accesses(kernel: Kernel) -> Iterator[Access]:
    """Yield every access whose index is affine and has no fill, one dim after the other."""
    for compute in kernel.computes:
        axes = (*compute.axes, *compute.reduce)
        for index, extent in zip(compute.target, kernel.shape(compute.out)):
            yield "writes", compute.out, index, extent, axes
        for read in reads(compute.expr):
            if read.fill is None:
                for i, extent in zip(read.index, kernel.shape(read.tensor)):
                    if isinstance(i, Affine):
                        yield "reads", read.tensor, i, extent, axes


def find_outside_access(
    kernel: Kernel,
    env: ShapeEnv,
    trusted: frozenset[Access] = frozenset(),
    free: frozenset[str] | None = None,
) -> str:
    """Return in words which access lies outside of its tensor for some sizes, "" if none was found.

    Accesses that are `trusted` are not looked at, nor those with symbols that are not `free`: the
    run computes them together, so that not all of their values occur (the begin and the extent of a
    slice).
    """
    for access in accesses(kernel):
        names = _symbols(access)
        if access not in trusted and (free is None or free.issuperset(names)):
            why = _outside(access, names, env)
            if why:
                return why
    return ""


def _symbols(access: Access) -> list[str]:
    _, _, index, extent, axes = access
    factors = (factor for _, factor in index.terms)
    dims = (index.const, extent, *(a.extent for a in axes), *factors)
    return sorted({name for dim in dims for name in symbols_of(dim)})


def _outside(access: Access, names: list[str], env: ShapeEnv) -> str:
    action, tensor, index, extent, axes = access
    extents = {a.name: a.extent for a in axes}
    counts = [extents[name] for name, _ in index.terms]
    if counts == [extent] and index.const == 0 and index.terms[0][1] == 1:
        return ""  # along the whole extent, as most are
    for sizes in _bindings(names, env):
        if any(evaluate_dim(n, sizes) <= 0 for n in extents.values()):
            continue  # nothing is computed
        low = high = evaluate_dim(index.const, sizes)
        for (_, factor), count in zip(index.terms, counts, strict=True):
            last = evaluate_dim(factor, sizes) * (evaluate_dim(count, sizes) - 1)
            low, high = low + min(0, last), high + max(0, last)
        most = evaluate_dim(extent, sizes)
        if low < 0 or high >= most:
            at = ", ".join(f"{n}={sizes[n]}" for n in names)
            span = f"{low} to {high}" if low < high else f"{low}"
            return f"{action} {tensor!r} at {span} for {at}, and it has {most} elements there"
    return ""


def _bindings(names: list[str], env: ShapeEnv) -> Iterator[Sizes]:
    """Yield sizes of the symbols within their bounds; none where there are no symbols."""
    if not names:
        return
    ranges = []
    for name in names:
        bound = env.of(name)
        high = bound.high if bound.high is not None else bound.low + SIZES[-1]
        sizes = {bound.hint, high, *(bound.low + n for n in SIZES)}
        ranges.append(sorted(n for n in sizes if bound.low <= n <= high))
    for _, values in zip(range(MOST_BINDINGS), product(*ranges)):
        yield dict(zip(names, values, strict=True))
