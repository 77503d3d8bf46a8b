"""The brick wall: the schedule of all units, planned or measured, for one binding of symbols.

A unit's rProgram is its list of runs and waits.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from explorer.plain_text import counted, duration, percent
from explorer.printed import Printed


@dataclass(frozen=True, slots=True)
class Brick:
    """One Run with its times; `last` is not included."""

    unit: int
    start_us: float
    end_us: float
    call: str  # binding name
    first: int
    last: int
    origin: frozenset[str]
    program: int = 0  # number of the launch
    iteration: int = 0  # earlier executions of this Run in a loop


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of a unit and its cause, one of `CAUSES`."""

    unit: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class ControlFlowCounts:
    """The control flow of one binding, counted in one run.

    A loop was entered `times` and made `trips` iterations in all. A branch was decided `times`,
    with its then-arm taken `then` times. A recursion was called from outside `times` and made
    `trips` calls in all, at most `depth` of them open at once.
    """

    binding: str
    kind: str  # "loop", "branch" or "call"
    times: int = 0
    trips: int = 0
    then: int = 0
    depth: int = 0

    @property
    def words(self) -> str:
        """The counts in words."""
        often = "" if self.times == 1 else f", entered {self.times:,} times"
        match self.kind:
            case "loop":
                return f"ran {self.trips:,} iteration{'' if self.trips == 1 else 's'}{often}"
            case "branch":
                return f"then arm {self.then:,} of {self.times:,}"
            case _:
                return f"{self.trips:,} call{'' if self.trips == 1 else 's'}, depth {self.depth:,}"


@dataclass(frozen=True, slots=True)
class Trip:
    """An iteration of the loop that a binding binds; an unrolled one stands for `count` of them."""

    binding: str
    count: int
    begin_us: float
    end_us: float


CAUSES = {  # why a unit is idle, in the field's words
    "dependency": "dependency stall",
    "tail": "wave tail",
    "imbalance": "load imbalance",
    "barrier": "barrier",
    "launch": "launch overhead",
    "library": "library call",
    "preempted": "preempted",
}


@dataclass(frozen=True, slots=True, repr=False)
class Wall(Printed):
    """The brick wall: units by time.

    `kind` is "planned", "measured", "simulated" or "recorded". Only a clock on this machine makes a
    measured wall; one that was read from a file is recorded.
    `host` is what Python runs meanwhile, in a lane of its own below the units': number `units`.
    `ran` and `trips`, of a measured wall, are the counts of its control flow and its first
    iterations.
    """

    kind: str
    bricks: tuple[Brick, ...]
    gaps: tuple[Gap, ...]
    units: int
    total_us: float
    policy: str = ""
    device: str = ""
    cuts_us: tuple[float, ...] = ()  # where one launch ends and the next begins
    host: tuple[Brick, ...] = ()
    ran: tuple[ControlFlowCounts, ...] = ()
    trips: tuple[Trip, ...] = ()

    def __str__(self) -> str:
        """Return the summary line and the causes of idle time."""
        return "\n".join((self.first_line, *(f"  idle: {line}" for line in self._idle())))

    @property
    def first_line(self) -> str:
        """The duration, and the share of time that units are busy."""
        kind = "predicted" if self.kind in ("planned", "simulated") else self.kind
        head = f"{kind} schedule{f' of {self.device}' if self.device else ''}"
        tasks = f"{counted(len(self.bricks), 'task')} in {counted(self.units, 'row')}"
        return f"{head}: {duration(self.total_us)}, {tasks}, {percent(self.busy)} busy"

    def _idle(self) -> list[str]:
        """Return the causes of idle time, the longest first, as shares of all units' time."""
        area, idle_us = self.units * self.total_us, defaultdict[str, float](float)
        for gap in self.gaps:
            idle_us[gap.cause] += gap.end_us - gap.start_us
        causes = sorted(idle_us.items(), key=lambda each: -each[1])
        return [f"{CAUSES.get(cause, cause)} {percent(us / area)}" for cause, us in causes if us]

    @property
    def everything(self) -> tuple[Brick, ...]:
        """The bricks of the units, then those of the host."""
        return (*self.bricks, *self.host)

    @property
    def busy(self) -> float:
        """The share of units times time that bricks fill."""
        area = self.units * self.total_us
        return sum(b.end_us - b.start_us for b in self.bricks) / area if area else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """A unit runs the tasks of a call from `first` up to, not including, `last`. One brick."""

    call: int  # position in RProgram.calls
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A unit waits until another has finished `step` of its own instructions."""

    unit: int
    step: int


Instruction = Run | Wait


@dataclass(frozen=True, slots=True)
class RProgram:
    """One launch: an instruction list for each unit.

    `calls` names the bindings; step n of a unit is its n-th Run. `kernels` is the implementation
    that each call runs with; empty: all run the first.
    """

    units: tuple[tuple[Instruction, ...], ...]
    calls: tuple[str, ...]
    kernels: tuple[int, ...] = ()

    def kernel(self, call: int) -> int:
        """Return the implementation of a call."""
        return self.kernels[call] if self.kernels else 0
