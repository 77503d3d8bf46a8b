"""Reductions along rows, for as many rows at once as a vector has lanes.

No row waits for another one. Each row leaves a vector of partial results. These are reduced
together: in each of four steps two vectors of some rows each become one of twice as many, and at
the end there is one lane a row.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from explorer.codegen.cpu.math.llvm_value import LlvmValue
from explorer.codegen.cpu.vector.nest import Reduced
from explorer.codegen.cpu.vector.nest_loops import I32, I64, Counters
from explorer.codegen.cpu.vector.nest_reductions import Reductions, combined
from explorer.codegen.cpu.vector.vector_operations import KINDS, store
from explorer.ir.combiners import COMBINERS
from explorer.ir.dtypes import is_float


class RowBatchedReductions(Reductions):
    """An emitter of the order "stacked": its first loop is over rows, at most as many as lanes."""

    def write(self) -> None:
        """Emit the nest."""
        nest, b, lanes = self.nest, self.b, self.nest.lanes
        sums = self.accumulators(nest.unroll)
        kinds = [ir.VectorType(KINDS[f.dtype], lanes) for f in nest.reductions]
        stacks = [cgutils.alloca_once(b, k, size=I64(lanes)) for k in kinds]
        self.notes = {
            n: cgutils.alloca_once(b, ir.IntType(lanes))
            for n, f in enumerate(nest.reductions)
            if COMBINERS[f.combiner].picks and is_float(f.dtype)
        }
        self.loop(self.counts[0], 1, lambda i: self.row(i, sums, stacks))
        mask = None if nest.counts[0] == lanes else self.mask(self.counts[0])
        for f, stack in zip(nest.reductions, stacks, strict=True):
            rows = [LlvmValue(b, b.load(b.gep(stack, [I64(n)]))) for n in range(lanes)]
            where = self.at(f.operand, [I64(0)] * len(nest.counts))
            store(b, where, self.rows_reduced(f, rows), nest.operands[f.operand].dtype, mask)

    def row(self, i: Any, sums: list[list[Any]], stacks: list[Any]) -> None:
        """Leave the partial results of one row on the stacks."""
        b, nest = self.b, self.nest
        self.begin(sums)
        for note in self.notes.values():
            b.store(ir.IntType(nest.lanes)(0), note)

        def inner(lead: Counters) -> None:
            row_values = self.uniform([*lead, I64(0)])
            self.vectors(nest.unroll, lambda at, m: self.points(row_values, lead, at, m, sums))

        self.nested([i], len(nest.counts) - 1, inner)
        for n, (f, places) in enumerate(zip(nest.reductions, sums, strict=True)):
            x = self.combine_accumulators(f, places)
            if n in self.notes:
                has_nan = b.bitcast(b.load(self.notes[n]), ir.VectorType(ir.IntType(1), nest.lanes))
                x = LlvmValue(b, has_nan).where(float("nan"), x)
            b.store(x.v, b.gep(stacks[n], [i]))

    def rows_reduced(self, f: Reduced, rows: list[LlvmValue]) -> LlvmValue:
        """Return one vector with all lanes of each row reduced, in the rows' order."""
        while len(rows) > 1:
            half = len(rows) // 2
            first, second = (_halves(self.nest.lanes, half, start) for start in (0, half))
            rows = [
                combined(f, self.picked(x, y, first), self.picked(x, y, second))
                for x, y in zip(rows[:half], rows[half:], strict=True)
            ]
        return rows[0]

    def picked(self, x: LlvmValue, y: LlvmValue, order: list[int]) -> LlvmValue:
        """Return lanes of two vectors by number, those of the second after those of the first."""
        pick = ir.Constant(ir.VectorType(I32, self.nest.lanes), order)
        return LlvmValue(self.b, self.b.shuffle_vector(x.v, y.v, pick))


def _halves(lanes: int, half: int, start: int) -> list[int]:
    """Return the first halves of all groups of `2 * half` lanes, from two vectors in turns.

    If `start` is `half`, return their second halves.
    """
    order: list[int] = []
    for group in range(start, lanes, 2 * half):
        order += [*range(group, group + half), *range(lanes + group, lanes + group + half)]
    return order
