"""What a scheduling policy is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions import Candidate


@dataclass(frozen=True, slots=True)
class RTask:
    """The smallest thing that is scheduled: one task of an operator, on one unit."""

    operator: int
    index: int


@dataclass(frozen=True, slots=True)
class ROperator:
    """A kernel call under one binding of the sizes: independent tasks of equal length.

    `reads` are the positions of the operators whose results it reads; they stand before it.
    """

    name: str
    tasks: int
    task_us: float
    reads: tuple[int, ...] = ()
    origin: frozenset[str] = frozenset()

    @property
    def work_us(self) -> float:
        """The time of all tasks on one unit."""
        return self.tasks * self.task_us


@dataclass(frozen=True, slots=True)
class VDevice:
    """Equal virtual execution units, and what launches and waits for each other cost."""

    units: int
    barrier_us: float = 0.0
    launch_us: float = 0.0

    @property
    def first_starts(self) -> list[float]:
        """When each unit can start after a launch: the others hear of it from the first."""
        return [0.0] + [self.barrier_us] * (self.units - 1)


@dataclass(frozen=True, slots=True)
class Facts:
    """Operators in an order in which they could run, and the device that they run on."""

    operators: tuple[ROperator, ...]
    device: VDevice


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks `first .. last-1` of an operator, all on one unit."""

    operator: int
    unit: int
    first: int
    last: int

    @property
    def rtasks(self) -> Iterator[RTask]:
        """Its tasks, in order."""
        return (RTask(self.operator, index) for index in range(self.first, self.last))


@dataclass(frozen=True, slots=True)
class Placement:
    """For each rProgram its shares; those of one unit run in the order in which they stand.

    `weighed` keeps what the policy compared, for the pictures: merges of waves, with their times.
    """

    programs: tuple[tuple[Share, ...], ...]
    weighed: tuple[Candidate, ...] = ()


Policy: TypeAlias = Callable[[Facts], Placement]
