"""Tile-independent cost structure of a kernel: its loops, dense axes, and cost per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.loops import Loops, function_cycles, loops_of, operations
from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.dims import Dim, Shape, product
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.forms import ELEMENTS_OF_BYTE, form_of
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.running import running
from explorer.ir.types import ITEM_BYTES
from explorer.tile.lowering.lower import tensor_contraction, untiled_loops
from explorer.tile.lowering.tile_epilogue import tile_epilogue
from explorer.tile.rewriting.vectorise import memory_runs

REMEMBERED_KERNELS = 64  # a bound on memory, chosen
DECODE_CYCLES = 1.0  # a shift or a mask, and a conversion, on two units; no measurement kept


@dataclass(frozen=True, slots=True)
class CostedCompute:
    """A costed compute: a contraction with its epilogue, or loops.

    `operations` and `functions` are the epilogue's per vector: operations, and cycles of elementary
    functions.
    """

    compute: Compute
    number: int
    contraction: Contraction | None
    loops: Loops | None
    operations: float = 0.0
    functions: float = 0.0
    group: int = 1
    lanes: int = 1  # of a vector of 16 float32 elements
    packs: bool = False
    dense_columns: bool = False  # of the right operand
    dense_depth: bool = True
    runs: bool = False  # the right operand is in runs, which are transposed in blocks
    decode: float = 0.0  # cycles a step for a vector of the right operand, of several a byte


@dataclass(frozen=True, slots=True)
class Halo:
    """An input that is read past its border and therefore copied to scratch memory."""

    tensor: str
    number: int  # of the compute
    index: tuple[Affine | Expr, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The costed parts of a kernel, the axes of its output, and its tensors.

    A tensor has its shape, bytes per element, and flags for inner tensors and outputs. `blocks`
    maps each input that is read at several positions to these, with the numbers of their computes.
    `first_uses` has the number of the first compute that reads or writes each tensor.
    """

    facts: tuple[CostedCompute, ...]
    halos: tuple[Halo, ...]
    axes: tuple[Axis, ...]
    tensors: Tensors
    blocks: Mapping[str, Sequence[tuple[int, tuple[Affine | Expr, ...]]]]
    first_uses: Mapping[str, int]


Tensors: TypeAlias = Mapping[str, tuple[Shape, int, bool, bool]]


@by_identity_at(REMEMBERED_KERNELS)
def structure(kernel: Kernel, device: Device) -> Structure:
    """Return the structure of a kernel in normal form, cached for recent kernels."""
    statement = untiled_loops(kernel)
    facts, halos, done = [], [], set[int]()
    for n, c in enumerate(kernel.computes):
        halos += [
            Halo(r.tensor, n, r.index)
            for r in dict.fromkeys(reads(c.expr))
            if r.fill is not None and r.tensor in kernel.inputs and running(kernel, c) is None
        ]
        if n in done:
            continue
        epilogue: Compute | None = None
        contracted = tensor_contraction(kernel, c)
        if contracted is None:
            costed = CostedCompute(c, n, None, loops_of(kernel, c, statement(n), device))
        else:
            epilogue = tile_epilogue(kernel, c)
            costed = _contraction_cost(kernel, n, contracted, epilogue)
        facts.append(costed)
        if epilogue is not None:
            done.add(kernel.computes.index(epilogue))
    last = stores(kernel)[-1]
    border = {*kernel.inputs, *kernel.outputs}
    tensors = {
        t.name: (t.shape, ITEM_BYTES[t.dtype], t.name not in border, t.name in kernel.outputs)
        for t in kernel.tensors
    }
    first_uses: dict[str, int] = {}
    for n, c in enumerate(kernel.computes):
        for name in (c.out, *(r.tensor for r in reads(c.expr))):
            first_uses.setdefault(name, n)
    return Structure(
        tuple(facts), tuple(halos), last.axes, tensors, _block_inputs(kernel), first_uses
    )


