"""Affine index maps of views, copies and reshaped tensors, from result to source and back.

Invariant: a map never changes which value is read. If an index cannot be decomposed as it is, the
result is a `Split`: split this axis in two and retry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import TypeAlias

from explorer.ir.affine import Affine, affine
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.dims import (
    Dim,
    Shape,
    ShapeEnv,
    evaluate_dim,
    parts_of,
    product,
    simplify,
    symbols_of,
    sympy,
)
from explorer.ir.kernel import Axis, Read
from explorer.ir.program import Binding
from explorer.ir.types import Tensor

Index: TypeAlias = tuple[Affine, ...]
REMEMBERED_QUOTIENTS = 4096  # a bound on memory, chosen
TRIED_SIZES = (101, 211, 307, 401, 503)  # primes, so that few divide another; chosen


@dataclass(frozen=True, slots=True)
class Split:
    """A required split of an axis into two, `outer * inner + rest`, before an index is decomposed.

    `inner` is positive and divides the axis's extent, also where the index decreases along it.
    """

    axis: str
    inner: Dim


@dataclass(frozen=True, slots=True)
class Ranges:
    """The extents of the axes of affine indices, and the bounds of symbols."""

    extents: Mapping[str, Dim]
    env: ShapeEnv = ShapeEnv()

    def is_nonnegative(self, gap: Dim) -> bool:
        """Return True if a dim is provably not negative."""
        return gap >= 0 if isinstance(gap, int) else self.env.bounds(simplify(gap))[0] >= 0

    def is_inside(self, index: Affine, extent: Dim) -> bool:
        """Return True if `0 <= index < extent` for all values of the axes."""
        low, high = index.const, index.const
        for name, factor in index.terms:
            reach = factor * (self.extents[name] - 1)
            if self.is_nonnegative(factor):
                high = high + reach
            elif self.is_nonnegative(-factor):
                low = low + reach
            else:
                return False
        return self.is_nonnegative(low) and self.is_nonnegative(extent - 1 - high)


def quotient(a: Dim, b: Dim) -> Dim | None:
    """Return `a / b` if it is exact for every binding of the symbols, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    return 1 if a == b else _exact_quotient(a, b)


@lru_cache(maxsize=REMEMBERED_QUOTIENTS)
def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    if b == 0 or _is_refuted(a, b):
        return None
    if isinstance(a, int):
        return 0 if a == 0 else None
    parts = sorted(parts_of(a) | parts_of(b), key=str)
    words = [sympy.Dummy() for _ in parts]
    placeholders = dict(zip(parts, words))
    polynomials = [sympy.Poly(sympy.sympify(d).xreplace(placeholders), *words) for d in (a, b)]
    ratio, remainder = sympy.div(*polynomials, domain="QQ")
    if remainder or not all(c.is_Integer for c in ratio.coeffs()):
        return None
    return simplify(ratio.as_expr().xreplace(dict(zip(words, parts))))


def _is_refuted(a: Dim, b: Dim) -> bool:
    """Return True if some binding leaves a remainder.

    Most do, and sympy takes milliseconds to find out.
    """
    names = sorted(symbols_of(a) | symbols_of(b))
    for start in range(len(TRIED_SIZES)):
        sizes = dict(zip(names, islice(cycle(TRIED_SIZES), start, None)))
        by = evaluate_dim(b, sizes)
        if by and evaluate_dim(a, sizes) % by:
            return True
    return False


def divide(index: Affine, by: Dim, ranges: Ranges) -> tuple[Affine, Affine] | Split | None:
    """Return `index // by` and `index % by`, both affine, or the axis to split first, or None."""
    if by == 1:
        return index, Affine()
    if by == 0:  # there is no element
        return None
    above: dict[str, Dim] = {}
    below: dict[str, Dim] = {}
    for name, factor in index.terms:
        multiple = quotient(factor, by)
        if multiple is None:
            below[name] = factor
        else:
            above[name] = multiple
    if isinstance(index.const, int) and isinstance(by, int):
        top, remainder = divmod(index.const, by)
    else:
        exact = quotient(index.const, by)
        top, remainder = (0, index.const) if exact is None else (exact, 0)
    low = affine(below, remainder)
    if ranges.is_inside(low, by):
        return affine(above, top), low
    near = _nearest_multiples(below, by)
    if near is not None:
        more, less = near
        low = affine(less, remainder)
        if ranges.is_inside(low, by):
            return affine(above | more, top), low
    return next(_possible_splits(below, by, ranges), None)


