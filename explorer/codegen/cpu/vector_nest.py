"""Vectorised loop nests as LLVM code: values are stored and reduced in one pass.

The remainder of a row is masked. Maps with vectors along what they store may have operands that are
dense along another loop: square blocks of a vector's length are loaded along that loop and
transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from explorer.codegen.cpu.llvm_value import LlvmValue
from explorer.codegen.cpu.nest import (
    I64,
    Counters,
    Loops,
    Nest,
    Node,
    Operand,
    Reduced,
    Stored,
    Values,
    children,
)
from explorer.codegen.cpu.nest_reductions import Reductions, RowBatchedReductions
from explorer.codegen.cpu.simd import of_integers
from explorer.codegen.cpu.vector_operations import (
    BORDER_BYTES,
    CELLS,
    decoded,
    elements,
    splat,
    store,
)
from explorer.tile.rewriting.vectorise import SIDES

I1, I32 = ir.IntType(1), ir.IntType(32)


def _transpose_intrinsic(size: int) -> Any:
    """Return the intrinsic that transposes a block of elements of `size` bytes."""
    n, cell = SIDES[size], ir.IntType(8 * size)
    vector = ir.VectorType(cell, n)

    @intrinsic
    def turn_block(
        context: Any, source: Any, source_step: Any, target: Any, target_step: Any
    ) -> Any:
        """Copy target[c * target_step + r] = source[r * source_step + c] for a block."""

        def emit(cx: Any, b: Any, sig: Any, a: Any) -> Any:
            def at(base: Any, step: Any, r: int) -> Any:
                place = b.gep(b.inttoptr(base, cell.as_pointer()), [b.mul(step, I64(r))])
                return b.bitcast(place, vector.as_pointer())

            rows = [b.load(at(a[0], a[1], r), align=1) for r in range(n)]
            for c, column in enumerate(transposed(b, rows)):
                b.store(column, at(a[2], a[3], c), align=1)
            return cx.get_dummy_value()

        return types.void(*[types.intp] * 4), emit

    return turn_block


def transposed(b: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of a square of rows: halves are exchanged, then quarters, and so on."""
    n = len(rows)
    d = n // 2
    while d:
        low = ir.Constant(ir.VectorType(I32, n), [n + c - d if c & d else c for c in range(n)])
        high = ir.Constant(ir.VectorType(I32, n), [n + c if c & d else c + d for c in range(n)])
        rows = [
            b.shuffle_vector(rows[r - d], rows[r], high)
            if r & d
            else b.shuffle_vector(rows[r], rows[r + d], low)
            for r in range(n)
        ]
        d //= 2
    return rows


turn1, turn2, turn4, turn8 = (_transpose_intrinsic(size) for size in SIDES)


@cache
def spread(places: tuple[int, ...]) -> Any:
    """Copy target[places[c] + r] = source[r * source_step + c] for 16 rows of float32."""

    @intrinsic
    def spread_rows(context: Any, source: Any, source_step: Any, target: Any) -> Any:
        def emit(cx: Any, b: Any, sig: Any, a: Any) -> Any:
            start, to = (b.inttoptr(x, CELLS["float32"].as_pointer()) for x in (a[0], a[2]))
            n = SIDES[4]
            rows = [b.gep(start, [b.mul(a[1], I64(r))]) for r in range(n)]
            for first in range(0, len(places), n):
                group = places[first : first + n]
                partial_mask = ir.Constant(ir.VectorType(I1, n), [c < len(group) for c in range(n)])
                mask = None if len(group) == n else partial_mask
                at = [b.gep(row, [I64(first)]) for row in rows]
                columns = transposed(b, [elements(b, x, "float32", n, mask).v for x in at])
                for place, column in zip(group, columns):
                    store(b, b.gep(to, [I64(place)]), LlvmValue(b, column), "float32")
            return cx.get_dummy_value()

        return types.void(*[types.intp] * 3), emit

    return spread_rows


__all__ = ["Nest", "Node", "Operand", "Reduced", "Stored", "vector_nest"]


@dataclass(slots=True)
class _RowVectors:
    """A vector of every row: its position, its lanes, and values by node."""

    i: Any
    mask: Any
    scalars: Values
    vectors: Values

    def copy(self) -> _RowVectors:
        """Return a copy, to which more values can be added."""
        return replace(self, scalars=dict(self.scalars), vectors=dict(self.vectors))


