"""Rows as views that move with a loop: row x[t] that a trip reads, and row t of its output.

x_t = gather(x, t)          ->  x_t is x, t rows in: nothing is copied
y_t = f(x_t); ys = stacked  ->  y_t is ys, t rows in: it is written in place
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    straights,
    written_names,
)
from explorer.ir.affine import Affine
from explorer.ir.dims import Dim, ShapeEnv, product, simplify
from explorer.ir.kernel import Apply, Const, Expr, Read
from explorer.ir.kernels.scatter import row_copy
from explorer.ir.program import Constant
from explorer.ir.types import Tensor

Moves = tuple[tuple[str, Dim], ...]


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """A number that is `first` in the first trip, and grows by `step` with each trip."""

    first: Dim
    step: int = 0

    def least(self, trips: Dim) -> Dim:
        """Return the smallest value in `trips` trips."""
        return simplify(self.first + min(self.step, 0) * (trips - 1))

    def greatest(self, trips: Dim) -> Dim:
        """Return the largest value in `trips` trips."""
        return simplify(self.first + max(self.step, 0) * (trips - 1))


class RowReader:
    """Finder of kernels in a loop's body that copy one row of a value, at a known index."""

    def __init__(
        self,
        values: dict[str, Value],
        constants: Mapping[str, Constant],
        env: ShapeEnv,
        loop: str,
        counts: Sequence[str],
        trips: Dim,
        loop_values: Collection[str],
    ) -> None:
        """Create a reader for a loop; the loop itself overwrites `loop_values`."""
        self.values, self.constants, self.env = values, constants, env
        self.loop, self.trips = loop, trips
        self.ahead = {count: n for n, count in enumerate(counts)}  # trips ahead of the loop's count
        self.loop_values = loop_values
        self.producers: dict[str, OperatorTask] = {}

    def without_copies(self, body: Sequence[UTask]) -> tuple[UTask, ...]:
        """Return the body without row copies; their results become views of the copied value.

        Nothing in the body writes the value that is read so, nor over a row that was read.
        """
        operators = [o for run in straights(body) for o in run.operators]
        self.producers = {o.results[0]: o for o in operators if len(o.results) == 1}
        names = (name for part in body for name in written_names(part) if name)
        written = [self.values[name].root for name in names]
        copies: set[str] = set()
        for operator in operators:
            row = self.row(operator)
            if row is None:
                continue
            result, source, at = operator.results[0], *row
            alone = written.count(result) == 1 and self.values[result].root == result
            if alone and self.values[source].root not in {*written, *self.loop_values}:
                self.alias_row(result, source, at)
                copies.add(operator.name)
        return _without(body, copies) if copies else tuple(body)

    def alias_row(self, result: str, source: str, at: InductionVariable) -> None:
        """Make a value and all its views a row of another value."""
        stack = self.values[source]
        row = product(stack.type.dims[1:])
        moves = ((self.loop, simplify(at.step * row)),) if at.step else ()
        begin = simplify(stack.offset + at.first * row)
        place = replace(stack, offset=begin, moves=_join_moves(stack.moves, moves))
        relocate(self.values, result, place)

    def row(self, operator: OperatorTask) -> tuple[str, InductionVariable] | None:
        """Return the value of which a kernel copies one row, and the row's index."""
        kernel = operator.call.kernel
        copy = row_copy(kernel)
        if copy is None:
            return None
        source = operator.args[kernel.inputs.index(copy.tensor)]
        stack_type, row_type = self.values[source].type, self.values[operator.results[0]].type
        spec = kernel.spec(copy.tensor).shape
        if spec != stack_type.dims or (stack_type.dims[1:], stack_type.dtype) != (
            row_type.dims,
            row_type.dtype,
        ):
            return None
        at = self.index(copy.at, arguments=dict(zip(kernel.inputs, operator.args, strict=True)))
        return (source, at) if at is not None and self.is_in(at, stack_type.dims[0]) else None

    def is_in(self, at: InductionVariable, rows: Dim) -> bool:
        """Return True if the row exists in every trip."""
        above = simplify(rows - 1 - at.greatest(self.trips))
        return self.low(at.least(self.trips)) >= 0 and self.low(above) >= 0

    def low(self, dim: Dim) -> int:
        """Return the lower bound of an extent."""
        return self.env.bounds(dim)[0]

    def index(self, index: Affine | Expr, arguments: Mapping[str, str]) -> InductionVariable | None:
        """Return an index as a linear function of the trip; None if it is not linear."""
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
                return self.scalar(arguments.get(tensor, ""))
            case Apply("where", (Apply("lt", (value, Const(0))), below, above)):
                at = self.index(value, arguments)
                if at is None:
                    return None
                if self.low(at.least(self.trips)) >= 0:
                    return self.index(above, arguments)
                is_below = self.low(simplify(-1 - at.greatest(self.trips))) >= 0
                return self.index(below, arguments) if is_below else None
            case Apply("add" | "sub" as op, (left, right)):
                return self.sum(op, self.index(left, arguments), self.index(right, arguments))
        return None

    def sum(
        self, op: str, a: InductionVariable | None, b: InductionVariable | None
    ) -> InductionVariable | None:
        """Return the sum or difference of two linear functions; None if either is unknown."""
        if a is None or b is None:
            return None
        sign = 1 if op == "add" else -1
        return InductionVariable(simplify(a.first + sign * b.first), a.step + sign * b.step)

    def scalar(self, name: str) -> InductionVariable | None:
        """Return an int64 scalar as a linear function of the trip; None if it is not linear.

        It is the loop's count, or computed from it and constants.
        """
        value = self.values.get(name)
        if value is None or value.type.dtype != "int64" or value.type.elements != 1:
            return None
        if value.root in self.ahead and not value.moves:
            return InductionVariable(self.ahead[value.root], 1)
        constant = self.constants.get(name)
        if constant is not None:
            return InductionVariable(int(constant.array.item()))
        producer = self.producers.get(name)
        if (
            producer is None
            or len(producer.call.kernel.computes) != 1
            or producer.call.kernel.updates
        ):
            return None
        (compute,) = producer.call.kernel.computes
        arguments = dict(zip(producer.call.kernel.inputs, producer.args, strict=True))
        return None if compute.reduce or compute.axes else self.index(compute.expr, arguments)


