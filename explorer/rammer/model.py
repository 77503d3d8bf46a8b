"""Inputs and outputs of scheduling policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling


@dataclass(frozen=True, slots=True)
class RTask:
    """The unit of scheduling: one task of an operator, on one unit."""

    operator: int
    index: int


@dataclass(frozen=True, slots=True)
class RKernel:
    """One implementation of an operator: its number of tasks, and the time of each.

    `name`: "fastest", "efficient" or "only"; `source`: "modelled" or "measured". `block` is its
    thread block on a data sheet; None where none is printed.
    """

    name: str
    tasks: int
    task_us: float
    cached_us: float = 0.0
    source: str = "modelled"
    block: Tiling | None = None

    @property
    def work_us(self) -> float:
        """The time of all tasks on one unit."""
        return self.tasks * self.task_us


@dataclass(frozen=True, slots=True)
class ROperator:
    """A kernel call under one binding of the sizes: independent tasks of equal length.

    `reads` are the positions of the operators whose results it reads; they precede it. `kernels`
    are its implementations; `tasks` and `task_us` are those of the first. `constant` names its
    largest constant operand, of `constant_bytes` in all; `cached_us` is the time of a task whose
    part of it is still in its unit's private cache (0: same as `task_us`). `kind` "library": a call
    that occupies unit 0 for `task_us`, with the others idle. `aligned` are those of `reads` of
    which task n reads only what their task n wrote; both have as many tasks. `source`: the origin
    of its times, "modelled" or "measured".
    """

    name: str
    tasks: int
    task_us: float
    reads: tuple[int, ...] = ()
    origin: frozenset[str] = frozenset()
    kernels: tuple[RKernel, ...] = ()
    constant: str = ""
    constant_bytes: int = 0
    cached_us: float = 0.0
    kind: str = ""
    aligned: tuple[int, ...] = ()
    source: str = "modelled"

    @property
    def work_us(self) -> float:
        """The time of all tasks on one unit."""
        return self.tasks * self.task_us

    def kernel(self, number: int) -> RKernel:
        """Return one of its implementations."""
        if not self.kernels:
            return RKernel("only", self.tasks, self.task_us, self.cached_us, self.source)
        return self.kernels[number]


@dataclass(frozen=True, slots=True)
class VDevice:
    """Equal virtual execution units, and the costs of launches and of waits.

    `cache_bytes`: the private cache of a unit (0: unknown); `per_core`: units of one core, the
    resident blocks of a multiprocessor. `together`: a launch reaches all units at once, as on a
    GPU; otherwise the first unit wakes the others. `resident`: units stay between rPrograms, which
    a barrier separates, not a launch. `step_us`: from a unit's brick to its next.
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
        """The time from the end of an rProgram to the start of the next."""
        return self.barrier_us if self.resident else self.launch_us

    @property
    def first_starts(self) -> list[float]:
        """The time after a launch at which each unit can start."""
        later_us = 0.0 if self.together or self.resident else self.barrier_us
        return [0.0] + [later_us] * (self.units - 1)


@dataclass(frozen=True, slots=True)
class Facts:
    """Operators in a topological order, and the device that they run on."""

    operators: tuple[ROperator, ...]
    device: VDevice


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks `first .. last-1` of an operator, all on one unit.

    `kernel` is the index of the implementation that the operator runs with.
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
    """The shares of each rProgram; those of one unit run in the order in which they are listed.

    `weighed` are the candidates that the policy compared, for pictures: merges of waves, with their
    times.
    """

    programs: tuple[tuple[Share, ...], ...]
    weighed: tuple[Weighed, ...] = ()


Policy: TypeAlias = Callable[[Facts], Placement]
