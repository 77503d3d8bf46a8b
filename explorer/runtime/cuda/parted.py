"""A device program as several launches of its kernel, for comparison: each begins when the one
before is over, so that no unit waits for another one.

One launch an operator is what libraries do; one launch a wave has all operators in it that touch
nothing of each other, as those of a wave of Rammer's wavefront policy do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.errors import BadOption
from explorer.runtime.binding.launches.launch_code import LaunchCode, RunRow
from explorer.runtime.device_program import instructions as isa

LAUNCHES = ("program", "wave", "operator")  # what one launch has


@dataclass(frozen=True, slots=True)
class Touched:
    """The bytes that an operator reads and writes: parts of the one memory, (begin, end)."""

    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]

    def meets(self, other: Touched) -> bool:
        """Whether one writes what the other one touches."""
        return (
            _overlap(self.writes, other.writes)
            or _overlap(self.writes, other.reads)
            or _overlap(self.reads, other.writes)
        )


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    return any(x[0] < y[1] and y[0] < x[1] for x in a for y in b)


def parted(
    code: LaunchCode, launches: str, order: Sequence[str], touched: Callable[[str], Touched]
) -> tuple[LaunchCode, ...]:
    """A launch as one for each wave or operator; `order` are the operators as they begin.

    Raises BadOption where rows decide how they go on: only one kernel can.
    """
    if any(code.marks) or code.pointers:
        raise BadOption(
            f"one launch a {launches} holds no control flow, and here the device decides",
            where="launches",
            try_='launches="program", which is one kernel for all',
        )
    return tuple(_part(code, group) for group in _groups(launches, order, touched))


def _groups(
    launches: str, order: Sequence[str], touched: Callable[[str], Touched]
) -> Iterator[tuple[str, ...]]:
    wave: list[str] = []
    for name in order:
        if wave and (launches == "operator" or any(touched(name).meets(touched(n)) for n in wave)):
            yield tuple(wave)
            wave = []
        wave.append(name)
    if wave:
        yield tuple(wave)


def _part(code: LaunchCode, operators: Collection[str]) -> LaunchCode:
    """The tasks of some operators, of each unit that has any."""
    units, rows, runs = list[int](), list[np.ndarray](), list[dict[int, RunRow]]()
    for unit, own, found in zip(code.units, code.rows, code.runs, strict=True):
        mine = [n for n in sorted(found) if found[n].operator.name in operators]
        if mine:
            kept = own[[*mine, len(own) - 1]].copy()  # the last row is the end
            kept[:, 4] = np.where(kept[:, 0] == isa.RUN, 0, kept[:, 4])  # nobody waits for a step
            units.append(unit)
            rows.append(kept)
            runs.append({n: found[m] for n, m in enumerate(mine)})
    return replace(
        code, units=tuple(units), rows=tuple(rows), runs=tuple(runs), marks=tuple({} for _ in units)
    )
