"""Rules of symbolic shapes: broadcasting as in NumPy, agreement of extents, arithmetic of dims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Shape, ShapeEnv, floor_div, is_symbolic, simplify, sympy
from explorer.ops.record import Array, Fold, Site


class Unprovable(Exception):
    """The signal that annotations do not decide a question.

    `pair` are two extents that must be equal. Its `rank` is set if only a reader that relies on so
    many dims needs that. `filled` is the shape that the elements of the first argument have to
    fill.
    """

    def __init__(
        self,
        problem: str,
        pair: tuple[Dim, Dim] | None = None,
        filled: Shape | None = None,
        rank: int | None = None,
    ) -> None:
        """Hold what is missing."""
        super().__init__(problem)
        self.pair, self.filled, self.rank = pair, filled, rank


class ImpliedBound(Exception):
    """The signal that a model is valid only from `low` to `high`: `Min(seq, 512)` must be `seq`."""

    def __init__(self, name: str, high: int, low: int = 0) -> None:
        """Hold the symbol and its bounds."""
        super().__init__(f"{low} <= {name} <= {high}")
        self.name, self.high, self.low = name, high, low


def broadcast(site: Site, shapes: Iterable[Shape]) -> Shape:
    """Return the shape that all shapes broadcast to.

    It is the attribute `extents` if the host computes it. Raises ShapeError with the two extents
    that do not broadcast.
    """
    extents = site.dims("extents")
    if extents is not None:
        return extents
    result: Shape = ()
    for shape in shapes:
        if shape == result:
            continue
        shared = min(len(result), len(shape))
        rows = len(result) - shared, len(shape) - shared
        pairs = zip(result[rows[0] :], shape[rows[1] :], strict=True)
        lead = (*result[: rows[0]], *shape[: rows[1]])
        result = (*lead, *(_together(site, a, b) for a, b in pairs))
    return result


def _together(site: Site, a: Dim, b: Dim) -> Dim:
    if a == b or (isinstance(b, int) and b == 1):
        return a
    if (isinstance(a, int) and a == 1) or _is_any_of(b, a):
        return b
    try:
        if agree(a, b, site.env):
            return a
    except Unprovable as either:  # either may be 1
        raise Unprovable(str(either)) from None
    if any(_may_be_one(dim, site.env) for dim in (a, b)):  # and must be, since they are never equal
        raise Unprovable(f"{a} and {b}")
    shapes = " and ".join(
        f"[{', '.join(map(str, site.shape(i)))}]" for i in range(len(site.present_args))
    )
    a_text, b_text = (_text(d, site.env) for d in (a, b))
    return site.fail(f"extents {a_text} and {b_text} do not broadcast; the shapes are {shapes}")


def _may_be_one(dim: Dim, env: ShapeEnv) -> bool:
    low, high = env.bounds(dim)
    return low <= 1 and (high is None or high >= 1)


def _text(dim: Dim, env: ShapeEnv) -> str:
    """Return the extent, with its bounds if it is no number."""
    low, high = env.bounds(dim)
    return str(dim) if isinstance(dim, int) else f"{dim} ({low} .. {high or 'any'})"


def agree(a: Dim, b: Dim, env: ShapeEnv) -> bool:
    """Return True if two extents are equal for every binding, False if for none.

    Raises ImpliedBound if a bound would prove it, and Unprovable if nothing is known.
    """
    if _is_any_of(a, b) or _is_any_of(b, a):
        return True
    equal = env.equal(a, b)
    if equal is None:
        for cut, full in ((a, b), (b, a)):
            _imply(cut, full)
        raise Unprovable(f"{a} and {b}", (a, b))
    return equal


def _is_any_of(extent: Dim, count: Dim) -> bool:
    """Return True if the count is `Max(0, extent)`; the extent of a tensor is not negative."""
    return is_symbolic(count) and isinstance(count, sympy.Max) and set(count.args) == {0, extent}


def demand_shape(site: Site, i: int, required: Shape, name: str) -> None:
    """Raise ShapeError unless an argument has the shape that others require."""
    actual = site.shape(i)
    if len(actual) == len(required) and all(
        a == b or agree(a, b, site.env) for a, b in zip(actual, required, strict=True)
    ):
        return
    site.fail(f"{name} has shape {list(actual)}, and must have {list(required)}")


def demand_within(site: Site, i: int, full: Shape, free: int, name: str) -> None:
    """Raise ShapeError unless an argument fits into `full` along all dims but `free`.

    Its rank is that of `full`. Raises Unprovable if a run decides it.
    """
    actual = site.shape(i)
    if len(actual) != len(full):
        site.fail(f"{name} has rank {len(actual)}, and must have {len(full)}")
    for d, (part, all_) in enumerate(zip(actual, full, strict=True)):
        if d == free or part == all_ or _is_cut(part, all_):
            continue
        low, high = site.env.bounds(all_ - part)
        if high is not None and high < 0:
            site.fail(f"{name} has {part} places along dim {d}, which has {all_}")
        if low < 0:
            problem = f"{part} places along a dim of {all_}"
            if isinstance(all_, int):
                raise Unprovable(problem, (part, simplify(sympy.Min(part, all_))))
            raise Unprovable(problem, (all_, simplify(sympy.Max(part, all_))))


def demand_as_many(site: Site, count: int, extent: Dim) -> None:
    """Raise ShapeError unless an extent is at least `count`; Unprovable if a run decides it."""
    if _is_cut(count, extent):
        return
    low, high = site.env.bounds(extent)
    if high is not None and high < count:
        site.fail(f"there are no {count} of {extent} elements")
    if low < count:
        raise Unprovable(f"{count} of {extent}", (extent, simplify(sympy.Max(count, extent))))


def _is_cut(part: Dim, full: Dim) -> bool:
    """Return True if one extent is `Min(whole, ..)`, or the other one `Max(part, ..)`."""
    shorter = is_symbolic(part) and isinstance(part, sympy.Min) and _among(full, part)
    return shorter or (is_symbolic(full) and isinstance(full, sympy.Max) and _among(part, full))


def _among(dim: Dim, choice: sympy.Expr) -> bool:
    """Return True if a Max or Min chooses among a dim, or among all that the dim chooses among."""
    return dim in choice.args or (
        is_symbolic(dim) and dim.func == choice.func and set(dim.args) <= set(choice.args)
    )


def _imply(cut: Dim, full: Dim) -> None:
    """Raise ImpliedBound for the symbol in n where `Min(n, 512)` must be `n`."""
    if isinstance(full, int) or not isinstance(cut, sympy.Min) or full not in cut.args:
        return
    limits = [int(a) for a in cut.args if a.is_Integer]
    names = list(full.free_symbols)
    if len(limits) != len(cut.args) - 1 or len(names) != 1:
        return
    slope = full.diff(names[0])
    if slope.is_Integer and slope > 0:
        offset = int(full.subs(names[0], 0))
        raise ImpliedBound(names[0].name, (min(limits) - offset) // int(slope))


# Arithmetic, comparisons and extremes of dims.


FoldEach = Callable[[ShapeEnv, list[Dim]], "Dim | bool | None"]


def fold_each(each: FoldEach) -> Fold:
    """Return a fold of an operator on dims, elementwise; unknown if one element is."""

    def fold(site: Site) -> tuple[Array | None, ...]:
        operands = [v for v in site.values if v is not None]
        if len(operands) < len(site.args):
            return (None,)
        arrays = np.broadcast_arrays(*operands)
        out = np.empty(arrays[0].shape, dtype=object)
        for at in np.ndindex(out.shape):
            value = each(site.env, [a[at] for a in arrays])
            if value is None:
                return (None,)
            out[at] = value if isinstance(value, bool) else simplify(value)
        return (out,)

    return fold


def total(env: ShapeEnv, v: list[Dim]) -> Dim:
    """Return the sum of dims."""
    return simplify(sum(v[1:], v[0]))


def times(env: ShapeEnv, v: list[Dim]) -> Dim:
    """Return the product of two dims."""
    return simplify(v[0] * v[1])


def quotient(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return the quotient towards zero as in ONNX; a floor if neither operand is negative."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None
    positive = env.bounds(a)[0] >= 0 and env.bounds(b)[0] > 0
    return floor_div(a, b) if positive else None


def remainder(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return `a % b` of dims, if b is positive."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else None
    return simplify(a - floor_div(a, b) * b) if env.bounds(b)[0] > 0 else None


def truncated_remainder(env: ShapeEnv, v: list[Dim]) -> Dim | None:
    """Return the remainder of division towards zero, with the sign of the dividend."""
    a, b = v
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) % abs(b)) * (-1 if a < 0 else 1) if b else None
    return remainder(env, v) if env.bounds(a)[0] >= 0 else None


def most(env: ShapeEnv, v: Sequence[Dim]) -> Dim:
    """Return the greatest of several dims, without a Max if bounds decide."""
    return reduce(lambda a, b: _choose(env, a, b, sympy.Max), v)


def least(env: ShapeEnv, v: Sequence[Dim]) -> Dim:
    """Return the least of several dims, without a Min if bounds decide."""
    return reduce(lambda a, b: _choose(env, a, b, sympy.Min), v)


def _choose(env: ShapeEnv, a: Dim, b: Dim, kind: Any) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if kind is sympy.Max else min(a, b)
    low, high = env.bounds(simplify(a - b))
    if low >= 0:
        return a if kind is sympy.Max else b
    if high is not None and high <= 0:
        return b if kind is sympy.Max else a
    chosen: Dim = kind(a, b)
    return chosen


def compare(decide: Callable[[int, int | None], bool | None]) -> FoldEach:
    """Return a comparison of dims by the bounds of their difference."""

    def fold(env: ShapeEnv, v: list[Dim]) -> bool | None:
        return decide(*env.bounds(simplify(v[0] - v[1])))

    return fold


def is_equal(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is zero, None if it is open."""
    if low == high == 0:
        return True
    return False if low > 0 or (high is not None and high < 0) else None


def is_less(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is negative, None if it is open."""
    return True if high is not None and high < 0 else (False if low >= 0 else None)


def is_at_most(low: int, high: int | None) -> bool | None:
    """Return True if a difference within these bounds is not positive, None if it is open."""
    return True if high is not None and high <= 0 else (False if low > 0 else None)


def negate(truth: bool | None) -> bool | None:
    """Return the negation of a truth value that may be unknown."""
    return None if truth is None else not truth
