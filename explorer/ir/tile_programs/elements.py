"""Operands of statements: buffers, the elements in them, and scalar expressions of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import dtype_of_result
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import DType

REGISTER = "register"  # the level of a buffer that is private to a thread
FARTHEST = "DRAM"  # the name of the last level of CPUs; a data sheet may differ


@dataclass(frozen=True, slots=True)
class Buffer:
    """Flat memory.

    `kind`: input, constant, output, scratch (one a worker, or a thread block), packed (a constant
    laid out for `Contract`), or table (int64 offsets known at compile time). `level`: the name of
    the device's memory level that it lies in, or `REGISTER`. `streamed`: it fits no cache, so that
    stores bypass them.
    """

    name: str
    kind: str
    size: Dim
    dtype: DType = "float32"
    level: str = FARTHEST
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """One element: `Read` with the layout and the tile's origin resolved.

    `dynamic` adds data-dependent terms: each is (index expression, stride, extent); the index is
    clamped to the extent.
    """

    buffer: Buffer
    offset: Affine
    dynamic: tuple[tuple[TileExpr, Dim, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class Do:
    """A scalar function of tile expressions."""

    op: str
    args: tuple[TileExpr, ...]


TileExpr: TypeAlias = Const | IndexValue | Fetch | Do


def fetches(expr: TileExpr) -> tuple[Fetch, ...]:
    """Return every element that an expression loads, also those in data-dependent offsets."""
    loads: list[Fetch] = []
    todo: list[TileExpr] = [expr]
    while todo:
        match todo.pop():
            case Do(_, args):
                todo += reversed(args)
            case Fetch(_, _, dynamic) as fetch:
                loads.append(fetch)
                todo += [e for e, _, _ in reversed(dynamic)]
    return tuple(loads)


def dtype_of_tile(expr: TileExpr) -> DType:
    """Return the dtype of an expression."""
    match expr:
        case Const(_, dtype):
            return dtype
        case IndexValue():
            return "int64"
        case Fetch(buffer, _, _):
            return buffer.dtype
        case Do(op, args):
            return dtype_of_result(op, lambda n: dtype_of_tile(args[n]))
