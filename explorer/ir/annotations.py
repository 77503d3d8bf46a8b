"""Annotations and the calls between functions: a signature is all that a call sees of what it
calls (Relax, section 3.2). The lattice itself is in `explorer.ir.lattice`.
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
    "Row",
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
class Row:
    """One line of a unification table: what a parameter says, what the argument says, the symbol
    that it binds (or ""), and how far the two agree. `argument` counts from 0.
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
    """What a call gives: the annotation of its result, each symbol of the callee in the caller's
    words, and the table that led there.
    """

    result: Annotation
    symbols: tuple[tuple[str, Dim], ...]
    rows: tuple[Row, ...]

    @property
    def level(self) -> Match:
        """The weakest of the rows."""
        return min((r.level for r in self.rows), default=Match.PROVED)


def signature_of(function: Function, given: Collection[str] = ()) -> Callable:
    """What others see of a function: its parameters, and its result (a tuple unless it is one
    value) without what only its body knows. `given` are the symbols that a branch or a loop body
    shares with its caller.
    """
    params = tuple(p.type for p in function.params)
    outputs = tuple(v.type for v in function.outputs)
    result = outputs[0] if len(outputs) == 1 else TupleType(outputs)
    return Callable(params, erase(result, {*defined_by(TupleType(params)), *given}))


def derive_call(
    signature: Callable,
    args: tuple[Annotation, ...],
    env: ShapeEnv,
    *,
    callee: str = "the function",
    names: tuple[str, ...] = (),
) -> Derived:
    """What a call gives: `f: (n, m) -> (m + 1, n)` on `(10, 11)` gives `(12, 10)`.

    The result speaks of the caller's symbols alone: what no argument determines is erased. An
    argument that cannot fit, or of which too little is known, raises DtypeError or ShapeError with
    its name; what is left to check stands in the rows. Only the signature is read.
    """
    if signature.params is None:
        return Derived(erase(signature.result, ()), (), ())
    if len(signature.params) != len(args):
        wanted = len(signature.params)
        raise ShapeError(
            f"{callee} takes {wanted} arguments and is given {len(args)}",
            where=callee,
            expected=wanted,
            found=len(args),
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
    given: Collection[str] = (),
) -> Derived:
    """The same for as many arguments as parameters, whatever they are: nothing is refused. The
    symbols `given` mean to a branch or a loop body what they mean to its caller.
    """
    params = signature.params or ()
    known: dict[str, Dim] = {name: symbol(name) for name in given}
    for param, arg in zip(params, args, strict=True):
        _bind(param, arg, known)
    rows = tuple(_rows(params, args, known, known.keys() - set(given), env))
    return Derived(instantiate(signature.result, known), tuple(known.items()), rows)


def _bind(param: Annotation, arg: Annotation, known: dict[str, Dim]) -> None:
    """A symbol that stands bare in a parameter is the argument's dim there: the first one wins."""
    if isinstance(param, TupleType) and isinstance(arg, TupleType):
        for p, a in zip(param.items, arg.items, strict=False):
            _bind(p, a, known)
    elif type(param) is type(arg) and isinstance(param, Tensor | ShapeType):
        for dim, given in zip(dims_of(param) or (), dims_of(arg) or (), strict=False):
            if is_symbol(dim):
                known.setdefault(dim.name, given)


def _rows(
    params: tuple[Annotation, ...],
    args: tuple[Annotation, ...],
    known: dict[str, Dim],
    unbound: set[str],
    env: ShapeEnv,
) -> Iterator[Row]:
    def check(wanted: Dim, found: Dim) -> tuple[Match, str]:
        missing = symbols_of(wanted) - known.keys()
        if missing:
            return Match.CHECKED, f"{', '.join(sorted(missing))} is not known; the run checks it"
        return match_dims(replace_symbols(wanted, known), found, env)

    for at, (param, arg) in enumerate(zip(params, args, strict=True)):
        for wanted, found, dim, level, why, of in leaves_of(param, arg, check):
            name = dim.name if is_symbol(dim) else ""
            if name in unbound:
                unbound.remove(name)
                yield Row(at, wanted, found, name, Match.PROVED, f"{name} is {found}", of)
            else:
                yield Row(at, wanted, found, "", level, why, of)


def _refuse(row: Row, callee: str, names: tuple[str, ...]) -> None:
    name = repr(names[row.argument]) if row.argument < len(names) else f"number {row.argument + 1}"
    error = DtypeError if row.of == "dtype" else ShapeError
    raise error(
        f"{callee}: the argument {name} must be {row.param} and is {row.arg}: {row.reason}",
        where=name.strip("'"),
        expected=row.param,
        found=row.arg,
        try_="a match_cast of it before the call" if row.level == Match.COARSE else "",
    )
