"""Copies of left operands whose reduction steps are symbolic into the tile.

A register tile takes the steps of its reduction from a table of numbers. Between two rows of an
image of symbolic width there is no number: without a copy such a convolution is plain loops, a
hundred times as slow. A copy of the part that a tile needs has the tile's own width.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Compute, Expr, Kernel, Read, rewrite
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Binding, Program
from explorer.ir.symbols import symbols_of_kernel
from explorer.passes.registry import compiler_pass
from explorer.tile.lowering.contract import depth_order, segments
from explorer.tile.lowering.lower import tensor_contraction
from explorer.tile.lowering.places import BufferPlaces
from explorer.transforms.rewrite import record_match


@compiler_pass("copy-symbolic-steps")
def copy_symbolic_steps(program: Program) -> Program:
    """Copy operands with symbolic reduction steps into the tile.

    After: such a read has fill 0 past its border, which it never leaves; reads past borders are
    copied.
    """
    functions = tuple(
        replace(f, body=tuple(_copy_operands(b) for b in f.body)) for f in program.functions
    )
    if all(
        a is b
        for f, g in zip(functions, program.functions, strict=True)
        for a, b in zip(f.body, g.body, strict=True)
    ):
        return program
    return replace(program, functions=functions)


def _copy_operands(binding: Binding) -> Binding:
    call = binding.expr
    if not isinstance(call, KernelCall) or not symbols_of_kernel(call.kernel):
        return binding
    kernel = normalise(call.kernel)
    computes = tuple(_with_copy(kernel, c) for c in kernel.computes)
    if all(a is b for a, b in zip(computes, kernel.computes, strict=True)):
        return binding
    padded = replace(binding, expr=replace(call, kernel=replace(kernel, computes=computes)))
    record_match(copy_symbolic_steps, (binding,), (padded,), "copy an operand with symbolic steps")
    return padded


def _with_copy(kernel: Kernel, c: Compute) -> Compute:
    contracted = tensor_contraction(kernel, c)
    if (
        contracted is None
        or contracted.a.fill is not None
        or contracted.a.tensor not in kernel.inputs
    ):
        return c
    return (
        c if _has_table(kernel, contracted) else replace(c, expr=_pad_reads(c.expr, contracted.a))
    )


def _has_table(kernel: Kernel, contracted: Contraction) -> bool:
    places = BufferPlaces(kernel, ShapeEnv(), (), Tiling(), propagate(kernel, {}))
    load = places.element(contracted.a, {})
    depth = depth_order(contracted.depth, load)
    steps = tuple(load.offset.factor(x.name) for x in depth)
    return segments(steps, tuple(x.extent for x in depth)) is not None


def _pad_reads(expr: Expr, load: Read) -> Expr:
    return rewrite(expr, lambda read: replace(read, fill=0.0) if read == load else read)