def stack_rows(
    values: dict[str, Value], loop: str, stacked: Stacked, ahead: int, own: Collection[str]
) -> Stacked:
    """Make the body's value the row of a stacked result, if it lies in a buffer of the body's own.

    The row is that of the trip `ahead` of the loop's count.
    """
    result, value_name = stacked.result, stacked.value
    value, stack = values[value_name], values[result]
    kind = Tensor(stack.type.dims[1:], stack.type.dtype)
    row, size = f"{loop}/row {ahead} of {result}", product(kind.dims)
    begin = simplify(stack.offset + ahead * size)
    place = replace(stack, name=row, type=kind, offset=begin, moves=((loop, size),))
    buffer = values[value.root]
    values[row] = place
    is_whole = value.is_at(buffer) and value.type.bytes == buffer.type.bytes
    is_own = buffer.name.startswith(f"{loop}/") and buffer.name not in own
    if is_whole and is_own and value.type == kind and buffer.home == stack.home == "buffer":
        relocate(values, buffer.name, place)
        value_name = row
    return Stacked(result, value_name, row)


def relocate(values: dict[str, Value], name: str, place: Value) -> None:
    """Move a root and all its views into another root, from `place` on."""
    for other, value in values.items():
        if value.root == name:
            values[other] = replace(
                value,
                root=place.root,
                offset=simplify(place.offset + value.offset),
                home=place.home,
                dims=place.dims,
                moves=_join_moves(place.moves, value.moves),
            )


def _join_moves(outer: Moves, inner: Moves) -> Moves:
    """Return the moves of a part of a value that moves itself; those of one loop add up."""
    moves = dict(outer)
    for loop, step in inner:
        moves[loop] = simplify(moves.get(loop, 0) + step)
    return tuple(moves.items())


def _without(parts: Sequence[UTask], gone: Collection[str]) -> tuple[UTask, ...]:
    out: list[UTask] = []
    for part in parts:
        match part:
            case Straight(operators):
                remaining = tuple(o for o in operators if o.name not in gone)
                out += [Straight(remaining)] if remaining else []
            case LoopTask() | RecursionTask():
                out.append(replace(part, body=_without(part.body, gone)))
            case BranchTask(then=then, orelse=orelse):
                arms = _without(then, gone), _without(orelse, gone)
                out.append(replace(part, then=arms[0], orelse=arms[1]))
            case LibraryTask() | CallTask():
                out.append(part)
    return tuple(out)
