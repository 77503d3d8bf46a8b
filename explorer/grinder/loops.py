"""Tasks of loops and branches.

Both arms of a branch are inlined, and each result has one place. A loop may be unrolled: a turn
makes several trips, whose bodies follow each other.

for t in range(n): s = f(s, t)
->  for t in range(0, n - n % 2, 2): s = f(f(s, t), t + 1)
    for t in range(n - n % 2, n): s = f(s, t)

Where a body is a straight run, Rammer schedules those of a turn together: waves cross trips.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from explorer.grinder.model import (
    BranchTask,
    CallTask,
    Carried,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Stacked,
    UTask,
    Value,
    merge_straight_runs,
    nested_parts,
    operators_of,
)
from explorer.grinder.row_views import RowReader, stack_rows
from explorer.grinder.values import Bodies, Names, Scope
from explorer.ir.calls import Branch, Loop
from explorer.ir.dims import Dim, simplify
from explorer.ir.program import Binding

MOST_OPERATORS = 8192  # of a turn: a bound on compile time, chosen


def branch_task(bodies: Bodies, b: Binding, e: Branch, scope: Scope) -> BranchTask:
    """Return the task of a branch.

    A result that both arms have at the same bytes is a view of these; others are copied by each arm
    or written in place.
    """
    values, name = bodies.values, scope.path + b.vars[0].name
    cond = scope.value(e.cond)
    then, then_values = bodies.inline(e.then, e.args, scope, f"{name}/then/")
    orelse, else_values = bodies.inline(e.orelse, e.args, scope, f"{name}/else/")
    rows: list[tuple[str, str, str]] = []
    for var, then_value, else_value in zip(b.vars, then_values, else_values, strict=True):
        if values.by_name[then_value].is_at(values.by_name[else_value]):
            values.view(var, then_value, 0, scope, b.origin)
            continue
        (result,) = values.fresh((var,), scope, b.origin)
        values.write_in_place(result, then_value, f"{name}/then/")
        values.write_in_place(result, else_value, f"{name}/else/")
        rows.append((result, then_value, else_value))
    level, reason = bodies.level_of((*then, *orelse), name, b)
    return BranchTask(
        name, b.vars[0].name, level, reason, cond, then, orelse, tuple(rows), b.origin
    )


def loop_tasks(bodies: Bodies, b: Binding, e: Loop, scope: Scope) -> tuple[LoopTask, ...]:
    """Return the loop and, if it is unrolled, the loop that runs the remaining trips."""
    return _LoopBuilder(bodies, b, e, scope).tasks()


class _LoopBuilder:
    """Builder of the tasks of one loop."""

    def __init__(self, bodies: Bodies, b: Binding, e: Loop, scope: Scope) -> None:
        self.bodies, self.b, self.e, self.scope = bodies, b, e, scope
        self.values = bodies.values
        self.bound = b.vars[0].name if b.vars else e.body
        self.name = scope.path + self.bound

    def tasks(self) -> tuple[LoopTask, ...]:
        """Return the loop and the remainder of its unrolling."""
        own = self.parameters()
        turn = self.turn(self.name, own)
        trip, cond = ("" if v is None else self.scope.value(v) for v in (self.e.trip, self.e.cond))
        trips, going = self.values.number(trip), tuple(own.values())[1]
        checked = self.values.by_name[turn.going].root != going
        checked = checked and not self.values.is_true(turn.going)
        level, reason = self.bodies.level_of(turn.body, self.name, self.b)
        unroll = self.unroll(turn, level, trip, trips, checked)
        reason = f"{reason}; unrolled by {unroll}" if unroll > 1 else reason
        results = self.stacked_buffers(len(turn.rows[0]))
        loop = LoopTask(
            self.name,
            self.bound,
            level,
            reason,
            turn.body,
            trip,
            cond,
            turn.counts[0],
            going,
            checked,
            (),
            (),
            self.b.origin,
            turn.counts[1:],
        )
        initial = [self.scope.value(v) for v in self.e.state]
        loops = [self.finish(loop, turn, [*initial, cond], results, trips)]
        if turn.trips > 1 and not (isinstance(trips, int) and trips % turn.trips == 0):
            remaining = self.turn(f"{self.name}/rest", own)
            remainder = replace(
                loop,
                name=f"{self.name}/rest",
                body=remaining.body,
                later=(),
                remainder_of=turn.trips,
            )
            loops.append(self.finish(remainder, remaining, remaining.params, results, trips))
        self.scope.names.update((var.name, param) for var, param in zip(self.b.vars, turn.params))
        return tuple(loops)

    def parameters(self) -> Names:
        """Return buffers for the parameters that change with each trip."""
        own: Names = {}
        function = self.bodies.program.function(self.e.body)
        for param in function.params[: 2 + len(self.e.state)]:
            name, kind = f"{self.name}/{param.name}", self.values.tensor(param)
            own[param.name] = self.values.define(name, kind, origin=self.b.origin)
        return own

    def turn(self, path: str, own: Names) -> _Turn:
        return _Turn(self.bodies, self.e, self.scope, path, own)

    def unroll(self, turn: _Turn, level: str, trip: str, trips: Dim | None, checked: bool) -> int:
        """Unroll the turn as far as requested and possible; return its number of trips."""
        schedules = self.bodies.schedules
        chosen = schedules.chosen.get(self.b.name)
        factor = schedules.turn if chosen is None else chosen.chosen.unroll
        factor = factor if level == "device" and not self.values.frame else 1
        states = dict(zip(turn.params, turn.state))
        if factor <= 1 or refusal(turn.body, trip, checked, states, self.values.by_name):
            return 1
        factor = fit_turn(factor, turn.body, trips)
        for _ in range(1, factor):
            turn.append_trip()
        return factor

    def stacked_buffers(self, count: int) -> tuple[str, ...]:
        """Return buffers for the values that the loop stacks."""
        variables = self.b.vars[len(self.b.vars) - count :]
        return self.values.fresh(variables, self.scope, self.b.origin)

    def finish(
        self,
        loop: LoopTask,
        turn: _Turn,
        initial: Sequence[str],
        results: Sequence[str],
        trips: Dim | None,
    ) -> LoopTask:
        """Return the loop with its row views and loop-carried values."""
        own = (*turn.counts, loop.going, *turn.params)
        stacked = [Stacked(r, v, "") for rows in turn.rows for r, v in zip(results, rows)]
        body = loop.body
        if loop.level == "device":
            if trips is not None:
                body = self.read_rows(loop, trips, own)
            stacked = [
                stack_rows(self.values.by_name, loop.name, s, n // len(results), own)
                for n, s in enumerate(stacked)
            ]
        rows = list(zip(turn.params, initial, turn.state))
        if loop.checked:
            rows.append((loop.going, loop.cond, turn.going))
        carried = tuple(self.carry(*row, {r[0] for r in rows}) for row in rows)
        return replace(loop, body=body, carried=carried, stacked=tuple(stacked))

    def read_rows(self, loop: LoopTask, trips: Dim, own: Collection[str]) -> tuple[UTask, ...]:
        """Return the body with row copies of loop-invariant values replaced by views."""
        program, values = self.bodies.program, self.values.by_name
        last = simplify(trips - len(loop.later))  # the count at a turn's begin is below it
        reader = RowReader(
            values, program.constants, program.env, loop.name, loop.counts, last, own
        )
        return reader.without_copies(loop.body)

    def carry(self, param: str, initial: str, result: str, params: set[str]) -> Carried:
        """Return a loop-carried value.

        It is staged if its result lies in another value that is overwritten.
        """
        value = self.values.by_name[result]
        if value.root not in params or value.is_at(self.values.by_name[param]):
            return Carried(param, initial, result)
        kind = self.values.by_name[param].type
        staging = self.values.define(f"{param}/next", kind, origin=value.origin)
        return Carried(param, initial, result, staging)


class _Turn:
    """A turn of an unrolled loop that grows trip by trip.

    It holds its parts, the state that it leaves, the rows that its trips stack, and their counts.
    `own` are the body's parameters as the loop holds them.
    """

    def __init__(self, bodies: Bodies, loop: Loop, scope: Scope, path: str, own: Names) -> None:
        """Create a turn of one trip."""
        self.bodies, self.loop, self.scope = bodies, loop, scope
        self.path, self.own = path, own
        self.params = tuple(own.values())[2:]
        self.state, self.counts = self.params, tuple(own.values())[:1]
        self.body: tuple[UTask, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self.append_trip()

    @property
    def trips(self) -> int:
        """The number of trips."""
        return len(self.rows)

    def append_trip(self) -> None:
        """Append a trip that begins with the state of the previous one."""
        path, own, values = f"{self.path}/", dict(self.own), self.bodies.values
        if self.rows:
            path = f"{path}+{self.trips}/"
            count, _, *states = own
            first = values.by_name[own[count]]
            own[count] = values.define(f"{path}{count}", first.type, origin=first.origin)
            own |= zip(states, self.state, strict=True)
            self.counts = (*self.counts, own[count])
        e = self.loop
        parts, (self.going, *outputs) = self.bodies.inline(e.body, e.args, self.scope, path, own)
        self.body = tuple(merge_straight_runs((*self.body, *parts))) if self.rows else parts
        self.state, rows = tuple(outputs[: len(e.state)]), outputs[len(e.state) :]
        self.rows.append(tuple(rows))


def refusal(
    body: Sequence[UTask],
    trip: str,
    checked: bool,
    states: Mapping[str, str],
    values: Mapping[str, Value],
) -> str:
    """Return why a loop cannot be unrolled; "" if it can.

    `states` maps each loop-carried parameter to its value after a trip.
    """
    if checked:
        return "its data may end it before any iteration, so each keeps its guard"
    if not trip:
        return "its number of iterations is unknown"
    operators = list(operators_of(body))
    if not operators:
        return "its body computes nothing"
    if any(isinstance(part, LoopTask) for part in nested_parts(body)):
        return "a loop is inside of it: only innermost loops are unrolled"
    if any(isinstance(part, RecursionTask | CallTask) for part in nested_parts(body)):
        return "a recursion of unknown duration is inside of it"
    names = (name for o in operators for name in _overwritten(o))
    roots = {values[name].root for name in names}
    moved = (s for s in states if s in roots and not values[states[s]].is_at(values[s]))
    overwritten = next(moved, "")
    return (
        f"its body overwrites its state {overwritten}, and continues with another value"
        if overwritten
        else ""
    )


def fit_turn(turn: int, body: Sequence[UTask], trips: Dim | None) -> int:
    """Return the number of trips of a turn: the least of `turn`, trip count and operator limit."""
    count = sum(1 for _ in operators_of(body))
    operator_limit = max(1, MOST_OPERATORS // max(1, count))
    trip_limit = max(1, trips) if isinstance(trips, int) else turn
    return max(1, min(turn, operator_limit, trip_limit))


def _overwritten(operator: OperatorTask) -> list[str]:
    """Return the arguments that a kernel overwrites."""
    kernel = operator.call.kernel
    arguments = dict(zip(kernel.inputs, operator.args, strict=True))
    return [arguments[taken] for _, taken in kernel.updates]
