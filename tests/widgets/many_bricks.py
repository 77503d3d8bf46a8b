"""A session over walls with as many bricks as are asked for; nothing of them is ever run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.widgets import made_by_hand as hand
from widgets.model.brick_wall import CAUSES, WallCall, WallRows
from widgets.model.picture import Walls
from widgets.session.session import Session
from widgets.session.shown import WallViews


def wall(
    units: int, bricks: int, calls: tuple[WallCall, ...], kind: str = "planned", slack: float = 1.0
) -> WallRows:
    """Bricks of 0.5 to 3 µs in runs of 60 of a call; every twentieth waits for a barrier."""
    per, rng = bricks // units, np.random.default_rng(units)
    length = rng.integers(5, 30, (units, per)) / 10 * slack
    gap = np.where(rng.random((units, per)) < 0.05, 0.6, 0.02)
    end = np.cumsum(length + gap, 1)
    begin = end - length
    total = float(end.max(initial=0.0))
    unit = np.repeat(np.arange(units, dtype=np.uint32), per)
    task = np.tile(np.arange(per, dtype=np.uint32), units)
    none = np.zeros(units * per, np.uint32)
    before = np.concatenate((np.zeros((units, 1)), end[:, :-1]), 1)
    last = end[:, -1] if per else np.zeros(units)
    cause = np.where(gap > 0.5, CAUSES.index("barrier"), CAUSES.index("dependency"))
    order = np.argsort(np.concatenate((unit, np.arange(units))), kind="stable")
    return WallRows(
        kind,
        units,
        total,
        calls,
        unit,
        begin.ravel(),
        end.ravel(),
        (task // 60 % len(calls)).astype(np.uint32),
        task,
        task,
        none,
        none,
        np.concatenate((unit, np.arange(units, dtype=np.uint32)))[order],
        np.concatenate((before.ravel(), last))[order],
        np.concatenate((begin.ravel(), np.full(units, total)))[order],
        np.concatenate((cause.ravel(), np.full(units, CAUSES.index("tail"))))[order].astype(
            np.uint32
        ),
        device="this-cpu",
    )


def session(units: int = 2, bricks: int = 1_000_000, *, measured: bool = True) -> Session:
    """A session that shows such walls, planned and measured."""
    found = Session(hand.HandMade(), compare=hand.compare)
    found.measure()
    calls = found.house.calls
    rows = wall(units, bricks, calls)
    other = wall(units, bricks, calls, "measured", 1.07) if measured else None
    found.shown = replace(found.shown, views=WallViews(Walls(rows, other)))
    return found
