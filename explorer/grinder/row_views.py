"""Rows that move with a loop: what a trip reads of x[t], and what it writes as row t of a result.

x_t = gather(x, t)          ->  x_t is x, t rows in: nothing is copied
y_t = f(x_t); ys = stacked  ->  y_t is ys, t rows in: it is written where it shall lie
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Stacked,
    Straight,
    UTask,
    Value,
)
from explorer.ir.affine import Affine
from explorer.ir.kernel import Apply, Const, Expr, Read
from explorer.ir.patterns.row_copy import row_copy
from explorer.ir.program import Constant
from explorer.ir.shapes.dims import Dim, ShapeEnv, product, simplify
from explorer.ir.types import Tensor

Moves = tuple[tuple[str, Dim], ...]


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """A number that is `first` in the first trip, and `step` more in each other."""

    first: Dim
    step: int = 0

    def least(self, trips: Dim) -> Dim:
        """The smallest that it is in so many trips."""
        return simplify(self.first + min(self.step, 0) * (trips - 1))

    def greatest(self, trips: Dim) -> Dim:
        """The largest that it is in so many trips."""
        return simplify(self.first + max(self.step, 0) * (trips - 1))


class RowReader:
    """Finds the kernels of a loop's body that copy one row of a value, of known number."""

    def __init__(
        self,
        values: dict[str, Value],
        constants: Mapping[str, Constant],
        env: ShapeEnv,
        loop: str,
        counts: Sequence[str],
        trips: Dim,
        kept: Collection[str],
    ) -> None:
        self.values, self.constants, self.env = values, constants, env
        self.loop, self.trips = loop, trips
        self.ahead = {count: n for n, count in enumerate(counts)}  # of the loop's own count
        self.kept = kept
        self.made: dict[str, OperatorTask] = {}

    def without_copies(self, body: Sequence[UTask]) -> tuple[UTask, ...]:
        """The body without such kernels: their results lie in the value itself.

        Nothing in the body writes what is read so, nor over a row that was read.
        """
        operators = list(_operators(body))
        self.made = {o.results[0]: o for o in operators if len(o.results) == 1}
        written = [self.values[name].root for name in _written(body)]
        found: set[str] = set()
        for operator in operators:
            row = self.row(operator)
            if row is None:
                continue
            result, source, at = operator.results[0], *row
            alone = written.count(result) == 1 and self.values[result].root == result
            if alone and self.values[source].root not in {*written, *self.kept}:
                self.lay(result, source, at)
                found.add(operator.name)
        return _without(body, found) if found else tuple(body)

    def lay(self, result: str, source: str, at: InductionVariable) -> None:
        """Let a value, and all its views, be such rows of another."""
        whole = self.values[source]
        row = product(whole.type.dims[1:])
        moves = ((self.loop, simplify(at.step * row)),) if at.step else ()
        begin = simplify(whole.offset + at.first * row)
        place = replace(whole, offset=begin, moves=_joined(whole.moves, moves))
        relocate(self.values, result, place)

    def row(self, operator: OperatorTask) -> tuple[str, InductionVariable] | None:
        """The value of which a kernel copies one row, and the row's number."""
        kernel = operator.call.kernel
        found = row_copy(kernel)
        if found is None:
            return None
        source = operator.args[kernel.inputs.index(found.tensor)]
        whole, part = self.values[source].type, self.values[operator.results[0]].type
        spec = kernel.spec(found.tensor).shape
        if spec != whole.dims or (whole.dims[1:], whole.dtype) != (part.dims, part.dtype):
            return None
        at = self.index(found.at, given=dict(zip(kernel.inputs, operator.args, strict=True)))
        return (source, at) if at is not None and self.is_in(at, whole.dims[0]) else None

    def is_in(self, at: InductionVariable, rows: Dim) -> bool:
        """Whether there is such a row in every trip."""
        above = simplify(rows - 1 - at.greatest(self.trips))
        return self.low(at.least(self.trips)) >= 0 and self.low(above) >= 0

    def low(self, dim: Dim) -> int:
        return self.env.bounds(dim)[0]

    def index(self, index: Affine | Expr, given: Mapping[str, str]) -> InductionVariable | None:
        """What an index is in each trip, where that is a line."""
        match index:
            case Affine():
                return None if index.terms else InductionVariable(index.const)
            case Const(value):
                return (
                    InductionVariable(int(value))
                    if isinstance(value, (int, np.integer))
                    else InductionVariable(value)
                )
            case Read(tensor, (), None):
                return self.scalar(given.get(tensor, ""))
            case Apply("where", (Apply("lt", (value, Const(0))), below, above)):
                at = self.index(value, given)
                if at is None:
                    return None
                if self.low(at.least(self.trips)) >= 0:
                    return self.index(above, given)
                is_below = self.low(simplify(-1 - at.greatest(self.trips))) >= 0
                return self.index(below, given) if is_below else None
            case Apply("add" | "sub" as op, (left, right)):
                return self.sum(op, self.index(left, given), self.index(right, given))
        return None

    def sum(
        self, op: str, a: InductionVariable | None, b: InductionVariable | None
    ) -> InductionVariable | None:
        if a is None or b is None:
            return None
        sign = 1 if op == "add" else -1
        return InductionVariable(simplify(a.first + sign * b.first), a.step + sign * b.step)

    def scalar(self, name: str) -> InductionVariable | None:
        """What an int64 scalar is: the count of the loop, or made of it and of constants."""
        value = self.values.get(name)
        if value is None or value.type.dtype != "int64" or value.type.elements != 1:
            return None
        if value.root in self.ahead and not value.moves:
            return InductionVariable(self.ahead[value.root], 1)
        constant = self.constants.get(name)
        if constant is not None:
            return InductionVariable(int(constant.array.item()))
        maker = self.made.get(name)
        if maker is None or len(maker.call.kernel.computes) != 1 or maker.call.kernel.updates:
            return None
        (compute,) = maker.call.kernel.computes
        given = dict(zip(maker.call.kernel.inputs, maker.args, strict=True))
        return None if compute.reduce or compute.axes else self.index(compute.expr, given)


