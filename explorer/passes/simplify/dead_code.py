"""Dead code elimination.

A match_cast is live if anything uses its symbols. A match_cast of values that the host knows is a
run-time check, and stays.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.annotations import symbols_in
from explorer.ir.calls import Branch, Gradient, Loop, MatchCast
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import defined_by, is_check, needed_by
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match
from explorer.passes.simplify.dropped_origins import record_dropped


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
