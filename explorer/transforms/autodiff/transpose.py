"""Transposed index maps: the adjoint of a tensor is summed over all loads of each element.

    y[i, j] = sum[k] x[i, k] * w[k, j], by w[k, j]    ->   dw[k, j] = sum[i] g[i, j] * x[i, k]
    y[o] = sum[k] x[o + k - 1] * w[k]                 ->   dx[t] = sum[k] g[t + 1 - k] * w[k]
    y[o] = sum[k] x[2 * o + k] * w[k]                 ->   dx[2 * u] = sum[q] g[u - q] * w[2 * q],
                                                           dx[2 * u + 1] likewise of w[2 * q + 1]
    y[i] = x[place[i]]                                ->   dx[t] = sum of g[i] where place[i] is t

Each entry of the index is an equation for the element's position. It is solved for one of the loops
around the load. Loops that no equation fixes are summed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product as combinations
from math import gcd

from explorer.errors import UnsupportedOperator
from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, ShapeEnv, ceil_div
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
from explorer.ir.kernels.scatter import scattered

MOST_PARTS = 64  # of a tensor that is read with strides


@dataclass(frozen=True, slots=True)
class Solved:
    """One dim of a tensor, or its elements of one remainder, over `axes` at `target`.

    `values` gives loops their values there, and `within` holds the conditions that these lie in
    their extents. `loops` are new loops to sum over. `hit` is False if no load reads these
    elements.
    """

    axes: tuple[Axis, ...]
    target: Affine
    values: Mapping[str, Affine] = field(default_factory=dict)
    within: tuple[tuple[Affine, Dim], ...] = ()
    loops: tuple[Axis, ...] = ()
    equal: tuple[Affine, ...] = ()  # that must be 0
    hit: bool = True


def transposed(
    kernel: Kernel, c: Compute, read: Read, adjoint: Expr, out: str, env: ShapeEnv
) -> tuple[Compute, ...]:
    """Return computes that sum `adjoint` over all points at which `read` loads an element.

    `adjoint` is an expression in the loops of `c`. `out` has the shape of the tensor that is read.
    """
    shape, dtype = kernel.shape(read.tensor), kernel.dtype(read.tensor)
    loops = {a.name: a for a in (*c.axes, *c.reduce)}
    stored = frozenset(b for i in c.target if (b := i.bare) is not None)
    free = _fresh(loops)
    scattered_axes: list[tuple[Axis, Expr]] = []
    solver = _Solver(loops, stored, env, free)
    entries = {d: i for d, i in enumerate(read.index) if isinstance(i, Affine)}
    choices: dict[int, list[Solved]] = {}
    for d, place in sorted(entries.items(), key=lambda entry: len(entry[1].variables)):
        choices[d] = solver.dim(place, shape[d], read.tensor)
    for d, index in enumerate(read.index):
        if not isinstance(index, Affine):
            axis = Axis(next(free), shape[d])
            scattered_axes.append((axis, _int64(index, kernel)))
            choices[d] = [Solved((axis,), var(axis.name))]
    every = [choices[d] for d in range(len(shape))]
    summed = [a for a in loops.values() if a.name not in solver.solved_loops]
    return tuple(
        _compute(c, adjoint, part, summed, scattered_axes, out, dtype, kernel)
        for part in combinations(*every)
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
    """Solver of one equation after the other; `solved_loops` are the loops that are solved for."""

    def __init__(
        self, loops: Mapping[str, Axis], stored: frozenset[str], env: ShapeEnv, free: Iterator[str]
    ) -> None:
        """Start with no loop solved for."""
        self.loops, self.stored, self.env, self.free = loops, stored, env, free
        self.solved_loops: set[str] = set()
        self.parts = 1

    def dim(self, index: Affine, extent: Dim, tensor: str) -> list[Solved]:
        """Return the solutions along one dim, one for each remainder."""
        open_ = [n for n in index.variables if n not in self.solved_loops]
        if self.is_positional(index, extent, open_):
            self.solved_loops.update(open_)
            axes = sorted(open_, key=lambda n: -_number(index.factor(n)))
            return [Solved(tuple(self.loops[n] for n in axes), index)]
        if not open_:
            axis = Axis(next(self.free), extent)
            if self.env.equal(extent, 1) and index == Affine():
                return [Solved((axis,), var(axis.name))]
            return [Solved((axis,), var(axis.name), equal=(index - var(axis.name),))]
        return self.solve(index, extent, open_, tensor)

    def is_positional(self, index: Affine, extent: Dim, open_: list[str]) -> bool:
        """Return True if the open loops are the digits of each element's position.

        Then each element is read at exactly one point of them.
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

    def solve(self, index: Affine, extent: Dim, open_: list[str], tensor: str) -> list[Solved]:
        factors = {n: index.factor(n) for n in open_}
        constant_factors = {n: f for n, f in factors.items() if isinstance(f, int)}
        name = self.pivot(constant_factors)
        if name not in self.stored and len(constant_factors) == len(factors):
            turned = self.count_up(constant_factors)
            forward = index.substitute(turned)
            strided = self.strided(forward)
            if strided is not None:
                parts = self.by_remainder(forward, extent, *strided)
                return [replace(p, values=_undo_reversal(turned, p.values)) for p in parts]
        if name is None:
            raise UnsupportedOperator(
                f"the index {index} at which {tensor!r} is read cannot be inverted",
                where=tensor,
                expected="a loop that the index counts in steps of one, or in one stride",
            )
        self.solved_loops.add(name)
        axis = Axis(next(self.free), extent)
        remaining_terms = index - var(name) * constant_factors[name]
        value = (var(axis.name) - remaining_terms) * constant_factors[name]
        within = ((value, self.loops[name].extent),)
        return [Solved((axis,), var(axis.name), {name: value}, within)]

    def count_up(self, factors: Mapping[str, int]) -> dict[str, Affine]:
        """Return loops that an index counts down, reversed so that it counts them up."""
        down = [n for n, f in factors.items() if f < 0]
        return {n: var(n) * -1 + (self.loops[n].extent - 1) for n in down}

    def pivot(self, factors: Mapping[str, int]) -> str | None:
        """Return the loop to solve for, preferably one that the result has.

        Then a read of the adjoint past its end is 0.
        """
        ones = [n for n, f in factors.items() if f in (1, -1)]
        stored = [n for n in ones if n in self.stored]
        return min(stored or ones, default=None)

    def strided(self, index: Affine) -> tuple[int, str, str] | None:
        """Return the stride, its loop, and another loop inside of a stride or "".

        Every loop counts the index up. Return None if solving for a step of one is as good.
        """
        factors = {n: _number(index.factor(n)) for n in index.variables}
        if any(f <= 0 for f in factors.values()) or not self.solved_loops.isdisjoint(factors):
            return None
        name = max(factors, key=lambda n: (factors[n], n))
        stride = factors[name]
        inner = [n for n in factors if n != name]
        has_extents = all(isinstance(self.loops[n].extent, int) for n in inner)
        if stride == 1 or len(inner) > 1 or not has_extents or not isinstance(index.const, int):
            return None
        if inner and self.parts * stride > MOST_PARTS:
            return None
        self.parts *= stride
        return stride, name, inner[0] if inner else ""

    def by_remainder(
        self, index: Affine, extent: Dim, stride: int, name: str, inner: str
    ) -> Iterator[Solved]:
        """Yield the elements of each remainder by the stride."""
        self.solved_loops.update(n for n in (name, inner) if n)
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