def _nearest_multiples(
    terms: Mapping[str, Dim], by: Dim
) -> tuple[dict[str, Dim], dict[str, Dim]] | None:
    """Return each factor's nearest multiple of `by` and the remainder, which may be negative.

    A step of `by - 1` is one multiple and -1. Returns None if every multiple is zero.
    """
    if not isinstance(by, int) or not all(isinstance(f, int) for f in terms.values()):
        return None
    multiples = {name: (2 * f + by) // (2 * by) for name, f in terms.items() if isinstance(f, int)}
    if not any(multiples.values()):
        return None
    return multiples, {name: f - multiples[name] * by for name, f in terms.items()}


def _possible_splits(terms: Mapping[str, Dim], by: Dim, ranges: Ranges) -> Iterator[Split]:
    for name, factor in terms.items():
        inner = quotient(by, factor)
        extent = ranges.extents[name]
        if inner is None:
            continue
        inner = abs(inner) if isinstance(inner, int) else inner
        if inner == 1 or inner == extent or not ranges.is_nonnegative(inner):
            continue
        if quotient(extent, inner) is not None:
            yield Split(name, inner)


def linear(index: Sequence[Affine], shape: Shape) -> Affine:
    """Return the position of an element in row-major memory."""
    total, stride = Affine(), 1
    for entry, extent in zip(reversed(index), reversed(shape), strict=True):
        total = total + entry * stride
        stride = product((stride, extent))
    return total


def unravel(place: Affine, shape: Shape, ranges: Ranges) -> Index | Split | None:
    """Return the index of a position in row-major memory."""
    out: list[Affine] = []
    for n, extent in enumerate(reversed(shape)):
        if n == len(shape) - 1:
            out.append(place)
            break
        parts = divide(place, extent, ranges)
        if parts is None or isinstance(parts, Split):
            return parts
        place, remainder = parts
        out.append(remainder)
    return tuple(reversed(out))


def reshape_groups(a: Shape, b: Shape) -> list[tuple[range, range]]:
    """Return the smallest runs of dims of two shapes with the same elements.

    Unit dims join the run before them.
    """
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        start = (i, j)
        left, right = a[i], b[j]
        i, j = i + 1, j + 1
        while left != right:
            if i < len(a) and quotient(right, left) is not None:
                left, i = product((left, a[i])), i + 1
            elif j < len(b) and quotient(left, right) is not None:
                right, j = product((right, b[j])), j + 1
            else:
                i, j = len(a), len(b)
                break
        groups.append((range(start[0], i), range(start[1], j)))
    if groups and (i < len(a) or j < len(b)):
        groups[-1] = (range(groups[-1][0].start, len(a)), range(groups[-1][1].start, len(b)))
    return groups


def through_reshape(
    index: Index, shape: Shape, target: Shape, ranges: Ranges, offset: Dim = 0
) -> Index | Split | None:
    """Return the index in `target` of the element at `index` in `shape`, in the same memory.

    Both shapes are row-major. With an offset, or if `target` has more elements, `shape` begins that
    many elements in. Indices that may lie outside of their dim are only passed on if the dim is
    unchanged.
    """
    if not target:
        return () if _all_inside(index, shape, ranges) else None
    if offset != 0 or product(shape) != product(target):
        place = linear(index, shape) + offset
        return unravel(place, target, ranges) if _all_inside(index, shape, ranges) else None
    if not shape:
        return (Affine(),) * len(target)
    out: list[Affine] = []
    for of, to in reshape_groups(shape, target):
        part, dims = index[of.start : of.stop], shape[of.start : of.stop]
        into = target[to.start : to.stop]
        if dims == into:
            out += part
            continue
        if [n for n in dims if n != 1] == [n for n in into if n != 1]:
            units = [i for i, n in zip(part, dims, strict=True) if n == 1]
            if not _all_inside(tuple(units), (1,) * len(units), ranges):
                return None
            long_entries = iter([i for i, n in zip(part, dims, strict=True) if n != 1])
            out += [Affine() if n == 1 else next(long_entries) for n in into]
            continue
        if not _all_inside(part, dims, ranges):
            return None
        entries = unravel(linear(part, dims), into, ranges)
        if entries is None or isinstance(entries, Split):
            return entries
        out += entries
    return tuple(out)


def _all_inside(index: Index, shape: Shape, ranges: Ranges) -> bool:
    return all(ranges.is_inside(i, n) for i, n in zip(index, shape, strict=True))


def solve(
    pattern: Index, axes: Sequence[Axis], shape: Shape, index: Index, ranges: Ranges
) -> dict[str, Affine] | Split | None:
    """Return the values of `axes` for which `pattern` equals `index`.

    Indices may lie outside of `shape`. Returns None if the pattern does not reach each element
    once. An axis of extent 1 is 0 only if its dim is read inside: read at -1, it is -1.
    """
    values: dict[str, Affine] = {}
    extents = {a.name: a.extent for a in axes}
    for entry, extent, wanted in zip(pattern, shape, index, strict=True):
        solved = _solve_dim(entry, extent, wanted, extents, ranges)
        if solved is None or isinstance(solved, Split):
            return solved
        if any(values.get(name, value) != value for name, value in solved.items()):
            return None
        values |= solved
    values = {a.name: Affine() for a in axes if a.extent == 1} | values
    return values if len(values) == len(extents) else None


def _solve_dim(
    entry: Affine, extent: Dim, wanted: Affine, extents: Mapping[str, Dim], ranges: Ranges
) -> dict[str, Affine] | Split | None:
    """Solve one dim of a pattern.

    In `((a * n_b) + b) * n_c + c` the axes are the digits of the index.
    """
    if extent == 1:
        if ranges.is_inside(wanted, 1):
            return {}
        return None if entry.bare is None else {entry.bare: wanted}
    terms = [(name, factor) for name, factor in entry.terms if extents[name] != 1]
    digits: list[tuple[str, Dim]] = []
    stride: Dim = 1
    while terms:
        digit = next((t for t in terms if t[1] == stride), None)
        if digit is None:
            return None
        terms.remove(digit)
        digits.append(digit)
        stride = product((stride, extents[digit[0]]))
    if entry.const != 0 or stride != extent:
        return None
    values: dict[str, Affine] = {}
    for name, factor in reversed(digits):
        if factor == 1:
            values[name] = wanted
            break
        parts = divide(wanted, factor, ranges)
        if parts is None or isinstance(parts, Split):
            return parts
        values[name], wanted = parts
    return values


@dataclass(frozen=True, slots=True)
class Origin:
    """The source index of an element of the result, and the fill value outside of the source."""

    index: Index
    fill: float | None


@dataclass(frozen=True, slots=True)
class ViewMap:
    """A view of the same memory, starting at element `offset`."""

    source: Shape
    result: Shape
    offset: Dim = 0

    def origin(self, index: Index, fill: float | None, ranges: Ranges) -> Origin | Split | None:
        """Return the source index of the result element at `index`."""
        source_index = through_reshape(index, self.result, self.source, ranges, self.offset)
        return Origin(source_index, fill) if isinstance(source_index, tuple) else source_index

    def destination(self, index: Index, ranges: Ranges) -> Index | Split | None:
        """Return the result index of the source element at `index`; None if some have none."""
        if self.offset != 0 or product(self.source) != product(self.result):
            return None
        return through_reshape(index, self.source, self.result, ranges)


@dataclass(frozen=True, slots=True)
class AffineMap:
    """A kernel that only moves elements: `result[pattern(axes)] = source[index(axes)]`."""

    source: Shape
    result: Shape
    axes: tuple[Axis, ...]
    pattern: Index
    index: Index
    fill: float | None

    def origin(self, index: Index, fill: float | None, ranges: Ranges) -> Origin | Split | None:
        """Return the source index of the result element at `index`."""
        outside = [
            d
            for d, (i, n) in enumerate(zip(index, self.result, strict=True))
            if fill is not None and not ranges.is_inside(i, n)
        ]
        if outside and self.fill not in (None, fill):
            return None
        if not all(self._leaves_with(d) for d in outside):
            return None
        values = solve(self.pattern, self.axes, self.result, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        source_index = tuple(i.substitute(values) for i in self.index)
        if fill is None and all(map(ranges.is_inside, source_index, self.source)):
            return Origin(source_index, None)
        return Origin(source_index, self.fill if self.fill is not None else fill)

    def _leaves_with(self, d: int) -> bool:
        """Return True if an index that leaves the result at dim `d` leaves the source too."""
        axis = self.pattern[d].bare
        if axis is None or sum(axis in i.variables for i in self.pattern) != 1:
            return False
        uses = [(i, n) for i, n in zip(self.index, self.source, strict=True) if axis in i.variables]
        if len(uses) != 1:
            return False
        entry, extent = uses[0]
        before, size = entry.const, self.result[d]
        if entry.terms != ((axis, 1),) or not isinstance(before, int):
            return False
        if before == 0 and extent == size:
            return True
        return (
            isinstance(extent, int)
            and isinstance(size, int)
            and before <= 0
            and extent - before <= size
        )

    def destination(self, index: Index, ranges: Ranges) -> Index | Split | None:
        """Return the result index of the source element at `index`; None if none or several."""
        if self.fill is not None:
            return None
        values = solve(self.index, self.axes, self.source, index, ranges)
        if values is None or isinstance(values, Split):
            return values
        return tuple(i.substitute(values) for i in self.pattern)


CopyMap: TypeAlias = ViewMap | AffineMap


@by_identity
def copy_map(binding: Binding) -> tuple[Var, CopyMap] | None:
    """Return the source and the map of a binding that only moves elements."""
    match binding.expr:
        case View(arg, offset):
            source, result = arg.type, binding.var.type
            if (
                isinstance(source, Tensor)
                and isinstance(result, Tensor)
                and source.is_known
                and result.is_known
            ):
                return arg, ViewMap(source.dims, result.dims, offset)
        case KernelCall(kernel, (arg,), _) if len(kernel.computes) == 1:
            c, result_spec = kernel.computes[0], kernel.spec(kernel.computes[0].out)
            match c.expr:
                case Read(tensor, index, fill) if c.combiner is None:
                    spec, entries = kernel.spec(tensor), _affine_index(index)
                    if entries is None or spec.dtype != result_spec.dtype:
                        return None
                    return arg, AffineMap(
                        spec.shape, result_spec.shape, c.axes, c.target, entries, fill
                    )
    return None


def _affine_index(index: tuple[object, ...]) -> Index | None:
    entries = tuple(i for i in index if isinstance(i, Affine))
    return entries if len(entries) == len(index) else None
