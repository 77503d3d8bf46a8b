"""NumPy's broadcasting, on symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv, simplify
from explorer.ops.site import Site


class Unprovable(Exception):
    """What the annotations do not decide. `pair` are two extents that only have to be equal, where
    there is a `rank` only if what reads the result takes it to have so many dims; `filled` is the
    shape that the elements of the first argument have to fill.
    """

    def __init__(
        self,
        problem: str,
        pair: tuple[Dim, Dim] | None = None,
        filled: Shape | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(problem)
        self.pair, self.filled, self.rank = pair, filled, rank


class ImpliedBound(Exception):
    """The model means something only from `low` up to `high`: `Min(seq, 512)` must be `seq`."""

    def __init__(self, name: str, high: int, low: int = 0) -> None:
        super().__init__(f"{low} <= {name} <= {high}")
        self.name, self.high, self.low = name, high, low


def broadcast(site: Site, shapes: Iterable[Shape]) -> Shape:
    """The shape that all shapes broadcast to; ShapeError names the two extents that cannot.

    It is the attribute `extents` where the host finds it.
    """
    found = site.dims("extents")
    if found is not None:
        return found
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
    except Unprovable as either:  # one of them may be 1
        raise Unprovable(str(either)) from None
    if any(_may_be_one(dim, site.env) for dim in (a, b)):  # and has to, as they are never equal
        raise Unprovable(f"{a} and {b}")
    shapes = " and ".join(f"[{', '.join(map(str, site.shape(i)))}]" for i in range(len(site.given)))
    a_text, b_text = (_text(d, site.env) for d in (a, b))
    return site.fail(f"extents {a_text} and {b_text} do not broadcast; the shapes are {shapes}")


def _may_be_one(dim: Dim, env: ShapeEnv) -> bool:
    low, high = env.bounds(dim)
    return low <= 1 and (high is None or high >= 1)


def _text(dim: Dim, env: ShapeEnv) -> str:
    """The extent, with its bounds where it is no number."""
    low, high = env.bounds(dim)
    return str(dim) if isinstance(dim, int) else f"{dim} ({low} .. {high or 'any'})"


def agree(a: Dim, b: Dim, env: ShapeEnv) -> bool:
    """Whether two extents are equal for every binding, or for none.

    Raises ImpliedBound where a bound would prove it, and Unprovable where nothing is known.
    """
    if _is_any_of(a, b) or _is_any_of(b, a):
        return True
    equal = env.equal(a, b)
    if equal is None:
        for cut, whole in ((a, b), (b, a)):
            _imply(cut, whole)
        raise Unprovable(f"{a} and {b}", (a, b))
    return equal


def _is_any_of(extent: Dim, count: Dim) -> bool:
    """Return True if the count is `Max(0, extent)`: an extent that a tensor has is not negative."""
    return is_symbolic(count) and isinstance(count, sympy.Max) and set(count.args) == {0, extent}


def demand_shape(site: Site, i: int, wanted: Shape, name: str) -> None:
    """ShapeError unless an argument has the shape that others make it have."""
    found = site.shape(i)
    if len(found) == len(wanted) and all(
        a == b or agree(a, b, site.env) for a, b in zip(found, wanted, strict=True)
    ):
        return
    site.fail(f"{name} has shape {list(found)}, and must have {list(wanted)}")


def demand_within(site: Site, i: int, whole: Shape, free: int, name: str) -> None:
    """ShapeError unless an argument has the rank of `whole`, and is nowhere longer than that but
    along `free`; Unprovable where a run decides it.
    """
    found = site.shape(i)
    if len(found) != len(whole):
        site.fail(f"{name} has rank {len(found)}, and must have {len(whole)}")
    for d, (part, all_) in enumerate(zip(found, whole, strict=True)):
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


def demand_as_many(site: Site, count: int, whole: Dim) -> None:
    """ShapeError unless an extent is at least `count`; Unprovable where a run decides it."""
    if _is_cut(count, whole):
        return
    low, high = site.env.bounds(whole)
    if high is not None and high < count:
        site.fail(f"there are no {count} of {whole} elements")
    if low < count:
        raise Unprovable(f"{count} of {whole}", (whole, simplify(sympy.Max(count, whole))))


def _is_cut(part: Dim, whole: Dim) -> bool:
    """Return True if one extent is `Min(whole, ..)`, or the other one `Max(part, ..)`."""
    shorter = is_symbolic(part) and isinstance(part, sympy.Min) and _among(whole, part)
    return shorter or (is_symbolic(whole) and isinstance(whole, sympy.Max) and _among(part, whole))


def _among(dim: Dim, choice: sympy.Expr) -> bool:
    """Return True if a Max or Min chooses among a dim, or among all that the dim chooses among."""
    return dim in choice.args or (
        is_symbolic(dim) and dim.func == choice.func and set(dim.args) <= set(choice.args)
    )


def _imply(cut: Dim, whole: Dim) -> None:
    """`Min(n, 512)` where `n` is wanted: raise what must hold of the symbol in n."""
    if isinstance(whole, int) or not isinstance(cut, sympy.Min) or whole not in cut.args:
        return
    limits = [int(a) for a in cut.args if a.is_Integer]
    names = list(whole.free_symbols)
    if len(limits) != len(cut.args) - 1 or len(names) != 1:
        return
    slope = whole.diff(names[0])
    if slope.is_Integer and slope > 0:
        rest = int(whole.subs(names[0], 0))
        raise ImpliedBound(names[0].name, (min(limits) - rest) // int(slope))
