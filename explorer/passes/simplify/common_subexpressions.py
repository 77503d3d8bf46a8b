"""Common subexpression elimination."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop, Var
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match
from explorer.passes.simplify.substitution import with_reads

SMALL_BYTES = 1 << 16  # larger equal constants are rare, and slow to compare; chosen


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
        if constant.array.nbytes <= SMALL_BYTES:
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
