"""Rows of a launch: all participating units have the same control flow, at places of their own.

A loop or a recursion has a register that counts. Rows set the addresses that move with it anew:
they point to its pointers, which are all known when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.ir.types import ITEM_BYTES
from explorer.runtime.binding.launch_code import LaunchInputs, Mark
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import Pointer, Row

Places = list[int]  # of a row, in each participating unit
FIRST_FRAME, NEXT_FRAME, OWN_FRAME = -1, -2, -3  # instead of a count of moves


class UnitRows:
    """Rows by unit.

    `participants` are the units that run the following rows; `synchronised`: they have passed a
    barrier since the last row that reads or writes memory; `least` is the register of an outermost
    call.
    """

    def __init__(self, units: int) -> None:
        """Create empty rows for all units."""
        self.by_unit: list[list[Row]] = [[] for _ in range(units)]
        self.marks: list[dict[int, Mark]] = [{} for _ in self.by_unit]
        self.synchronised = True
        self.participants = range(units)
        self.least = 0
        self.deciders: set[int] = set()  # units with rows of their own

    @property
    def alone(self) -> bool:
        """True if one unit runs the following rows."""
        return len(self.participants) == 1

    @property
    def together(self) -> bool:
        """True if all units run the following rows."""
        return len(self.participants) == len(self.by_unit)

    def take(self, units: range) -> range:
        """Let these units run the following rows; return the previous ones."""
        before, self.participants = self.participants, units
        if not self.together:
            self.deciders |= {*units}
        return before

    def emit(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> Places:
        """Append a row for every participating unit; return its places."""
        places = []
        for unit in self.participants:
            places.append(len(self.by_unit[unit]))
            self.by_unit[unit].append((op, a, b, c, d))
        return places

    def here(self) -> Places:
        """Return the place of each unit's next row."""
        return [len(self.by_unit[unit]) for unit in self.participants]

    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None:
        """Set the targets of the rows at these places."""
        for unit, place, target in zip(self.participants, places, targets, strict=True):
            row = list(self.by_unit[unit][place])
            row[column] = target
            op, a, b, c, d = row
            self.by_unit[unit][place] = (op, a, b, c, d)

    def mark(self, places: Sequence[int], kind: str, binding: str, trips: int = 1) -> None:
        """Record the decision that the rows at these places make."""
        own = not self.together
        least = self.least if kind == "call" else 0
        for unit, place in zip(self.participants, places, strict=True):
            self.marks[unit][place] = Mark(kind, binding, trips, least, own)

    def barrier(self) -> None:
        """Append a barrier if one is needed."""
        if not (self.synchronised or self.alone):
            self.emit(isa.BARRIER)
        self.synchronised = True

    def copy(self, target: int, source: int, count: int) -> None:
        """Append a copy of `count` bytes from one slot's address to another's."""
        self.emit(isa.COPY, target, source, count, int(self.alone))
        self.synchronised = False

    def fill(self, target: int, byte: int) -> None:
        """Append a write of one byte at a slot's address."""
        self.emit(isa.FILL, target, byte, 1, int(self.alone))
        self.synchronised = False

    def marks_of(self, units: Sequence[int]) -> tuple[Mapping[int, Mark], ...]:
        """Return the decisions of these units: all of the first one's, and others' own.

        Trailing units without decisions are left out.
        """
        own_marks = [{n: m for n, m in self.marks[u].items() if m.own} for u in units[1:]]
        while own_marks and not own_marks[-1]:
            own_marks.pop()
        return (self.marks[units[0]], *own_marks)

    def rows_for(self, unit: int, places: Mapping[int, int]) -> list[Row]:
        """Return a unit's rows, with awaited units as places among the participants."""
        return [
            (op, places[a], b, c, d) if op == isa.WAIT else (op, a, b, c, d)
            for op, a, b, c, d in self.by_unit[unit]
        ]


