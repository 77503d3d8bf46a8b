"""Maps and reductions of a nest: along a row, across rows, running, and for many rows at once.

Reductions along rows take as many rows at once as a vector has lanes where no row waits for another
one. Each row leaves a vector of partial results. These are reduced together: in each of four steps
two vectors of some rows each become one of twice as many, and at the end there is one lane a row.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from explorer.codegen.cpu.llvm_value import LlvmValue, constant
from explorer.codegen.cpu.nest import I32, I64, Counters, Loops, Reduced, Values
from explorer.codegen.cpu.vector_operations import KINDS, beyond, load, operation, splat, store
from explorer.ir.combiners import COMBINERS
from explorer.ir.dtypes import is_float

ROWS_AT_ONCE = 8  # reduced at a time in the order "rows"; chosen, no measurement kept


def identity(f: Reduced) -> Any:
    """Return the initial value of a reduction."""
    return COMBINERS[f.combiner].identity(f.dtype)


def combined(f: Reduced, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Combine two results of a reduction; sums and products in any order."""
    step = COMBINERS[f.combiner].step
    if step not in ("add", "mul") or not is_float(f.dtype):
        return operation(step, f.dtype, (x, y))
    flags = ("reassoc", "nsz", "contract")
    return LlvmValue(x.b, getattr(x.b, f"f{step}")(x.v, y.v, flags=flags))


