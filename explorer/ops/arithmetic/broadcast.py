"""NumPy's broadcasting, on symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv, simplify
from explorer.ops.site import Site


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
