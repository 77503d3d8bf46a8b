"""The annotation lattice: least common annotations, and matching of annotations.

From Relax, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable as Function
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum

from explorer.ir.shapes.algebra import is_symbol, sympy
from explorer.ir.shapes.dims import Dim, Shape, ShapeEnv, simplify, symbol, symbols_of
from explorer.ir.text.text_tokens import print_dim, print_type
from explorer.ir.types import Annotation, Callable, Object, ShapeType, Tensor, TupleType


class Match(IntEnum):
    """How far a value is known to match an annotation."""

    DISJOINT = 0  # no value matches both: always an error
    COARSE = 1  # kind, dtype or rank is unknown: an error at a call
    CHECKED = 2  # the known parts match; the run checks the others
    PROVED = 3


Check = Function[[Dim, Dim], tuple[Match, str]]
Leaf = tuple[str, str, Dim | None, Match, str, str]  # param, arg, dim of the param, level, why, of


def rank_of(annotation: ShapeType | Tensor) -> int | None:
    """Return the number of dims, None if it is not known."""
    if isinstance(annotation, Tensor):
        return annotation.rank
    return annotation.rank if annotation.dims is None else len(annotation.dims)


def dims_of(annotation: Annotation) -> Shape | None:
    """Return the dims that a Tensor or a Shape states."""
    match annotation:
        case Tensor(shape, _, _):
            return shape
        case ShapeType(dims, _):
            return dims
    return None


def symbols_in(annotation: Annotation) -> frozenset[str]:
    """Return the symbols of an annotation; the symbols of a Callable are local to it."""
    if isinstance(annotation, TupleType):
        return frozenset().union(*map(symbols_in, annotation.items))
    return frozenset().union(*(symbols_of(d) for d in dims_of(annotation) or ()))


def defined_by(annotation: Annotation) -> tuple[str, ...]:
    """Return the bare symbols in order: the ones that a parameter or a match_cast defines."""
    if isinstance(annotation, TupleType):
        names = [name for item in annotation.items for name in defined_by(item)]
    else:
        bare = (d for d in dims_of(annotation) or () if is_symbol(d))
        names = [d.name for d in bare]
    return tuple(dict.fromkeys(names))


def replace_symbols(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Replace symbols in a dim, all at once, and return its normal form."""
    if isinstance(dim, int):
        return dim
    swap = {s: sympy.sympify(values[s.name]) for s in dim.free_symbols if s.name in values}
    return simplify(dim.xreplace(swap)) if swap else dim


def instantiate(annotation: Annotation, values: Mapping[str, Dim]) -> Annotation:
    """Replace every symbol of an annotation; erase its dims where a symbol has no value."""
    return _with_dims(erase(annotation, values.keys()), values)


def _with_dims(annotation: Annotation, values: Mapping[str, Dim]) -> Annotation:
    match annotation:
        case Tensor(tuple(shape), dtype, ndim):
            return Tensor(tuple(replace_symbols(d, values) for d in shape), dtype, ndim)
        case ShapeType(tuple(dims), rank):
            return ShapeType(tuple(replace_symbols(d, values) for d in dims), rank)
        case TupleType(items):
            return TupleType(tuple(_with_dims(i, values) for i in items))
    return annotation


def erase(annotation: Annotation, defined: Collection[str]) -> Annotation:
    """Erase the dims of an annotation that have symbols other than those in `defined`."""
    match annotation:
        case TupleType(items):
            return TupleType(tuple(erase(i, defined) for i in items))
        case Tensor(tuple(shape), dtype, _) if not symbols_in(annotation) <= set(defined):
            return Tensor(None, dtype, len(shape))
        case ShapeType(tuple(dims), _) if not symbols_in(annotation) <= set(defined):
            return ShapeType(None, len(dims))
    return annotation


def lca(a: Annotation, b: Annotation, env: ShapeEnv) -> Annotation:
    """Return the least coarse annotation that holds for values of both."""
    if a == b:
        return a
    match a, b:
        case Tensor(), Tensor():
            dtype = a.dtype if a.dtype == b.dtype else None
            shape = _common_shape(a.shape, b.shape, env)
            return Tensor(shape, dtype, _common_rank(a.rank, b.rank) if shape is None else None)
        case ShapeType(), ShapeType():
            dims = _common_shape(a.dims, b.dims, env)
            return ShapeType(dims, _common_rank(rank_of(a), rank_of(b)) if dims is None else None)
        case TupleType(xs), TupleType(ys) if len(xs) == len(ys):
            return TupleType(tuple(lca(x, y, env) for x, y in zip(xs, ys, strict=True)))
        case Callable(), Callable():
            params = a.params if a.params == b.params else None
            return Callable(params, lca(a.result, b.result, env))
    return Object()


def _common_rank(a: int | None, b: int | None) -> int | None:
    return a if a == b else None


