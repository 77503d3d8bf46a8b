"""A turn of a loop: its body, once for each trip that the turn makes."""

from __future__ import annotations

from explorer.grinder.model import UTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Names, Scope
from explorer.grinder.unroll import joined
from explorer.ir.calls import Loop


class Turn:
    """A turn of a loop that grows trip by trip: its parts, the state that it leaves, the rows that
    its trips stack, and their counts. `own` are the body's parameters as the loop holds them.
    """

    def __init__(self, bodies: Bodies, loop: Loop, scope: Scope, path: str, own: Names) -> None:
        self.bodies, self.loop, self.scope = bodies, loop, scope
        self.path, self.own = path, own
        self.params = tuple(own.values())[2:]
        self.made, self.counts = self.params, tuple(own.values())[:1]
        self.body: tuple[UTask, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self.go_on()

    @property
    def trips(self) -> int:
        """How many it makes."""
        return len(self.rows)

    def go_on(self) -> None:
        """Another trip, which begins with what the one before made."""
        path, own, values = f"{self.path}/", dict(self.own), self.bodies.values
        if self.rows:
            path = f"{path}+{self.trips}/"
            count, _, *states = own
            first = values.by_name[own[count]]
            own[count] = values.define(f"{path}{count}", first.type, origin=first.origin)
            own |= zip(states, self.made, strict=True)
            self.counts = (*self.counts, own[count])
        e = self.loop
        parts, (self.going, *made) = self.bodies.inline(e.body, e.args, self.scope, path, own)
        self.body = joined((*self.body, *parts)) if self.rows else parts
        self.made, rows = tuple(made[: len(e.state)]), made[len(e.state) :]
        self.rows.append(tuple(rows))
