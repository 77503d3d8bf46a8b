"""Tables that a persistent kernel reads beside its one memory: rows, addresses, counters.

For comparison, a device program can be several launches of its kernel. Each begins when the
previous one is over, so that no unit waits for another. One launch an operator is what libraries
do; one launch a wave holds all operators that are independent of each other, like a wave of
Rammer's wavefront policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.codegen.cuda.persistent import LINE_WORDS, TABLES
from explorer.errors import BadOption
from explorer.runtime.binding.launch_code import LaunchCode, RunRow
from explorer.runtime.device_program import instructions as isa

PATIENCE_NS = 2_000_000_000  # until waits of a launch give up; chosen
LOOPED_STAMPS = 4096  # of a unit whose rows run again: a bound on memory, chosen
FAULT, STRIDE, ROOM, PATIENCE, TABLE, POINTERS, STACK = range(7)  # words of `state`
STATE_WORDS = 7
LAUNCHES = ("program", "wave", "operator")  # parts of one launch


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


@dataclass(frozen=True, slots=True)
class AccessedBytes:
    """The bytes that an operator reads and writes: parts (begin, end) of the one memory."""

    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]

    def conflicts(self, other: AccessedBytes) -> bool:
        """Return True if one operator writes bytes that the other one accesses."""
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    return any(x[0] < y[1] and y[0] < x[1] for x in a for y in b)


def split_launch(
    code: LaunchCode, launches: str, order: Sequence[str], touched: Callable[[str], AccessedBytes]
) -> tuple[LaunchCode, ...]:
    """Return a launch as several: one for each wave or operator, in the `order` of their starts.

    Raises:
        BadOption: Rows make decisions, which only one kernel can.
    """
    if any(code.marks) or code.pointers:
        raise BadOption(
            f"one launch a {launches} holds no control flow, and here the device decides",
            where="launches",
            try_='launches="program", which is one kernel for all',
        )
    return tuple(_select_operators(code, group) for group in _groups(launches, order, touched))


def _groups(
    launches: str, order: Sequence[str], touched: Callable[[str], AccessedBytes]
) -> Iterator[tuple[str, ...]]:
    wave: list[str] = []
    for name in order:
        if wave and (
            launches == "operator" or any(touched(name).conflicts(touched(n)) for n in wave)
        ):
            yield tuple(wave)
            wave = []
        wave.append(name)
    if wave:
        yield tuple(wave)


def _select_operators(code: LaunchCode, operators: Collection[str]) -> LaunchCode:
    """Return the tasks of some operators, for each unit that has any."""
    units, rows, runs = list[int](), list[np.ndarray](), list[dict[int, RunRow]]()
    for unit, own, run_rows in zip(code.units, code.rows, code.runs, strict=True):
        mine = [n for n in sorted(run_rows) if run_rows[n].operator.name in operators]
        if mine:
            own_rows = own[[*mine, len(own) - 1]].copy()  # the last row is the end
            # steps are not awaited
            own_rows[:, 4] = np.where(own_rows[:, 0] == isa.RUN, 0, own_rows[:, 4])
            units.append(unit)
            rows.append(own_rows)
            runs.append({n: run_rows[m] for n, m in enumerate(mine)})
    return replace(
        code, units=tuple(units), rows=tuple(rows), runs=tuple(runs), marks=tuple({} for _ in units)
    )
