"""The alignment rules applied to a tiling of a CPU kernel, with the number that each compares."""

from __future__ import annotations

from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.regions import propagate
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.alignment import (
    RuleCheck,
    cache_set,
    cache_sets,
    execution_unit,
    memory_transaction,
    tensor_shape,
)
from explorer.roller.contraction_in_tile import ContractionInTile

EPS = 0.2  # of a register tile's rows and columns: the first step of Roller's artifact above 0


def answers(kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes) -> tuple[RuleCheck, ...]:
    """Return the checks of registers, execution unit, line, cache set and tensor shape.

    The kernel is in normal form. A tiling that breaks one of the last three runs, but not as fast
    as it could.
    """
    micro, main = tiling.micro, ContractionInTile.of(kernel, device, sizes).shape.main
    line_check = [_line(kernel, tiling, device, sizes)]
    if main is None:
        return tuple(line_check)
    number, sums = main
    ranges = propagate(kernel, dict(tiling.tile)).axes[number]
    rows = prod(max(1, evaluate_dim(ranges[a.name].size, sizes)) for a in sums.rows)
    columns = max(1, evaluate_dim(ranges[sums.column.name].size, sizes))
    used = micro.registers
    text = f"the register tile needs {used} vector registers, {device.name} has {device.registers}"
    return (
        RuleCheck("registers", used <= device.registers, used, device.registers, text),
        execution_unit(micro.columns, micro.lanes, "columns"),
        *line_check,
        _sets(kernel, tiling, sums, device, sizes),
        tensor_shape(rows, micro.rows, EPS),
        tensor_shape(columns, micro.columns, EPS),
    )


def _line(kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes) -> RuleCheck:
    """Check that tiles of the output begin at lines of memory.

    Of several outputs it is the one with the smallest elements.
    """
    output = min(kernel.outputs, key=lambda t: ITEM_BYTES[kernel.dtype(t)])
    shape = kernel.shape(output)
    full = evaluate_dim(shape[-1], sizes) if shape else 1
    box = propagate(kernel, dict(tiling.tile)).tensors[output]
    inner = evaluate_dim(box[-1].size, sizes) if box else 1
    line = device.levels[0].line_bytes if device.levels else 64
    return memory_transaction(inner, full, ITEM_BYTES[kernel.dtype(output)], line)


def _sets(
    kernel: Kernel, tiling: Tiling, sums: Contraction, device: Device, sizes: Sizes
) -> RuleCheck:
    """Check that rows of the left operand read together do not all begin in one set of L1."""
    shape = [evaluate_dim(n, sizes) for n in kernel.shape(sums.a.tensor)]
    inner = sums.rows[-1].name if sums.rows else ""
    step = sum(
        prod(shape[d + 1 :]) * abs(evaluate_dim(i.factor(inner), sizes))
        for d, i in enumerate(sums.a.index)
        if isinstance(i, Affine)
    )
    near = device.levels[0]
    associativity = device.ways(near)
    sets = cache_sets(near.capacity_bytes or 0, near.line_bytes, associativity)
    stride = step * ITEM_BYTES[kernel.dtype(sums.a.tensor)]
    return cache_set(
        tiling.micro.rows if stride else 1, stride, near.line_bytes, sets, associativity
    )