def _common_shape(a: Shape | None, b: Shape | None, env: ShapeEnv) -> Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    if not all(env.equal(x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(x if x == y else simplify(x) for x, y in zip(a, b, strict=True))


def match(base: Annotation, derived: Annotation, env: ShapeEnv) -> tuple[Match, str]:
    """Return how far a value of `derived` is known to match `base`, and why.

    Both annotations are over the same symbols.
    """

    def check(required: Dim, actual: Dim) -> tuple[Match, str]:
        return match_dims(required, actual, env)

    leaves = ((level, why) for _, _, _, level, why, _ in leaves_of(base, derived, check))
    return min(
        leaves, key=lambda leaf: leaf[0], default=(Match.PROVED, "there is nothing to match")
    )


def match_dims(required: Dim, actual: Dim, env: ShapeEnv) -> tuple[Match, str]:
    """Return how far two extents are known to be equal, and why."""
    equal = env.equal(required, actual)
    a, b = print_dim(required), print_dim(actual)
    if equal:
        return Match.PROVED, f"{b} is {a}" if a == b else f"{b} == {a} for every binding"
    if equal is None:
        return Match.CHECKED, f"{b} == {a} is not proved; the run checks it"
    return Match.DISJOINT, f"{b} is never {a}"


def leaves_of(base: Annotation, derived: Annotation, check: Check) -> Iterator[Leaf]:
    """Yield each comparison of two annotations: kind, dtype, rank, then dim by dim."""
    a, b = print_type(base), print_type(derived)
    match base, derived:
        case Object(), _:
            yield a, b, None, Match.PROVED, "any value is accepted", "shape"
        case _, Object():
            yield a, b, None, Match.COARSE, "nothing is known about it", "shape"
        case Tensor(_, str(dtype), _), Tensor(_, other, _) if other != dtype:
            level = Match.COARSE if other is None else Match.DISJOINT
            why = "its dtype is not known" if other is None else f"{other} is never {dtype}"
            yield a, b, None, level, why, "dtype"
            if other is None:
                yield from _dims(base, derived, check)
        case (Tensor() | ShapeType(), Tensor() | ShapeType()) if type(base) is type(derived):
            yield from _dims(base, derived, check)
        case TupleType(xs), TupleType(ys) if len(xs) == len(ys):
            for x, y in zip(xs, ys, strict=True):
                yield from leaves_of(x, y, check)
        case Callable(), Callable():
            yield a, b, None, *_signatures(base, derived, check), "shape"
        case _:
            yield a, b, None, Match.DISJOINT, f"{b} is never {a}", "shape"


def _dims(base: Tensor | ShapeType, derived: Tensor | ShapeType, check: Check) -> Iterator[Leaf]:
    a, b, rank, actual_rank = print_type(base), print_type(derived), rank_of(base), rank_of(derived)
    required, actual = dims_of(base), dims_of(derived)
    if rank is None:
        yield a, b, None, Match.PROVED, "any rank is accepted", "shape"
    elif actual_rank is None:
        yield a, b, None, Match.COARSE, "its rank is not known", "shape"
    elif rank != actual_rank:
        yield (
            a,
            b,
            None,
            Match.DISJOINT,
            f"it has {actual_rank} dims where {rank} are wanted",
            "shape",
        )
    elif not required:
        yield a, b, None, Match.PROVED, f"it has {actual_rank} dims", "shape"
    elif actual is None:
        yield a, b, None, Match.CHECKED, "its dims are not known; the run checks them", "shape"
    else:
        for x, y in zip(required, actual, strict=True):
            yield print_dim(x), print_dim(y), x, *check(x, y), "shape"


def _signatures(base: Callable, derived: Callable, check: Check) -> tuple[Match, str]:
    """Match two signatures: parameters are contravariant, results covariant."""
    base, derived = _own_names(base), _own_names(derived)
    if base == derived:
        return Match.PROVED, "the signatures are equal"
    leaves = list(leaves_of(base.result, derived.result, check))
    if base.params is not None and derived.params is not None:
        if len(base.params) != len(derived.params):
            return Match.DISJOINT, (
                f"it takes {len(derived.params)} arguments where {len(base.params)} are given"
            )
        for x, y in zip(derived.params, base.params, strict=True):
            leaves += leaves_of(x, y, check)
    level = min((leaf[3] for leaf in leaves), default=Match.PROVED)
    if level == Match.DISJOINT:
        return level, next(leaf[4] for leaf in leaves if leaf[3] == level)
    if level == Match.PROVED and (base.params is None or derived.params is not None):
        return level, "it accepts the arguments and its result matches"
    return Match.CHECKED, "the signatures are not proved to match; its calls are checked"


def _own_names(signature: Callable) -> Callable:
    """Rename the symbols of a signature by their order, as their names are local to it."""
    params = TupleType(signature.params or ())
    names = dict.fromkeys((*defined_by(params), *sorted(symbols_in(params))))
    own = {name: symbol(f"{at}") for at, name in enumerate(names)}
    result = instantiate(signature.result, own)
    if signature.params is None:
        return Callable(None, result)
    return Callable(tuple(_with_dims(p, own) for p in signature.params), result)
