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
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, reads
from explorer.ir.kernels.normal import epilogue_of, stores
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.forms import form_of
from explorer.ir.patterns.running import running
from explorer.ir.shapes.dims import Dim, Shape, product
from explorer.ir.types import ITEM_BYTES
from explorer.tile.lowering.lower import tensor_contraction, whole
from explorer.tile.rewriting.memory_runs import memory_runs

ON_REGISTERS = frozenset({"add", "sub", "mul", "div", "max", "min"})
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
    registers: bool = False  # the epilogue can be done on them
    joined: bool = False  # all row axes are one in memory, of the left operand and of the result
    settled: bool = True  # the epilogue reads constants alone


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
            epilogue = epilogue_of(kernel, c)
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
    others = [] if epilogue is None else [r.tensor for r in reads(epilogue.expr)]
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
        (epilogue is None or _arithmetic(epilogue.expr)) and _stored(last, along) == 1,
        _rows_joined(kernel, found, c, last),
        all(t == c.out or t in kernel.constants for t in others),
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


def _rows_joined(kernel: Kernel, found: Contraction, c: Compute, last: Compute) -> bool:
    """Whether each row is a constant distance from the one before it, whatever axis it ends."""
    pairs = list(zip(found.rows, found.rows[1:]))
    if pairs and found.a.fill is not None:
        return False
    names = {a.name: b for a, b in zip(c.axes, last.axes, strict=True)}
    left, written = kernel.shape(found.a.tensor), kernel.shape(last.out)
    return all(
        _one(left, found.a.index, outer, inner)
        and _one(written, last.target, names[outer.name], names[inner.name])
        for outer, inner in pairs
    )


def _arithmetic(expr: Expr) -> bool:
    match expr:
        case Apply(op, args):
            return op in ON_REGISTERS and all(map(_arithmetic, args))
        case _:
            return True


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


def _stored(c: Compute, axis: str) -> int | None:
    return _steps(Read(c.out, c.target), axis) if c.target else 0


def _one(shape: Sequence[Dim], index: Sequence[object], outer: Axis, inner: Axis) -> bool:
    """Whether a step of the outer axis goes as far as all of the inner one, in row-major order."""
    steps = {outer.name: 0, inner.name: 0}
    stride = 1
    for n, i in zip(reversed(shape), reversed(index), strict=True):
        if not isinstance(i, Affine) or not isinstance(n, int):
            return False
        for name in steps:
            factor = i.factor(name)
            if not isinstance(factor, int):
                return False
            steps[name] += factor * stride
        stride *= n
    return steps[outer.name] == steps[inner.name] * inner.extent
