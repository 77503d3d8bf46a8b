"""Device model of Rammer's published code: all tasks of an operator start together.

A lane is filled at its end. An operator waits until as many lanes as it needs are free. If it reads
a result of the same program, its lanes and those of its operands are aligned to one time, one
synchronisation after the last of them (one cell of that code; here a barrier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.rammer.model import ROperator, Share, VDevice


@dataclass(slots=True)
class GangLanes:
    """A group that grows.

    `contiguous`: an operator's lanes must be adjacent (the policy RANGE; its published test looks
    at the first lane only and may start on busy ones; this one does not).
    """

    device: VDevice
    free: np.ndarray
    contiguous: bool = False
    used: dict[int, np.ndarray] = field(default_factory=dict)  # by operator, its lanes
    shares: list[Share] = field(default_factory=list)

    @staticmethod
    def empty(device: VDevice, contiguous: bool = False) -> GangLanes:
        """Return a group in which nothing is placed."""
        return GangLanes(device, np.zeros(device.units), contiguous)

    @property
    def estimate_us(self) -> float:
        """The end of the longest lane."""
        return float(self.free.max())

    def take_back(self, operators: Sequence[int], count: int, free: np.ndarray) -> None:
        """Remove these operators and restore `count` shares and the ends `free` of the lanes."""
        for position in operators:
            self.used.pop(position, None)
        del self.shares[count:]
        self.free = free

    def place(self, position: int, operator: ROperator, kernel: int = 0) -> None:
        """Place all tasks on the first lanes that are free, as soon as enough are."""
        chosen = operator.kernel(kernel)
        needed = min(chosen.tasks, len(self.free))
        if not needed:
            return
        begin_us, lanes = self._first_free(needed)
        awaited = [self.used[read] for read in operator.reads if read in self.used]
        if awaited:
            others = np.concatenate(awaited)
            aligned_us = max(begin_us, float(self.free[others].max()) + self.device.barrier_us)
            self.free[others] = np.maximum(self.free[others], aligned_us)
            begin_us = aligned_us
        rounds = -(-chosen.tasks // needed)
        self.free[lanes] = begin_us + rounds * chosen.task_us
        self.used[position] = lanes
        cuts = [chosen.tasks * n // needed for n in range(needed + 1)]
        for n, unit in enumerate(lanes.tolist()):
            self.shares.append(Share(position, unit, cuts[n], cuts[n + 1], kernel))

    def _first_free(self, needed: int) -> tuple[float, np.ndarray]:
        """Return the first moment at which that many lanes are free, and the first of them."""
        if not self.contiguous:
            begin_us = float(np.partition(self.free, needed - 1)[needed - 1])
            return begin_us, np.flatnonzero(self.free <= begin_us)[:needed]
        windows = np.lib.stride_tricks.sliding_window_view(self.free, needed).max(axis=1)
        first = int(windows.argmin())
        return float(windows[first]), np.arange(first, first + needed)