def _undo_reversal(
    turned: Mapping[str, Affine], values: Mapping[str, Affine]
) -> Mapping[str, Affine]:
    """Return the values of loops, undoing the reversal of those that count down."""
    return {n: turned[n].substitute({n: v}) if n in turned else v for n, v in values.items()}


def _number(dim: Dim) -> int:
    return dim if isinstance(dim, int) else 1 << 60


def _compute(
    c: Compute,
    adjoint: Expr,
    parts: tuple[Solved, ...],
    summed: list[Axis],
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
    loops = (*summed, *(a for part in parts for a in part.loops))
    expr = _within(substitute(adjoint, values), within, equal, dtype, kernel)
    extents = {a.name: a.extent for a in (*axes, *loops)}
    expr = rewrite(expr, lambda r: _unfilled(r, extents, kernel))
    if places:
        moved = [(axis, _index_of(place, values, within)) for axis, place in places]
        expr = scattered(expr, moved, "sum", dtype)
    return Compute(out, axes, expr, loops, "sum" if loops else None, store, c.origin)


def _closed(parts: list[Mapping[str, Affine]]) -> dict[str, Affine]:
    """Return the values of all loops in terms of loops without a value."""
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
    """Return the expression where the loops are in their extents, 0 elsewhere.

    A sum of products needs no condition if a factor, the adjoint, is read as 0 past its end.
    """
    if not within and not equal:
        return expr
    filled = _filled(expr) if within else expr
    conditions = [Apply("eq", (IndexValue(e), Const(0, "int64"))) for e in equal]
    for value, extent in within:
        if not (is_product(filled) and _is_zero_past_end(filled, value, extent, kernel)):
            conditions.append(Apply("ge", (IndexValue(value), Const(0, "int64"))))
            conditions.append(Apply("lt", (IndexValue(value), Const(extent, "int64"))))
    if not conditions:
        return filled
    return Apply(
        "where", (reduce(lambda a, b: Apply("and", (a, b)), conditions), filled, Const(0.0, dtype))
    )


def _filled(expr: Expr) -> Expr:
    """Make every load 0 outside of its tensor."""
    return rewrite(expr, lambda r: r if r.fill is not None else Read(r.tensor, r.index, 0.0))


def _unfilled(read: Read, extents: Mapping[str, Dim], kernel: Kernel) -> Read:
    """Drop the fill of a load that stays in its tensor, so that a contraction reads whole rows."""
    if read.fill is None:
        return read
    pairs = zip(read.index, kernel.shape(read.tensor), strict=True)
    inside = all(isinstance(i, Affine) and _stays(i, n, extents) for i, n in pairs)
    return Read(read.tensor, read.index) if inside else read


def _stays(index: Affine, extent: Dim, extents: Mapping[str, Dim]) -> bool:
    """Return True if an index is in its extent for all values of the loops."""
    if index.bare is not None:
        return extents.get(index.bare) == extent
    low = high = index.const
    for name, factor in index.terms:
        most = extents.get(name)
        if not isinstance(factor, int) or not isinstance(most, int) or most < 1:
            return False
        low, high = low + min(0, factor * (most - 1)), high + max(0, factor * (most - 1))
    is_constant = isinstance(low, int) and isinstance(high, int) and isinstance(extent, int)
    return is_constant and low >= 0 and high < extent


def is_product(expr: Expr) -> bool:
    """Return True if an expression consists of loads, products and negations only."""
    match expr:
        case Apply(op, args):
            return op in ("mul", "neg") and all(map(is_product, args))
        case Read(_, index, _):
            return all(isinstance(i, Affine) for i in index)
    return isinstance(expr, Const)


def _is_zero_past_end(expr: Expr, value: Affine, extent: Dim, kernel: Kernel) -> bool:
    """Return True if a factor is read at this value along a dim of that extent, with fill 0."""
    match expr:
        case Apply(_, args):
            return any(_is_zero_past_end(a, value, extent, kernel) for a in args)
        case Read(tensor, index, fill):
            dims = kernel.shape(tensor)
            return fill == 0 and any(i == value and n == extent for i, n in zip(index, dims))
    return False


__all__ = ["is_product", "transposed"]
