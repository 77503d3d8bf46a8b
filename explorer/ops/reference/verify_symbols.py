"""Symbols that each function sees, and the check that a binding uses only those."""

from __future__ import annotations

from typing import NoReturn

from explorer.errors import VerifyError
from explorer.ir.calls import Branch, FunctionCall, Gradient, Loop
from explorer.ir.lattice import symbols_in
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import defined_by as defined_here
from explorer.ir.symbols import needed_by, parameter_symbols

Scope = frozenset[str]


def scopes_of(program: Program) -> dict[str, Scope]:
    """Return the symbols that each function has from its caller.

    There are none unless it is only the body of branches and loops: then those that all its uses
    have in common. An unreachable function never runs, so it sees all symbols.
    """
    functions = {f.name: f for f in program.functions}
    scopes: dict[str, Scope] = {program.main.name: frozenset()}
    todo = [program.main.name]
    while todo:
        function = functions[todo.pop()]
        scope = set(scopes[function.name]) | parameter_symbols(function)
        for binding in function.body:
            for name, seen in _callees(binding, scope):
                earlier = scopes.get(name)
                shared = frozenset(seen) if earlier is None else earlier & seen
                if name in functions and shared != earlier:
                    scopes[name] = shared
                    todo.append(name)
            scope |= defined_here(binding)
    if len(scopes) == len(functions):
        return scopes
    anything = Scope().union(*map(parameter_symbols, program.functions))
    anything = anything.union(*(defined_here(b) for _, b in program.bindings()))
    return {name: scopes.get(name, anything) for name in functions}


def _callees(binding: Binding, scope: set[str]) -> list[tuple[str, set[str]]]:
    match binding.expr:
        case FunctionCall(name, _):
            return [(name, set())]
        case Branch(_, then, orelse, _):
            return [(then, scope), (orelse, scope)]
        case Loop(name) | Gradient(name):
            return [(name, scope)]
    return []


def check_symbols(function: Function, binding: Binding, scope: set[str], where: str) -> None:
    """Raise VerifyError if a binding uses a symbol without a value."""
    needed = needed_by(binding)
    if needed <= scope:
        return
    name = min(needed - scope)
    for later in function.body:
        if name in defined_here(later):
            _wrong(f"uses {name!r} before the match_cast {later.var.name!r} defines it", where)
    within = [p.name for p in function.params if name in symbols_in(p.type)]
    if within:
        _wrong(
            f"uses {name!r}, which {within[0]!r} has only in an expression, which defines nothing",
            where,
        )
    _wrong(f"uses {name!r}, which no parameter and no match_cast defines", where)


def _wrong(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where, try_="a match_cast that defines it")
