"""The annotation lattice, and signatures of functions (Relax, section 3.2).

The lattice: least common annotations, and matching of annotations. A call sees no more of its
callee than the signature, from which the annotation of its result is derived.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from explorer.errors import DtypeError, ShapeError
from explorer.ir.dims import Dim, Shape, ShapeEnv, is_symbol, simplify, symbol, symbols_of, sympy
from explorer.ir.program import Function
from explorer.ir.text.text_tokens import print_dim, print_type
from explorer.ir.types import Annotation, Callable, Object, ShapeType, Tensor, TupleType


class Match(IntEnum):
    """How far a value is known to match an annotation."""

    DISJOINT = 0  # no value matches both: always an error
    COARSE = 1  # kind, dtype or rank is unknown: an error at a call
    CHECKED = 2  # the known parts match; the run checks the others
    PROVED = 3


Check = abc.Callable[[Dim, Dim], tuple[Match, str]]
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


@dataclass(frozen=True, slots=True)
class UnificationRow:
    """One row of a unification table: a part of a parameter beside that part of its argument.

    It holds the symbol that the row binds (or "") and how far the two match. `argument` counts
    from 0.
    """

    argument: int
    param: str
    arg: str
    symbol: str
    level: Match
    reason: str
    of: str = "shape"  # or "dtype"


@dataclass(frozen=True, slots=True)
class Derived:
    """The derived annotation of a call.

    It holds the result's annotation, each symbol of the callee as a dim of the caller, and the
    unification table.
    """

    result: Annotation
    symbols: tuple[tuple[str, Dim], ...]
    rows: tuple[UnificationRow, ...]

    @property
    def level(self) -> Match:
        """The weakest match of the rows."""
        return min((r.level for r in self.rows), default=Match.PROVED)


def signature_of(function: Function, shared: Collection[str] = ()) -> Callable:
    """Return the signature of a function: its parameters and its result.

    The result is a tuple unless it is one value. Dims of the result that only the body knows are
    erased. `shared` are the symbols that a branch or a loop body shares with its caller.
    """
    params = tuple(p.type for p in function.params)
    outputs = tuple(v.type for v in function.outputs)
    result = outputs[0] if len(outputs) == 1 else TupleType(outputs)
    return Callable(params, erase(result, {*defined_by(TupleType(params)), *shared}))


def derive_call(
    signature: Callable,
    args: tuple[Annotation, ...],
    env: ShapeEnv,
    *,
    callee: str = "the function",
    names: tuple[str, ...] = (),
) -> Derived:
    """Derive the annotation of a call: `f: (n, m) -> (m + 1, n)` on `(10, 11)` is `(12, 10)`.

    The result has symbols of the caller only: dims that no argument determines are erased. Checks
    that are left to the run stand in the rows. Only the signature is read.

    Raises:
        DtypeError: an argument cannot have the parameter's dtype, or its dtype is not known.
        ShapeError: the number of arguments is wrong, or one cannot have the parameter's shape.
    """
    if signature.params is None:
        return Derived(erase(signature.result, ()), (), ())
    if len(signature.params) != len(args):
        arity = len(signature.params)
        raise ShapeError(
            f"{callee} takes {arity} arguments and is given {len(args)}",
            where=callee,
            expected=arity,
            actual=len(args),
        )
    derived = unify(signature, args, env)
    for row in derived.rows:
        if row.level < Match.CHECKED:
            _refuse(row, callee, names)
    return derived


def unify(
    signature: Callable,
    args: tuple[Annotation, ...],
    env: ShapeEnv,
    shared: Collection[str] = (),
) -> Derived:
    """Unify the parameters of a signature with as many arguments; no mismatch raises.

    The symbols `shared` mean the same to a branch or a loop body as to its caller.
    """
    params = signature.params or ()
    bindings: dict[str, Dim] = {name: symbol(name) for name in shared}
    for param, arg in zip(params, args, strict=True):
        _bind(param, arg, bindings)
    rows = tuple(_rows(params, args, bindings, bindings.keys() - set(shared), env))
    return Derived(instantiate(signature.result, bindings), tuple(bindings.items()), rows)


def _bind(param: Annotation, arg: Annotation, bindings: dict[str, Dim]) -> None:
    """Bind each symbol that stands bare in a parameter to the argument's dim; the first wins."""
    if isinstance(param, TupleType) and isinstance(arg, TupleType):
        for p, a in zip(param.items, arg.items, strict=False):
            _bind(p, a, bindings)
    elif type(param) is type(arg) and isinstance(param, Tensor | ShapeType):
        for dim, arg_dim in zip(dims_of(param) or (), dims_of(arg) or (), strict=False):
            if is_symbol(dim):
                bindings.setdefault(dim.name, arg_dim)


def _rows(
    params: tuple[Annotation, ...],
    args: tuple[Annotation, ...],
    bindings: dict[str, Dim],
    unbound: set[str],
    env: ShapeEnv,
) -> Iterator[UnificationRow]:
    """Yield the rows of a unification table."""

    def check(required: Dim, actual: Dim) -> tuple[Match, str]:
        missing = symbols_of(required) - bindings.keys()
        if missing:
            return Match.CHECKED, f"{', '.join(sorted(missing))} is not known; the run checks it"
        return match_dims(replace_symbols(required, bindings), actual, env)

    for at, (param, arg) in enumerate(zip(params, args, strict=True)):
        for param_part, arg_part, dim, level, why, of in leaves_of(param, arg, check):
            name = dim.name if is_symbol(dim) else ""
            if name in unbound:
                unbound.remove(name)
                yield UnificationRow(
                    at, param_part, arg_part, name, Match.PROVED, f"{name} is {arg_part}", of
                )
            else:
                yield UnificationRow(at, param_part, arg_part, "", level, why, of)


def _refuse(row: UnificationRow, callee: str, names: tuple[str, ...]) -> None:
    """Raise the error of a row that cannot match."""
    name = repr(names[row.argument]) if row.argument < len(names) else f"number {row.argument + 1}"
    error = DtypeError if row.of == "dtype" else ShapeError
    raise error(
        f"{callee}: the argument {name} must be {row.param} and is {row.arg}: {row.reason}",
        where=name.strip("'"),
        expected=row.param,
        actual=row.arg,
        try_="a match_cast of it before the call" if row.level == Match.COARSE else "",
    )
