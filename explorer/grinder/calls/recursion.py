"""Recursive functions: those that the device can run, and their loop-invariant parameters.

f(x, w): ... f(g(x), w) ...  ->  w is read where the outermost call has it; x is copied from frame
to frame
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
from explorer.grinder.calls.inline_policy import select_cycle_head
from explorer.ir.calls import FunctionCall, LibraryCall, Loop, Var, View
from explorer.ir.program import Binding, Function, Program


def find_recursive(program: Program) -> dict[str, str]:
    """Return each recursive function with the reason why only the host can run it.

    The reason is "" if the device can run it, provided that its body has kernels and known shapes.
    """
    functions = {f.name: f for f in program.functions}
    reach = reachable_functions(functions)
    reasons: dict[str, str] = {}
    for cycle in call_cycles(functions):
        reason = _host_reason(cycle, reach, functions)
        reasons |= dict.fromkeys((n for n in functions if n in cycle.names), reason)
    return reasons


def _host_reason(cycle: CallCycle, reach: Mapping[str, set[str]], functions: Functions) -> str:
    """Return why only the host can run a cycle; "" if the device can."""
    if len(cycle.called) > 1:
        _, reason = select_cycle_head(cycle, functions)
        return reason or f"{' and '.join(sorted(cycle.called))} call each other"
    if not cycle.called or cycle.called[0] in cycle.bodies:
        return f"an arm or a body of {min(cycle.names)} is that function itself"
    if is_recursive(cycle.names - {*cycle.called}, functions):
        return f"an arm or a body of {min(cycle.names)} is that function itself"
    inside = cycle.names.union(*(reach[n] for n in cycle.names))
    for name in sorted(inside):
        for b in functions[name].body:
            if isinstance(b.expr, LibraryCall):
                what = f"{b.expr.library}.{b.expr.function}"
                return f"{b.name} calls {what}, which runs in Python"
    return ""


def reachable_from(program: Program, name: str) -> frozenset[str]:
    """Return the functions that a function reaches, and the function itself."""
    return frozenset({name, *reachable_functions({f.name: f for f in program.functions})[name]})


def invariant_parameters(program: Program, name: str) -> frozenset[int]:
    """Return the indices of the parameters that every recursive call passes on unchanged."""
    functions = {f.name: f for f in program.functions}
    leading = {
        n: functions[n]
        for n, reachable in reachable_functions(functions).items()
        if name in reachable
    }
    called = functions[name]
    own = {p.name: n for n, p in enumerate(called.params)}
    invariant = set(own.values())
    for numbers in _passed_parameters(called, own, leading, name):
        invariant &= {n for n, number in enumerate(numbers) if n == number}
    return frozenset(invariant)


def _passed_parameters(
    function: Function, indices: Mapping[str, int], functions: Functions, name: str
) -> Iterator[list[int]]:
    """Yield for each call of `name` the parameter indices that it passes on; -1 is another value.

    `functions` are those that reach `name`; `indices` are the parameters that `function`'s names
    stand for.
    """
    numbers = dict(indices)
    for b in function.body:
        match b.expr:
            case View(arg, 0) if arg.name in numbers and arg.type == b.var.type:
                numbers[b.var.name] = numbers[arg.name]
            case FunctionCall(callee, args) if callee == name:
                yield [numbers.get(a.name, -1) for a in args]
            case _:
                for callee, params, args in _invoked_functions(b, functions):
                    pairs = zip(params, args, strict=True)
                    inner = {p.name: numbers[a.name] for p, a in pairs if a.name in numbers}
                    yield from _passed_parameters(functions[callee], inner, functions, name)


def _invoked_functions(
    b: Binding, functions: Functions
) -> Iterator[tuple[str, tuple[Var, ...], tuple[Var, ...]]]:
    """Yield the functions that a binding runs, with the parameters that it passes unchanged."""
    for callee in b.calls:
        if callee not in functions:
            continue
        params = functions[callee].params
        if isinstance(b.expr, Loop):
            yield callee, params[2 + len(b.expr.state) :], b.expr.args
        else:
            yield callee, params, b.reads[len(b.reads) - len(params) :]
