"""The waits of a wall: each links the last awaited brick to the brick that waits for it."""

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
    """One entry per Wait: the position of the waiting brick and of the awaited one."""

    reader: Places
    awaited: Places

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self.reader)


NONE = Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))


def waits(rows: WallRows, programs: Sequence[RProgram]) -> Waits:
    """Return the waits of all launches of a wall; `programs` are in launch order."""
    if not rows.bricks:
        return NONE
    order = np.lexsort((rows.unit, rows.trip, rows.launch))  # stable: by start within a unit
    launch, trip = rows.launch[order].astype(np.int64), rows.trip[order].astype(np.int64)
    begins = np.flatnonzero(np.r_[True, (np.diff(launch) != 0) | (np.diff(trip) != 0)])
    ends = np.r_[begins[1:], len(order)]
    templates = {n: _template(p.units) for n, p in enumerate(programs)}
    readers, awaited = [], []
    for a, b in zip(begins.tolist(), ends.tolist()):
        template = templates.get(int(launch[a]))
        if template is None or not len(template):
            continue
        unit_begins = np.searchsorted(rows.unit[order[a:b]], np.arange(rows.units + 1))
        reader_places, awaited_places = (
            unit_begins[template[:, n]] + template[:, n + 1] for n in (0, 2)
        )
        present = (reader_places < unit_begins[template[:, 0] + 1]) & (
            awaited_places < unit_begins[template[:, 2] + 1]
        )
        readers.append(order[a:b][reader_places[present]])
        awaited.append(order[a:b][awaited_places[present]])
    if not readers:
        return NONE
    return Waits(np.concatenate(readers), np.concatenate(awaited))


def _template(units: Sequence[Sequence[Instruction]]) -> Places:
    """Return for each Wait: unit and number of the Run after it, then those of the awaited Run."""
    return np.array(list(_rows(units)), np.int64).reshape(-1, 4)


def _rows(units: Sequence[Sequence[Instruction]]) -> Iterator[tuple[int, int, int, int]]:
    for unit, rows in enumerate(units):
        runs = 0
        for row in rows:
            if isinstance(row, Wait):
                yield unit, runs, row.unit, row.step - 1
            else:
                runs += 1
