"""What the symbols of a recursive function are in the words of those that call it from outside.

main: y = call f(x: float32[n], k);  f(a: float32[m], e)  ->  m is n, in every call that is open
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from explorer.grinder.calls.inline_policy import said_by
from explorer.grinder.calls.recursion import inside
from explorer.ir.calls import FunctionCall
from explorer.ir.lattice import symbols_in
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim, symbols_of

SymbolRenaming: TypeAlias = Mapping[str, Mapping[str, Dim]]


def rename_symbols(program: Program, names: Collection[str]) -> SymbolRenaming:
    """For each of the functions its symbols, where all calls from outside say the same of them, and
    nobody else says anything.
    """
    params = {f.name: f.params for f in program.functions if f.name in names}
    said: dict[str, list[Mapping[str, Dim]]] = {name: [] for name in params}
    within = {name: inside(program, name) for name in params}
    for function, binding in program.bindings():
        match binding.expr:
            case FunctionCall(name, args) if name in params and function.name not in within[name]:
                said[name].append(said_by(params[name], [a.type for a in args]))
    found = {n: each[0] for n, each in said.items() if each and each[0] and _alike(each)}
    taken = _defined(program, frozenset[str]().union(*(within[n] for n in found)))
    return {n: own for n, own in found.items() if _is_free(n, own, found, taken)}


def _alike(each: Sequence[Mapping[str, Dim]]) -> bool:
    return all(one == each[0] for one in each)


def _defined(program: Program, but: Collection[str]) -> set[str]:
    """The symbols of the parameters of all functions but some."""
    types = (p.type for f in program.functions if f.name not in but for p in f.params)
    return set[str]().union(*map(symbols_in, types))


def _is_free(
    name: str, own: Mapping[str, Dim], words: SymbolRenaming, taken: Collection[str]
) -> bool:
    """Whether each symbol is what it is called outside, or is nobody else's."""
    others = [found for n, found in words.items() if n != name]
    return all(
        str(dim) == symbol or (symbol not in taken and all(symbol not in o for o in others))
        for symbol, dim in own.items()
    )


def known_sizes(words: SymbolRenaming, sizes: Sizes) -> Sizes:
    """The sizes, and those of the functions' symbols, which follow from them."""
    todo = {s: d for found in words.values() for s, d in found.items() if str(d) != s}
    known = {s: size for s, size in sizes.items() if s not in todo}
    while ready := [s for s, dim in todo.items() if symbols_of(dim) <= known.keys()]:
        known |= {s: evaluate_dim(todo.pop(s), known) for s in ready}
    return known
