"""Recursive functions: cycles of the call graph, and what passes unchanged from call to call.

f(x, w): ... f(g(x), w) ...  ->  w is read where the outermost call has it; x is copied from frame
to frame

One function of a set of mutually recursive functions stays, and the others are inlined (`inline`),
if no cycle remains without it. The symbols of a recursive function are renamed to those of its
external callers:

main: y = call f(x: float32[n], k);  f(a: float32[m], e)  ->  m is n, in every open call
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.annotations import symbols_in
from explorer.ir.calls import FunctionCall, LibraryCall, Loop, MatchCast, Var, View
from explorer.ir.dims import Dim, Sizes, evaluate_dim, is_symbol, symbols_of
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Annotation, Tensor

SymbolMap: TypeAlias = Mapping[str, Dim]  # a function's symbols -> extents at a call
Functions = Mapping[str, Function]
SymbolRenaming: TypeAlias = Mapping[str, Mapping[str, Dim]]


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


def select_cycle_head(circle: CallCycle, functions: Functions) -> tuple[str, str]:
    """Return the function of a cycle that stays; or "" and the reason why none can.

    Functions that are called from outside of the cycle are tried first.
    """
    if len(circle.called) < 2:
        return (*circle.called, "")[0], ""
    together = " and ".join(sorted(circle.called))
    others = (f for f in functions.values() if f.name not in circle.names)
    outside = {name for f in others for b in f.body for name in b.calls}
    if any(defines_symbols_at_run_time(name, functions, set()) for name in circle.called):
        return "", f"{together} call each other, with shapes that a run decides"
    for name in sorted(circle.called, key=lambda name: name not in outside):
        if not is_recursive(circle.names - {name}, functions):
            return name, ""
    return "", f"{together} call each other, and more than one of them itself"


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


def reachable_from(program: Program, name: str) -> frozenset[str]:
    """Return the functions that a function reaches, and the function itself."""
    return frozenset({name, *reachable_functions({f.name: f for f in program.functions})[name]})


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


def defines_symbols_at_run_time(name: str, functions: Functions, seen: set[str]) -> bool:
    """Return True if a function, or one that it reaches, defines symbols at run time."""
    if name in seen:
        return False
    seen.add(name)
    body = functions[name].body
    own = any(isinstance(b.expr, MatchCast) for b in body)
    return own or any(
        defines_symbols_at_run_time(n, functions, seen) for b in body for n in b.calls
    )


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


def match_symbols(params: Sequence[Var], types: Sequence[Annotation]) -> SymbolMap:
    """Return the extent of each bare symbol of the parameters for arguments of these types."""
    renaming: dict[str, Dim] = {}
    for param, kind in zip(params, types, strict=True):
        match param.type, kind:
            case Tensor(tuple(dims)), Tensor(tuple(actual)) if len(dims) == len(actual):
                for dim, extent in zip(dims, actual, strict=True):
                    if is_symbol(dim):
                        renaming.setdefault(str(dim), extent)
            case _:
                continue
    return renaming


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
