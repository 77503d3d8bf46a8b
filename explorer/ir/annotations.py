"""Signatures of functions, and the annotations that calls of them derive (Relax, section 3.2).

A call sees no more of its callee than the signature. The lattice itself is in
`explorer.ir.lattice`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from explorer.errors import DtypeError, ShapeError
from explorer.ir.lattice import (
    Match,
    defined_by,
    dims_of,
    erase,
    instantiate,
    lca,
    leaves_of,
    match,
    match_dims,
    replace_symbols,
    symbols_in,
)
from explorer.ir.program import Function
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import Dim, ShapeEnv, symbol, symbols_of
from explorer.ir.types import Annotation, Callable, ShapeType, Tensor, TupleType

__all__ = [
    "Derived",
    "Match",
    "UnificationRow",
    "defined_by",
    "derive_call",
    "erase",
    "instantiate",
    "lca",
    "match",
    "replace_symbols",
    "signature_of",
    "symbols_in",
    "unify",
]


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
