"""Operands of a reduction that threads of a block share: loads invariant along some of its axes.

The loads may be guarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from explorer.ir.dims import Dim
from explorer.ir.dtypes import ITEM_BYTES, DType
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import Do, Fetch, TileExpr, fetches
from explorer.ir.tile_traversal import variables_of

IN_VECTORS = frozenset({"float32", "float16", "bfloat16"})  # dtypes of vector loads
VECTOR_BYTES = 16  # of a thread's largest load; PTX ISA, section 9.7.9: v4.f32 of ld


def together(dtype: DType) -> int:
    """Return the most elements that a thread loads at once."""
    return VECTOR_BYTES // ITEM_BYTES[dtype] if dtype in IN_VECTORS else 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A load, with the guard that chooses between it and the value outside of its tensor.

    `axes` are the variables that it depends on, `dense` the one along which its elements are
    contiguous, "" if there is none.
    """

    expr: TileExpr
    load: Fetch
    axes: frozenset[str]
    dense: str


def operands(expr: TileExpr) -> tuple[Operand, ...]:
    """Return the distinct loads of an expression from memory that all blocks share.

    Loads at data-dependent addresses are not included.
    """
    return tuple(dict.fromkeys(_operands(expr)))


def _operands(expr: TileExpr) -> Iterator[Operand]:
    """Yield the operands of an expression, with their guards."""
    match expr:
        case Do("where", (guard, Fetch() as load, Const())) if not fetches(guard):
            yield from _operand(expr, load)
        case Do(_, args):
            for a in args:
                yield from _operands(a)
        case Fetch():
            yield from _operand(expr, expr)


def _operand(expr: TileExpr, load: Fetch) -> Iterator[Operand]:
    affine = all(isinstance(index, IndexValue) for index, _, _ in load.dynamic)
    if load.buffer.kind not in ("input", "constant") or not affine:
        return
    axes = variables_of(expr)
    dense = next((a for a in sorted(axes) if step_along(load, a) == 1), "")
    yield Operand(expr, load, axes, dense)


def step_along(load: Fetch, axis: str) -> Dim:
    """Return the distance of the next element along an axis."""
    total = load.offset.factor(axis)
    for index, stride, _ in load.dynamic:
        if isinstance(index, IndexValue):
            total = total + index.index.factor(axis) * stride
    return total


def with_operands(expr: TileExpr, new: Mapping[TileExpr, TileExpr]) -> TileExpr:
    """Return the expression with some operands replaced."""
    if expr in new:
        return new[expr]
    if isinstance(expr, Do):
        return Do(expr.op, tuple(with_operands(a, new) for a in expr.args))
    return expr
