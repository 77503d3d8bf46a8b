"""The rows of a launch: every unit that takes part has the same rows of control flow, each at
places of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.runtime.binding.launches.launch_code import Mark
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import Row

Places = list[int]  # of a row, in each unit that has it


class UnitRows:
    """Rows by unit. `taking` are the units that do what follows; `apart`: all of them have met
    since the last row that reads or writes memory; `least` is the register of an outermost call.
    """

    def __init__(self, units: int) -> None:
        self.by_unit: list[list[Row]] = [[] for _ in range(units)]
        self.marks: list[dict[int, Mark]] = [{} for _ in self.by_unit]
        self.apart = True
        self.taking = range(units)
        self.least = 0
        self.decides: set[int] = set()  # units that did something for themselves

    @property
    def alone(self) -> bool:
        """Whether one unit does what follows."""
        return len(self.taking) == 1

    @property
    def together(self) -> bool:
        """Whether all units do."""
        return len(self.taking) == len(self.by_unit)

    def take(self, units: range) -> range:
        """Let these units do what follows; those that did before."""
        before, self.taking = self.taking, units
        if not self.together:
            self.decides |= {*units}
        return before

    def all(self, op: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> Places:
        """One row for every unit that takes part; where each has it."""
        places = []
        for unit in self.taking:
            places.append(len(self.by_unit[unit]))
            self.by_unit[unit].append((op, a, b, c, d))
        return places

    def here(self) -> Places:
        """Where the next row of each is."""
        return [len(self.by_unit[unit]) for unit in self.taking]

    def aim(self, places: Sequence[int], column: int, targets: Sequence[int]) -> None:
        """Let the rows at these places go to the targets."""
        for unit, place, target in zip(self.taking, places, targets, strict=True):
            row = list(self.by_unit[unit][place])
            row[column] = target
            op, a, b, c, d = row
            self.by_unit[unit][place] = (op, a, b, c, d)

    def mark(self, places: Sequence[int], kind: str, binding: str, trips: int = 1) -> None:
        """Say what the rows at these places decide."""
        own = not self.together
        least = self.least if kind == "call" else 0
        for unit, place in zip(self.taking, places, strict=True):
            self.marks[unit][place] = Mark(kind, binding, trips, least, own)

    def meet(self) -> None:
        """A barrier, where one is needed."""
        if not (self.apart or self.alone):
            self.all(isa.BARRIER)
        self.apart = True

    def copy(self, target: int, source: int, count: int) -> None:
        """So many bytes from one slot's address to another's."""
        self.all(isa.COPY, target, source, count, int(self.alone))
        self.apart = False

    def fill(self, target: int, byte: int) -> None:
        """One byte at a slot's address."""
        self.all(isa.FILL, target, byte, 1, int(self.alone))
        self.apart = False

    def marks_of(self, units: Sequence[int]) -> tuple[Mapping[int, Mark], ...]:
        """What these units decide: the first one all, of others what each decides for itself, up to
        the last of those that do so.
        """
        found = [{n: m for n, m in self.marks[u].items() if m.own} for u in units[1:]]
        while found and not found[-1]:
            found.pop()
        return (self.marks[units[0]], *found)

    def seen_by(self, unit: int, places: Mapping[int, int]) -> list[Row]:
        """A unit's rows with the places of awaited units among those that take part."""
        return [
            (op, places[a], b, c, d) if op == isa.WAIT else (op, a, b, c, d)
            for op, a, b, c, d in self.by_unit[unit]
        ]
