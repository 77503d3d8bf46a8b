"""The slots of a launch, and the loops and recursions that addresses follow.

A loop or a recursion has a register that counts; what moves with it is set anew by rows that point
to the pointers that follow it, which are all known when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.shapes.dims import evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.runtime.binding.launches.given import Given
from explorer.runtime.binding.launches.unit_rows import Places, UnitRows
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.launch import Pointer

FIRST_FRAME, NEXT_FRAME, OWN_FRAME = -1, -2, -3  # in the place of a count of moves


class Addresses:
    """`registers`: how many loops and recursions are open, `deepest`: the most at once."""

    def __init__(self, given: Given, rows: UnitRows) -> None:
        self.given, self.rows = given, rows
        self.slots: dict[tuple[str, int], int] = {}  # a value, after so many of its moves
        self.pointers: list[Pointer] = []
        self.registers = self.deepest = 0
        self._waiting: dict[str, list[Pointer]] = {}  # of the loops and recursions that are open
        self._points: dict[str, list[tuple[range, Places]]] = {}  # the rows that set these
        self._known: dict[str, list[Pointer]] = {}  # of those that were written before
        self._numbers: dict[str, int] = {}  # their registers

    def slot(self, name: str) -> int:
        """The slot of a value's address."""
        return self.moved(name, len(self.given.program.values[name].moves))

    def next_slot(self, name: str, recursion: str) -> int:
        """The slot of a value's address, in the next frame where it lies in one of a recursion."""
        if self.given.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, NEXT_FRAME)

    def own_slot(self, name: str, recursion: str) -> int:
        """The same in the first frame behind the outermost call's of a unit's own stack."""
        if self.given.frame(name) != recursion:
            return self.slot(name)
        return self.moved(name, OWN_FRAME)

    def moved(self, name: str, moves: int) -> int:
        """The slot of a value's address where only its first moves are made."""
        found = self.slots.get((name, moves))
        if found is None:
            found = self.slots[name, moves] = len(self.slots)
            if moves > 0 or (moves != FIRST_FRAME and self.given.frame(name)):
                self.follow(name, moves, -1, found)
        return found

    def follow(self, name: str, moves: int, call: int, at: int, begin: int = 0) -> None:
        """Let an address follow the last of a value's first moves, or its frame."""
        value, frame = self.given.program.values[name], self.given.frame(name)
        apart = 0
        if moves > 0:
            mover, step = value.moves[moves - 1]
            source = self.moved(name, moves - 1)
            size = ITEM_BYTES[value.type.element] * evaluate_dim(step, self.given.sizes)
        else:
            mover, source, size = (
                frame,
                self.moved(name, FIRST_FRAME),
                self.given.frames[frame].frame_bytes,
            )
            begin += size if moves in (NEXT_FRAME, OWN_FRAME) else 0
            apart = self.given.depth(frame) * size if moves == OWN_FRAME else 0
        self._waiting[mover].append(Pointer(call, at, source, size, begin, apart))

    def begin(self, name: str) -> int:
        """A loop or a recursion begins; its register."""
        register = self._numbers[name] = self.registers
        self.registers += 1
        self.deepest = max(self.deepest, self.registers)
        self._waiting[name], self._points[name] = self._known.pop(name, []), []
        return register

    def point(self, name: str) -> None:
        """Set what follows a loop or a recursion."""
        if name in self.given.moving:
            rows = self.rows.all(isa.POINT, 0, 0, self._numbers[name])
            self._points[name].append((self.rows.taking, rows))

    def inside(self, name: str) -> Sequence[str]:
        """The loops and recursions that began after another one and have not ended, in order."""
        return [n for n, register in self._numbers.items() if register > self._numbers[name]]

    def end(self, name: str) -> None:
        """A loop or a recursion ends: by now all is known that follows it."""
        first = len(self.pointers)
        found = self._known[name] = self._waiting.pop(name)
        self.pointers += found
        before = self.rows.taking
        for units, places in self._points.pop(name):
            self.rows.taking = units
            self.rows.aim(places, 1, [first] * len(places))
            self.rows.aim(places, 2, [len(self.pointers)] * len(places))
        self.rows.taking = before
        del self._numbers[name]
        self.registers -= 1
