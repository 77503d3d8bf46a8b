"""The rows of a recursion: its body once, and calls that lead into it from outside and from itself.

Every open call has a frame. A register says how many are open but for the outermost, and the
addresses of what lies in a frame follow it: they are set anew wherever it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from explorer.grinder import CallTask, RecursionTask, UTask
from explorer.runtime.device_program import instructions as isa

Places = list[int]  # of a row, in each unit


class Writer(Protocol):
    """What writes the other rows of a launch."""

    registers: int
    apart: bool
    alone: bool

    def all(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> Places: ...
    def mark(self, places: Sequence[int], kind: str, binding: str) -> None: ...
    def here(self) -> Places: ...
    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None: ...
    def meet(self) -> None: ...
    def parts(self, parts: Sequence[UTask]) -> None: ...
    def slot(self, name: str) -> int: ...
    def next_slot(self, name: str, recursion: str) -> int: ...
    def bytes_of(self, name: str) -> int: ...
    def copy_slots(self, target: int, source: int, count: int) -> None: ...
    def is_alone(self, recursion: str) -> bool: ...
    def depth(self, recursion: str) -> int: ...
    def begin(self, name: str) -> int: ...
    def point(self, name: str) -> None: ...
    def inside(self, name: str) -> Sequence[str]: ...
    def end(self, name: str) -> None: ...


@dataclass(slots=True)
class Open:
    """A recursion whose body is being written: its register, its fault, the most registers that a
    call must keep, the rows of its calls, and those that tell whether one is too deep.
    """

    task: RecursionTask
    register: int
    fault: int
    kept: int = 0
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
        outside = write.alone
        if write.is_alone(task.name):
            write.meet()
            write.alone = True
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
        write.alone, write.apart = outside, False
        if write.is_alone(task.name):
            write.meet()
        write.all(isa.QUIT)

    def again(self, task: CallTask) -> None:
        """A call in the body."""
        self.call(self.open[task.recursion], task.args, task.results)

    def call(self, opened: Open, args: Sequence[str], results: Sequence[str]) -> None:
        """The arguments go into the next frame, then come the results out of it."""
        write, task, register = self.writer, opened.task, opened.register
        most = write.depth(task.name) - 1
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
        for places in opened.calls:
            write.aim(places, 2, entry)
            write.aim(places, 3, [self.words] * len(places))
            write.aim(places, 4, [words] * len(places))
        write.aim(back, 2, [self.words] * len(back))
        write.aim(back, 3, [words] * len(back))
        self.words += words * write.depth(opened.task.name)
        del self.open[opened.task.name]
        write.end(opened.task.name)