def stack_rows(
    values: dict[str, Value], loop: str, stacked: Stacked, ahead: int, own: Collection[str]
) -> Stacked:
    """The rows of a result, written where they shall lie if they are buffers of the body's own; of
    the trip that is so many `ahead` of the loop's count.
    """
    result, made = stacked.result, stacked.value
    found, whole = values[made], values[result]
    kind = Tensor(whole.type.dims[1:], whole.type.dtype)
    row, size = f"{loop}/row {ahead} of {result}", product(kind.dims)
    begin = simplify(whole.offset + ahead * size)
    place = replace(whole, name=row, type=kind, offset=begin, moves=((loop, size),))
    buffer = values[found.root]
    values[row] = place
    is_whole = found.is_at(buffer) and found.type.bytes == buffer.type.bytes
    is_own = buffer.name.startswith(f"{loop}/") and buffer.name not in own
    if is_whole and is_own and found.type == kind and buffer.home == whole.home == "buffer":
        relocate(values, buffer.name, place)
        made = row
    return Stacked(result, made, row)


def relocate(values: dict[str, Value], name: str, place: Value) -> None:
    """Let a root, and all its views, lie in another one from `place` on."""
    for other, value in values.items():
        if value.root == name:
            values[other] = replace(
                value,
                root=place.root,
                offset=simplify(place.offset + value.offset),
                home=place.home,
                dims=place.dims,
                moves=_joined(place.moves, value.moves),
            )


def _joined(outer: Moves, inner: Moves) -> Moves:
    """The moves of a part of what moves itself; of one loop they add up."""
    found = dict(outer)
    for loop, step in inner:
        found[loop] = simplify(found.get(loop, 0) + step)
    return tuple(found.items())


def _operators(parts: Sequence[UTask]) -> Iterator[OperatorTask]:
    for part in parts:
        match part:
            case Straight(operators):
                yield from operators
            case LoopTask(body=body) | RecursionTask(body=body):
                yield from _operators(body)
            case BranchTask(then=then, orelse=orelse):
                yield from _operators((*then, *orelse))
            case LibraryTask() | CallTask():
                continue


def _written(parts: Sequence[UTask]) -> Iterator[str]:
    """Every value that some part writes."""
    for part in parts:
        match part:
            case Straight(operators):
                yield from (name for o in operators for name in o.results)
            case LibraryTask(results=results) | CallTask(results=results):
                yield from results
            case RecursionTask(params=params, body=body, results=results):
                yield from (*params, *results)
                yield from _written(body)
            case LoopTask():
                yield from (*part.counts, part.going)
                yield from (name for c in part.carried for name in (c.param, c.staging) if name)
                yield from (s.result for s in part.stacked)
                yield from _written(part.body)
            case BranchTask():
                yield from (row[0] for row in part.results)
                yield from _written((*part.then, *part.orelse))


def _without(parts: Sequence[UTask], gone: Collection[str]) -> tuple[UTask, ...]:
    out: list[UTask] = []
    for part in parts:
        match part:
            case Straight(operators):
                kept = tuple(o for o in operators if o.name not in gone)
                out += [Straight(kept)] if kept else []
            case LoopTask() | RecursionTask():
                out.append(replace(part, body=_without(part.body, gone)))
            case BranchTask(then=then, orelse=orelse):
                arms = _without(then, gone), _without(orelse, gone)
                out.append(replace(part, then=arms[0], orelse=arms[1]))
            case LibraryTask() | CallTask():
                out.append(part)
    return tuple(out)
