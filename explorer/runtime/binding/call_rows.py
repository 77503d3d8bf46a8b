"""The rows of a recursion: its body once, and calls that lead into it from outside and from itself.

Every open call has a frame. A register says how many are open but for the outermost, and the
addresses of what lies in a frame follow it: they are set anew wherever it changes.

Where units make calls of their own, all do the outermost one together. Where it makes calls that do
not need each other, these are dealt to the units, each of which has the body once more, for itself,
and a stack of frames behind those of the unit before: its register counts on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from explorer.grinder import CallTask, RecursionTask, UTask
from explorer.runtime.device_program import instructions as isa

Places = list[int]  # of a row, in each unit
Body = tuple[Places, list[Places], list[Places]]  # where it begins, its returns, its calls


class Writer(Protocol):
    """What writes the other rows of a launch."""

    registers: int
    apart: bool
    taking: range
    least: int

    def all(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> Places: ...
    def mark(self, places: Sequence[int], kind: str, binding: str) -> None: ...
    def here(self) -> Places: ...
    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None: ...
    def meet(self) -> None: ...
    def parts(self, parts: Sequence[UTask]) -> None: ...
    def slot(self, name: str) -> int: ...
    def next_slot(self, name: str, recursion: str) -> int: ...
    def own_slot(self, name: str, recursion: str) -> int: ...
    def bytes_of(self, name: str) -> int: ...
    def copy_slots(self, target: int, source: int, count: int) -> None: ...
    def is_alone(self, recursion: str) -> bool: ...
    def stacks(self, recursion: str) -> int: ...
    def take(self, units: range) -> range: ...
    def depth(self, recursion: str) -> int: ...
    def begin(self, name: str) -> int: ...
    def point(self, name: str) -> None: ...
    def inside(self, name: str) -> Sequence[str]: ...
    def end(self, name: str) -> None: ...


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

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.words = 0
        self.recursions: list[tuple[str, int]] = []
        self.open: dict[str, Open] = {}

    def recursion(self, task: RecursionTask) -> None:
        """The outermost call, and behind it the body."""
        write = self.writer
        if write.stacks(task.name) > 1:
            self.dealt(task)
            return
        outside = write.taking
        if write.is_alone(task.name):
            write.meet()
            write.take(range(1))
        self.recursions.append((task.function, write.depth(task.name)))
        register = write.begin(task.name)
        opened = self.open[task.name] = Open(task, register, len(self.recursions))
        write.all(isa.LET, register, -1)
        write.point(task.name)
        self.call(opened, task.args, task.results)
        over, entry = write.all(isa.JUMP), write.here()
        write.point(task.name)
        write.apart = True
        write.parts(task.body)
        write.meet()
        back = write.all(isa.RETURN, register)
        self.close(opened, entry, back)
        for places in (over, *opened.checks):
            write.aim(places, 1 if places is over else 4, write.here())
        write.take(outside)
        write.apart = False
        if write.is_alone(task.name):
            write.meet()
        write.all(isa.QUIT)

    def dealt(self, task: RecursionTask) -> None:
        """The outermost call of all units, and behind it a body for each unit's own calls."""
        write, every = self.writer, self.writer.taking
        self.recursions.append((task.function, write.depth(task.name)))
        register = write.begin(task.name)
        opened = self.open[task.name] = Open(task, register, len(self.recursions), stack=-1)
        write.mark(write.all(isa.LET, register, 0), "call", task.binding)
        write.point(task.name)
        write.meet()
        for param, arg in zip(task.params, task.args, strict=True):
            write.copy_slots(write.slot(param), write.slot(arg), write.bytes_of(param))
        write.parts(task.body)
        write.meet()
        for result, output in zip(task.results, task.outputs, strict=True):
            write.copy_slots(write.slot(result), write.slot(output), write.bytes_of(result))
        over = write.all(isa.JUMP)
        bodies = [self.own_body(opened, unit) for unit in range(write.stacks(task.name))]
        for unit, entry in enumerate(bodies):
            write.take(range(unit, unit + 1))
            self.aimed(opened, entry, [rows for of, rows in opened.forks if of == unit], unit)
        write.take(every)
        for places, column in ((over, 1), *((rows, 4) for rows in opened.checks)):
            write.aim(places, column, write.here())
        self.words += (1 + opened.kept) * write.depth(task.name)
        del self.open[task.name]
        write.end(task.name)
        write.apart, write.least = False, 0
        write.all(isa.QUIT)

    def own_body(self, opened: Open, unit: int) -> Body:
        """A unit's own body; where it begins, where it returns, and its calls of itself. A call too
        deep ends all that the unit has open.
        """
        write, task, register = self.writer, opened.task, opened.register
        write.take(range(unit, unit + 1))
        outside, opened.checks = opened.checks, []
        opened.stack, opened.calls = unit, []
        write.least = unit * write.depth(task.name)
        entry = write.here()
        write.point(task.name)
        write.apart = True
        write.parts(task.body)
        backs = [write.all(isa.RETURN, register)]
        for places in opened.checks:
            write.aim(places, 4, write.here())
        write.all(isa.LET, register, write.least + 1)
        backs.append(write.all(isa.RETURN, register))
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
        write, task, register = self.writer, opened.task, opened.register
        every, units, depth = write.taking, write.stacks(task.name), write.depth(task.name)
        opened.checks.append(write.all(isa.DEEPEST, register, depth - 1, opened.fault))
        write.meet()
        opened.kept = max(opened.kept, write.registers - register - 1)
        for unit in range(min(units, len(calls))):
            write.take(range(unit, unit + 1))
            for call in calls[unit::units]:
                for param, arg in zip(task.params, call.args, strict=True):
                    into = write.own_slot(param, task.name)
                    write.copy_slots(into, write.slot(arg), write.bytes_of(param))
                write.all(isa.LET, register, unit * depth)
                opened.forks.append((unit, write.all(isa.CALL, register)))
                write.least = unit * depth
                write.mark(opened.forks[-1][1], "call", task.binding)
                write.all(isa.LET, register, 0)
                for name in (task.name, *write.inside(task.name)):
                    write.point(name)
                for result, output in zip(call.results, task.outputs, strict=True):
                    out_of = write.own_slot(output, task.name)
                    write.copy_slots(write.slot(result), out_of, write.bytes_of(result))
        write.take(every)
        write.apart, write.least = False, 0
        write.meet()
        write.all(isa.QUIT)

    def call(self, opened: Open, args: Sequence[str], results: Sequence[str]) -> None:
        """The arguments go into the next frame, then come the results out of it."""
        write, task, register = self.writer, opened.task, opened.register
        most = (1 + opened.stack) * write.depth(task.name) - 1
        opened.checks.append(write.all(isa.DEEPEST, register, most, opened.fault))
        write.meet()
        for param, arg in zip(task.params, args, strict=True):
            into = write.next_slot(param, task.name)
            write.copy_slots(into, write.slot(arg), write.bytes_of(param))
        write.meet()
        opened.calls.append(write.all(isa.CALL, register))
        write.mark(opened.calls[-1], "call", task.binding)
        opened.kept = max(opened.kept, write.registers - register - 1)
        for name in (task.name, *write.inside(task.name)):
            write.point(name)
        write.apart = True
        for result, output in zip(results, task.outputs, strict=True):
            out_of = write.next_slot(output, task.name)
            write.copy_slots(write.slot(result), out_of, write.bytes_of(result))

    def close(self, opened: Open, entry: Places, back: Places) -> None:
        """What is known at the end: where the calls lead, and where the stack is."""
        write, words = self.writer, 1 + opened.kept
        self.aimed(opened, (entry, [back], opened.calls), (), 0)
        self.words += words * write.depth(opened.task.name)
        del self.open[opened.task.name]
        write.end(opened.task.name)

    def aimed(self, opened: Open, body: Body, forks: Sequence[Places], unit: int) -> None:
        """Let the calls of a body, and those from outside, lead to it, and its returns back."""
        write, words = self.writer, 1 + opened.kept
        entry, backs, calls = body
        begin = self.words - unit * write.depth(opened.task.name) * words
        for places in (*calls, *forks):
            write.aim(places, 2, entry)
            write.aim(places, 3, [begin] * len(places))
            write.aim(places, 4, [words] * len(places))
        for back in backs:
            write.aim(back, 2, [begin] * len(back))
            write.aim(back, 3, [words] * len(back))
