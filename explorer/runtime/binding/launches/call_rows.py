"""The rows of a recursion: its body once, and calls that lead into it from outside and from itself.

Every open call has a frame. A register says how many are open but for the outermost, and the
addresses of what lies in a frame follow it: they are set anew wherever it changes.

Where units make calls of their own, all do the outermost one together. Where it makes calls that do
not need each other, these are dealt to the units, each of which has the body once more, for itself,
and a stack of frames behind those of the unit before: its register counts on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from explorer.grinder import CallTask, RecursionTask, UTask
from explorer.runtime.binding.launches.addresses import Addresses
from explorer.runtime.binding.launches.given import Given
from explorer.runtime.binding.launches.unit_rows import Places, UnitRows
from explorer.runtime.device_program import instructions as isa

Body = tuple[Places, list[Places], list[Places]]  # where it begins, its returns, its calls


@dataclass(slots=True)
class Open:
    """A recursion whose body is being written: its register, its fault, the most registers that a
    call must keep, the rows of its calls, and those that tell whether one is too deep. `stack` is
    whose body that is, or -1 of the outermost call of all units; `forks` are the rows that call a
    unit's own body.
    """

    task: RecursionTask
    register: int
    fault: int
    kept: int = 0
    stack: int = 0
    forks: list[tuple[int, Places]] = field(default_factory=list)
    calls: list[Places] = field(default_factory=list)
    checks: list[Places] = field(default_factory=list)


class CallRows:
    """Writes the recursions of one launch; `words` are those of a unit's stack."""

    def __init__(
        self,
        given: Given,
        rows: UnitRows,
        addresses: Addresses,
        parts: Callable[[Sequence[UTask]], None],
    ) -> None:
        self.given, self.rows, self.addresses, self.parts = given, rows, addresses, parts
        self.words = 0
        self.recursions: list[tuple[str, int]] = []
        self.open: dict[str, Open] = {}

    def recursion(self, task: RecursionTask) -> None:
        """The outermost call, and behind it the body."""
        rows = self.rows
        if self.given.stacks(task.name) > 1:
            self.dealt(task)
            return
        outside = rows.taking
        if self.given.is_alone(task.name):
            rows.meet()
            rows.take(range(1))
        self.recursions.append((task.function, self.given.depth(task.name)))
        register = self.addresses.begin(task.name)
        opened = self.open[task.name] = Open(task, register, len(self.recursions))
        rows.all(isa.LET, register, -1)
        self.addresses.point(task.name)
        self.call(opened, task.args, task.results)
        over, entry = rows.all(isa.JUMP), rows.here()
        self.addresses.point(task.name)
        rows.apart = True
        self.parts(task.body)
        rows.meet()
        back = rows.all(isa.RETURN, register)
        self.close(opened, entry, back)
        for places in (over, *opened.checks):
            rows.aim(places, 1 if places is over else 4, rows.here())
        rows.take(outside)
        rows.apart = False
        if self.given.is_alone(task.name):
            rows.meet()
        rows.all(isa.QUIT)

    def dealt(self, task: RecursionTask) -> None:
        """The outermost call of all units, and behind it a body for each unit's own calls."""
        rows, every = self.rows, self.rows.taking
        self.recursions.append((task.function, self.given.depth(task.name)))
        register = self.addresses.begin(task.name)
        opened = self.open[task.name] = Open(task, register, len(self.recursions), stack=-1)
        rows.mark(rows.all(isa.LET, register, 0), "call", task.binding)
        self.addresses.point(task.name)
        rows.meet()
        for param, arg in zip(task.params, task.args, strict=True):
            rows.copy(
                self.addresses.slot(param), self.addresses.slot(arg), self.given.bytes_of(param)
            )
        self.parts(task.body)
        rows.meet()
        for result, output in zip(task.results, task.outputs, strict=True):
            rows.copy(
                self.addresses.slot(result),
                self.addresses.slot(output),
                self.given.bytes_of(result),
            )
        over = rows.all(isa.JUMP)
        bodies = [self.own_body(opened, unit) for unit in range(self.given.stacks(task.name))]
        for unit, entry in enumerate(bodies):
            rows.take(range(unit, unit + 1))
            self.aimed(opened, entry, [rows for of, rows in opened.forks if of == unit], unit)
        rows.take(every)
        for places, column in ((over, 1), *((rows, 4) for rows in opened.checks)):
            rows.aim(places, column, rows.here())
        self.words += (1 + opened.kept) * self.given.depth(task.name)
        del self.open[task.name]
        self.addresses.end(task.name)
        rows.apart, rows.least = False, 0
        rows.all(isa.QUIT)

    def own_body(self, opened: Open, unit: int) -> Body:
        """A unit's own body; where it begins, where it returns, and its calls of itself. A call too
        deep ends all that the unit has open.
        """
        rows, task, register = self.rows, opened.task, opened.register
        rows.take(range(unit, unit + 1))
        outside, opened.checks = opened.checks, []
        opened.stack, opened.calls = unit, []
        rows.least = unit * self.given.depth(task.name)
        entry = rows.here()
        self.addresses.point(task.name)
        rows.apart = True
        self.parts(task.body)
        backs = [rows.all(isa.RETURN, register)]
        for places in opened.checks:
            rows.aim(places, 4, rows.here())
        rows.all(isa.LET, register, rows.least + 1)
        backs.append(rows.all(isa.RETURN, register))
        opened.checks = outside
        return entry, backs, opened.calls

    def again(self, recursion: str, calls: Sequence[CallTask]) -> None:
        """Calls in the body that do not need each other."""
        opened = self.open[recursion]
        if opened.stack < 0:
            self.fork(opened, calls)
            return
        for task in calls:
            self.call(opened, task.args, task.results)

    def fork(self, opened: Open, calls: Sequence[CallTask]) -> None:
        """The units make them, each with its own body, and meet when all are done."""
        rows, task, register = self.rows, opened.task, opened.register
        every, units, depth = rows.taking, self.given.stacks(task.name), self.given.depth(task.name)
        opened.checks.append(rows.all(isa.DEEPEST, register, depth - 1, opened.fault))
        rows.meet()
        opened.kept = max(opened.kept, self.addresses.registers - register - 1)
        for unit in range(min(units, len(calls))):
            rows.take(range(unit, unit + 1))
            for call in calls[unit::units]:
                for param, arg in zip(task.params, call.args, strict=True):
                    into = self.addresses.own_slot(param, task.name)
                    rows.copy(into, self.addresses.slot(arg), self.given.bytes_of(param))
                rows.all(isa.LET, register, unit * depth)
                opened.forks.append((unit, rows.all(isa.CALL, register)))
                rows.least = unit * depth
                rows.mark(opened.forks[-1][1], "call", task.binding)
                rows.all(isa.LET, register, 0)
                for name in (task.name, *self.addresses.inside(task.name)):
                    self.addresses.point(name)
                for result, output in zip(call.results, task.outputs, strict=True):
                    out_of = self.addresses.own_slot(output, task.name)
                    rows.copy(self.addresses.slot(result), out_of, self.given.bytes_of(result))
        rows.take(every)
        rows.apart, rows.least = False, 0
        rows.meet()
        rows.all(isa.QUIT)

    def call(self, opened: Open, args: Sequence[str], results: Sequence[str]) -> None:
        """The arguments go into the next frame, then come the results out of it."""
        rows, task, register = self.rows, opened.task, opened.register
        most = (1 + opened.stack) * self.given.depth(task.name) - 1
        opened.checks.append(rows.all(isa.DEEPEST, register, most, opened.fault))
        rows.meet()
        for param, arg in zip(task.params, args, strict=True):
            into = self.addresses.next_slot(param, task.name)
            rows.copy(into, self.addresses.slot(arg), self.given.bytes_of(param))
        rows.meet()
        opened.calls.append(rows.all(isa.CALL, register))
        rows.mark(opened.calls[-1], "call", task.binding)
        opened.kept = max(opened.kept, self.addresses.registers - register - 1)
        for name in (task.name, *self.addresses.inside(task.name)):
            self.addresses.point(name)
        rows.apart = True
        for result, output in zip(results, task.outputs, strict=True):
            out_of = self.addresses.next_slot(output, task.name)
            rows.copy(self.addresses.slot(result), out_of, self.given.bytes_of(result))

    def close(self, opened: Open, entry: Places, back: Places) -> None:
        """What is known at the end: where the calls lead, and where the stack is."""
        words = 1 + opened.kept
        self.aimed(opened, (entry, [back], opened.calls), (), 0)
        self.words += words * self.given.depth(opened.task.name)
        del self.open[opened.task.name]
        self.addresses.end(opened.task.name)

    def aimed(self, opened: Open, body: Body, forks: Sequence[Places], unit: int) -> None:
        """Let the calls of a body, and those from outside, lead to it, and its returns back."""
        rows, words = self.rows, 1 + opened.kept
        entry, backs, calls = body
        begin = self.words - unit * self.given.depth(opened.task.name) * words
        for places in (*calls, *forks):
            rows.aim(places, 2, entry)
            rows.aim(places, 3, [begin] * len(places))
            rows.aim(places, 4, [words] * len(places))
        for back in backs:
            rows.aim(back, 2, [begin] * len(back))
            rows.aim(back, 3, [words] * len(back))
