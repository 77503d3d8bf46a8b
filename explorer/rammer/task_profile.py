"""Measured times of tasks on this machine, which a profiler feeds back to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cached_property import cached_property

Sizes: TypeAlias = tuple[tuple[str, int], ...]  # of a kernel's symbols, under canonical names


@dataclass(frozen=True, slots=True)
class TaskTime:
    """Microseconds of one task: the mean of the middle half of several runs, `runs` of them.

    `kernel`: the content hash of its code (its text, its tiling and the target processor); of a
    library call, that of the call. `place`: the call of the profiled program that it was measured
    at, "" for the kernel anywhere: how much of its operands a cache still holds differs from place
    to place. `cached_us`: the time if its part of the constants was in its unit's private cache (0:
    not seen).
    """

    kernel: str
    sizes: Sizes
    place: str
    us: float
    cached_us: float = 0.0
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Overheads:
    """Overheads between bricks, as medians in microseconds.

    `launch_us`: from the start of a run to its first brick plus from its last one to the end;
    `again_us`: through Python to a further launch or library call; `barrier_us`: from the end of an
    awaited brick to the start of the waiting one; `step_us`: from a brick to the unit's next that
    need not wait.
    """

    launch_us: float
    again_us: float
    barrier_us: float
    step_us: float


@dataclass(frozen=True)
class TaskProfile:
    """Measured times, for plans on `threads` units of the machine that `device` describes.

    `overheads` and `trips` are known where the program itself ran: the trips of loops by name, the
    calls of recursions, their depth ("name/depth"), and how often branches took the first arm
    ("name/then").
    """

    device: str
    threads: int
    times: tuple[TaskTime, ...]
    overheads: Overheads | None = None
    trips: tuple[tuple[str, int], ...] = ()

    def fits(self, threads: int) -> bool:
        """Return True if it was measured on as many units."""
        return self.threads == threads

    def of(self, kernel: str, sizes: Sizes, place: str) -> TaskTime | None:
        """Return the time at that place, else that of the kernel at any place."""
        return self._by_key.get((kernel, sizes, place)) or self._by_key.get((kernel, sizes, ""))

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, Sizes, str], TaskTime]:
        return {(t.kernel, t.sizes, t.place): t for t in self.times}