def as_loops(kernel: Kernel, f: CostedCompute, device: Device) -> tuple[CostedCompute, ...]:
    """Return a contraction and its epilogue as loops, without a register tile."""
    statement, epilogue = untiled_loops(kernel), tile_epilogue(kernel, f.compute)
    numbers = (f.number, *(() if epilogue is None else (kernel.computes.index(epilogue),)))
    return tuple(
        CostedCompute(
            kernel.computes[n], n, None, loops_of(kernel, kernel.computes[n], statement(n), device)
        )
        for n in numbers
    )


def _block_inputs(kernel: Kernel) -> dict[str, list[tuple[int, tuple[Affine | Expr, ...]]]]:
    positions: dict[str, list[tuple[int, tuple[Affine | Expr, ...]]]] = {}
    for n, c in enumerate(kernel.computes):
        for r in dict.fromkeys(reads(c.expr)):
            if r.tensor in kernel.inputs:
                positions.setdefault(r.tensor, []).append((n, r.index))
    several = {t: places for t, places in positions.items() if len(places) > 1}
    return {
        t: p for t, p in several.items() if len({_constant_offsets(index) for _, index in p}) > 1
    }


def _constant_offsets(index: tuple[Affine | Expr, ...]) -> tuple[Dim | None, ...]:
    return tuple(i.const if isinstance(i, Affine) else None for i in index)


def _contraction_cost(
    kernel: Kernel, n: int, contraction: Contraction, epilogue: Compute | None
) -> CostedCompute:
    c = kernel.computes[n]
    form = form_of(kernel, c, contraction)
    assert form is not None  # a contraction that the micro-kernels can do has one
    last = epilogue or c
    along, of_byte = last.axes[-1].name, ELEMENTS_OF_BYTE.get(form.right, 1)
    return CostedCompute(
        c,
        n,
        contraction,
        None,
        0.0 if epilogue is None else operations(epilogue.expr, along) + 1.0,
        0.0 if epilogue is None else function_cycles(epilogue.expr, along),
        form.group // of_byte,
        form.lanes(16),
        contraction.b.tensor not in kernel.constants,
        _last_dim_stride(contraction.b, contraction.column.name) == 1,
        _last_dim_stride(_without_units(kernel, contraction.b), contraction.depth[-1].name) == 1,
        _is_in_runs(kernel, contraction),
        DECODE_CYCLES if of_byte > 1 else 0.0,
    )


def _is_in_runs(kernel: Kernel, contraction: Contraction) -> bool:
    """Return True if columns or depth of the right operand are runs of elements, unlike panels."""
    shape, offset = kernel.shape(contraction.b.tensor), Affine()
    for n, index in enumerate(contraction.b.index):
        if not isinstance(index, Affine):
            return False
        offset = offset + index * product(shape[n + 1 :])
    axes = (contraction.column, *contraction.depth)
    runs = memory_runs([offset.factor(a.name) for a in axes], [a.extent for a in axes])
    return runs is not None and kernel.dtype(contraction.b.tensor) == "float32"


def _without_units(kernel: Kernel, read: Read) -> Read:
    """Drop the dims of extent 1 from a read."""
    shape = kernel.shape(read.tensor)
    return Read(read.tensor, tuple(i for i, n in zip(read.index, shape) if n != 1))


def _last_dim_stride(read: Read, axis: str) -> int | None:
    """Return the stride of an axis in the last dim of a read.

    Returns None if the axis moves another dim or the index depends on data.
    """
    if any(not isinstance(i, Affine) for i in read.index):
        inside = (i for i in read.index[:-1] if isinstance(i, Affine))
        if any(i.factor(axis) != 0 for i in inside):
            return None
        last = read.index[-1]
        return None if not isinstance(last, Affine) else _int_or_none(last.factor(axis))
    for i in read.index[:-1]:
        if isinstance(i, Affine) and i.factor(axis) != 0:
            return None
    last = read.index[-1] if read.index else Affine()
    return _int_or_none(last.factor(axis)) if isinstance(last, Affine) else None


def _int_or_none(factor: Dim) -> int | None:
    return factor if isinstance(factor, int) else None
