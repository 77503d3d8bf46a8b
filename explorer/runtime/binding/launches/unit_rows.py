"""Rows of a launch: all participating units have the same control flow, at places of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.runtime.binding.launches.launch_code import Mark
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import Row

Places = list[int]  # of a row, in each participating unit


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
