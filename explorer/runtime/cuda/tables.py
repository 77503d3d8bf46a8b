"""Tables that a persistent kernel reads beside its one memory: rows, addresses, counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.codegen.cuda.persistent import LINE_WORDS, TABLES
from explorer.runtime.binding.launches.launch_code import LaunchCode
from explorer.runtime.device_program import instructions as isa

PATIENCE_NS = 2_000_000_000  # until waits of a launch give up; chosen
LOOPED_STAMPS = 4096  # of a unit whose rows run again: a bound on memory, chosen
FAULT, STRIDE, ROOM, PATIENCE, TABLE, POINTERS, STACK = range(7)  # words of `state`
STATE_WORDS = 7


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one launch.

    `arrays` (int64) are by the name of the kernel's parameter. `begins` are where the rows of each
    unit begin, and `table` holds for each unit the addresses of slots, then those of each call's
    tensors.
    """

    units: int
    registers: int
    arrays: Mapping[str, np.ndarray]

    @property
    def fault(self) -> int:
        """The fault that ended the last run early, or 0."""
        return int(self.arrays["state"][FAULT])

    def stamps(self, unit: int) -> np.ndarray:
        """Return a unit's stamps: rows of (instruction, nanoseconds at its start, at its end)."""
        room = int(self.arrays["state"][ROOM])
        by_unit = self.arrays["stamps"].reshape(self.units, room, 3)
        own: np.ndarray = by_unit[unit, : self.arrays["made"][unit]]
        return own


def tables_of(
    code: LaunchCode,
    kernels: Mapping[str, int],
    operands: Callable[[str], Sequence[int]],
    slot: Callable[[str], int],
    patience_ns: int = PATIENCE_NS,
    stamps: int = 0,
) -> Tables:
    """Return the tables of a launch.

    `kernels` numbers the code of an operator, by its name; `operands` are the addresses of its
    tensors in order, `slot` that of a value, in bytes from the beginning of the one memory. A unit
    has room for `stamps` stamps; 0: for one of each Run, or more where rows run again.
    """
    units = len(code.units)
    lengths = [len(rows) for rows in code.rows]
    begins = isa.ROW_WORDS * np.cumsum([0, *lengths[:-1]])
    addresses, calls = [slot(name) for name in code.slots], list[int]()
    for operator in code.operators:
        calls += [kernels[operator.name], len(addresses)]
        addresses += operands(operator.name)
    pointers = np.zeros((units, max(1, len(code.pointers)), isa.POINTER_WORDS), np.int64)
    for place, unit in enumerate(code.units):
        for n, p in enumerate(code.pointers):
            where = p.at if p.call < 0 else calls[2 * p.call + 1] + p.at
            pointers[place, n] = where, p.source, p.step, p.begin + unit * p.apart
    room = stamps or LOOPED_STAMPS
    if not (stamps or any(code.marks)):
        room = max(1, *map(len, code.runs))
    table, stack = max(1, len(addresses)), max(1, code.stack)
    state = np.zeros(STATE_WORDS, np.int64)
    state[STRIDE], state[ROOM], state[PATIENCE] = 1 + max(lengths), room, patience_ns
    state[TABLE], state[POINTERS], state[STACK] = table, pointers[0].size, stack
    arrays = {
        "rows": np.concatenate([merge_waits(rows).reshape(-1) for rows in code.rows]),
        "begins": begins,
        "table": np.tile(np.array(addresses or [0], np.int64), units),
        "calls": np.array(calls or [0, 0], np.int64),
        "pointers": pointers.reshape(-1),
        "counters": np.zeros(units * LINE_WORDS, np.int64),
        "stack": np.zeros(units * stack, np.int64),
        "state": state,
        "stamps": np.zeros(units * room * 3, np.int64),
        "made": np.zeros(units, np.int64),
    }
    return Tables(units, code.registers, {name: arrays[name] for name in TABLES})


def merge_waits(rows: np.ndarray) -> np.ndarray:
    """Return the rows with the number of consecutive Waits written into each Wait.

    The threads of a block poll that many counters at once.
    """
    merged = rows.copy()
    others = np.append(np.flatnonzero(rows[:, 0] != isa.WAIT), len(rows))
    waits = np.flatnonzero(rows[:, 0] == isa.WAIT)
    merged[waits, 3] = others[np.searchsorted(others, waits)] - waits
    return merged