class TransposedMaps(Loops):
    """An emitter of the order "turned": `y[m, l] = f(x[l, m], ...)`, with vectors along l."""

    def __init__(self, b: Any, nest: Nest, arguments: Sequence[Any]) -> None:
        """Create an emitter, with memory for the columns of transposed blocks."""
        super().__init__(b, nest, arguments)
        every = range(len(nest.nodes))
        self.blocks = {n: self._room(nest.nodes[n]) for n in every if self._is_turned(n)}
        self.moving = self._moving()
        self.still = [n for n in every if n not in self.moving]

    def _is_turned(self, n: int) -> bool:
        node = self.nest.nodes[n]
        return node.op == "load" and self.nest.operands[node.args[0]].turned

    def _room(self, node: Node) -> Any:
        """Allocate the columns of a block."""
        lanes, dtype = self.nest.lanes, self.nest.operands[node.args[0]].dtype
        kind = ir.ArrayType(ir.VectorType(CELLS[dtype], lanes), lanes)
        return cgutils.alloca_once(self.b, kind)

    def _moving(self) -> list[int]:
        """Return the nodes whose values differ along the loop before the vectors', in order."""
        moving: list[int] = []
        for n, node in enumerate(self.nest.nodes):
            operand = self.nest.operands[node.args[0]] if node.op in ("load", "index") else None
            own = operand is not None and operand.steps[-2] != 0
            if own or any(a in moving for a in children(node)):
                moving.append(n)
        return moving

    def write(self) -> None:
        """Emit blocks of the two loops, the longer one inside."""
        rows, along = self.nest.counts
        if rows is not None and (along is None or along > rows):
            self.each_vector(
                0, lambda j, rows_left: self.each_vector(1, self.blocks_of_row(j, rows_left))
            )
        else:
            self.each_vector(1, self.blocks_of_vector)

    def blocks_of_row(self, j: Any, rows_left: Any) -> Callable[[Any, Any], None]:
        """Return an emitter of the blocks that begin at a row."""
        return lambda i, left: self.block(j, rows_left, self.row_vectors(i, left))

    def blocks_of_vector(self, i: Any, left: Any) -> None:
        """Emit the blocks that hold the same vector of each row."""
        shared = self.row_vectors(i, left)
        self.each_vector(0, lambda j, rows_left: self.block(j, rows_left, shared))

    def each_vector(self, loop: int, body: Callable[[Any, Any], None]) -> None:
        """Emit the body for every full vector of a loop, and for the remainder with its count."""
        b, lanes, count, constant_count = (
            self.b,
            self.nest.lanes,
            self.counts[loop],
            self.nest.counts[loop],
        )
        full_vectors = self.opaque(b.and_(count, I64(-lanes)))
        self.loop(full_vectors, lanes, lambda i: body(i, None))
        if constant_count is None or constant_count % lanes:
            left = b.sub(count, full_vectors)
            with b.if_then(b.icmp_signed(">", left, I64(0))):
                body(full_vectors, left)

    def row_vectors(self, i: Any, left: Any) -> _RowVectors:
        """Return the values that all rows share at one vector of each."""
        vector = _RowVectors(i, None if left is None else self.mask(left), {}, {})
        self.compute(self.still, vector, [I64(0), i])
        return vector

    def block(self, j: Any, rows_left: Any, shared: _RowVectors) -> None:
        """Emit one block: transposed operands are loaded first, then a row is mapped at a time."""
        b = self.b
        for n, place in self.blocks.items():
            for k, column in enumerate(self.columns(n, j, rows_left, shared)):
                b.store(column, b.gep(place, [I64(0), I64(k)]))

        def row(m: Any) -> None:
            own, place = shared.copy(), [b.add(j, m), shared.i]
            self.compute(self.moving, own, place, m)
            self.store_values(own.vectors, place, own.mask)

        self.loop(self.opaque(I64(self.nest.lanes) if rows_left is None else rows_left), 1, row)

    def columns(self, n: int, j: Any, rows_left: Any, shared: _RowVectors) -> list[Any]:
        """Return a transposed block; lanes past the end repeat its last row."""
        b, (operand,) = self.b, self.nest.nodes[n].args
        dtype, end = self.nest.operands[operand].dtype, b.sub(self.counts[-1], I64(1))
        keep = None if rows_left is None else self.mask(rows_left)
        rows = []
        for k in range(self.nest.lanes):
            at = b.add(shared.i, I64(k))
            if shared.mask is not None:
                at = b.select(b.icmp_signed("<", at, end), at, end)
            rows.append(elements(b, self.at(operand, [j, at]), dtype, self.nest.lanes, keep).v)
        return transposed(b, rows)

    def compute(
        self, nodes: list[int], vector: _RowVectors, place: Counters, m: Any = None
    ) -> None:
        """Compute nodes, in every lane where vectors need them; `m` is the row of a block."""
        b, lanes, vectors = self.b, self.nest.lanes, vector.vectors
        for n in nodes:
            node = self.nest.nodes[n]
            if n in self.blocks:
                column = LlvmValue(b, b.load(b.gep(self.blocks[n], [I64(0), m])))
                vectors[n] = decoded(column, self.nest.operands[node.args[0]].dtype)
            elif node.varies:
                vectors[n] = self.value(node, vectors, place, lanes, vector.mask)
            else:
                scalar = vector.scalars[n] = self.value(node, vector.scalars, place, 0, None)
                if n in self.spread:
                    vectors[n] = splat(scalar, lanes)


WRITERS: dict[str, type[Reductions | TransposedMaps]] = {
    "turned": TransposedMaps,
    "stacked": RowBatchedReductions,
}


def vector_nest(nest: Nest) -> Any:
    """Return a function of a tuple of integers that runs a nest."""
    return of_integers(nest.arguments, lambda b, arguments: _write(b, nest, arguments))


def _write(b: Any, nest: Nest, arguments: list[Any]) -> None:
    """Emit the nest, twice if results may be non-temporal: at aligned addresses, and at others."""
    writer = WRITERS.get(nest.order, Reductions)(b, nest, arguments)
    past = [s.operand for s in nest.stores if s.past]
    if not past:
        writer.write()
        return
    none = [I64(0)] * len(nest.counts)
    starts = [b.ptrtoint(writer.at(n, none), I64) for n in past]
    bits = starts[0]
    for other in starts[1:]:
        bits = b.or_(bits, other)
    aligned = b.icmp_unsigned("==", b.and_(bits, I64(BORDER_BYTES - 1)), I64(0))
    with b.if_else(aligned) as (then, otherwise):
        with then:
            writer.past = True
            writer.write()
        with otherwise:
            writer.past = False
            writer.write()
