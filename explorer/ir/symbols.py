"""Symbols that a binding needs and defines, which are edges of the dataflow like any other.

A value's shape may depend on a symbol without reading the value that defines the symbol
(tvm issue 20195: a call hoisted above the match_cast that its shape needs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from explorer.ir.affine import Affine
from explorer.ir.annotations import defined_by as bare_in
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import (
    AttrValue,
    Expr,
    KernelCall,
    LibraryCall,
    MatchCast,
    OpCall,
    ShapeOf,
    View,
)
from explorer.ir.dims import Dim, is_symbol, is_symbolic, symbols_of
from explorer.ir.kernel import Apply, Const, IndexValue, Kernel, Read
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Function
from explorer.ir.types import ShapeType

NONE: frozenset[str] = frozenset()


def defined_by(binding: Binding) -> frozenset[str]:
    """Return the symbols that a match_cast defines, unless an earlier place has defined them."""
    if not isinstance(binding.expr, MatchCast):
        return NONE
    return frozenset(bare_in(binding.var.type))


def is_check(binding: Binding) -> bool:
    """Return True if a match_cast compares a value with a dim that is more than a symbol."""
    kind = binding.vars[0].type
    return (
        isinstance(binding.expr, MatchCast)
        and isinstance(kind, ShapeType)
        and any(not is_symbol(d) for d in kind.dims or ())
    )


def needed_by(binding: Binding) -> frozenset[str]:
    """Return the symbols that must have values before a binding is run."""
    symbols = symbols_of_expr(binding.expr)
    for var in binding.vars:
        symbols |= symbols_in(var.type)
    return symbols - defined_by(binding)


def definitions(body: Iterable[Binding]) -> dict[str, int]:
    """Map each symbol that a body's match_casts define to the position of its first definition."""
    positions: dict[str, int] = {}
    for n, binding in enumerate(body):
        for name in defined_by(binding):
            positions.setdefault(name, n)
    return positions


def are_defined(needed: Iterable[str], places: Mapping[str, int], at: int) -> bool:
    """Return True if all symbols have values at a position of a body.

    Symbols without a match_cast in the body always have one.
    """
    return all(places.get(name, -1) < at for name in needed)


def parameter_symbols(function: Function) -> frozenset[str]:
    """Return the symbols that a function's parameters define."""
    return NONE.union(*(bare_in(p.type) for p in function.params))


def symbols_of_expr(expr: Expr) -> frozenset[str]:
    """Return the symbols of the expression itself: attributes, offsets, dims, kernel indices."""
    match expr:
        case ShapeOf(dims, _):
            return NONE.union(*map(symbols_of, dims))
        case View(_, offset):
            return symbols_of(offset)
        case OpCall(_, _, attrs) | LibraryCall(_, _, _, attrs):
            return NONE.union(*(_symbols_of_value(v) for _, v in attrs))
        case KernelCall(kernel, _, _):
            return symbols_of_kernel(kernel)
    return NONE


@lru_cache(maxsize=4096)
def symbols_of_kernel(kernel: Kernel) -> frozenset[str]:
    """Return the symbols in a kernel's tensors, axes and indices."""
    return NONE.union(*(symbols_of(d) for d in dims_in_order(kernel) if not isinstance(d, int)))


def dims_in_order(kernel: Kernel) -> Iterator[Dim]:
    """Yield every dim of a kernel: of its tensors, then of its computes."""
    for tensor in kernel.tensors:
        yield from tensor.shape
    for compute in kernel.computes:
        yield from (a.extent for a in (*compute.axes, *compute.reduce))
        for index in compute.store:
            yield from _dims_of_affine(index)
        yield from _dims_of_scalar(compute.expr)


def _dims_of_affine(index: Affine) -> Iterable[Dim]:
    return (index.const, *(c for _, c in index.terms))


def _dims_of_scalar(expr: Scalar) -> Iterator[Dim]:
    match expr:
        case Apply(_, args):
            for arg in args:
                yield from _dims_of_scalar(arg)
        case Read(_, indices, _):
            for i in indices:
                yield from _dims_of_affine(i) if isinstance(i, Affine) else _dims_of_scalar(i)
        case IndexValue(index):
            yield from _dims_of_affine(index)
        case Const(value, _):
            if is_symbolic(value):
                yield value


def _symbols_of_value(value: AttrValue) -> frozenset[str]:
    if isinstance(value, tuple):
        return NONE.union(*(_symbols_of_value(v) for v in value))
    return symbols_of(value) if is_symbolic(value) else NONE
