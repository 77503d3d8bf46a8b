"""Tasks of loops: unrolled turns, their remainder, and loop-carried values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from explorer.grinder.model import Carried, LoopTask, Stacked, UTask
from explorer.grinder.row_views import RowReader, stack_rows
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.turn import Turn
from explorer.grinder.transform.values import Names, Scope
from explorer.grinder.unroll import fit_turn, refusal
from explorer.ir.calls import Loop
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, simplify


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

    def turn(self, path: str, own: Names) -> Turn:
        return Turn(self.bodies, self.e, self.scope, path, own)

    def unroll(self, turn: Turn, level: str, trip: str, trips: Dim | None, checked: bool) -> int:
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
        turn: Turn,
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
