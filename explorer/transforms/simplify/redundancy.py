"""Elimination of redundant code: bindings that nothing reads, and equal expressions.

A match_cast is live if anything uses its symbols. A match_cast of values that the host knows is a
run-time check, and stays. Source operators that disappear are recorded with the reason.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.annotations import symbols_in
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    Var,
)
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.symbols import defined_by, is_check, needed_by
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match
from explorer.transforms.simplify.substitution import with_reads

SMALL_BYTES = 1 << 16  # larger equal constants are rare, and slow to compare; chosen


@compiler_pass("dead-code", paper="Kennedy 1981, A survey of data flow analysis techniques")
def remove_dead_code(program: Program) -> Program:
    """Remove bindings, functions and constants that nothing reads.

    After: every binding, function and constant is read, or is an output.
    """
    functions = tuple(_remove_dead_bindings(f) for f in called_functions(program))
    read = {v.name for f in functions for v in (*f.outputs, *(v for b in f.body for v in b.reads))}
    constants = {name: value for name, value in program.constants.items() if name in read}
    if functions == program.functions and len(constants) == len(program.constants):
        return program
    after = replace(program, functions=functions, constants=constants)
    return record_dropped(program, after, "nothing reads it")


def _remove_dead_bindings(function: Function) -> Function:
    live = {v.name for v in function.outputs}
    casts = any(isinstance(b.expr, MatchCast) for b in function.body)
    needed: set[str] = set().union(*(symbols_in(v.type) for v in function.outputs if casts))
    inner = False  # True if a later body uses this function's symbols
    live_body: list[Binding] = []
    for binding in reversed(function.body):
        defines = defined_by(binding) if casts else None
        named = defines and (inner or defines & needed)
        if named or is_check(binding) or any(v.name in live for v in binding.vars):
            live.update(v.name for v in binding.reads)
            live_body.append(binding)
            if casts:
                needed |= needed_by(binding)
                inner = inner or isinstance(binding.expr, Branch | Loop | Gradient)
        else:
            record_match(remove_dead_code, (binding,), ())
    if len(live_body) == len(function.body):
        return function
    return replace(function, body=tuple(reversed(live_body)))


def called_functions(program: Program) -> list[Function]:
    """Return the functions reachable from the main function, in program order."""
    reached, todo = {program.main.name}, [program.main]
    by_name = {f.name: f for f in program.functions}
    while todo:
        for binding in todo.pop().body:
            for name in binding.calls:
                if name not in reached:
                    reached.add(name)
                    todo.append(by_name[name])
    return [f for f in program.functions if f.name in reached]


def uses(function: Function) -> dict[str, list[Binding]]:
    """Return the bindings that read each value."""
    readers: dict[str, list[Binding]] = {}
    for binding in function.body:
        for name in {v.name for v in binding.reads}:
            readers.setdefault(name, []).append(binding)
    return readers


def origins(program: Program) -> set[str]:
    """Return the source operators that the bindings come from."""
    return {name for _, b in program.bindings() for name in b.origin}


def record_dropped(before: Program, after: Program, reason: str) -> Program:
    """Record the reason for each source operator of `before` that `after` no longer has."""
    recorded = {name for name, _ in after.dropped}
    lost = sorted(origins(before) - origins(after) - recorded)
    if not lost:
        return after
    return replace(after, dropped=(*after.dropped, *((name, reason) for name in lost)))


@compiler_pass("common-subexpressions", paper="Cocke 1970, Global common subexpression elimination")
def share_common_subexpressions(program: Program) -> Program:
    """Compute equal expressions once.

    After: no two bindings of a function are the same expression of the same values.
    `a = f(x); b = f(x); y = g(a, b)` becomes `a = f(x); y = g(a, a)`. Library and function calls
    stay.
    """
    same = _equal_constants(program)
    functions = tuple(_merge_function(f, same) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _equal_constants(program: Program) -> dict[str, Var]:
    first: dict[tuple[str, Constant], Var] = {}
    same: dict[str, Var] = {}
    for name, constant in program.constants.items():
        if constant.nbytes <= SMALL_BYTES:
            kept_constant = first.setdefault(
                (constant.type.element, constant), Var(name, constant.type)
            )
            if kept_constant.name != name:
                same[name] = kept_constant
    return same


def _merge_function(function: Function, same: dict[str, Var]) -> Function:
    values = dict(same)
    fixed, over = {v.name for v in function.outputs}, written_over(function.body)
    first: dict[object, int] = {}
    body: list[Binding] = []
    for binding in function.body:
        expr = with_reads(binding.expr, values) if values else binding.expr
        if expr != binding.expr:
            binding = replace(binding, expr=expr)
        types = tuple(v.type for v in binding.vars)
        stays = _is_excluded(binding) or any(v.name in over for v in binding.vars)
        at = None if stays else first.setdefault((binding.expr, types), len(body))
        if at is None or at == len(body) or any(v.name in fixed for v in binding.vars):
            body.append(binding)
            continue
        earlier = body[at]
        body[at] = _with_origin(earlier, binding.origin)
        record_match(share_common_subexpressions, (earlier, binding), (body[at],))
        values |= {v.name: k for v, k in zip(binding.vars, earlier.vars, strict=True)}
    return replace(function, body=tuple(body))


def _is_excluded(binding: Binding) -> bool:
    return isinstance(binding.expr, LibraryCall | FunctionCall | Branch | Loop | Gradient)


def _with_origin(binding: Binding, origin: frozenset[str]) -> Binding:
    """Add source operators to the origins of a binding and of its kernel's computes."""
    expr = binding.expr
    if isinstance(expr, KernelCall):
        lines = tuple(replace(c, origin=c.origin | origin) for c in expr.kernel.computes)
        expr = replace(expr, kernel=replace(expr.kernel, computes=lines))
    return replace(binding, expr=expr, origin=binding.origin | origin)
