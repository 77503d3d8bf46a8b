"""The rows of branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from explorer.grinder import BranchTask, LoopTask, Straight, UTask
from explorer.grinder.scalar_barriers import arm_needs_barrier, loop_needs_barrier
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.given import Given
from explorer.runtime.binding.launches.unit_rows import Places, UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.timeline import key_of


class ControlRows:
    """Writes branches and loops; `parts` writes what is inside of them."""

    def __init__(
        self,
        given: Given,
        rows: UnitRows,
        addresses: Addresses,
        parts: Callable[[Sequence[UTask]], None],
    ) -> None:
        self.given, self.rows, self.addresses, self.parts = given, rows, addresses, parts

    def branch(self, task: BranchTask) -> None:
        """One side or the other."""
        begin = self._decide(task.cond)
        self.rows.mark(begin, "branch", task.binding)
        self._arm(task, 1)
        over = self.rows.all(isa.JUMP)
        self.rows.aim(begin, 2, self.rows.here())
        self.rows.apart = True
        self._arm(task, 2)
        self.rows.aim(over, 1, self.rows.here())

    def _arm(self, task: BranchTask, made: int) -> None:
        parts = task.then if made == 1 else task.orelse
        results = [(row[0], row[made]) for row in task.results]
        self._looked(arm_needs_barrier(task, made, self.given.program.values), parts)
        self.parts(parts)
        self.rows.meet()
        for result, value in results:
            self._copy(result, value)
        self.rows.meet()

    def loop(self, task: LoopTask) -> None:
        """The body, as long as there are trips to make and it goes on."""
        rows, slot = self.rows, self.addresses.slot
        rows.meet()
        self._enter(task)
        rows.meet()
        register = self.addresses.begin(task.name)
        if not task.rest:  # else the count goes on
            rows.mark(rows.all(isa.LET, register, 0), "enter", task.binding)
        exits: list[tuple[Places, int]] = []
        if task.cond and not task.checked:
            exits.append((self._decide(task.cond), 2))
            self._looked(True)
        top = rows.here()
        if task.trip:
            exits.append((rows.all(isa.LOOP, register, slot(task.trip), 0, len(task.later)), 3))
        self.addresses.point(task.name)
        for ahead, count in enumerate(task.counts):
            rows.all(isa.STORE, slot(count), register, ahead, int(rows.alone))
        rows.apart = False
        if task.checked:
            exits.append((self._decide(task.going), 2))
            self._looked(loop_needs_barrier(task, self.given.program.values), task.body)
        rows.meet()
        self.parts(task.body)
        self._carry(task)
        over = rows.all(isa.NEXT, register, len(task.later))
        rows.mark(over, "trip", task.binding, task.turn)
        rows.aim(rows.all(isa.JUMP), 1, top)
        for places, column in exits:
            rows.aim(places, column, rows.here())
        self.addresses.end(task.name)
        rows.apart = False

    def _enter(self, task: LoopTask) -> None:
        """The values that are carried, as they are before the first trip."""
        for c in task.carried:
            if c.initial:
                self._copy(c.param, c.initial)
            else:
                self._truth(c.param)
        if not task.checked and not task.rest:
            self._truth(task.going)

    def _carry(self, task: LoopTask) -> None:
        """The rows, and the carried values, from one trip to the next; all are read before one is
        written, and before the trips are counted on.
        """
        self.rows.meet()
        for s in task.stacked:
            self._copy(s.row, s.value)
        for c in task.carried:
            if c.staging:
                self._copy(c.staging, c.result)
        self.rows.meet()
        for c in task.carried:
            self._copy(c.param, c.staging or c.result)
        root = self.given.program.root
        counts = {root(count).name for count in task.counts}
        if any(root(c.result).name in counts for c in task.carried):
            self.rows.meet()  # before unit 0 counts on

    def _decide(self, name: str) -> Places:
        """Each unit looks at a scalar, and goes elsewhere where it is zero; where they do."""
        self.rows.meet()
        register = self.addresses.registers  # one that no open loop has
        self.rows.all(isa.LOOK, register, self.addresses.slot(name), self._width(name))
        return self.rows.all(isa.BRANCH, register)

    def _looked(self, meets: bool, parts: Sequence[UTask] = ()) -> None:
        """All have looked before one goes on, where that must be so; also where nothing of what
        comes first is left to do under this binding.
        """
        first = parts[0] if parts else None
        idle = isinstance(first, Straight) and not self.given.schedules[key_of(first)].programs
        self.rows.apart = not (meets or idle)
        self.rows.meet()

    def _width(self, name: str) -> int:
        """How many bytes a scalar has that is looked at."""
        return 1 if self.given.program.values[name].type.element == "bool" else 8

    def _copy(self, target: str, source: str) -> None:
        """Unless they are the same bytes."""
        values, slot = self.given.program.values, self.addresses.slot
        if not values[target].is_at(values[source]):
            self.rows.copy(slot(target), slot(source), self.given.bytes_of(target))

    def _truth(self, name: str) -> None:
        self.rows.fill(self.addresses.slot(name), 1)
