"""Legalisation: every operator becomes loop-level kernels, views, or a marked library call.

y: float32[n, 64] = Relu(x)   ->   y: float32[n, 64] = kernel relu(x)    y[i, j] = max(x[i, j], 0)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops import RECORDS
from explorer.ops.lowering import Lowering
from explorer.ops.rules import in_rule
from explorer.ops.site import Site
from explorer.ops.widening import lower
from explorer.passes.pipeline.registry import compiler_pass
from explorer.relax.deduction.known import is_known
from explorer.relax.deduction.library import library_call


@compiler_pass("legalize", paper="Relax, ASPLOS 2025, section 3.3: cross-level abstraction")
def legalize(program: Program) -> Program:
    """No graph operator is left; constants that nothing reads are gone."""
    constants = dict(program.constants)
    functions = tuple(_function(program, f, constants) for f in program.functions)
    read = {v.name for f in functions for v in f.outputs}
    read.update(v.name for f in functions for b in f.body for v in b.reads)
    kept = {n: c for n, c in constants.items() if n in read}
    return replace(
        program, functions=functions, constants=kept, stage=max(program.stage, Stage.LEGALIZED)
    )


def _function(program: Program, function: Function, constants: dict[str, Constant]) -> Function:
    read = {v.name for v in function.outputs}
    read.update(v.name for b in function.body for v in b.reads)
    body: list[Binding] = []
    for binding in function.body:
        if isinstance(binding.expr, OpCall):
            body += _operator(program, binding, binding.expr, constants, read)
        else:
            body.append(binding)
    return replace(function, body=tuple(body))


def _operator(
    program: Program, binding: Binding, call: OpCall, constants: dict[str, Constant], read: set[str]
) -> list[Binding]:
    where = min(binding.origin, default=binding.vars[0].name)
    known = all(map(is_known, (*binding.reads, *(v for v in binding.vars if v.name in read))))
    site = Site(call.op, where, call.args, dict(call.attrs), program.env, (), len(binding.vars))
    low = Lowering(site, binding.vars, binding.origin, constants, read.__contains__)
    record = RECORDS.get(call.op)
    try:
        if record is None or not known or not all(map(_has_kernels, binding.reads)):
            return _library(low, binding, call)
        with in_rule(site):
            lower(record, low)
    except UnsupportedOperator:
        low = Lowering(site, binding.vars, binding.origin, constants, read.__contains__)
        found = _library(low, binding, call)
        constants.update(low.constants)
        return found
    constants.update(low.constants)
    return low.bindings


def _library(low: Lowering, binding: Binding, call: OpCall) -> list[Binding]:
    def constant(array: np.ndarray, hint: str) -> Var:
        return low.constant(array, hint)

    expr = library_call(call, RECORDS.get(call.op), constant)
    if expr is None:
        low.site.unsupported("it has no kernel rule, and no library call takes symbolic extents")
    return [Binding(binding.vars, expr, binding.origin)]


def _has_kernels(var: Var) -> bool:
    return isinstance(var.type, Tensor) and var.type.dtype in ITEM_BYTES
