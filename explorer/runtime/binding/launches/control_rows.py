"""Rows of branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from explorer.grinder import BranchTask, LoopTask, Straight, UTask
from explorer.grinder.scalar_barriers import arm_needs_barrier, loop_needs_barrier
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.launch_inputs import LaunchInputs
from explorer.runtime.binding.launches.unit_rows import Places, UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.planning.timeline import key_of


class ControlRows:
    """Emitter of branches and loops; `parts` emits their bodies."""

    def __init__(
        self,
        inputs: LaunchInputs,
        rows: UnitRows,
        addresses: Addresses,
        parts: Callable[[Sequence[UTask]], None],
    ) -> None:
        """Create an emitter to these rows."""
        self.inputs, self.rows, self.addresses, self.parts = inputs, rows, addresses, parts

    def branch(self, task: BranchTask) -> None:
        """Emit a branch with both arms."""
        begin = self._decide(task.cond)
        self.rows.mark(begin, "branch", task.binding)
        self._arm(task, 1)
        over = self.rows.emit(isa.JUMP)
        self.rows.aim(begin, 2, self.rows.here())
        self.rows.synchronised = True
        self._arm(task, 2)
        self.rows.aim(over, 1, self.rows.here())

    def _arm(self, task: BranchTask, arm: int) -> None:
        parts = task.then if arm == 1 else task.orelse
        results = [(row[0], row[arm]) for row in task.results]
        self._after_read(arm_needs_barrier(task, arm, self.inputs.program.values), parts)
        self.parts(parts)
        self.rows.barrier()
        for result, value in results:
            self._copy(result, value)
        self.rows.barrier()

    def loop(self, task: LoopTask) -> None:
        """Emit a loop, which runs while trips are left and its condition holds."""
        rows, slot = self.rows, self.addresses.slot
        rows.barrier()
        self._enter(task)
        rows.barrier()
        register = self.addresses.begin(task.name)
        if not task.remainder_of:  # a remainder continues the count
            rows.mark(rows.emit(isa.LET, register, 0), "enter", task.binding)
        exits: list[tuple[Places, int]] = []
        if task.cond and not task.checked:
            exits.append((self._decide(task.cond), 2))
            self._after_read(True)
        top = rows.here()
        if task.trip:
            exits.append((rows.emit(isa.LOOP, register, slot(task.trip), 0, len(task.later)), 3))
        self.addresses.point(task.name)
        for ahead, count in enumerate(task.counts):
            rows.emit(isa.STORE, slot(count), register, ahead, int(rows.alone))
        rows.synchronised = False
        if task.checked:
            exits.append((self._decide(task.going), 2))
            self._after_read(loop_needs_barrier(task, self.inputs.program.values), task.body)
        rows.barrier()
        self.parts(task.body)
        self._carry(task)
        over = rows.emit(isa.NEXT, register, len(task.later))
        rows.mark(over, "trip", task.binding, task.turn)
        rows.aim(rows.emit(isa.JUMP), 1, top)
        for places, column in exits:
            rows.aim(places, column, rows.here())
        self.addresses.end(task.name)
        rows.synchronised = False

    def _enter(self, task: LoopTask) -> None:
        """Emit the initial values of loop-carried values."""
        for c in task.carried:
            if c.initial:
                self._copy(c.param, c.initial)
            else:
                self._set_true(c.param)
        if not task.checked and not task.remainder_of:
            self._set_true(task.going)

    def _carry(self, task: LoopTask) -> None:
        """Emit the copies of stacked rows and loop-carried values from one trip to the next.

        All are read before one is written, and before the trips are counted on.
        """
        self.rows.barrier()
        for s in task.stacked:
            self._copy(s.row, s.value)
        for c in task.carried:
            if c.staging:
                self._copy(c.staging, c.result)
        self.rows.barrier()
        for c in task.carried:
            self._copy(c.param, c.staging or c.result)
        root = self.inputs.program.root
        counts = {root(count).name for count in task.counts}
        if any(root(c.result).name in counts for c in task.carried):
            self.rows.barrier()  # before unit 0 writes the counts

    def _decide(self, name: str) -> Places:
        """Emit the read of a scalar and a branch on zero; return the places of the branch."""
        self.rows.barrier()
        register = self.addresses.registers  # a register that no open loop uses
        self.rows.emit(isa.LOOK, register, self.addresses.slot(name), self._width(name))
        return self.rows.emit(isa.BRANCH, register)

    def _after_read(self, meets: bool, parts: Sequence[UTask] = ()) -> None:
        """Emit a barrier between the reads of a scalar and the next part, if one is needed.

        One is also needed if the first part has no tasks under this binding.
        """
        first = parts[0] if parts else None
        idle = isinstance(first, Straight) and not self.inputs.schedules[key_of(first)].programs
        self.rows.synchronised = not (meets or idle)
        self.rows.barrier()

    def _width(self, name: str) -> int:
        """Return the bytes of a control scalar."""
        return 1 if self.inputs.program.values[name].type.element == "bool" else 8

    def _copy(self, target: str, source: str) -> None:
        """Emit a copy unless both values are the same bytes."""
        values, slot = self.inputs.program.values, self.addresses.slot
        if not values[target].is_at(values[source]):
            self.rows.copy(slot(target), slot(source), self.inputs.bytes_of(target))

    def _set_true(self, name: str) -> None:
        self.rows.fill(self.addresses.slot(name), 1)
