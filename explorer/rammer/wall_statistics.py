"""Statistics of a wall: duration, utilisation, launches, and causes of idle time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.decisions.wall import Wall


@dataclass(frozen=True, slots=True)
class WallStatistics:
    """Statistics of one wall, planned, simulated or measured.

    `busy` is the share of units times time that bricks fill, `core_busy` the same of cores, each of
    which has `per_core` units and is busy while one of them is. A profiler calls this utilisation
    of multiprocessors (Rammer, figure 14), where blocks spread over cores first. `overhead_us` is
    time before launches in which no kernel runs, `kernel_us` the remainder (figure 16). `idle`:
    causes with unit-microseconds, the largest first; with the bricks they fill the wall.
    """

    policy: str
    device: str
    kind: str
    units: int
    per_core: int
    bricks: int
    launches: int
    total_us: float
    kernel_us: float
    overhead_us: float
    busy: float
    core_busy: float
    idle: tuple[tuple[str, float], ...]

    @property
    def cores(self) -> int:
        """The number of cores, or multiprocessors."""
        return -(-self.units // self.per_core)


def wall_statistics(wall: Wall, per_core: int = 1) -> WallStatistics:
    """Return the statistics of a wall; `per_core` units are one core."""
    overhead = sum(g.end_us - g.start_us for g in wall.gaps if g.cause == "launch" and g.unit == 0)
    return WallStatistics(
        wall.policy, wall.device, wall.kind, wall.units, per_core, len(wall.bricks),
        len({b.program for b in wall.bricks}), wall.total_us, wall.total_us - overhead, overhead,
        wall.busy, _core_busy(wall, -(-wall.units // per_core)),
        tuple(sorted(idle_by_cause(wall).items(), key=lambda each: -each[1])),
    )  # fmt: skip


def idle_by_cause(wall: Wall) -> dict[str, float]:
    """Return the idle microseconds of all units by cause.

    With the bricks they make up units times time.
    """
    idle: dict[str, float] = {}
    for gap in wall.gaps:
        idle[gap.cause] = idle.get(gap.cause, 0.0) + gap.end_us - gap.start_us
    return idle


def _core_busy(wall: Wall, cores: int) -> float:
    """Return the share of cores times time in which a core has a brick.

    Bricks spread over as many cores as there are.
    """
    if not wall.bricks or wall.total_us <= 0.0:
        return 0.0
    starts = np.sort(np.array([b.start_us for b in wall.bricks]))
    ends = np.sort(np.array([b.end_us for b in wall.bricks]))
    moments = np.unique(np.concatenate((starts, ends)))
    running = np.searchsorted(starts, moments, "right") - np.searchsorted(ends, moments, "right")
    filled = np.minimum(running[:-1], cores) * np.diff(moments)
    return float(filled.sum() / (cores * wall.total_us))
