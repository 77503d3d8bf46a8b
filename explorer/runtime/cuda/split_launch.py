"""A device program as several launches of its kernel, for comparison.

Each launch begins when the previous one is over, so that no unit waits for another. One launch an
operator is what libraries do; one launch a wave holds all operators that are independent of each
other, like a wave of Rammer's wavefront policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.errors import BadOption
from explorer.runtime.binding.launches.launch_code import LaunchCode, RunRow
from explorer.runtime.device_program import instructions as isa

LAUNCHES = ("program", "wave", "operator")  # parts of one launch


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
