"""Functions that call themselves: which of them the device can run, and what every call is given
unchanged.

f(x, w): ... f(g(x), w) ...  ->  w is what the outermost call was given, x is copied from frame to
frame
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.grinder.calls.call_cycles import (
    CallCycle,
    Functions,
    call_cycles,
    is_recursive,
    reachable_functions,
)
from explorer.grinder.calls.inline_policy import staying
from explorer.ir.calls import FunctionCall, LibraryCall, Loop, Var, View
from explorer.ir.program import Binding, Function, Program


def recursive(program: Program) -> dict[str, str]:
    """Every function that leads back to itself, and why only the host can follow it; "" where the
    device can, if what it does has kernels and known shapes.
    """
    functions = {f.name: f for f in program.functions}
    reach = reachable_functions(functions)
    found: dict[str, str] = {}
    for circle in call_cycles(functions):
        why = _why(circle, reach, functions)
        found |= dict.fromkeys((n for n in functions if n in circle.names), why)
    return found


def _why(circle: CallCycle, reach: Mapping[str, set[str]], functions: Functions) -> str:
    if len(circle.called) > 1:
        _, why = staying(circle, functions)
        return why or f"{' and '.join(sorted(circle.called))} call each other"
    if not circle.called or circle.called[0] in circle.sides:
        return f"an arm or a body of {min(circle.names)} is that function itself"
    if is_recursive(circle.names - {*circle.called}, functions):
        return f"an arm or a body of {min(circle.names)} is that function itself"
    inside = circle.names.union(*(reach[n] for n in circle.names))
    for name in sorted(inside):
        for b in functions[name].body:
            if isinstance(b.expr, LibraryCall):
                what = f"{b.expr.library}.{b.expr.function}"
                return f"{b.name} calls {what}, which runs in Python"
    return ""


def inside(program: Program, name: str) -> frozenset[str]:
    """The functions that a function leads to, and itself."""
    return frozenset({name, *reachable_functions({f.name: f for f in program.functions})[name]})


def unchanged(program: Program, name: str) -> frozenset[int]:
    """The parameters, by number, that every call inside of a function hands on as they are."""
    functions = {f.name: f for f in program.functions}
    leading = {
        n: functions[n] for n, found in reachable_functions(functions).items() if name in found
    }
    called = functions[name]
    own = {p.name: n for n, p in enumerate(called.params)}
    kept = set(own.values())
    for numbers in _handed(called, own, leading, name):
        kept &= {n for n, number in enumerate(numbers) if n == number}
    return frozenset(kept)


def _handed(
    function: Function, known: Mapping[str, int], functions: Functions, name: str
) -> Iterator[list[int]]:
    """For each call of `name` the numbers of the parameters that it is given; -1 is another
    value. `functions` are those that lead to it.
    """
    numbers = dict(known)
    for b in function.body:
        match b.expr:
            case View(arg, 0) if arg.name in numbers and arg.type == b.var.type:
                numbers[b.var.name] = numbers[arg.name]
            case FunctionCall(callee, args) if callee == name:
                yield [numbers.get(a.name, -1) for a in args]
            case _:
                for callee, params, args in _entered(b, functions):
                    given = zip(params, args, strict=True)
                    inner = {p.name: numbers[a.name] for p, a in given if a.name in numbers}
                    yield from _handed(functions[callee], inner, functions, name)


def _entered(
    b: Binding, functions: Functions
) -> Iterator[tuple[str, tuple[Var, ...], tuple[Var, ...]]]:
    """The functions that a binding runs, with the parameters that are given to them as they are."""
    for callee in b.calls:
        if callee not in functions:
            continue
        params = functions[callee].params
        if isinstance(b.expr, Loop):
            yield callee, params[2 + len(b.expr.state) :], b.expr.args
        else:
            yield callee, params, b.reads[len(b.reads) - len(params) :]
