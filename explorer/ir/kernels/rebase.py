"""Rebasing: kernels that differ in their place in tensors become one kernel with offsets.

y[i, j] = x[i + 7, j]  ->  y[i, j] = x[i, j], where x begins 7 rows later
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.dims import Dim, product, simplify
from explorer.ir.kernel import Compute, Expr, Kernel, Read, TensorSpec, reads, rewrite

Starts: TypeAlias = Mapping[
    str, tuple[Dim, ...]
]  # by tensor, the offset subtracted from each index


@dataclass(frozen=True, slots=True)
class Rebased:
    """A kernel that begins at the front of each tensor, and the offsets of its tensors in elements.

    Tensors that are not named have no offset.
    """

    kernel: Kernel
    offsets: Mapping[str, Dim]


def rebased(kernel: Kernel) -> Rebased:
    """Remove what all indices of a tensor have in common, and shorten tensors to the rows touched.

    Constants are unchanged, and so are tensors read past their border or at data-dependent indices.
    """
    touched = _touched(kernel)
    starts = {name: _start(indices) for name, indices in touched.items()}
    starts = {name: start for name, start in starts.items() if any(n != 0 for n in start)}
    rows = {name: _rows(indices, kernel, starts.get(name)) for name, indices in touched.items()}
    tensors = tuple(_with_rows(t, rows.get(t.name)) for t in kernel.tensors)
    if not starts and tensors == kernel.tensors:
        return Rebased(kernel, {})
    computes = tuple(_moved(c, starts) for c in kernel.computes) if starts else kernel.computes
    offsets = {n: _elements(start, kernel.shape(n)) for n, start in starts.items()}
    return Rebased(replace(kernel, tensors=tensors, computes=computes), offsets)


def at_first_rows(kernel: Kernel, fixed: frozenset[str]) -> tuple[Kernel, Starts]:
    """Move each tensor of which one row is read to its first row; also return where the row is.

    Tensors in `fixed` are unchanged.
    """
    fixed = fixed.union(*kernel.updates)
    touched = {n: t for n, t in _touched(kernel).items() if n in kernel.inputs and n not in fixed}
    starts = {name: _row(indices) for name, indices in touched.items()}
    starts = {name: start for name, start in starts.items() if any(n != 0 for n in start)}
    return placed(kernel, {t: tuple(-n for n in start) for t, start in starts.items()}), starts


def placed(kernel: Kernel, starts: Starts) -> Kernel:
    """Move all indices of some tensors."""
    if not starts:
        return kernel
    taken = {tensor: tuple(-n for n in start) for tensor, start in starts.items()}
    return replace(kernel, computes=tuple(_moved(c, taken) for c in kernel.computes))


Index: TypeAlias = tuple[Affine, ...]
Touched: TypeAlias = list[
    tuple[Index, Compute]
]  # an index of a tensor, and the compute whose axes it uses


def _touched(kernel: Kernel) -> dict[str, Touched]:
    """Return every index of the tensors that can be rebased."""
    indices: dict[str, Touched] = {}
    fixed = set(kernel.constants)
    for c in kernel.computes:
        if c.out in kernel.outputs:
            indices.setdefault(c.out, []).append((c.target, c))
        for r in reads(c.expr):
            index = tuple(i for i in r.index if isinstance(i, Affine))
            if len(index) < len(r.index) or r.fill is not None:
                fixed.add(r.tensor)
            indices.setdefault(r.tensor, []).append((index, c))
    for output, taken in kernel.updates:  # the same memory under two names
        if taken in indices:
            if fixed & {taken, output}:
                fixed |= {taken, output}
            both = indices[taken] + indices[output]
            indices |= {taken: both, output: both}
    outside = {*kernel.inputs, *kernel.outputs}
    return {n: t for n, t in indices.items() if n in outside and n not in fixed and t[0][0]}


def _start(indices: Touched) -> tuple[Dim, ...]:
    """Return a lower bound of all indices of a tensor, by dim."""
    lows = ([_low(i, c) for i in index] for index, c in indices)
    return tuple(_least(each) for each in zip(*lows))


def _row(indices: Touched) -> tuple[Dim, ...]:
    """Return the common constant index of each dim along which no index moves, else 0."""
    first, *others = (index for index, _ in indices)
    return tuple(
        i.const if not i.terms and all(other[d] == i for other in others) else 0
        for d, i in enumerate(first)
    )


def _low(index: Affine, c: Compute) -> Dim:
    """Return the least value of an index; 0 if the sign of a factor is not known."""
    extents, low = {a.name: a.extent for a in (*c.axes, *c.reduce)}, index.const
    for name, factor in index.terms:
        if isinstance(factor, int) and factor < 0:
            low = low + factor * (extents[name] - 1)
        elif not isinstance(factor, int) and not factor.is_nonnegative:
            return 0
    return simplify(low)


def _least(values: Sequence[Dim]) -> Dim:
    numbers = [v for v in values if isinstance(v, int)]
    if len(numbers) == len(values):
        return max(0, min(numbers))
    different = tuple(dict.fromkeys(values))
    if len(different) == 1:
        return different[0]
    return next((v for v in different if v != 0 and _is_least(v, different)), 0)


def _is_least(value: Dim, values: Sequence[Dim]) -> bool:
    """Return True if a value is the least one for all symbols, and not negative."""
    gaps = [simplify(v - value) for v in values]
    return all(d >= 0 if isinstance(d, int) else bool(d.is_nonnegative) for d in (value, *gaps))


def _rows(indices: Touched, kernel: Kernel, start: tuple[Dim, ...] | None) -> int | None:
    """Return the number of rows of a tensor that are touched from its start; None if unknown."""
    most = 0
    for index, c in indices:
        extents = {a.name: a.extent for a in (*c.axes, *c.reduce)}
        last = index[0].const - (start[0] if start else 0)
        for name, factor in index[0].terms:
            extent = extents.get(name)
            if not isinstance(factor, int) or not isinstance(extent, int) or extent < 1:
                return None
            last = last + max(0, factor) * (extent - 1)
        if not isinstance(last := simplify(last), int):
            return None
        most = max(most, last + 1)
    return most


def _with_rows(spec: TensorSpec, rows: int | None) -> TensorSpec:
    if rows is None or not (isinstance(spec.shape[0], int) and rows >= spec.shape[0]):
        return spec if rows is None else replace(spec, shape=(rows, *spec.shape[1:]))
    return spec


def _moved(c: Compute, starts: Starts) -> Compute:
    def leaf(read: Read) -> Expr:
        start = starts.get(read.tensor)
        if start is None:
            return read
        return replace(read, index=_without(tuple(read.index), start))  # type: ignore[arg-type]

    expr = rewrite(c.expr, leaf)
    start = starts.get(c.out)
    return replace(c, expr=expr, store=_without(c.target, start) if start else c.store)


def _without(index: Index, start: tuple[Dim, ...]) -> Index:
    return tuple(i if n == 0 else i - n for i, n in zip(index, start, strict=True))


def _elements(start: tuple[Dim, ...], shape: Sequence[Dim]) -> Dim:
    """Return the distance of an index from the first element, in row-major memory."""
    total: Dim = 0
    for d, n in enumerate(start):
        total = total + product((n, *shape[d + 1 :]))
    return simplify(total)
