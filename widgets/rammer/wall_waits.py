"""Who waits for whom: the barriers of a wall, each from the last awaited brick to the one that
waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.ir.decisions.rprogram import Instruction, RProgram, Wait
from widgets.model.brick_wall import WallRows

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Waits:
    """One entry a Wait: the positions of the brick that waits and of the one it waits for."""

    reader: Places
    awaited: Places

    def __len__(self) -> int:
        return len(self.reader)


NONE = Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))


def waits(rows: WallRows, programs: Sequence[RProgram]) -> Waits:
    """The waits of all launches of a wall; `programs` in the order in which it numbers them."""
    if not rows.bricks:
        return NONE
    order = np.lexsort((rows.unit, rows.trip, rows.launch))  # stable: by start within a unit
    launch, trip = rows.launch[order].astype(np.int64), rows.trip[order].astype(np.int64)
    begins = np.flatnonzero(np.r_[True, (np.diff(launch) != 0) | (np.diff(trip) != 0)])
    ends = np.r_[begins[1:], len(order)]
    known = {n: _template(p.units) for n, p in enumerate(programs)}
    readers, awaited = [], []
    for a, b in zip(begins.tolist(), ends.tolist()):
        template = known.get(int(launch[a]))
        if template is None or not len(template):
            continue
        rows_ = np.searchsorted(rows.unit[order[a:b]], np.arange(rows.units + 1))
        one, other = (rows_[template[:, n]] + template[:, n + 1] for n in (0, 2))
        there = (one < rows_[template[:, 0] + 1]) & (other < rows_[template[:, 2] + 1])
        readers.append(order[a:b][one[there]])
        awaited.append(order[a:b][other[there]])
    if not readers:
        return NONE
    return Waits(np.concatenate(readers), np.concatenate(awaited))


def _template(units: Sequence[Sequence[Instruction]]) -> Places:
    """For each Wait: the unit and the number of the Run after it, then those of the awaited one."""
    return np.array(list(_rows(units)), np.int64).reshape(-1, 4)


def _rows(units: Sequence[Sequence[Instruction]]) -> Iterator[tuple[int, int, int, int]]:
    for unit, rows in enumerate(units):
        runs = 0
        for row in rows:
            if isinstance(row, Wait):
                yield unit, runs, row.unit, row.step - 1
            else:
                runs += 1
