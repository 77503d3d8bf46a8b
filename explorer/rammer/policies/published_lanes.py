"""The device model of Rammer's published code: all tasks of an operator start together.

A lane is filled from its end on. An operator waits until as many lanes as it needs are free; where
it reads what is in the same program, its lanes and those of its operands are brought to one time,
one synchronisation after the last of them (one cell of that code; here a barrier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.rammer.model import ROperator, Share, VDevice


@dataclass(slots=True)
class GangLanes:
    """A group that grows. `contiguous`: an operator's lanes must be neighbours (the policy RANGE;
    its published test looks at the first lane only and may start on busy ones; this one does not).
    """

    device: VDevice
    free: np.ndarray
    contiguous: bool = False
    used: dict[int, np.ndarray] = field(default_factory=dict)  # by operator, its lanes
    shares: list[Share] = field(default_factory=list)

    @staticmethod
    def empty(device: VDevice, contiguous: bool = False) -> GangLanes:
        """A group in which nothing is placed."""
        return GangLanes(device, np.zeros(device.units), contiguous)

    @property
    def estimate_us(self) -> float:
        """The longest lane."""
        return float(self.free.max())

    def take_back(self, operators: Sequence[int], count: int, free: np.ndarray) -> None:
        """Forget these operators, without which there were `count` shares and lanes ended so."""
        for position in operators:
            self.used.pop(position, None)
        del self.shares[count:]
        self.free = free

    def place(self, position: int, operator: ROperator, kernel: int = 0) -> None:
        """Put all its tasks on the first lanes that are free when enough are."""
        chosen = operator.kernel(kernel)
        needed = min(chosen.tasks, len(self.free))
        if not needed:
            return
        begin_us, lanes = self._enough(needed)
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

    def _enough(self, needed: int) -> tuple[float, np.ndarray]:
        """The first moment at which so many lanes are free, and the first of them."""
        if not self.contiguous:
            begin_us = float(np.partition(self.free, needed - 1)[needed - 1])
            return begin_us, np.flatnonzero(self.free <= begin_us)[:needed]
        windows = np.lib.stride_tricks.sliding_window_view(self.free, needed).max(axis=1)
        first = int(windows.argmin())
        return float(windows[first]), np.arange(first, first + needed)
