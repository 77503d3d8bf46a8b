"""What a kernel does, whatever its tiles: which loops run, along what they are dense, how much a
point costs. Worked out once a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cost.operations import function_cycles, operations
from explorer.ir.by_identity import by_identity
from explorer.ir.kernel import (
    Affine,
    Apply,
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    reads,
)
from explorer.ir.kernels.normal import epilogue_of, stores
from explorer.ir.patterns.contraction import Contraction, contraction
from explorer.ir.patterns.few_columns import few_columns
from explorer.ir.patterns.forms import form_of
from explorer.ir.patterns.running import running
from explorer.ir.shapes.dims import Dim, Shape
from explorer.ir.types import ITEM_BYTES

LEAST_ROW = 8  # results that are worth a vector
FEW = 16  # reduced points that are unrolled
LEAST_BLOCK = 8  # turns of a loop that are worth a block in registers
TURNED = 6.0  # instructions a vector of what turns: loads, exchanges of lanes, a trip to L1
PREFIX = 48.0  # instructions of a vector's running reduction, most of them waiting for the last one
ON_REGISTERS = frozenset({"add", "sub", "mul", "div", "max", "min"})
REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Loops:
    """One compute as loops. `order`: "map", "turn" (a copy that swaps axes in memory), or how it
    reduces: "few" points unrolled, "rows" of results, "inner" along what is summed.

    By point of the innermost axis: operations (loads and stores included), loads and stores that
    are not dense, cycles of elementary functions. `turned` is the axis along which the source of a
    turning copy is dense.
    """

    order: str
    operations: float
    strided: int
    functions: float
    turned: str = ""
    stride_bytes: int = 0  # from one result to the next along that axis
    joined: int = 0  # trailing axes, beyond the last, that may be one with it in memory


@dataclass(frozen=True, slots=True)
class Facts:
    """A compute that is costed: a contraction with its epilogue, or loops."""

    compute: Compute
    number: int
    found: Contraction | None
    loops: Loops
    group: int = 1
    lanes: int = 1  # of a vector of 16 float32 elements
    packs: bool = False
    dense_columns: bool = False  # of the right operand
    registers: bool = False  # the epilogue can be done on them
    joined: bool = False  # all row axes are one in memory, of the left operand and of the result
    settled: bool = True  # the epilogue reads constants alone
    epilogue: Loops | None = None


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


def _structure(kernel: Kernel) -> Structure:
    """The structure of a kernel in normal form; the last ones are remembered."""
    facts, halos, done = [], [], set[int]()
    for n, c in enumerate(kernel.computes):
        halos += [
            Halo(r.tensor, n, r.index)
            for r in dict.fromkeys(reads(c.expr))
            if r.fill is not None and r.tensor in kernel.inputs and running(kernel, c) is None
        ]
        if n in done:
            continue
        made, epilogue = _facts(kernel, n, c)
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


structure = by_identity(_structure, REMEMBERED)


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


def _facts(kernel: Kernel, n: int, c: Compute) -> tuple[Facts, Compute | None]:
    found = contraction(c)
    form = None if found is None else form_of(kernel, c, found)
    if found is None or form is None or few_columns(found):
        return Facts(c, n, None, loops_of(kernel, c)), None
    epilogue = epilogue_of(kernel, c)
    last = epilogue or c
    others = [] if epilogue is None else [r.tensor for r in reads(epilogue.expr)]
    return Facts(
        c,
        n,
        found,
        loops_of(kernel, c),
        form.group,
        form.lanes(16),
        found.b.tensor not in kernel.constants,
        _steps(found.b, found.column.name) == 1,
        (epilogue is None or _arithmetic(epilogue.expr)) and _stored(last, last.axes[-1].name) == 1,
        _rows_joined(kernel, found, c, last),
        all(t == c.out or t in kernel.constants for t in others),
        None if epilogue is None else loops_of(kernel, epilogue),
    ), epilogue


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


def _small(extent: Dim, least: int) -> bool:
    return isinstance(extent, int) and extent < least


def _arithmetic(expr: Expr) -> bool:
    match expr:
        case Apply(op, args):
            return op in ON_REGISTERS and all(map(_arithmetic, args))
        case _:
            return True


def loops_of(kernel: Kernel, c: Compute) -> Loops:
    """How one compute is printed as loops."""
    loads = tuple(reads(c.expr))
    inner = c.axes[-1].name if c.axes else ""
    along = running(kernel, c)
    if along is not None:  # one pass: a prefix within each vector, or row after row
        return Loops("map", PREFIX if along.axis.name == inner else 3.0, 0, 0.0)
    if c.reduce:
        return _reduction(c, loads, inner)
    target = _stored(c, inner)
    turned = _turned(kernel, c, inner, target)
    if turned:
        return Loops("turn", 0.0, 0, 0.0, turned, _stride_bytes(kernel, c, turned))
    blocks = _in_blocks(c, loads)
    if blocks is not None:
        vector, count = blocks
        work = operations(c.expr, vector) + 1.0 + TURNED * count
        return Loops("map", work, 0, function_cycles(c.expr, vector))
    strided = sum(_strided(r, inner) for r in loads) + (target not in (0, 1))
    joined = _joined(kernel, c, loads) if target == 1 else 0
    work, functions = operations(c.expr, inner), function_cycles(c.expr, inner)
    return Loops("map", work + 1.0, strided, functions, joined=joined)


def _in_blocks(c: Compute, loads: Sequence[Read]) -> tuple[str, int] | None:
    """The axis of the vectors of a map that stores densely along one axis and reads along another,
    and how many loads turn in registers; None for any other map.
    """
    last = next((a for a in reversed(c.axes) if _stored(c, a.name) == 1), None)
    if last is None or _small(last.extent, LEAST_BLOCK):
        return None
    turned = [r for r in loads if _strided(r, last.name)]
    across = (a for a in c.axes if a != last and not _small(a.extent, LEAST_BLOCK))
    if not turned:
        return None if last == c.axes[-1] else (last.name, 0)
    good = any(all(_steps(r, a.name) == 1 for r in turned) for a in across)
    return (last.name, len(turned)) if good else None


def _reduction(c: Compute, loads: Sequence[Read], inner: str) -> Loops:
    over = c.reduce[-1].name
    along = any(_steps(r, inner) == 1 for r in loads)
    sizes = [a.extent for a in c.reduce]
    few = all(isinstance(n, int) for n in sizes) and _product(sizes) <= FEW
    narrow = not c.axes or _small(c.axes[-1].extent, LEAST_ROW)
    summed = any(_steps(r, over) == 1 and (narrow or _strided(r, inner)) for r in loads)
    order = "few" if few else "rows" if along and not summed and c.axes else "inner"
    vector = over if order == "inner" else inner
    strided = sum(_strided(r, vector) for r in loads)
    more = 2.0 if order == "rows" else 0.0  # the sums so far, loaded and stored
    work, functions = operations(c.expr, vector), function_cycles(c.expr, vector)
    return Loops(order, work + 1.0 + more, strided, functions)


def _product(sizes: Sequence[Dim]) -> int:
    total = 1
    for n in sizes:
        total *= int(n)
    return total


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


def _strided(read: Read, axis: str) -> bool:
    return _steps(read, axis) not in (0, 1)


def _stored(c: Compute, axis: str) -> int | None:
    return _steps(Read(c.out, c.target), axis) if c.target else 0


def _turned(kernel: Kernel, c: Compute, inner: str, target: int | None) -> str:
    match c.expr:
        case Read() as read if target == 1 and _strided(read, inner):
            if any(not isinstance(i, Affine) for i in read.index):
                return ""
            if ITEM_BYTES[kernel.dtype(read.tensor)] == 4:
                return next((a.name for a in c.axes[:-1] if _steps(read, a.name) == 1), "")
    return ""


def _stride_bytes(kernel: Kernel, c: Compute, axis: str) -> int:
    """How far apart in memory results lie, one step of an axis apart; 0 where it is not known."""
    stride, found = ITEM_BYTES[kernel.dtype(c.out)], 0
    for n, i in zip(reversed(kernel.shape(c.out)), reversed(c.target), strict=True):
        factor = i.factor(axis)
        if not isinstance(n, int) or not isinstance(factor, int):
            return 0
        found += factor * stride
        stride *= n
    return found


def _joined(kernel: Kernel, c: Compute, loads: Sequence[Read]) -> int:
    """How many axes before the last one lie in memory as one with those after them, everywhere."""
    count = 0
    every = [(r.tensor, r.index) for r in loads] + [(c.out, c.target)]
    for n in range(len(c.axes) - 1, 0, -1):
        outer, inner = c.axes[n - 1], c.axes[n]
        if not all(_one(kernel.shape(t), index, outer, inner) for t, index in every):
            break
        count += 1
    return count


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
