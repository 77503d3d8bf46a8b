"""A turn of a loop: its body, once for each trip that the turn makes."""

from __future__ import annotations

from explorer.grinder.model import UTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Names, Scope
from explorer.grinder.unroll import join_straight_runs
from explorer.ir.calls import Loop


class Turn:
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
        self.body = join_straight_runs((*self.body, *parts)) if self.rows else parts
        self.state, rows = tuple(outputs[: len(e.state)]), outputs[len(e.state) :]
        self.rows.append(tuple(rows))
