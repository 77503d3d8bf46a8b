"""What tasks took on this machine, by the clock: what a profiler feeds back to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.cached_property import cached_property

Sizes: TypeAlias = tuple[tuple[str, int], ...]  # of a kernel's symbols, under canonical names


@dataclass(frozen=True, slots=True)
class TaskTime:
    """Microseconds of one task: the mean of the middle half of several runs, `runs` of them.

    `kernel`: the content hash of its code, so of its text, its tiling and the processor that it was
    made for; of a library call, that of the call. `place`: the call of the profiled program that it
    was measured at, "" for the kernel wherever it stands: how much of its operands a cache still
    holds differs from place to place. `kept_us`: where the part of its constants that it reads was
    in its unit's private cache (0: not seen).
    """

    kernel: str
    sizes: Sizes
    place: str
    us: float
    kept_us: float = 0.0
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Overheads:
    """What stood between bricks, as medians in microseconds: from the beginning of a run to its
    first brick and from its last one to the end; through Python to a further launch or library
    call; from the end of an awaited brick to the start of the one that waits; from a brick to the
    unit's next that need not wait.
    """

    launch_us: float
    again_us: float
    barrier_us: float
    step_us: float


@dataclass(frozen=True)
class TaskProfile:
    """Measured times, for plans on `threads` units of the machine that `device` describes.

    `overheads` and `trips` are known where the program itself ran: the trips of loops, by name, the
    calls of recursions, how deep they nested ("name/depth"), and how many of them took the first
    way of a branch ("name/then").
    """

    device: str
    threads: int
    times: tuple[TaskTime, ...]
    overheads: Overheads | None = None
    trips: tuple[tuple[str, int], ...] = ()

    def fits(self, threads: int) -> bool:
        """Whether it was measured on as many units."""
        return self.threads == threads

    def of(self, kernel: str, sizes: Sizes, place: str) -> TaskTime | None:
        """The time at that place, else that of the kernel wherever it was measured."""
        return self._known.get((kernel, sizes, place)) or self._known.get((kernel, sizes, ""))

    @cached_property
    def _known(self) -> Mapping[tuple[str, Sizes, str], TaskTime]:
        return {(t.kernel, t.sizes, t.place): t for t in self.times}