class Addresses:
    """Slots and pointers of a launch.

    `registers`: the number of open loops and recursions, `deepest`: the most at once.
    """

    def __init__(self, inputs: LaunchInputs, rows: UnitRows) -> None:
        """Create an empty table for the rows of a launch."""
        self.inputs, self.rows = inputs, rows
        self.slots: dict[tuple[str, int], int] = {}  # by value and count of its moves
        self.pointers: list[Pointer] = []
        self.registers = self.deepest = 0
        self._waiting: dict[str, list[Pointer]] = {}  # of open loops and recursions
        self._points: dict[str, list[tuple[range, Places]]] = {}  # the rows that set them
        self._closed: dict[str, list[Pointer]] = {}  # of closed ones
        self._numbers: dict[str, int] = {}  # their registers

    def slot(self, name: str) -> int:
        """Return the slot of a value's address."""
        return self.moved(name, len(self.inputs.program.values[name].moves))

    def next_slot(self, name: str, recursion: str) -> int:
        """Return the slot of a value's address, in the next frame if it lies in a recursion's."""
        if self.inputs.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, NEXT_FRAME)

    def own_slot(self, name: str, recursion: str) -> int:
        """Return the slot of a value's address, in the first frame of a unit's own stack.

        That frame follows the outermost call's. A value outside of the recursion has its usual
        slot.
        """
        if self.inputs.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, OWN_FRAME)

    def moved(self, name: str, moves: int) -> int:
        """Return the slot of a value's address after only its first moves."""
        slot = self.slots.get((name, moves))
        if slot is None:
            slot = self.slots[name, moves] = len(self.slots)
            if moves > 0 or (moves != FIRST_FRAME and self.inputs.frame(name)):
                self.follow(name, moves, -1, slot)
        return slot

    def follow(self, name: str, moves: int, call: int, at: int, begin: int = 0) -> None:
        """Let an address follow the last of a value's first moves, or its frame."""
        value, frame = self.inputs.program.values[name], self.inputs.frame(name)
        apart = 0
        if moves > 0:
            mover, step = value.moves[moves - 1]
            source = self.moved(name, moves - 1)
            size = ITEM_BYTES[value.type.element] * self.inputs.number(step)
        else:
            mover, source, size = (
                frame,
                self.moved(name, FIRST_FRAME),
                self.inputs.frames[frame].frame_bytes,
            )
            begin += size if moves in (NEXT_FRAME, OWN_FRAME) else 0
            apart = self.inputs.depth(frame) * size if moves == OWN_FRAME else 0
        self._waiting[mover].append(Pointer(call, at, source, size, begin, apart))

    def begin(self, name: str) -> int:
        """Begin a loop or a recursion; return its register."""
        register = self._numbers[name] = self.registers
        self.registers += 1
        self.deepest = max(self.deepest, self.registers)
        self._waiting[name], self._points[name] = self._closed.pop(name, []), []
        return register

    def point(self, name: str) -> None:
        """Emit the row that sets all addresses that depend on a loop or a recursion."""
        if name in self.inputs.moving:
            rows = self.rows.emit(isa.POINT, 0, 0, self._numbers[name])
            self._points[name].append((self.rows.participants, rows))

    def inside(self, name: str) -> Sequence[str]:
        """Return the loops and recursions that began after another one and are still open."""
        return [n for n, register in self._numbers.items() if register > self._numbers[name]]

    def end(self, name: str) -> None:
        """End a loop or a recursion: all of its pointers are known by now."""
        first = len(self.pointers)
        pointers = self._closed[name] = self._waiting.pop(name)
        self.pointers += pointers
        before = self.rows.participants
        for units, places in self._points.pop(name):
            self.rows.participants = units
            self.rows.aim(places, 1, [first] * len(places))
            self.rows.aim(places, 2, [len(self.pointers)] * len(places))
        self.rows.participants = before
        del self._numbers[name]
        self.registers -= 1
