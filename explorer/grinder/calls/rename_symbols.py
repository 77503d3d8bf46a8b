"""Renaming of a recursive function's symbols to those of its external callers.

main: y = call f(x: float32[n], k);  f(a: float32[m], e)  ->  m is n, in every open call
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from explorer.grinder.calls.inline_policy import match_symbols
from explorer.grinder.calls.recursion import reachable_from
from explorer.ir.calls import FunctionCall
from explorer.ir.lattice import symbols_in
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim, symbols_of

SymbolRenaming: TypeAlias = Mapping[str, Mapping[str, Dim]]


def rename_symbols(program: Program, names: Collection[str]) -> SymbolRenaming:
    """Return the renaming of each function's symbols on which all external calls agree.

    A function is left out if a symbol's name has another meaning elsewhere.
    """
    params = {f.name: f.params for f in program.functions if f.name in names}
    call_renamings: dict[str, list[Mapping[str, Dim]]] = {name: [] for name in params}
    within = {name: reachable_from(program, name) for name in params}
    for function, binding in program.bindings():
        match binding.expr:
            case FunctionCall(name, args) if name in params and function.name not in within[name]:
                call_renamings[name].append(match_symbols(params[name], [a.type for a in args]))
    agreed = {
        n: each[0] for n, each in call_renamings.items() if each and each[0] and _all_equal(each)
    }
    taken = _defined_symbols(program, frozenset[str]().union(*(within[n] for n in agreed)))
    return {n: own for n, own in agreed.items() if _is_free(n, own, agreed, taken)}


def _all_equal(renamings: Sequence[Mapping[str, Dim]]) -> bool:
    """Return True if all renamings are equal."""
    return all(renaming == renamings[0] for renaming in renamings)


def _defined_symbols(program: Program, but: Collection[str]) -> set[str]:
    """Return the symbols of the parameters of all functions except `but`."""
    types = (p.type for f in program.functions if f.name not in but for p in f.params)
    return set[str]().union(*map(symbols_in, types))


def _is_free(
    name: str, own: Mapping[str, Dim], renamings: SymbolRenaming, taken: Collection[str]
) -> bool:
    """Return True if each symbol keeps its name or no other function uses it."""
    others = [other for n, other in renamings.items() if n != name]
    return all(
        str(dim) == symbol or (symbol not in taken and all(symbol not in o for o in others))
        for symbol, dim in own.items()
    )


def extend_sizes(renamings: SymbolRenaming, sizes: Sizes) -> Sizes:
    """Return the sizes extended by those of the functions' symbols, which follow from them."""
    todo = {s: d for renaming in renamings.values() for s, d in renaming.items() if str(d) != s}
    result = {s: size for s, size in sizes.items() if s not in todo}
    while ready := [s for s, dim in todo.items() if symbols_of(dim) <= result.keys()]:
        result |= {s: evaluate_dim(todo.pop(s), result) for s in ready}
    return result
