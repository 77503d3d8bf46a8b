"""Which symbols each function sees, and whether a binding speaks only of those."""

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
    """The symbols that each function has from its caller: none, unless it is only the body of
    branches and loops; then those that all their places have in common. A function that nothing
    reaches never runs: it sees whatever there is.
    """
    functions = {f.name: f for f in program.functions}
    found: dict[str, Scope] = {program.main.name: frozenset()}
    todo = [program.main.name]
    while todo:
        function = functions[todo.pop()]
        scope = set(found[function.name]) | parameter_symbols(function)
        for binding in function.body:
            for name, seen in _callees(binding, scope):
                known = found.get(name)
                shared = frozenset(seen) if known is None else known & seen
                if name in functions and shared != known:
                    found[name] = shared
                    todo.append(name)
            scope |= defined_here(binding)
    if len(found) == len(functions):
        return found
    anything = Scope().union(*map(parameter_symbols, program.functions))
    anything = anything.union(*(defined_here(b) for _, b in program.bindings()))
    return {name: found.get(name, anything) for name in functions}


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
    """VerifyError where a binding speaks of a symbol that has no value when it runs."""
    needed = needed_by(binding)
    if needed <= scope:
        return
    name = min(needed - scope)
    for later in function.body:
        if name in defined_here(later):
            _wrong(f"speaks of {name!r} before the match_cast {later.var.name!r} defines it", where)
    within = [p.name for p in function.params if name in symbols_in(p.type)]
    if within:
        _wrong(
            f"speaks of {name!r}, which {within[0]!r} has only in an expression: that defines "
            f"nothing",
            where,
        )
    _wrong(f"speaks of {name!r}, which no parameter and no match_cast defines", where)


def _wrong(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where, try_="a match_cast that defines it")
