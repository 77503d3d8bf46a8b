"""Which functions of a program lead to which: circles of calls, sides of branches and bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from explorer.ir.calls import FunctionCall
from explorer.ir.program import Function

Functions = Mapping[str, Function]


@dataclass(frozen=True, slots=True)
class CallCycle:
    """Functions that all lead to each other: those that are `called`, and those that branches and
    loops have as `sides`; in the program's order.
    """

    called: tuple[str, ...]
    sides: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.called, *self.sides))


def call_cycles(functions: Functions) -> Iterator[CallCycle]:
    """Every circle of a program."""
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
    """The functions that each leads to."""
    calls = {f.name: {n for b in f.body for n in b.calls} for f in functions.values()}
    return {name: _reached(name, calls) for name in functions}


def is_recursive(names: Collection[str], functions: Functions) -> bool:
    """Whether some of these lead back to themselves without another function."""
    calls = {n: {c for b in functions[n].body for c in b.calls} & {*names} for n in names}
    return any(n in _reached(n, calls) for n in names)


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(calls[name])
    while todo:
        callee = todo.pop()
        if callee not in seen:
            seen.add(callee)
            todo += calls[callee]
    return seen
