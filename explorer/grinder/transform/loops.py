"""The tasks of a loop: turns of one trip or several, what is left of them, what they carry."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from explorer.grinder.model import Carried, LoopTask, Stacked, UTask
from explorer.grinder.row_views import RowReader, stack_rows
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.turn import Turn
from explorer.grinder.transform.values import Names, Scope
from explorer.grinder.unroll import fitting, refusal
from explorer.ir.calls import Loop
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, simplify


def loop_tasks(bodies: Bodies, b: Binding, e: Loop, scope: Scope) -> tuple[LoopTask, ...]:
    """The loop; where it makes turns of several trips also what is then left of it."""
    return _Looping(bodies, b, e, scope).tasks()


class _Looping:
    def __init__(self, bodies: Bodies, b: Binding, e: Loop, scope: Scope) -> None:
        self.bodies, self.b, self.e, self.scope = bodies, b, e, scope
        self.values = bodies.values
        self.bound = b.vars[0].name if b.vars else e.body
        self.name = scope.path + self.bound

    def tasks(self) -> tuple[LoopTask, ...]:
        own = self.parameters()
        turn = self.turn(self.name, own)
        trip, cond = ("" if v is None else self.scope.value(v) for v in (self.e.trip, self.e.cond))
        trips, going = self.values.number(trip), tuple(own.values())[1]
        checked = self.values.by_name[turn.going].root != going
        checked = checked and not self.values.is_true(turn.going)
        level, reason = self.bodies.level_of(turn.body, self.name, self.b)
        made_trips = self.unrolled(turn, level, trip, trips, checked)
        reason = f"{reason}; unrolled by {made_trips}" if made_trips > 1 else reason
        results = self.stacked(len(turn.rows[0]))
        made = LoopTask(
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
        loops = [self.finished(made, turn, [*initial, cond], results, trips)]
        if turn.trips > 1 and not (isinstance(trips, int) and trips % turn.trips == 0):
            left = self.turn(f"{self.name}/rest", own)
            rest = replace(
                made, name=f"{self.name}/rest", body=left.body, later=(), rest=turn.trips
            )
            loops.append(self.finished(rest, left, left.params, results, trips))
        self.scope.names.update((var.name, param) for var, param in zip(self.b.vars, turn.params))
        return tuple(loops)

    def parameters(self) -> Names:
        """Buffers for what the body is given anew each trip."""
        own: Names = {}
        function = self.bodies.program.function(self.e.body)
        for param in function.params[: 2 + len(self.e.state)]:
            name, kind = f"{self.name}/{param.name}", self.values.tensor(param)
            own[param.name] = self.values.define(name, kind, origin=self.b.origin)
        return own

    def turn(self, path: str, own: Names) -> Turn:
        return Turn(self.bodies, self.e, self.scope, path, own)

    def unrolled(self, turn: Turn, level: str, trip: str, trips: Dim | None, checked: bool) -> int:
        """Let a turn make as many trips as was asked for, where it can; how many those are."""
        ways = self.bodies.ways
        chosen = ways.chosen.get(self.b.name)
        asked = ways.turn if chosen is None else chosen.chosen.turn
        asked = asked if level == "device" and not self.values.frame else 1
        states = dict(zip(turn.params, turn.made))
        if asked <= 1 or refusal(turn.body, trip, checked, states, self.values.by_name):
            return 1
        asked = fitting(asked, turn.body, trips)
        for _ in range(1, asked):
            turn.go_on()
        return asked

    def stacked(self, count: int) -> tuple[str, ...]:
        """What the loop stacks, in buffers of their own."""
        variables = self.b.vars[len(self.b.vars) - count :]
        return self.values.fresh(variables, self.scope, self.b.origin)

    def finished(
        self,
        loop: LoopTask,
        turn: Turn,
        initial: Sequence[str],
        results: Sequence[str],
        trips: Dim | None,
    ) -> LoopTask:
        """The loop with its rows where they lie, and with what it carries."""
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
        rows = list(zip(turn.params, initial, turn.made))
        if loop.checked:
            rows.append((loop.going, loop.cond, turn.going))
        carried = tuple(self.carry(*row, {r[0] for r in rows}) for row in rows)
        return replace(loop, body=body, carried=carried, stacked=tuple(stacked))

    def read_rows(self, loop: LoopTask, trips: Dim, own: Collection[str]) -> tuple[UTask, ...]:
        """The body, in which rows of what it does not change are read where they lie."""
        program, values = self.bodies.program, self.values.by_name
        last = simplify(trips - len(loop.later))  # a turn begins below it
        reader = RowReader(
            values, program.constants, program.env, loop.name, loop.counts, last, own
        )
        return reader.without_copies(loop.body)

    def carry(self, param: str, initial: str, result: str, params: set[str]) -> Carried:
        """Through a buffer of its own where the result lies in a value that is overwritten too."""
        made = self.values.by_name[result]
        if made.root not in params or made.is_at(self.values.by_name[param]):
            return Carried(param, initial, result)
        kind = self.values.by_name[param].type
        staging = self.values.define(f"{param}/next", kind, origin=made.origin)
        return Carried(param, initial, result, staging)
