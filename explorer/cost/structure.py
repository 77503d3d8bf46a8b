"""What a kernel does, whatever its tiles: which loops run, along what they are dense, how much a
point costs. Worked out once a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.loops import Loops, loops_of
from explorer.cost.operations import function_cycles, operations
from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.forms import form_of
from explorer.ir.patterns.running import running
from explorer.ir.shapes.dims import Dim, Shape, product
from explorer.ir.types import ITEM_BYTES
from explorer.tile.lowering.lower import tensor_contraction, whole
from explorer.tile.lowering.tile_epilogue import tile_epilogue
from explorer.tile.rewriting.memory_runs import memory_runs

REMEMBERED_KERNELS = 64  # a bound on memory, chosen


@dataclass(frozen=True, slots=True)
class Facts:
    """A compute that is costed: a contraction with its epilogue, or loops. Of the epilogue, a
    vector: its operations, and cycles of its elementary functions.
    """

    compute: Compute
    number: int
    found: Contraction | None
    loops: Loops | None
    operations: float = 0.0
    functions: float = 0.0
    group: int = 1
    lanes: int = 1  # of a vector of 16 float32 elements
    packs: bool = False
    dense_columns: bool = False  # of the right operand
    dense_depth: bool = True
    runs: bool = False  # it lies in runs, which are turned in blocks


@dataclass(frozen=True, slots=True)
class Halo:
    """An input read past its border: copied into scratch first."""

    tensor: str
    number: int  # of the compute
    index: tuple[Affine | Expr, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The parts of a kernel that cost time, the axes of its output, and its tensors: shape, bytes
    of an element, whether it is made and used inside, whether it is the output. `blocks` has the
    inputs that are read in several places, with those and the numbers of the computes.
    """

    facts: tuple[Facts, ...]
    halos: tuple[Halo, ...]
    axes: tuple[Axis, ...]
    tensors: Tensors
    blocks: Mapping[str, Sequence[tuple[int, tuple[Affine | Expr, ...]]]]


Tensors: TypeAlias = Mapping[str, tuple[Shape, int, bool, bool]]


@by_identity_at(REMEMBERED_KERNELS)
def structure(kernel: Kernel, device: Device) -> Structure:
    """The structure of a kernel in normal form; the last ones are remembered."""
    statement = whole(kernel)
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
        found = tensor_contraction(kernel, c)
        if found is None:
            made = Facts(c, n, None, loops_of(kernel, c, statement(n), device))
        else:
            epilogue = tile_epilogue(kernel, c)
            made = _contracted(kernel, n, found, epilogue)
        facts.append(made)
        if epilogue is not None:
            done.add(kernel.computes.index(epilogue))
    last = stores(kernel)[-1]
    border = {*kernel.inputs, *kernel.outputs}
    tensors = {
        t.name: (t.shape, ITEM_BYTES[t.dtype], t.name not in border, t.name in kernel.outputs)
        for t in kernel.tensors
    }
    return Structure(tuple(facts), tuple(halos), last.axes, tensors, _blocks(kernel))


def as_loops(kernel: Kernel, f: Facts, device: Device) -> tuple[Facts, ...]:
    """A contraction and its epilogue where no register tile can go over them."""
    statement, epilogue = whole(kernel), tile_epilogue(kernel, f.compute)
    numbers = (f.number, *(() if epilogue is None else (kernel.computes.index(epilogue),)))
    return tuple(
        Facts(
            kernel.computes[n], n, None, loops_of(kernel, kernel.computes[n], statement(n), device)
        )
        for n in numbers
    )


def _blocks(kernel: Kernel) -> dict[str, list[tuple[int, tuple[Affine | Expr, ...]]]]:
    found: dict[str, list[tuple[int, tuple[Affine | Expr, ...]]]] = {}
    for n, c in enumerate(kernel.computes):
        for r in dict.fromkeys(reads(c.expr)):
            if r.tensor in kernel.inputs:
                found.setdefault(r.tensor, []).append((n, r.index))
    several = {t: places for t, places in found.items() if len(places) > 1}
    return {t: p for t, p in several.items() if len({_starts(index) for _, index in p}) > 1}


def _starts(index: tuple[Affine | Expr, ...]) -> tuple[Dim | None, ...]:
    return tuple(i.const if isinstance(i, Affine) else None for i in index)


def _contracted(kernel: Kernel, n: int, found: Contraction, epilogue: Compute | None) -> Facts:
    c = kernel.computes[n]
    form = form_of(kernel, c, found)
    assert form is not None  # a contraction that the micro-kernels can do has one
    last = epilogue or c
    along = last.axes[-1].name
    return Facts(
        c,
        n,
        found,
        None,
        0.0 if epilogue is None else operations(epilogue.expr, along) + 1.0,
        0.0 if epilogue is None else function_cycles(epilogue.expr, along),
        form.group,
        form.lanes(16),
        found.b.tensor not in kernel.constants,
        _steps(found.b, found.column.name) == 1,
        _steps(_without_units(kernel, found.b), found.depth[-1].name) == 1,
        _in_runs(kernel, found),
    )


def _in_runs(kernel: Kernel, found: Contraction) -> bool:
    """Whether columns or depth of the right operand are runs of elements, as panels are not."""
    shape, offset = kernel.shape(found.b.tensor), Affine()
    for n, index in enumerate(found.b.index):
        if not isinstance(index, Affine):
            return False
        offset = offset + index * product(shape[n + 1 :])
    axes = (found.column, *found.depth)
    runs = memory_runs([offset.factor(a.name) for a in axes], [a.extent for a in axes])
    return runs is not None and kernel.dtype(found.b.tensor) == "float32"


def _without_units(kernel: Kernel, read: Read) -> Read:
    """A load without dims of one element, over which nothing moves."""
    shape = kernel.shape(read.tensor)
    return Read(read.tensor, tuple(i for i, n in zip(read.index, shape) if n != 1))


def _steps(read: Read, axis: str) -> int | None:
    """How far one step of an axis goes in the last dim of a load; None where it moves another one,
    or depends on data.
    """
    if any(not isinstance(i, Affine) for i in read.index):
        inside = (i for i in read.index[:-1] if isinstance(i, Affine))
        if any(i.factor(axis) != 0 for i in inside):
            return None
        last = read.index[-1]
        return None if not isinstance(last, Affine) else _whole(last.factor(axis))
    for i in read.index[:-1]:
        if isinstance(i, Affine) and i.factor(axis) != 0:
            return None
    last = read.index[-1] if read.index else Affine()
    return _whole(last.factor(axis)) if isinstance(last, Affine) else None


def _whole(factor: Dim) -> int | None:
    return factor if isinstance(factor, int) else None
