"""Square blocks of elements of any size, transposed in registers.

float32 blocks may also store each of their rows at a place of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.math.llvm_value import LlvmValue
from explorer.codegen.cpu.vector.vector_operations import CELLS, elements, store
from explorer.tile.rewriting.vectorise import SIDES

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


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