class Reductions(Loops):
    """An emitter of the orders of reductions, and of maps along a row."""

    notes: dict[int, Any]  # by reduction: the lanes that had a NaN

    def write(self) -> None:
        """Emit the nest."""
        self.notes = {}
        match self.nest.order:
            case "along":
                self.along()
            case "across":
                self.across()
            case "rows":
                self.rows()
            case _:
                self.scan()

    def start(self, f: Reduced, lanes: int) -> LlvmValue:
        """Return the initial value of a reduction, in every lane."""
        kind = KINDS[f.dtype]
        return LlvmValue(
            self.b, constant(ir.VectorType(kind, lanes) if lanes else kind, identity(f))
        )

    def accumulators(self, count: int) -> list[list[Any]]:
        """Allocate accumulators, `count` vectors a reduction, that LLVM keeps in registers."""
        kinds = [ir.VectorType(KINDS[f.dtype], self.nest.lanes) for f in self.nest.reductions]
        return [[cgutils.alloca_once(self.b, k) for _ in range(count)] for k in kinds]

    def sum_up(self, values: list[Values], mask: Any, sums: list[list[Any]]) -> None:
        """Reduce several vectors into the accumulators; NaN is noted apart, two vectors at once."""
        for n, (f, places) in enumerate(zip(self.nest.reductions, sums, strict=True)):
            reduced = [v[f.node] for v in values]
            if mask is not None:
                reduced = [
                    LlvmValue(self.b, mask).where(x, self.start(f, self.nest.lanes))
                    for x in reduced
                ]
            for place, x in zip(places, reduced, strict=False):
                total = LlvmValue(self.b, self.b.load(place))
                updated = beyond(f.combiner, x, total) if n in self.notes else combined(f, total, x)
                self.b.store(updated.v, place)
            if n in self.notes:
                for x, y in zip(reduced[::2], [*reduced[1::2], reduced[-1]], strict=False):
                    self.note(self.notes[n], x, y)

    def note(self, place: Any, x: LlvmValue, y: LlvmValue) -> None:
        """Record whether one of two vectors has a NaN."""
        b, kind = self.b, ir.IntType(self.nest.lanes)
        either = b.bitcast(b.fcmp_unordered("uno", x.v, y.v), kind)
        b.store(b.or_(b.load(place), either), place)

    def begin(self, sums: list[list[Any]]) -> None:
        """Initialise every accumulator."""
        for f, places in zip(self.nest.reductions, sums, strict=True):
            for place in places:
                self.b.store(self.start(f, self.nest.lanes).v, place)

    def points(
        self, row_values: Values, lead: Counters, at: list[Any], mask: Any, sums: list[list[Any]]
    ) -> None:
        """Emit several vectors: all loads come before any store.

        A single vector stores each value as soon as it is computed.
        """
        places = [[*lead, i] for i in at]
        is_single = len(at) == 1
        vector_values = [self.varying(row_values, p, mask, is_single) for p in places]
        if not is_single:
            for values, place in zip(vector_values, places, strict=True):
                self.store_values(values, place, mask)
        self.sum_up(vector_values, mask, sums)

    def along(self) -> None:
        """Emit a nest whose vectors lie along the reduced axis."""
        nest, note_type = self.nest, ir.IntType(self.nest.lanes)
        sums = self.accumulators(nest.unroll)
        self.begin(sums)
        for n, f in enumerate(nest.reductions):
            if COMBINERS[f.combiner].picks and is_float(f.dtype):
                self.notes[n] = cgutils.alloca_once(self.b, note_type)
                self.b.store(note_type(0), self.notes[n])

        def row(lead: Counters) -> None:
            row_values = self.uniform([*lead, I64(0)])
            self.vectors(nest.unroll, lambda at, m: self.points(row_values, lead, at, m, sums))

        self.nested([], len(nest.counts) - 1, row)
        for n, (f, places) in enumerate(zip(nest.reductions, sums, strict=True)):
            total = self.lanes_reduced(f, self.combine_accumulators(f, places))
            if n in self.notes:
                noted = self.b.icmp_unsigned("!=", self.b.load(self.notes[n]), note_type(0))
                total = LlvmValue(self.b, noted).where(float("nan"), total)
            store(self.b, self.bases[f.operand], total, nest.operands[f.operand].dtype)

    def combine_accumulators(self, f: Reduced, places: list[Any]) -> LlvmValue:
        """Combine all accumulators of a reduction, in pairs."""
        totals = [LlvmValue(self.b, self.b.load(p)) for p in places]
        while len(totals) > 1:
            half = len(totals) // 2
            pairs = [self.without_nan(f, totals[k], totals[k + half]) for k in range(half)]
            totals = [*pairs, *totals[2 * half :]]
        return totals[0]

    def lanes_reduced(self, f: Reduced, x: LlvmValue) -> LlvmValue:
        """Reduce all lanes of a vector to one number."""
        b, kind = self.b, x.v.type
        half = self.nest.lanes // 2
        while half:
            order = [(n + half) % self.nest.lanes for n in range(self.nest.lanes)]
            pick = ir.Constant(ir.VectorType(I32, self.nest.lanes), order)
            other = LlvmValue(b, b.shuffle_vector(x.v, ir.Constant(kind, ir.Undefined), pick))
            x = self.without_nan(f, x, other)
            half //= 2
        return LlvmValue(b, b.extract_element(x.v, I32(0)))

    def without_nan(self, f: Reduced, x: LlvmValue, y: LlvmValue) -> LlvmValue:
        """Combine two results, where NaN was noted apart."""
        return beyond(f.combiner, x, y) if COMBINERS[f.combiner].picks else combined(f, x, y)

    def across(self) -> None:
        """Emit a nest whose vectors lie across the reduced axis."""
        nest = self.nest
        sums = self.accumulators(nest.unroll)

        def block(at: list[Any], mask: Any) -> None:
            self.begin(sums)
            self.nested([], len(nest.counts) - 1, lambda lead: inner(lead, at, mask))
            for f, places in zip(nest.reductions, sums, strict=True):
                for place, i in zip(places, at, strict=False):
                    lead = [I64(0)] * (len(nest.counts) - 1)
                    where, value = (
                        self.at(f.operand, [*lead, i]),
                        LlvmValue(self.b, self.b.load(place)),
                    )
                    store(self.b, where, value, nest.operands[f.operand].dtype, mask)

        def inner(lead: Counters, at: list[Any], mask: Any) -> None:
            self.points(self.uniform([*lead, I64(0)]), lead, at, mask, sums)

        self.vectors(nest.unroll, block)

    def rows(self) -> None:
        """Emit a nest with results in memory, reduced several rows at a time."""
        depth = len(self.nest.counts) - 2
        self.vectors(1, lambda at, m: self.clear([I64(0)] * (depth + 1), at[0], m))
        self.nested([], depth, self.blocks)

    def clear(self, lead: Counters, i: Any, mask: Any) -> None:
        """Initialise the results of one vector."""
        for f in self.nest.reductions:
            dtype, where = self.nest.operands[f.operand].dtype, self.at(f.operand, [*lead, i])
            store(self.b, where, self.start(f, self.nest.lanes), dtype, mask)

    def blocks(self, lead: Counters) -> None:
        """Emit the loop before the vectors' one, several trips at a time, then the rest."""
        count = self.counts[-2]
        many = self.b.and_(count, I64(-ROWS_AT_ONCE))
        self.loop(many, ROWS_AT_ONCE, lambda i: self.reduce_rows(lead, i, ROWS_AT_ONCE))
        self.loop(count, 1, lambda i: self.reduce_rows(lead, i, 1), many)

    def reduce_rows(self, lead: Counters, i: Any, count: int) -> None:
        """Reduce some rows into the results."""
        turns = [[*lead, self.b.add(i, I64(k))] for k in range(count)]
        row_values = [self.uniform([*t, I64(0)]) for t in turns]

        def vector(at: list[Any], mask: Any) -> None:
            places = [[*t, at[0]] for t in turns]
            vector_values = [
                self.varying(k, p, mask) for k, p in zip(row_values, places, strict=True)
            ]
            for values, place in zip(vector_values, places, strict=True):
                self.store_values(values, place, mask)
            for f in self.nest.reductions:
                where, dtype = self.at(f.operand, places[0]), self.nest.operands[f.operand].dtype
                total = load(self.b, where, dtype, self.nest.lanes, mask)
                parts = [values[f.node] for values in vector_values]
                while len(parts) > 1:
                    half = len(parts) // 2
                    parts = [combined(f, parts[k], parts[k + half]) for k in range(half)]
                store(self.b, where, combined(f, total, parts[0]), dtype, mask)

        self.vectors(1, vector)

    # Scans: the prefix of each vector, combined with the carry.

    def scan(self) -> None:
        """Emit a running reduction."""
        b, lanes, (f,) = self.b, self.nest.lanes, self.nest.reductions
        carry = cgutils.alloca_once(b, ir.VectorType(KINDS[f.dtype], lanes))
        b.store(self.start(f, lanes).v, carry)
        row_values = self.uniform([I64(0)])
        if "backwards" not in self.nest.order:
            self.vectors(1, lambda at, m: self.prefix(row_values, at[0], m, carry))
            return
        count = self.counts[-1]
        end, left = b.sub(count, I64(lanes)), b.and_(count, I64(lanes - 1))
        full_vectors = self.opaque(b.and_(count, I64(-lanes)))
        self.loop(
            full_vectors, lanes, lambda i: self.prefix(row_values, b.sub(end, i), None, carry)
        )
        with b.if_then(b.icmp_signed(">", left, I64(0))):
            self.prefix(row_values, I64(0), self.mask(left), carry)

    def prefix(self, row_values: Values, at: Any, mask: Any, carry: Any) -> None:
        """Emit one vector of a running reduction; leave the carry in every lane."""
        b, lanes, (f,) = self.b, self.nest.lanes, self.nest.reductions
        back = "backwards" in self.nest.order
        x, none = self.varying(row_values, [at], mask)[f.node], self.start(f, lanes)
        x = x if mask is None else LlvmValue(b, mask).where(x, none)
        step = 1
        while step < lanes:
            x = combined(f, x, self.shifted(x, none, -step if back else step))
            step *= 2
        before = LlvmValue(b, b.load(carry))
        x = combined(f, before, x)
        last = LlvmValue(b, b.extract_element(x.v, I32(0 if back else lanes - 1)))
        b.store(splat(last, lanes).v, carry)
        if "exclusive" in self.nest.order:
            x = self.shifted(x, before, -1 if back else 1)
        store(b, self.at(f.operand, [at]), x, self.nest.operands[f.operand].dtype, mask)

    def shifted(self, x: LlvmValue, filler: LlvmValue, by: int) -> LlvmValue:
        """Shift lanes up, or down; vacant lanes are the filler's."""
        lanes = self.nest.lanes
        places = (n - by for n in range(lanes))
        pick = [p if 0 <= p < lanes else lanes for p in places]
        order = ir.Constant(ir.VectorType(I32, lanes), pick)
        return LlvmValue(x.b, x.b.shuffle_vector(x.v, filler.v, order))


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
