"""The time of one task, term by term: the micro performance model (Roller, section 3.3), in
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.compiled_dims import Evaluator, compile_dims
from explorer.ir.contraction import Contraction, contraction
from explorer.ir.decisions import Micro, Tiling
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.forms import form_of
from explorer.ir.kernel import FUNCTIONS, Affine, Apply, Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.regions import Interval, Region, Regions, propagate
from explorer.ir.types import ITEM_BYTES

Numbers: TypeAlias = Sequence[int]  # the dims of a kernel under one binding

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
    return Estimate(kernel, tiling, device, regions, once=True).terms(sizes)


class Estimate:
    """The time of a task for any binding: all that no size changes is worked out beforehand."""

    def __init__(
        self,
        kernel: Kernel,
        tiling: Tiling,
        device: Device,
        regions: Regions | None = None,
        once: bool = False,
    ) -> None:
        self.micro, self.device = tiling.micro, device
        known = regions or propagate(kernel, dict(tiling.tile))
        dims: list[Dim] = []
        self.works = tuple(
            _work(kernel, c, known.axes[n], device, dims) for n, c in enumerate(kernel.computes)
        )
        self.boxes = tuple(
            _box(kernel, name, region, self.works, dims) for name, region in known.tensors.items()
        )
        self.numbers = _interpreted(dims) if once else compile_dims(dims)

    def terms(self, sizes: Sizes) -> tuple[tuple[str, float], ...]:
        """As `task_terms` tells them."""
        numbers = self.numbers(sizes)
        cycles = sum(w.cycles(numbers, self.micro, self.device) for w in self.works)
        compute_us = cycles / (self.device.clock_ghz * 1e3)
        terms = [("compute", compute_us)]
        longest = compute_us
        for level, count in zip(self.device.levels, self._traffic(numbers)):
            if count:
                time_us = count / (level.bandwidth_gb_per_s * 1e3)
                terms.append((level.name, max(0.0, time_us - longest)))
                longest = max(longest, time_us)
        terms.append(("task", self.device.task_ns / 1e3))
        return tuple(terms)

    def _traffic(self, numbers: Numbers) -> list[float]:
        """Bytes that one task moves from each level that its operands lie in, nearest first."""
        moved = [0.0] * len(self.device.levels)
        for box in self.boxes:
            count, whole = box.bytes(numbers), box.whole_bytes(numbers)
            moved[_home(self.device, whole, box.inside)] += count * (2 if box.inside else 1)
            if box.reader is not None:
                again = box.reader.passes(numbers, self.micro) - 1
                moved[_home(self.device, count, True)] += count * again
        return moved


def _interpreted(dims: Sequence[Dim]) -> Evaluator:
    return lambda sizes: tuple(evaluate_dim(d, sizes) for d in dims)


def _place(dims: list[Dim], dim: Dim) -> int:
    """Where a dim's number will be."""
    dims.append(dim)
    return len(dims) - 1


@dataclass(frozen=True, slots=True)
class _Size:
    """An axis in a task: where its extent is, and that of its tile where it has one."""

    extent: int
    tile: int | None

    def of(self, numbers: Numbers) -> int:
        """How many values of the axis a task has."""
        extent = numbers[self.extent]
        return extent if self.tile is None else max(1, min(extent, numbers[self.tile]))


@dataclass(frozen=True, slots=True)
class _Work:
    """What a compute does in a task."""

    axes: Mapping[str, _Size]
    found: Contraction | None
    packs: bool
    inner: str
    cycles_per_point: float
    group: int = 1

    def count(self, numbers: Numbers, axes: Iterable[Axis]) -> int:
        return prod(self.axes[a.name].of(numbers) for a in axes)

    def cycles(self, numbers: Numbers, micro: Micro, device: Device) -> float:
        """As register tiles where it is a contraction wide enough, else point by point."""
        found = self.found
        if found is not None and (columns := self.axes[found.column.name].of(numbers)) >= 8:
            rows, depth = self.count(numbers, found.rows), self.count(numbers, found.depth)
            depth = -(-depth // self.group)
            pack = depth * columns / device.lanes if self.packs else 0.0
            once = contract_cycles(rows, columns, depth, micro, device) + pack
            return self.count(numbers, found.batch) * once
        size = {name: axis.of(numbers) for name, axis in self.axes.items()}
        points = prod(size.values())
        return points * self.cycles_per_point + points / max(1, size.get(self.inner, 1)) * 2

    def passes(self, numbers: Numbers, micro: Micro) -> int:
        """How often the register tiles of one task walk its packed operand."""
        assert self.found is not None
        return max(1, -(-self.count(numbers, self.found.rows) // micro.rows))


def _work(
    kernel: Kernel, c: Compute, ranges: Mapping[str, Interval], device: Device, dims: list[Dim]
) -> _Work:
    sizes = {
        a.name: _Size(
            _place(dims, a.extent), _place(dims, ranges[a.name].size) if a.name in ranges else None
        )
        for a in (*c.axes, *c.reduce)
    }
    found = contraction(c)
    form = None if found is None else form_of(kernel, c, found)
    found = None if form is None else found
    packs = found is not None and found.b.tensor not in kernel.constants
    inner = c.axes[-1].name if c.axes else ""
    loads = list(reads(c.expr))
    dense = all(_is_dense(r, inner, [a.name for a in c.reduce[-1:]]) for r in loads)
    work = _operations(c.expr) + len(loads) * 0.5 + 1.0
    per_point = work / device.lanes if dense else work * GATHER_COST / 2
    return _Work(sizes, found, packs, inner, per_point, 1 if form is None else form.group)


@dataclass(frozen=True, slots=True)
class _Box:
    """The part of a tensor that a task touches; `reader` contracts a constant from its panels."""

    item_bytes: int
    shape: tuple[int, ...]
    region: tuple[int, ...]
    inside: bool
    reader: _Work | None

    def bytes(self, numbers: Numbers) -> int:
        """Of the part."""
        sides = zip(self.region, self.shape, strict=True)
        return prod(max(1, min(numbers[e], numbers[r])) for r, e in sides) * self.item_bytes

    def whole_bytes(self, numbers: Numbers) -> int:
        """Of the whole tensor; of the part where it is made and used inside."""
        if self.inside:
            return self.bytes(numbers)
        return prod(numbers[e] for e in self.shape) * self.item_bytes


def _box(
    kernel: Kernel, name: str, region: Region, works: Sequence[_Work], dims: list[Dim]
) -> _Box:
    spec = kernel.spec(name)
    readers = (w for w in works if w.found is not None and w.found.b.tensor == name)
    return _Box(
        ITEM_BYTES[spec.dtype],
        tuple(_place(dims, d) for d in spec.shape),
        tuple(_place(dims, r.size) for r in region),
        name not in kernel.inputs and name != kernel.output,
        next(readers, None) if name in kernel.constants else None,
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


def _home(device: Device, bytes_: float, inside: bool) -> int:
    """The nearest level that holds this much; what other units wrote is at least one shared level
    away.
    """
    for n, m in enumerate(device.levels):
        if (
            m.capacity_bytes is not None
            and bytes_ <= m.capacity_bytes * 0.5
            and (inside or m.shared)
        ):
            return n
    return len(device.levels) - 1
