"""Cycles of the call graph, with the functions that branches and loops have as bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from explorer.ir.calls import FunctionCall
from explorer.ir.program import Function

Functions = Mapping[str, Function]


@dataclass(frozen=True, slots=True)
class CallCycle:
    """Functions that all reach each other, in the program's order.

    `called` are the targets of calls; `bodies` are arms of branches and bodies of loops.
    """

    called: tuple[str, ...]
    bodies: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of all functions of the cycle."""
        return frozenset((*self.called, *self.bodies))


def call_cycles(functions: Functions) -> Iterator[CallCycle]:
    """Yield each cycle of a program's call graph."""
    reach, seen = reachable_functions(functions), set[str]()
    for name in functions:
        if name in seen or name not in reach[name]:
            continue
        circle = [n for n in functions if n in reach[name] and name in reach[n]]
        seen.update(circle)
        inside = [b for n in circle for b in functions[n].body]
        called = {n for b in inside if isinstance(b.expr, FunctionCall) for n in b.calls}
        entered = {n for b in inside if not isinstance(b.expr, FunctionCall) for n in b.calls}
        yield CallCycle(
            tuple(n for n in circle if n in called),
            tuple(n for n in circle if n in entered or n not in called),
        )


def reachable_functions(functions: Functions) -> dict[str, set[str]]:
    """Return the functions that each function reaches."""
    calls = {f.name: {n for b in f.body for n in b.calls} for f in functions.values()}
    return {name: _find_reachable(name, calls) for name in functions}


def is_recursive(names: Collection[str], functions: Functions) -> bool:
    """Return True if one of `names` reaches itself through functions of `names` only."""
    calls = {n: {c for b in functions[n].body for c in b.calls} & {*names} for n in names}
    return any(n in _find_reachable(n, calls) for n in names)


def _find_reachable(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(calls[name])
    while todo:
        callee = todo.pop()
        if callee not in seen:
            seen.add(callee)
            todo += calls[callee]
    return seen
