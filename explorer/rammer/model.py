"""What a scheduling policy is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block


@dataclass(frozen=True, slots=True)
class RTask:
    """The smallest thing that is scheduled: one task of an operator, on one unit."""

    operator: int
    index: int


@dataclass(frozen=True, slots=True)
class RKernel:
    """One implementation of an operator: how it is cut into tasks, and how long each takes.

    `name`: "fastest", "efficient", or of the only one; `source`: "modelled" or "measured". `block`
    is its thread block on a data sheet; None where none is printed.
    """

    name: str
    tasks: int
    task_us: float
    kept_us: float = 0.0
    source: str = "modelled"
    block: Block | None = None

    @property
    def work_us(self) -> float:
        """The time of all tasks on one unit."""
        return self.tasks * self.task_us


@dataclass(frozen=True, slots=True)
class ROperator:
    """A kernel call under one binding of the sizes: independent tasks of equal length.

    `reads` are the positions of the operators whose results it reads; they stand before it.
    `kernels` are its implementations, the first of which `tasks` and `task_us` tell of.
    `constant` names its largest constant operand, of `constant_bytes` in all; `kept_us` is the time
    of a task whose part of it is still in its unit's private cache (0: as `task_us`). `kind`
    "library": a call that holds unit 0 for `task_us`, with the others idle. `aligned` are those of
    `reads` of which task n reads only what their task n wrote; both have as many tasks. `source`:
    where its times come from, "modelled" or "measured".
    """

    name: str
    tasks: int
    task_us: float
    reads: tuple[int, ...] = ()
    origin: frozenset[str] = frozenset()
    kernels: tuple[RKernel, ...] = ()
    constant: str = ""
    constant_bytes: int = 0
    kept_us: float = 0.0
    kind: str = ""
    aligned: tuple[int, ...] = ()
    source: str = "modelled"

    @property
    def work_us(self) -> float:
        """The time of all tasks on one unit."""
        return self.tasks * self.task_us

    def kernel(self, number: int) -> RKernel:
        """One of its implementations."""
        if not self.kernels:
            return RKernel("only", self.tasks, self.task_us, self.kept_us, self.source)
        return self.kernels[number]


@dataclass(frozen=True, slots=True)
class VDevice:
    """Equal virtual execution units, and what launches and waits for each other cost.

    `cache_bytes`: the private cache of a unit (0: none that is known); `per_core`: units of one
    core, the resident blocks of a multiprocessor. `together`: a launch reaches all units at once,
    as a GPU's does; else they hear of it from the first. `resident`: units stay between rPrograms,
    where a barrier stands and no launch. `step_us`: from a unit's brick to its next.
    """

    units: int
    barrier_us: float = 0.0
    launch_us: float = 0.0
    cache_bytes: int = 0
    per_core: int = 1
    together: bool = False
    resident: bool = False
    step_us: float = 0.0

    @property
    def between_us(self) -> float:
        """From the end of an rProgram to the start of the next."""
        return self.barrier_us if self.resident else self.launch_us

    @property
    def first_starts(self) -> list[float]:
        """When each unit can start after a launch."""
        later_us = 0.0 if self.together or self.resident else self.barrier_us
        return [0.0] + [later_us] * (self.units - 1)


@dataclass(frozen=True, slots=True)
class Facts:
    """Operators in an order in which they could run, and the device that they run on."""

    operators: tuple[ROperator, ...]
    device: VDevice


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks `first .. last-1` of an operator, all on one unit; `kernel` is the position of the
    implementation that the operator runs with.
    """

    operator: int
    unit: int
    first: int
    last: int
    kernel: int = 0


Weighed: TypeAlias = Candidate[str | None]
"""A merge or a move, which is in its label alone, or a kind of kernels: `efficient`."""


@dataclass(frozen=True, slots=True)
class Placement:
    """For each rProgram its shares; those of one unit run in the order in which they stand.

    `weighed` keeps what the policy compared, for the pictures: merges of waves, with their times.
    """

    programs: tuple[tuple[Share, ...], ...]
    weighed: tuple[Weighed, ...] = ()


Policy: TypeAlias = Callable[[Facts], Placement]
