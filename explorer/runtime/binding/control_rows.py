"""Rows of branches, loops and recursions.

A recursion has one body, and calls that lead into it from outside and from itself. Every open call
has a frame. A register counts the open calls except the outermost, and the addresses in a frame
depend on it: they are set anew wherever it changes.

Where units make calls of their own, all units run the outermost call together. Its independent
calls are distributed to the units. Each unit has a copy of the body and a stack of frames behind
those of the previous unit: its register counts on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from explorer.grinder import BranchTask, CallTask, LoopTask, RecursionTask, Straight, UTask
from explorer.grinder.model import key_of
from explorer.grinder.tree import arm_needs_barrier, loop_needs_barrier
from explorer.runtime.binding.launch_code import LaunchInputs
from explorer.runtime.binding.unit_rows import Addresses, Places, UnitRows
from explorer.runtime.device_program import instructions as isa

Body = tuple[Places, list[Places], list[Places]]  # its entry, its returns, its calls


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


class CallRows:
    """Emitter of the recursions of one launch; `words` is the size of a unit's stack."""

    def __init__(
        self,
        inputs: LaunchInputs,
        rows: UnitRows,
        addresses: Addresses,
        parts: Callable[[Sequence[UTask]], None],
    ) -> None:
        """Create an emitter to these rows; `parts` emits a body."""
        self.inputs, self.rows, self.addresses, self.parts = inputs, rows, addresses, parts
        self.words = 0
        self.recursions: list[tuple[str, int]] = []
        self.open: dict[str, OpenRecursion] = {}

    def recursion(self, task: RecursionTask) -> None:
        """Emit the outermost call, and the body after it."""
        rows = self.rows
        if self.inputs.stacks(task.name) > 1:
            self.distributed(task)
            return
        outside = rows.participants
        if self.inputs.is_alone(task.name):
            rows.barrier()
            rows.take(range(1))
        self.recursions.append((task.function, self.inputs.depth(task.name)))
        register = self.addresses.begin(task.name)
        opened = self.open[task.name] = OpenRecursion(task, register, len(self.recursions))
        rows.emit(isa.LET, register, -1)
        self.addresses.point(task.name)
        self.call(opened, task.args, task.results)
        over, entry = rows.emit(isa.JUMP), rows.here()
        self.addresses.point(task.name)
        rows.synchronised = True
        self.parts(task.body)
        rows.barrier()
        back = rows.emit(isa.RETURN, register)
        self.close(opened, entry, back)
        for places in (over, *opened.checks):
            rows.aim(places, 1 if places is over else 4, rows.here())
        rows.take(outside)
        rows.synchronised = False
        if self.inputs.is_alone(task.name):
            rows.barrier()
        rows.emit(isa.QUIT)

    def distributed(self, task: RecursionTask) -> None:
        """Emit the outermost call of all units, and a body for each unit's own calls."""
        rows, every = self.rows, self.rows.participants
        self.recursions.append((task.function, self.inputs.depth(task.name)))
        register = self.addresses.begin(task.name)
        opened = self.open[task.name] = OpenRecursion(
            task, register, len(self.recursions), stack=-1
        )
        rows.mark(rows.emit(isa.LET, register, 0), "call", task.binding)
        self.addresses.point(task.name)
        rows.barrier()
        for param, arg in zip(task.params, task.args, strict=True):
            rows.copy(
                self.addresses.slot(param), self.addresses.slot(arg), self.inputs.bytes_of(param)
            )
        self.parts(task.body)
        rows.barrier()
        for result, output in zip(task.results, task.outputs, strict=True):
            rows.copy(
                self.addresses.slot(result),
                self.addresses.slot(output),
                self.inputs.bytes_of(result),
            )
        over = rows.emit(isa.JUMP)
        bodies = [self.own_body(opened, unit) for unit in range(self.inputs.stacks(task.name))]
        for unit, entry in enumerate(bodies):
            rows.take(range(unit, unit + 1))
            self.link(opened, entry, [rows for of, rows in opened.forks if of == unit], unit)
        rows.take(every)
        for places, column in ((over, 1), *((rows, 4) for rows in opened.checks)):
            rows.aim(places, column, rows.here())
        self.words += (1 + opened.saved) * self.inputs.depth(task.name)
        del self.open[task.name]
        self.addresses.end(task.name)
        rows.synchronised, rows.least = False, 0
        rows.emit(isa.QUIT)

    def own_body(self, opened: OpenRecursion, unit: int) -> Body:
        """Emit a unit's own body; return its entry, its returns, and its calls of itself.

        A call too deep ends all open calls of the unit.
        """
        rows, task, register = self.rows, opened.task, opened.register
        rows.take(range(unit, unit + 1))
        outside, opened.checks = opened.checks, []
        opened.stack, opened.calls = unit, []
        rows.least = unit * self.inputs.depth(task.name)
        entry = rows.here()
        self.addresses.point(task.name)
        rows.synchronised = True
        self.parts(task.body)
        backs = [rows.emit(isa.RETURN, register)]
        for places in opened.checks:
            rows.aim(places, 4, rows.here())
        rows.emit(isa.LET, register, rows.least + 1)
        backs.append(rows.emit(isa.RETURN, register))
        opened.checks = outside
        return entry, backs, opened.calls

    def recursive_calls(self, recursion: str, calls: Sequence[CallTask]) -> None:
        """Emit independent calls in the body."""
        opened = self.open[recursion]
        if opened.stack < 0:
            self.fork(opened, calls)
            return
        for task in calls:
            self.call(opened, task.args, task.results)

    def fork(self, opened: OpenRecursion, calls: Sequence[CallTask]) -> None:
        """Distribute calls to the units, each with its own body; a barrier follows."""
        rows, task, register = self.rows, opened.task, opened.register
        every, units, depth = (
            rows.participants,
            self.inputs.stacks(task.name),
            self.inputs.depth(task.name),
        )
        opened.checks.append(rows.emit(isa.DEEPEST, register, depth - 1, opened.fault))
        rows.barrier()
        opened.saved = max(opened.saved, self.addresses.registers - register - 1)
        for unit in range(min(units, len(calls))):
            rows.take(range(unit, unit + 1))
            for call in calls[unit::units]:
                for param, arg in zip(task.params, call.args, strict=True):
                    into = self.addresses.own_slot(param, task.name)
                    rows.copy(into, self.addresses.slot(arg), self.inputs.bytes_of(param))
                rows.emit(isa.LET, register, unit * depth)
                opened.forks.append((unit, rows.emit(isa.CALL, register)))
                rows.least = unit * depth
                rows.mark(opened.forks[-1][1], "call", task.binding)
                rows.emit(isa.LET, register, 0)
                for name in (task.name, *self.addresses.inside(task.name)):
                    self.addresses.point(name)
                for result, output in zip(call.results, task.outputs, strict=True):
                    out_of = self.addresses.own_slot(output, task.name)
                    rows.copy(self.addresses.slot(result), out_of, self.inputs.bytes_of(result))
        rows.take(every)
        rows.synchronised, rows.least = False, 0
        rows.barrier()
        rows.emit(isa.QUIT)

    def call(self, opened: OpenRecursion, args: Sequence[str], results: Sequence[str]) -> None:
        """Emit a call: copy the arguments to the next frame, then the results from it."""
        rows, task, register = self.rows, opened.task, opened.register
        most = (1 + opened.stack) * self.inputs.depth(task.name) - 1
        opened.checks.append(rows.emit(isa.DEEPEST, register, most, opened.fault))
        rows.barrier()
        for param, arg in zip(task.params, args, strict=True):
            into = self.addresses.next_slot(param, task.name)
            rows.copy(into, self.addresses.slot(arg), self.inputs.bytes_of(param))
        rows.barrier()
        opened.calls.append(rows.emit(isa.CALL, register))
        rows.mark(opened.calls[-1], "call", task.binding)
        opened.saved = max(opened.saved, self.addresses.registers - register - 1)
        for name in (task.name, *self.addresses.inside(task.name)):
            self.addresses.point(name)
        rows.synchronised = True
        for result, output in zip(results, task.outputs, strict=True):
            out_of = self.addresses.next_slot(output, task.name)
            rows.copy(self.addresses.slot(result), out_of, self.inputs.bytes_of(result))

    def close(self, opened: OpenRecursion, entry: Places, back: Places) -> None:
        """Set the targets of calls and the stack's place, which are known at the end."""
        words = 1 + opened.saved
        self.link(opened, (entry, [back], opened.calls), (), 0)
        self.words += words * self.inputs.depth(opened.task.name)
        del self.open[opened.task.name]
        self.addresses.end(opened.task.name)

    def link(self, opened: OpenRecursion, body: Body, forks: Sequence[Places], unit: int) -> None:
        """Link the calls of a body, and those from outside, to it, and its returns back."""
        rows, words = self.rows, 1 + opened.saved
        entry, backs, calls = body
        begin = self.words - unit * self.inputs.depth(opened.task.name) * words
        for places in (*calls, *forks):
            rows.aim(places, 2, entry)
            rows.aim(places, 3, [begin] * len(places))
            rows.aim(places, 4, [words] * len(places))
        for back in backs:
            rows.aim(back, 2, [begin] * len(back))
            rows.aim(back, 3, [words] * len(back))


@dataclass(slots=True)
class OpenRecursion:
    """A recursion whose body is being emitted: its register, its fault, and its rows.

    `saved` is the largest number of registers that a call must save, `calls` are the rows of its
    calls, `checks` those that check the depth. `stack` is the unit whose body it is, or -1 for the
    outermost call of all units; `forks` are the rows that call a unit's own body.
    """

    task: RecursionTask
    register: int
    fault: int
    saved: int = 0
    stack: int = 0
    forks: list[tuple[int, Places]] = field(default_factory=list)
    calls: list[Places] = field(default_factory=list)
    checks: list[Places] = field(default_factory=list)
