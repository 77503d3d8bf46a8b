"""The time of one task, term by term: the micro performance model (Roller, section 3.3), in
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from explorer.devices.model import Device
from explorer.ir.contraction import contraction
from explorer.ir.decisions import Micro, Tiling
from explorer.ir.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.kernel import FUNCTIONS, Affine, Apply, Compute, Expr, Kernel, Read, reads
from explorer.ir.regions import Regions, propagate
from explorer.ir.types import ITEM_BYTES

FUNCTION_COST = {
    "exp": 8,
    "tanh": 14,
    "erf": 12,
    "sigmoid": 10,
    "log": 12,
    "sin": 40,
    "cos": 40,
    "sqrt": 4,
    "pow": 30,
}
GATHER_COST = 4  # a load that is not dense along the innermost axis cannot use vectors
LATENCY_FMA = 4  # cycles until a fused multiply-add's result can be used


def tasks(kernel: Kernel, tiling: Tiling, sizes: Sizes) -> int:
    """How many tasks a kernel is cut into."""
    last = next(c for c in reversed(kernel.computes) if c.out == kernel.output)
    total = 1
    for a in last.axes:
        size = tiling.size(a.name)
        if size is not None:
            total *= max(1, -(-evaluate_dim(a.extent, sizes) // size))
    return total


def task_terms(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions | None = None
) -> tuple[tuple[str, float], ...]:
    """Microseconds of one task of a kernel in normal form, by cause: computing, then what each
    memory level adds.

    The levels overlap with computing, so a term is what its level adds beyond the ones before it.
    `regions` may be passed where they are known: those that `propagate` gives for the tiling.
    """
    regions = regions or propagate(kernel, dict(tiling.tile))
    cycles = sum(
        _cycles(kernel, c, n, regions, tiling.micro, device, sizes)
        for n, c in enumerate(kernel.computes)
    )
    compute_us = cycles / (device.clock_ghz * 1e3)
    terms = [("compute", compute_us)]
    longest = compute_us
    for level, count in _traffic(kernel, regions, tiling, device, sizes):
        bandwidth = next(m.bandwidth_gb_per_s for m in device.levels if m.name == level)
        time_us = count / (bandwidth * 1e3)
        terms.append((level, max(0.0, time_us - longest)))
        longest = max(longest, time_us)
    terms.append(("task", device.task_ns / 1e3))
    return tuple(terms)


def _axis_sizes(c: Compute, n: int, regions: Regions, sizes: Sizes) -> dict[str, int]:
    extents = {a.name: evaluate_dim(a.extent, sizes) for a in (*c.axes, *c.reduce)}
    ranges = regions.axes[n]
    return {
        name: max(1, min(extent, evaluate_dim(ranges[name].size, sizes)))
        if name in ranges
        else extent
        for name, extent in extents.items()
    }


def _cycles(
    kernel: Kernel, c: Compute, n: int, regions: Regions, micro: Micro, device: Device, sizes: Sizes
) -> float:
    size = _axis_sizes(c, n, regions, sizes)
    found = contraction(c)
    if found is not None and size[found.column.name] >= 8:
        rows = _product(size[a.name] for a in found.rows)
        depth = _product(size[a.name] for a in found.depth)
        batch = _product(size[a.name] for a in found.batch)
        columns = size[found.column.name]
        pack = 0.0 if found.b.tensor in kernel.constants else depth * columns / device.lanes
        return batch * (contract_cycles(rows, columns, depth, micro, device) + pack)
    points = _product(size.values())
    inner = c.axes[-1].name if c.axes else ""
    loads = list(reads(c.expr))
    dense = all(_is_dense(r, inner, [a.name for a in c.reduce[-1:]]) for r in loads)
    work = _operations(c.expr) + len(loads) * 0.5 + 1.0
    lanes = device.lanes if dense else 1
    scatter = 1.0 if dense else GATHER_COST / 2
    return (
        points * work * scatter / lanes + _product(size.values()) / max(1, size.get(inner, 1)) * 2
    )


def contract_cycles(rows: int, columns: int, depth: int, micro: Micro, device: Device) -> float:
    """Cycles of a product of `rows` by `depth` with packed columns: every register tile runs whole,
    also at the edges.

    A step does rows x vectors fused multiply-adds and loads one value a row and one vector a column
    group.
    """
    per_step = max(
        micro.rows * micro.vectors / device.fma_per_cycle,
        (micro.rows + micro.vectors) / 2,
        LATENCY_FMA,
    )
    whole_rows, part = divmod(rows, micro.rows)
    blocks = whole_rows + (part > 0)
    panels = -(-columns // micro.columns)
    edge = (part + whole_rows * (columns % micro.columns > 0)) * micro.columns / 4
    body = per_step * depth + 2 * micro.rows * micro.vectors + 30
    return panels * blocks * body + rows * 4 + edge * (panels if part else 1)


def _is_dense(read: Read, inner: str, reduced: list[str]) -> bool:
    last = read.index[-1] if read.index else None
    if not isinstance(last, Affine):
        return False
    names = last.variables
    return (
        not names
        or last.factor(inner) == 1
        or any(last.factor(r) == 1 for r in reduced)
        or (inner not in {v for i in read.index if isinstance(i, Affine) for v in i.variables})
    )


def _operations(expr: Expr) -> float:
    match expr:
        case Apply(op, args):
            own = FUNCTION_COST.get(op, 4.0 if op in FUNCTIONS or op == "div" else 0.5)
            return own + sum(_operations(a) for a in args)
        case _:
            return 0.0


def _traffic(
    kernel: Kernel, regions: Regions, tiling: Tiling, device: Device, sizes: Sizes
) -> list[tuple[str, float]]:
    """Bytes that one task moves from each level that its operands lie in, nearest level first."""
    levels = [m.name for m in device.levels]
    moved = dict.fromkeys(levels, 0.0)
    for name, region in regions.tensors.items():
        spec = kernel.spec(name)
        item = ITEM_BYTES[spec.dtype]
        shape = evaluate_shape(spec.shape, sizes)
        box = 1
        for r, extent in zip(region, shape, strict=True):
            box *= max(1, min(extent, evaluate_dim(r.size, sizes)))
        inside = name not in kernel.inputs and name != kernel.output
        whole = (box if inside else _product(shape)) * item
        moved[_home(device, whole, inside)] += box * item * (2 if inside else 1)
        if name in kernel.constants:
            moved[_home(device, box * item, True)] += (
                box * item * (_passes(kernel, name, regions, tiling, sizes) - 1)
            )
    return [(level, moved[level]) for level in levels if moved[level]]


def _passes(kernel: Kernel, name: str, regions: Regions, tiling: Tiling, sizes: Sizes) -> int:
    """How often a packed operand is walked by the register tiles of one task."""
    for n, c in enumerate(kernel.computes):
        found = contraction(c)
        if found is not None and found.b.tensor == name:
            size = _axis_sizes(c, n, regions, sizes)
            rows = _product(size[a.name] for a in found.rows)
            return max(1, -(-rows // tiling.micro.rows))
    return 1


def _home(device: Device, bytes_: float, inside: bool) -> str:
    """The nearest level that holds this much; what other units wrote is at least one shared level
    away.
    """
    for m in device.levels:
        if (
            m.capacity_bytes is not None
            and bytes_ <= m.capacity_bytes * 0.5
            and (inside or m.shared)
        ):
            return m.name
    return device.levels[-1].name


def _product(values: Iterable[int]) -> int:
    return prod(values)
