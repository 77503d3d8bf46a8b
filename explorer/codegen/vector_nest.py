"""Loops over vectors as LLVM code: elements are stored and folded in one pass, what remains of a
row is masked.

Three orders. "along": the vectors lie along what is folded, in several accumulators, whose lanes
are folded at the end. "across": they lie across, and a block of results stays in registers for the
whole fold. "rows": across as well, but the results lie in memory, and several rows are folded at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from explorer.codegen.terms import Term, constant
from explorer.codegen.vector_operations import (
    CELLS,
    KINDS,
    beyond,
    extreme,
    load,
    operation,
    splat,
    store,
)
from explorer.ir.dtypes import computed, integer_limits, is_float

__all__ = ["Folded", "Nest", "Node", "Operand", "Stored", "vector_nest"]

I32, I64 = ir.IntType(32), ir.IntType(64)
Counters = list[Any]
Values = dict[int, Term]
STRAIGHT = 8  # vectors of a row that are written out without a loop
ROWS = 8  # that are folded at a time in the order "rows"


@dataclass(frozen=True, slots=True)
class Operand:
    """What is read or written: the address of its first element, or a number where `dtype` is "".

    `steps`: how far one turn of each loop goes, in elements, the vectors' loop last; None: the
    distance is passed.
    """

    dtype: str
    steps: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One value: `op` is "load" or "index" (of the operand `args[0]`), "const" (`value`), or a
    function of the nodes `args`, whose first is a `dtype`.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    value: str = ""
    varies: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A node's value goes to an operand at every point."""

    operand: int
    node: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A node's values are folded, and the result goes to an operand."""

    operand: int
    node: int
    combiner: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops with `counts` turns, the one over vectors last; None: the count is passed."""

    order: str
    lanes: int
    unroll: int
    counts: tuple[int | None, ...]
    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    stores: tuple[Stored, ...]
    folds: tuple[Folded, ...]

    @property
    def arguments(self) -> int:
        """How many numbers are passed: where operands begin, then counts, then steps."""
        steps = sum(o.steps.count(None) for o in self.operands)
        return len(self.operands) + self.counts.count(None) + steps


def vector_nest(nest: Nest) -> Any:
    """A function of a tuple of integers that runs a nest."""

    @intrinsic
    def run(context: Any, numbers: Any) -> Any:
        def emit(cx: Any, b: Any, sig: Any, args: Any) -> Any:
            given = [b.extract_value(args[0], n) for n in range(nest.arguments)]
            _Writer(b, nest, given).write()
            return cx.get_dummy_value()

        return types.void(types.UniTuple(types.intp, nest.arguments)), emit

    return run


def identity(f: Folded) -> Any:
    """What a fold begins with."""
    if f.combiner in ("sum", "prod"):
        one = int(f.combiner == "prod")
        return float(one) if is_float(f.dtype) else one
    if is_float(f.dtype):
        return float("-inf") if f.combiner == "max" else float("inf")
    return integer_limits(f.dtype)[f.combiner == "min"]


def combined(f: Folded, x: Term, y: Term) -> Term:
    """Two results of a fold as one; sums and products in any order."""
    if f.combiner in ("max", "min"):
        return extreme(f.combiner, x, y)
    name = {"sum": "add", "prod": "mul"}[f.combiner]
    if not is_float(f.dtype):
        return Term(x.b, getattr(x.b, name)(x.v, y.v))
    flags = ("reassoc", "nsz", "contract")
    return Term(x.b, getattr(x.b, f"f{name}")(x.v, y.v, flags=flags))


class _Writer:
    """Writes one nest where the builder stands."""

    def __init__(self, b: Any, nest: Nest, given: Sequence[Any]) -> None:
        self.b, self.nest, rest = b, nest, list(given)
        self.bases = [self._base(o, rest.pop(0)) for o in nest.operands]
        self.counts = [I64(n) if n is not None else rest.pop(0) for n in nest.counts]
        self.steps = [
            [I64(s) if s is not None else rest.pop(0) for s in o.steps] for o in nest.operands
        ]
        needed = {a for n in nest.nodes if n.varies for a in _children(n)}
        self.notes: dict[int, Any] = {}  # by fold: which lanes met a NaN
        self.spread = needed | {s.node for s in nest.stores} | {f.node for f in nest.folds}

    def _base(self, o: Operand, value: Any) -> Any:
        return self.b.inttoptr(value, CELLS[o.dtype].as_pointer()) if o.dtype else value

    def write(self) -> None:
        """The whole nest."""
        match self.nest.order:
            case "along":
                self.along()
            case "across":
                self.across()
            case "rows":
                self.rows()
            case _:
                self.scan()

    # Loops.

    def loop(self, stop: Any, step: int, body: Callable[[Any], None], start: Any = None) -> None:
        """The body for each `start, start + step, ...` below `stop`."""
        b, first = self.b, self.b.block
        top, inside, after = (b.append_basic_block(n) for n in ("top", "inside", "after"))
        b.branch(top)
        b.position_at_end(top)
        i = b.phi(I64)
        i.add_incoming(start if start is not None else I64(0), first)
        b.cbranch(b.icmp_signed("<", i, stop), inside, after)
        b.position_at_end(inside)
        body(i)
        i.add_incoming(b.add(i, I64(step)), b.block)
        b.branch(top)
        b.position_at_end(after)

    def nested(self, counters: Counters, depth: int, body: Callable[[Counters], None]) -> None:
        """The body for every turn of the first `depth` loops."""
        if len(counters) == depth:
            body(counters)
            return
        self.loop(self.counts[len(counters)], 1, lambda i: self.nested([*counters, i], depth, body))

    def vectors(self, unroll: int, body: Callable[[list[Any], Any], None]) -> None:
        """The body for the positions of all vectors, `unroll` at a time; a last one has a mask."""
        b, lanes, count = self.b, self.nest.lanes, self.counts[-1]
        known = self.nest.counts[-1]
        if known is not None and known <= STRAIGHT * lanes:
            full = known // lanes
            for first in range(0, full, unroll):
                body([I64(k * lanes) for k in range(first, min(first + unroll, full))], None)
            if known % lanes:
                keep = [int(n < known % lanes) for n in range(lanes)]
                mask = ir.Constant(ir.VectorType(ir.IntType(1), lanes), keep)
                body([I64(full * lanes)], mask)
            return
        block = lanes * unroll
        many = self.opaque(b.and_(count, I64(-block)))
        whole = b.and_(count, I64(-lanes))
        self.loop(many, block, lambda i: body(self._positions(i, unroll), None))
        if unroll > 1:
            self.loop(whole, lanes, lambda i: body([i], None), many)
        if known is None or known % lanes:
            with b.if_then(b.icmp_signed(">", count, whole)):
                body([whole], self._mask(b.sub(count, whole)))

    def opaque(self, value: Any) -> Any:
        """The same number, which LLVM does not know: it does not write such a loop out."""
        kind = ir.FunctionType(I64, [I64])
        return self.b.asm(kind, "", "=r,0", [value], False)

    def _positions(self, i: Any, unroll: int) -> list[Any]:
        return [self.b.add(i, I64(k * self.nest.lanes)) if k else i for k in range(unroll)]

    def _mask(self, left: Any) -> Any:
        few = splat(Term(self.b, self.b.trunc(left, I32)), self.nest.lanes)
        return self.b.icmp_unsigned("<", self._lanes(I32), few.v)

    def _lanes(self, kind: Any) -> Any:
        return ir.Constant(ir.VectorType(kind, self.nest.lanes), list(range(self.nest.lanes)))

    # Values.

    def offset(self, operand: int, counters: Counters) -> Any:
        """How far an operand's element lies from its first one."""
        b, total = self.b, None
        pairs = zip(counters, self.steps[operand], self.nest.operands[operand].steps, strict=True)
        for counter, step, known in pairs:
            if known == 0:
                continue
            part = counter if known == 1 else b.mul(counter, step)
            total = part if total is None else b.add(total, part)
        return total if total is not None else I64(0)

    def at(self, operand: int, counters: Counters) -> Any:
        """The address of an operand's element."""
        return self.b.gep(self.bases[operand], [self.offset(operand, counters)])

    def uniform(self, counters: Counters) -> Values:
        """The values that are the same for a whole row, in every lane where vectors need them."""
        found: Values = {}
        for n, node in enumerate(self.nest.nodes):
            if not node.varies:
                found[n] = self.value(node, found, counters, 0, None)
        return found | {
            -1 - n: splat(x, self.nest.lanes) for n, x in found.items() if n in self.spread
        }

    def varying(self, known: Values, counters: Counters, mask: Any) -> Values:
        """The values of one vector."""
        found = {-1 - n: x for n, x in known.items() if n < 0}
        for n, node in enumerate(self.nest.nodes):
            if node.varies:
                found[n] = self.value(node, found, counters, self.nest.lanes, mask)
        return found

    def value(self, node: Node, known: Values, counters: Counters, lanes: int, mask: Any) -> Term:
        """One node's value."""
        b = self.b
        match node.op:
            case "load":
                dtype = self.nest.operands[node.args[0]].dtype
                return load(b, self.at(node.args[0], counters), dtype, lanes, mask)
            case "index":
                return self._index(node.args[0], counters, lanes)
            case "const":
                return Term(b, constant(KINDS[computed(node.dtype)], _number(node)))
        args = [known[a] for a in node.args]
        exponent = float.fromhex(node.value) if node.value else None
        return operation(node.op, computed(node.dtype), args, exponent)

    def _index(self, operand: int, counters: Counters, lanes: int) -> Term:
        b = self.b
        first = Term(b, b.add(self.bases[operand], self.offset(operand, counters)))
        if not lanes:
            return first
        steps = splat(Term(b, self.steps[operand][-1]), lanes)
        return splat(first, lanes) + steps * Term(b, self._lanes(I64))

    def stored(self, values: Values, counters: Counters, mask: Any) -> None:
        """What is stored at every point."""
        for s in self.nest.stores:
            dtype = self.nest.operands[s.operand].dtype
            store(self.b, self.at(s.operand, counters), values[s.node], dtype, mask)

    # Folds.

    def start(self, f: Folded, lanes: int) -> Term:
        kind = KINDS[f.dtype]
        return Term(self.b, constant(ir.VectorType(kind, lanes) if lanes else kind, identity(f)))

    def room(self, count: int) -> list[list[Any]]:
        """Accumulators, `count` vectors a fold, that LLVM keeps in registers."""
        kinds = [ir.VectorType(KINDS[f.dtype], self.nest.lanes) for f in self.nest.folds]
        return [[cgutils.alloca_once(self.b, k) for _ in range(count)] for k in kinds]

    def sum_up(self, values: list[Values], mask: Any, sums: list[list[Any]]) -> None:
        """Several vectors into the accumulators; NaN is noted apart, for two vectors at once."""
        for n, (f, places) in enumerate(zip(self.nest.folds, sums, strict=True)):
            found = [v[f.node] for v in values]
            if mask is not None:
                found = [Term(self.b, mask).where(x, self.start(f, self.nest.lanes)) for x in found]
            for place, x in zip(places, found, strict=False):
                total = Term(self.b, self.b.load(place))
                one = beyond(f.combiner, x, total) if n in self.notes else combined(f, total, x)
                self.b.store(one.v, place)
            if n in self.notes:
                for x, y in zip(found[::2], [*found[1::2], found[-1]], strict=False):
                    self.note(self.notes[n], x, y)

    def note(self, place: Any, x: Term, y: Term) -> None:
        """Remember whether one of two vectors has a NaN."""
        b, kind = self.b, ir.IntType(self.nest.lanes)
        either = b.bitcast(b.fcmp_unordered("uno", x.v, y.v), kind)
        b.store(b.or_(b.load(place), either), place)

    def begin(self, sums: list[list[Any]]) -> None:
        """Every accumulator is as if nothing was folded."""
        for f, places in zip(self.nest.folds, sums, strict=True):
            for place in places:
                self.b.store(self.start(f, self.nest.lanes).v, place)

    def points(
        self, known: Values, lead: Counters, at: list[Any], mask: Any, sums: list[list[Any]]
    ) -> None:
        """Several vectors: all that is read is read before anything is stored."""
        places = [[*lead, i] for i in at]
        found = [self.varying(known, p, mask) for p in places]
        for values, place in zip(found, places, strict=True):
            self.stored(values, place, mask)
        self.sum_up(found, mask, sums)

    def along(self) -> None:
        nest, one = self.nest, ir.IntType(self.nest.lanes)
        sums = self.room(nest.unroll)
        self.begin(sums)
        for n, f in enumerate(nest.folds):
            if f.combiner in ("max", "min") and is_float(f.dtype):
                self.notes[n] = cgutils.alloca_once(self.b, one)
                self.b.store(one(0), self.notes[n])

        def row(lead: Counters) -> None:
            known = self.uniform([*lead, I64(0)])
            self.vectors(nest.unroll, lambda at, m: self.points(known, lead, at, m, sums))

        self.nested([], len(nest.counts) - 1, row)
        for n, (f, places) in enumerate(zip(nest.folds, sums, strict=True)):
            total = self.lanes_folded(f, self.together(f, places))
            if n in self.notes:
                noted = self.b.icmp_unsigned("!=", self.b.load(self.notes[n]), one(0))
                total = Term(self.b, noted).where(float("nan"), total)
            store(self.b, self.bases[f.operand], total, nest.operands[f.operand].dtype)

    def together(self, f: Folded, places: list[Any]) -> Term:
        """All accumulators of a fold as one, in pairs."""
        found = [Term(self.b, self.b.load(p)) for p in places]
        while len(found) > 1:
            half = len(found) // 2
            pairs = [self.without_nan(f, found[k], found[k + half]) for k in range(half)]
            found = [*pairs, *found[2 * half :]]
        return found[0]

    def lanes_folded(self, f: Folded, x: Term) -> Term:
        """All lanes of a vector as one number."""
        b, kind = self.b, x.v.type
        half = self.nest.lanes // 2
        while half:
            order = [(n + half) % self.nest.lanes for n in range(self.nest.lanes)]
            pick = ir.Constant(ir.VectorType(I32, self.nest.lanes), order)
            other = Term(b, b.shuffle_vector(x.v, ir.Constant(kind, ir.Undefined), pick))
            x = self.without_nan(f, x, other)
            half //= 2
        return Term(b, b.extract_element(x.v, I32(0)))

    def without_nan(self, f: Folded, x: Term, y: Term) -> Term:
        """Two results as one, where NaN was noted apart."""
        extremes = f.combiner in ("max", "min")
        return beyond(f.combiner, x, y) if extremes else combined(f, x, y)

    def across(self) -> None:
        nest = self.nest
        sums = self.room(nest.unroll)

        def block(at: list[Any], mask: Any) -> None:
            self.begin(sums)
            self.nested([], len(nest.counts) - 1, lambda lead: inner(lead, at, mask))
            for f, places in zip(nest.folds, sums, strict=True):
                for place, i in zip(places, at, strict=False):
                    lead = [I64(0)] * (len(nest.counts) - 1)
                    where, value = self.at(f.operand, [*lead, i]), Term(self.b, self.b.load(place))
                    store(self.b, where, value, nest.operands[f.operand].dtype, mask)

        def inner(lead: Counters, at: list[Any], mask: Any) -> None:
            self.points(self.uniform([*lead, I64(0)]), lead, at, mask, sums)

        self.vectors(nest.unroll, block)

    def rows(self) -> None:
        depth = len(self.nest.counts) - 2
        self.vectors(1, lambda at, m: self.clear([I64(0)] * (depth + 1), at[0], m))
        self.nested([], depth, self.blocks)

    def clear(self, lead: Counters, i: Any, mask: Any) -> None:
        """The results of one vector as if nothing was folded."""
        for f in self.nest.folds:
            dtype, where = self.nest.operands[f.operand].dtype, self.at(f.operand, [*lead, i])
            store(self.b, where, self.start(f, self.nest.lanes), dtype, mask)

    def blocks(self, lead: Counters) -> None:
        """The last loop but that of vectors, several turns at a time, then those that remain."""
        count = self.counts[-2]
        many = self.b.and_(count, I64(-ROWS))
        self.loop(many, ROWS, lambda i: self.several(lead, i, ROWS))
        self.loop(count, 1, lambda i: self.several(lead, i, 1), many)

    def several(self, lead: Counters, i: Any, count: int) -> None:
        """Some rows folded into the results."""
        turns = [[*lead, self.b.add(i, I64(k))] for k in range(count)]
        known = [self.uniform([*t, I64(0)]) for t in turns]

        def vector(at: list[Any], mask: Any) -> None:
            places = [[*t, at[0]] for t in turns]
            found = [self.varying(k, p, mask) for k, p in zip(known, places, strict=True)]
            for values, place in zip(found, places, strict=True):
                self.stored(values, place, mask)
            for f in self.nest.folds:
                where, dtype = self.at(f.operand, places[0]), self.nest.operands[f.operand].dtype
                total = load(self.b, where, dtype, self.nest.lanes, mask)
                parts = [values[f.node] for values in found]
                while len(parts) > 1:
                    half = len(parts) // 2
                    parts = [combined(f, parts[k], parts[k + half]) for k in range(half)]
                store(self.b, where, combined(f, total, parts[0]), dtype, mask)

        self.vectors(1, vector)

    # A running fold: the prefix of each vector, and what was folded before it.

    def scan(self) -> None:
        b, lanes, (f,) = self.b, self.nest.lanes, self.nest.folds
        carry = cgutils.alloca_once(b, ir.VectorType(KINDS[f.dtype], lanes))
        b.store(self.start(f, lanes).v, carry)
        known = self.uniform([I64(0)])
        if "backwards" not in self.nest.order:
            self.vectors(1, lambda at, m: self.prefix(known, at[0], m, carry))
            return
        count = self.counts[-1]
        end, left = b.sub(count, I64(lanes)), b.and_(count, I64(lanes - 1))
        whole = self.opaque(b.and_(count, I64(-lanes)))
        self.loop(whole, lanes, lambda i: self.prefix(known, b.sub(end, i), None, carry))
        with b.if_then(b.icmp_signed(">", left, I64(0))):
            self.prefix(known, I64(0), self._mask(left), carry)

    def prefix(self, known: Values, at: Any, mask: Any, carry: Any) -> None:
        """One vector of results; what they carry on is left in every lane."""
        b, lanes, (f,) = self.b, self.nest.lanes, self.nest.folds
        back = "backwards" in self.nest.order
        x, none = self.varying(known, [at], mask)[f.node], self.start(f, lanes)
        x = x if mask is None else Term(b, mask).where(x, none)
        step = 1
        while step < lanes:
            x = combined(f, x, self.shifted(x, none, -step if back else step))
            step *= 2
        before = Term(b, b.load(carry))
        x = combined(f, before, x)
        last = Term(b, b.extract_element(x.v, I32(0 if back else lanes - 1)))
        b.store(splat(last, lanes).v, carry)
        if "exclusive" in self.nest.order:
            x = self.shifted(x, before, -1 if back else 1)
        store(b, self.at(f.operand, [at]), x, self.nest.operands[f.operand].dtype, mask)

    def shifted(self, x: Term, filler: Term, by: int) -> Term:
        """Lanes moved up by some places, or down; those that are free are the filler's."""
        lanes = self.nest.lanes
        places = (n - by for n in range(lanes))
        pick = [p if 0 <= p < lanes else lanes for p in places]
        order = ir.Constant(ir.VectorType(I32, lanes), pick)
        return Term(x.b, x.b.shuffle_vector(x.v, filler.v, order))


def _children(node: Node) -> tuple[int, ...]:
    return () if node.op in ("load", "index", "const") else node.args


def _number(node: Node) -> Any:
    if is_float(node.dtype):
        return float.fromhex(node.value)
    return int(node.value)
