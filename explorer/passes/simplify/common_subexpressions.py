"""What was computed once is not computed again."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop, Var
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched
from explorer.passes.simplify.substitution import with_reads

SMALL_BYTES = 1 << 16  # larger constants that are equal are rare, and take time to compare; chosen


@compiler_pass("common-subexpressions", paper="Cocke 1970, Global common subexpression elimination")
def share_common_subexpressions(program: Program) -> Program:
    """After: no two bindings of a function are the same expression of the same values.

    `a = f(x); b = f(x); y = g(a, b)` becomes `a = f(x); y = g(a, a)`. Calls of libraries and of
    functions stay.
    """
    same = _same_constants(program)
    functions = tuple(_merged(f, same) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _same_constants(program: Program) -> dict[str, Var]:
    first: dict[tuple[str, Constant], Var] = {}
    same: dict[str, Var] = {}
    for name, constant in program.constants.items():
        if constant.array.nbytes <= SMALL_BYTES:
            known = first.setdefault((constant.type.element, constant), Var(name, constant.type))
            if known.name != name:
                same[name] = known
    return same


def _merged(function: Function, same: dict[str, Var]) -> Function:
    values = dict(same)
    fixed, over = {v.name for v in function.outputs}, written_over(function.body)
    first: dict[object, int] = {}
    body: list[Binding] = []
    for binding in function.body:
        expr = with_reads(binding.expr, values) if values else binding.expr
        if expr != binding.expr:
            binding = replace(binding, expr=expr)
        types = tuple(v.type for v in binding.vars)
        stays = _stays(binding) or any(v.name in over for v in binding.vars)
        at = None if stays else first.setdefault((binding.expr, types), len(body))
        if at is None or at == len(body) or any(v.name in fixed for v in binding.vars):
            body.append(binding)
            continue
        known = body[at]
        body[at] = _with_origin(known, binding.origin)
        matched(share_common_subexpressions, (known, binding), (body[at],))
        values |= {v.name: k for v, k in zip(binding.vars, known.vars, strict=True)}
    return replace(function, body=tuple(body))


def _stays(binding: Binding) -> bool:
    return isinstance(binding.expr, LibraryCall | FunctionCall | Branch | Loop | Gradient)


def _with_origin(binding: Binding, origin: frozenset[str]) -> Binding:
    """The binding, and the lines of its kernel, as coming from further source operators too."""
    expr = binding.expr
    if isinstance(expr, KernelCall):
        lines = tuple(replace(c, origin=c.origin | origin) for c in expr.kernel.computes)
        expr = replace(expr, kernel=replace(expr.kernel, computes=lines))
    return replace(binding, expr=expr, origin=binding.origin | origin)
