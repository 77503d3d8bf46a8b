"""Which symbols a binding needs and which it defines: edges of the dataflow like any other.

A value's shape may depend on a symbol without reading the value that the symbol was found in
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
from explorer.ir.kernel import Apply, Const, IndexValue, Kernel, Read
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.algebra import is_symbol, is_symbolic
from explorer.ir.shapes.dims import Dim, symbols_of
from explorer.ir.types import ShapeType

NONE: frozenset[str] = frozenset()


def defined_by(binding: Binding) -> frozenset[str]:
    """The symbols that a match_cast defines, where no earlier place has."""
    if not isinstance(binding.expr, MatchCast):
        return NONE
    return frozenset(bare_in(binding.var.type))


def is_check(binding: Binding) -> bool:
    """Whether a match_cast holds a number against what it is known to be."""
    kind = binding.vars[0].type
    return (
        isinstance(binding.expr, MatchCast)
        and isinstance(kind, ShapeType)
        and any(not is_symbol(d) for d in kind.dims or ())
    )


def needed_by(binding: Binding) -> frozenset[str]:
    """The symbols that must have values before a binding is run."""
    found = symbols_of_expr(binding.expr)
    for var in binding.vars:
        found |= symbols_in(var.type)
    return found - defined_by(binding)


def definitions(body: Iterable[Binding]) -> dict[str, int]:
    """For each symbol that a match_cast of a body defines the place of the first that does."""
    found: dict[str, int] = {}
    for n, binding in enumerate(body):
        for name in defined_by(binding):
            found.setdefault(name, n)
    return found


def are_defined(needed: Iterable[str], places: Mapping[str, int], at: int) -> bool:
    """Whether symbols have values at a place of a body; those of no match_cast there always do."""
    return all(places.get(name, -1) < at for name in needed)


def parameter_symbols(function: Function) -> frozenset[str]:
    """The symbols that a function's parameters define."""
    return NONE.union(*(bare_in(p.type) for p in function.params))


def symbols_of_expr(expr: Expr) -> frozenset[str]:
    """The symbols in the expression itself: attributes, offsets, dims, a kernel's indices."""
    match expr:
        case ShapeOf(dims, _):
            return NONE.union(*map(symbols_of, dims))
        case View(_, offset):
            return symbols_of(offset)
        case OpCall(_, _, attrs) | LibraryCall(_, _, _, attrs):
            return NONE.union(*(_of_value(v) for _, v in attrs))
        case KernelCall(kernel, _, _):
            return symbols_of_kernel(kernel)
    return NONE


@lru_cache(maxsize=4096)
def symbols_of_kernel(kernel: Kernel) -> frozenset[str]:
    """The symbols that a kernel's tensors, axes and indices depend on."""
    return NONE.union(*(symbols_of(d) for d in dims_in_order(kernel) if not isinstance(d, int)))


def dims_in_order(kernel: Kernel) -> Iterator[Dim]:
    """Every dim of a kernel: of its tensors, then of its computes."""
    for tensor in kernel.tensors:
        yield from tensor.shape
    for compute in kernel.computes:
        yield from (a.extent for a in (*compute.axes, *compute.reduce))
        for index in compute.store:
            yield from _of_affine(index)
        yield from _of_scalar(compute.expr)


def _of_affine(index: Affine) -> Iterable[Dim]:
    return (index.const, *(c for _, c in index.terms))


def _of_scalar(expr: Scalar) -> Iterator[Dim]:
    match expr:
        case Apply(_, args):
            for arg in args:
                yield from _of_scalar(arg)
        case Read(_, indices, _):
            for i in indices:
                yield from _of_affine(i) if isinstance(i, Affine) else _of_scalar(i)
        case IndexValue(index):
            yield from _of_affine(index)
        case Const(value, _):
            if is_symbolic(value):
                yield value


def _of_value(value: AttrValue) -> frozenset[str]:
    if isinstance(value, tuple):
        return NONE.union(*(_of_value(v) for v in value))
    return symbols_of(value) if is_symbolic(value) else NONE
