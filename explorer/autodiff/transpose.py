"""Index maps transposed: what each element of a tensor gets from all that read it.

y[i, j] = sum[k] x[i, k] * w[k, j], by w[k, j]    ->   dw[k, j] = sum[i] g[i, j] * x[i, k]
y[o] = sum[k] x[o + k - 1] * w[k]                 ->   dx[t] = sum[k] g[t + 1 - k] * w[k]
y[o] = sum[k] x[2 * o + k] * w[k]                 ->   dx[2 * u] = sum[q] g[u - q] * w[2 * q],
                                                       dx[2 * u + 1] likewise of w[2 * q + 1]
y[i] = x[place[i]]                                ->   dx[t] = sum of g[i] where place[i] is t

Each entry of the index is an equation for the place of the element; it is solved for one of the
loops around the load, and the loops that no equation ties are summed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product as combinations
from math import gcd

from explorer.errors import UnsupportedOperator
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import DType
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    result_dtype,
    rewrite,
    substitute,
)
from explorer.ir.patterns.scatter import scattered
from explorer.ir.shapes.dims import Dim, ShapeEnv, ceil_div

MOST_PARTS = 64  # into which a tensor that is read with strides is cut


@dataclass(frozen=True, slots=True)
class Solved:
    """One dim of a tensor, or those of its elements that leave one remainder: over `axes` the
    elements at `target`. The loops in `values` have these values there, which lie in their extents
    where `within` says so; `loops` are new ones to sum over. `hit`: whether anything reads it.
    """

    axes: tuple[Axis, ...]
    target: Affine
    values: Mapping[str, Affine] = field(default_factory=dict)
    within: tuple[tuple[Affine, Dim], ...] = ()
    loops: tuple[Axis, ...] = ()
    equal: tuple[Affine, ...] = ()  # that must be 0
    hit: bool = True


def transposed(
    kernel: Kernel, c: Compute, read: Read, given: Expr, out: str, env: ShapeEnv
) -> tuple[Compute, ...]:
    """Computes of `out`, of the shape of what is read: at each element the sum of `given`, an
    expression in the loops of `c`, over all points at which `read` loads that element.
    """
    shape, dtype = kernel.shape(read.tensor), kernel.dtype(read.tensor)
    loops = {a.name: a for a in (*c.axes, *c.reduce)}
    stored = frozenset(b for i in c.target if (b := i.bare) is not None)
    free = _fresh(loops)
    places: list[tuple[Axis, Expr]] = []
    solver = _Solver(loops, stored, env, free)
    entries = {d: i for d, i in enumerate(read.index) if isinstance(i, Affine)}
    choices: dict[int, list[Solved]] = {}
    for d, place in sorted(entries.items(), key=lambda entry: len(entry[1].variables)):
        choices[d] = solver.dim(place, shape[d], read.tensor)
    for d, index in enumerate(read.index):
        if not isinstance(index, Affine):
            axis = Axis(next(free), shape[d])
            places.append((axis, _int64(index, kernel)))
            choices[d] = [Solved((axis,), var(axis.name))]
    every = [choices[d] for d in range(len(shape))]
    rest = [a for a in loops.values() if a.name not in solver.gone]
    return tuple(
        _compute(c, given, part, rest, places, out, dtype, kernel) for part in combinations(*every)
    )


def _fresh(loops: Mapping[str, Axis]) -> Iterator[str]:
    count = 0
    while True:
        name = f"t{count}"
        count += 1
        if name not in loops:
            yield name


def _int64(index: Expr, kernel: Kernel) -> Expr:
    return index if result_dtype(index, kernel) == "int64" else Apply("cast_int64", (index,))


class _Solver:
    """Solves one equation after the other; `gone` are the loops that have a value by now."""

    def __init__(
        self, loops: Mapping[str, Axis], stored: frozenset[str], env: ShapeEnv, free: Iterator[str]
    ) -> None:
        self.loops, self.stored, self.env, self.free = loops, stored, env, free
        self.gone: set[str] = set()
        self.parts = 1

    def dim(self, index: Affine, extent: Dim, tensor: str) -> list[Solved]:
        """The ways to reach the elements along one dim, each with its remainder."""
        open_ = [n for n in index.variables if n not in self.gone]
        if self.is_whole(index, extent, open_):
            self.gone.update(open_)
            axes = sorted(open_, key=lambda n: -_number(index.factor(n)))
            return [Solved(tuple(self.loops[n] for n in axes), index)]
        if not open_:
            axis = Axis(next(self.free), extent)
            if self.env.equal(extent, 1) and index == Affine():
                return [Solved((axis,), var(axis.name))]
            return [Solved((axis,), var(axis.name), equal=(index - var(axis.name),))]
        return self.solved(index, extent, open_, tensor)

    def is_whole(self, index: Affine, extent: Dim, open_: list[str]) -> bool:
        """Whether each element is read at just one point of the open loops: these are the digits of
        its place.
        """
        if not open_ or len(open_) != len(index.variables) or index.const != 0:
            return False
        if not all(isinstance(index.factor(n), int) for n in open_[1:]) and len(open_) > 1:
            return False
        step: Dim = 1
        for name in sorted(open_, key=lambda n: _number(index.factor(n))):
            if not self.env.equal(index.factor(name), step):
                return False
            step = step * self.loops[name].extent
        return bool(self.env.equal(step, extent))

    def solved(self, index: Affine, extent: Dim, open_: list[str], tensor: str) -> list[Solved]:
        factors = {n: index.factor(n) for n in open_}
        whole = {n: f for n, f in factors.items() if isinstance(f, int)}
        name = self.pivot(whole)
        if name not in self.stored and len(whole) == len(factors):
            turned = self.turned(whole)
            forward = index.substitute(turned)
            strided = self.strided(forward)
            if strided is not None:
                parts = self.by_remainder(forward, extent, *strided)
                return [replace(p, values=_through(turned, p.values)) for p in parts]
        if name is None:
            raise UnsupportedOperator(
                f"no inverse is known of the index {index} at which {tensor!r} is read",
                where=tensor,
                expected="a loop that the index counts in steps of one, or in one stride",
            )
        self.gone.add(name)
        axis = Axis(next(self.free), extent)
        rest = index - var(name) * whole[name]
        value = (var(axis.name) - rest) * whole[name]
        within = ((value, self.loops[name].extent),)
        return [Solved((axis,), var(axis.name), {name: value}, within)]

    def turned(self, factors: Mapping[str, int]) -> dict[str, Affine]:
        """Loops that an index counts down, from their ends: as such it counts them up."""
        down = [n for n, f in factors.items() if f < 0]
        return {n: var(n) * -1 + (self.loops[n].extent - 1) for n in down}

    def pivot(self, factors: Mapping[str, int]) -> str | None:
        """The loop to solve for: one that the result has, so that reading the adjoint beyond its
        end gives nothing.
        """
        ones = [n for n, f in factors.items() if f in (1, -1)]
        kept = [n for n in ones if n in self.stored]
        return min(kept or ones, default=None)

    def strided(self, index: Affine) -> tuple[int, str, str] | None:
        """The stride, the loop that makes such steps, and another one inside of a stride or "", of
        an index that every loop counts up; None where solving for a step of one is as good.
        """
        factors = {n: _number(index.factor(n)) for n in index.variables}
        if any(f <= 0 for f in factors.values()) or not self.gone.isdisjoint(factors):
            return None
        name = max(factors, key=lambda n: (factors[n], n))
        stride = factors[name]
        inner = [n for n in factors if n != name]
        known = all(isinstance(self.loops[n].extent, int) for n in inner)
        if stride == 1 or len(inner) > 1 or not known or not isinstance(index.const, int):
            return None
        if inner and self.parts * stride > MOST_PARTS:
            return None
        self.parts *= stride
        return stride, name, inner[0] if inner else ""

    def by_remainder(
        self, index: Affine, extent: Dim, stride: int, name: str, inner: str
    ) -> Iterator[Solved]:
        """The elements of each remainder by the stride: those of a window that they lie in."""
        self.gone.update(n for n in (name, inner) if n)
        const, step = _number(index.const), _number(index.factor(inner)) if inner else 0
        reach = _number(self.loops[inner].extent) if inner else 1
        for remainder in range(stride):
            axis = Axis(next(self.free), ceil_div(extent - remainder, stride))
            target = var(axis.name) * stride + remainder
            if isinstance(axis.extent, int) and axis.extent <= 0:
                continue
            period = stride // gcd(step, stride)  # of the places in a window that leave a remainder
            first = next(
                (
                    n
                    for n in range(min(period, reach))
                    if not (remainder - const - step * n) % stride
                ),
                None,
            )
            if first is None:
                yield Solved((axis,), target, hit=False)
                continue
            values = {}
            value = var(axis.name) + (remainder - const - step * first) // stride
            loops: tuple[Axis, ...] = ()
            if inner:
                loop = Axis(next(self.free), -(-(reach - first) // period))
                values[inner] = var(loop.name) * period + first
                value = value - var(loop.name) * (step * period // stride)
                loops = (loop,)
            values[name] = value
            within = ((value, self.loops[name].extent),)
            yield Solved((axis,), target, values, within, loops)


def _through(turned: Mapping[str, Affine], values: Mapping[str, Affine]) -> Mapping[str, Affine]:
    """The values of loops, where some are known of those that count from their ends."""
    return {n: turned[n].substitute({n: v}) if n in turned else v for n, v in values.items()}


def _number(dim: Dim) -> int:
    return dim if isinstance(dim, int) else 1 << 60


def _compute(
    c: Compute,
    given: Expr,
    parts: tuple[Solved, ...],
    rest: list[Axis],
    places: list[tuple[Axis, Expr]],
    out: str,
    dtype: DType,
    kernel: Kernel,
) -> Compute:
    axes = tuple(a for part in parts for a in part.axes)
    target = tuple(part.target for part in parts)
    plain = [t.bare for t in target] == [a.name for a in axes]
    store = () if plain else target
    if not all(part.hit for part in parts):
        return Compute(out, axes, Const(0.0, dtype), store=store, origin=c.origin)
    values = _closed([part.values for part in parts])
    within = [(v.substitute(values), n) for part in parts for v, n in part.within]
    equal = [e.substitute(values) for part in parts for e in part.equal]
    loops = (*rest, *(a for part in parts for a in part.loops))
    expr = _within(substitute(given, values), within, equal, dtype, kernel)
    extents = {a.name: a.extent for a in (*axes, *loops)}
    expr = rewrite(expr, lambda r: _unfilled(r, extents, kernel))
    if places:
        moved = [(axis, _index_of(place, values, within)) for axis, place in places]
        expr = scattered(expr, moved, "sum", dtype)
    return Compute(out, axes, expr, loops, "sum" if loops else None, store, c.origin)


def _closed(parts: list[Mapping[str, Affine]]) -> dict[str, Affine]:
    """The values of all loops, in terms of loops that have none."""
    values = {n: v for part in parts for n, v in part.items()}
    for _ in values:
        values = {n: v.substitute(values) for n, v in values.items()}
    return values


def _index_of(place: Expr, values: Mapping[str, Affine], within: list[tuple[Affine, Dim]]) -> Expr:
    moved = substitute(place, values)
    return _filled(moved) if within else moved


def _within(
    expr: Expr,
    within: list[tuple[Affine, Dim]],
    equal: list[Affine],
    dtype: DType,
    kernel: Kernel,
) -> Expr:
    """The expression where the loops are in their extents, and 0 elsewhere.

    Sums of products need no condition where the adjoint that they all multiply is read beyond its
    end, as 0.
    """
    if not within and not equal:
        return expr
    filled = _filled(expr) if within else expr
    conditions = [Apply("eq", (IndexValue(e), Const(0, "int64"))) for e in equal]
    for value, extent in within:
        if not (_is_product(filled) and _ends(filled, value, extent, kernel)):
            conditions.append(Apply("ge", (IndexValue(value), Const(0, "int64"))))
            conditions.append(Apply("lt", (IndexValue(value), Const(extent, "int64"))))
    if not conditions:
        return filled
    return Apply(
        "where", (reduce(lambda a, b: Apply("and", (a, b)), conditions), filled, Const(0.0, dtype))
    )


def _filled(expr: Expr) -> Expr:
    """Loads that are nothing beyond the ends of their tensors."""
    return rewrite(expr, lambda r: r if r.fill is not None else Read(r.tensor, r.index, 0.0))


def _unfilled(read: Read, extents: Mapping[str, Dim], kernel: Kernel) -> Read:
    """The load without a fill where it never leaves its tensor: a contraction reads whole rows."""
    if read.fill is None:
        return read
    pairs = zip(read.index, kernel.shape(read.tensor), strict=True)
    inside = all(isinstance(i, Affine) and _stays(i, n, extents) for i, n in pairs)
    return Read(read.tensor, read.index) if inside else read


def _stays(index: Affine, extent: Dim, extents: Mapping[str, Dim]) -> bool:
    """Whether an index is at least 0 and less than the extent wherever the loops are."""
    if index.bare is not None:
        return extents.get(index.bare) == extent
    low = high = index.const
    for name, factor in index.terms:
        most = extents.get(name)
        if not isinstance(factor, int) or not isinstance(most, int) or most < 1:
            return False
        low, high = low + min(0, factor * (most - 1)), high + max(0, factor * (most - 1))
    known = isinstance(low, int) and isinstance(high, int) and isinstance(extent, int)
    return known and low >= 0 and high < extent


def _is_product(expr: Expr) -> bool:
    """Whether an expression is made of loads by sums and products alone."""
    match expr:
        case Apply(op, args):
            return op in ("mul", "neg") and all(map(_is_product, args))
        case Read(_, index, _):
            return all(isinstance(i, Affine) for i in index)
    return isinstance(expr, Const)


def _ends(expr: Expr, value: Affine, extent: Dim, kernel: Kernel) -> bool:
    """Whether one of the factors is read at this value along a dim of that extent, and is 0 beyond
    it.
    """
    match expr:
        case Apply(_, args):
            return any(_ends(a, value, extent, kernel) for a in args)
        case Read(tensor, index, fill):
            dims = kernel.shape(tensor)
            return fill == 0 and any(i == value and n == extent for i, n in zip(index, dims))
    return False


__all__ = ["transposed"]
