"""One launch in memory: each unit's rows, the tables they index, and the stamps of a traced run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of, aligned_bytes
from explorer.runtime.workers.workers import Launcher

Row = tuple[int, int, int, int, int]
MOST_NOTES = 1 << 20  # of a launch: a bound on memory, 24 MB; chosen


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address that moves with a loop: of a slot, or of an argument of a call.

    It is the value of `source`, a slot, plus `step` bytes for each trip, plus `begin`, plus `apart`
    times the unit's number.
    """

    call: int  # -1: a slot
    at: int  # the number of the slot or of the argument
    source: int
    step: int
    begin: int = 0
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Stamps:
    """The bricks of a traced launch: each unit's rows of (instruction, cycles at start, at end).

    `needed` is the largest count of a unit, which exceeds the rows if the capacity was too small.
    `notes` are the decisions of each unit that notes them, in order: rows of (instruction,
    register, cycles). Of `noted` (the largest count of a unit) as many are kept as have room, at
    most a million.
    """

    begin: int
    end: int
    units: tuple[np.ndarray, ...]
    needed: int
    notes: tuple[np.ndarray, ...]
    noted: int


def rows_of(rows: Sequence[Row]) -> np.ndarray:
    """Return a unit's instructions as the interpreter reads them."""
    return np.array(rows, np.int64).reshape(len(rows), isa.ROW_WORDS)


class Launch:
    """Rows and tables of a launch.

    Rows may be shared; `code[unit, call]`, `slots[unit]` and `pointers[unit]` hold addresses and
    belong to one arena. The first `noting` units note their decisions in a traced run.
    """

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        calls: int,
        slots: int,
        pointers: int = 0,
        registers: int = isa.REGISTERS,
        stack: int = 0,
        noting: int = 1,
    ) -> None:
        """Allocate the tables of these rows."""
        units = len(rows)
        self.rows = tuple(rows)
        self.code = np.zeros((units, max(1, calls), isa.CODE_WORDS), np.int64)
        self.slots = np.zeros((units, max(1, slots)), np.int64)
        self.pointers = np.zeros((units, max(1, pointers), isa.POINTER_WORDS), np.int64)
        self._registers = np.zeros((units, registers), np.int64)
        self._stack = aligned_bytes(8 * units * stack).view(np.int64).reshape(units, stack)
        self._counts = np.zeros(units, np.int64)
        self._untraced = np.zeros(units, np.int64)
        self._noted, self._noting = np.zeros(units, np.int64), noting
        self._programs = np.array([address_of(r) for r in rows], np.int64)
        self._codes = np.array([address_of(c) for c in self.code], np.int64)
        self._slots = np.array([address_of(s) for s in self.slots], np.int64)
        self._pointers = np.array([address_of(p) for p in self.pointers], np.int64)
        self._words = np.zeros(isa.LAUNCH_WORDS, np.int64)
        self._fill(units)
        self.block = address_of(self._words)
        self.units = units

    def _fill(self, units: int) -> None:
        words = self._words
        words[isa.L_UNITS] = units
        words[isa.L_STRIDE] = 1 + max(len(r) for r in self.rows)
        words[isa.L_PROGRAMS] = address_of(self._programs)
        words[isa.L_CODE] = address_of(self._codes)
        words[isa.L_SLOTS] = address_of(self._slots)
        words[isa.L_POINTERS] = address_of(self._pointers)
        words[isa.L_REGISTERS] = address_of(self._registers)
        words[isa.L_REGISTER_BYTES] = self._registers.strides[0]
        words[isa.L_STACK] = address_of(self._stack)
        words[isa.L_STACK_BYTES] = self._stack.strides[0]
        words[isa.L_STAMPS] = address_of(self._untraced)
        words[isa.L_NOTES] = address_of(self._untraced)
        words[isa.L_NOTED] = address_of(self._noted)
        words[isa.L_COUNTS] = address_of(self._counts)

    def point(self, unit: int, n: int, pointer: Pointer, number: int) -> None:
        """Set pointer n of a unit; its slots and calls must have addresses by now."""
        slots = address_of(self.slots[unit])
        where = slots if pointer.call < 0 else int(self.code[unit, pointer.call, 1])
        where, source = where + 8 * pointer.at, slots + 8 * pointer.source
        begin = pointer.begin + number * pointer.apart
        self.pointers[unit, n] = (where, source, pointer.step, begin)

    def move(self, moves: np.ndarray, bases: np.ndarray) -> None:
        """Set the addresses that each run writes first: rows of (where, base's number, offset)."""
        self._moves, self._bases = np.ascontiguousarray(moves, np.int64), bases
        self._words[isa.L_MOVES] = address_of(self._moves)
        self._words[isa.L_MOVED] = len(self._moves)
        self._words[isa.L_BASES] = address_of(bases)

    def run(self, team: Launcher) -> None:
        """Run the rows to their end."""
        team.launch(self.block, self.units)

    @property
    def fault(self) -> int:
        """The fault that ended the last run early, as set by a row; else 0."""
        return int(self._words[isa.L_FAULT])

    @property
    def noted(self) -> int:
        """The largest number of decisions that a unit noted in the last traced run."""
        return int(self._noted.max())

    def span(self, team: Launcher) -> int:
        """Run the rows; return the cycles from their begin to their end."""
        self.run(team)
        return int(self._words[isa.L_END] - self._words[isa.L_BEGIN])

    def trace(self, team: Launcher, capacity: int) -> Stamps:
        """Run the rows and stamp every Run; beyond the capacity they are only counted."""
        room = np.empty((self.units, capacity, isa.STAMP_WORDS), np.int64)
        room.fill(0)  # otherwise the first stamp on a page faults
        addresses = np.array([address_of(r) for r in room], np.int64)
        most = min(capacity, MOST_NOTES)
        notes = np.empty((self._noting, most, isa.NOTE_WORDS), np.int64)
        notes.fill(0)
        noting = np.zeros(self.units, np.int64)
        noting[: self._noting] = [address_of(n) for n in notes]
        self._noted[:], self._words[isa.L_NOTE_ROOM] = 0, most
        self._words[isa.L_CAPACITY] = capacity
        self._words[isa.L_NOTES] = address_of(noting)
        self._words[isa.L_STAMPS] = address_of(addresses)
        try:
            self.run(team)
        finally:
            self._words[isa.L_STAMPS] = address_of(self._untraced)
            self._words[isa.L_NOTES] = address_of(self._untraced)
        begin, end = int(self._words[isa.L_BEGIN]), int(self._words[isa.L_END])
        counts = [int(n) for n in self._counts]
        units = tuple(r[:n].copy() for r, n in zip(room, counts))
        kept_notes = tuple(n[:m].copy() for n, m in zip(notes, self._noted.tolist()))
        return Stamps(begin, end, units, max(counts), kept_notes, self.noted)
