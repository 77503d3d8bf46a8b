"""The brick wall: when each unit runs what, planned or measured. Evaluated per binding of the
symbols.
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
    program: int = 0  # which launch
    iteration: int = 0  # how often this Run had run before: a loop runs it again


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of a unit and its cause: dependency, tail, imbalance, barrier, launch, library, or
    preempted.
    """

    unit: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class Ran:
    """What the control flow that a binding binds did in one run. A loop was entered `times` and
    made so many `trips` in all; a branch was decided `times`, for its first side `then` of them; a
    recursion was called from outside `times`, was `trips` calls in all, `depth` open at most.
    """

    binding: str
    kind: str  # "loop", "branch" or "call"
    times: int = 0
    trips: int = 0
    then: int = 0
    depth: int = 0

    @property
    def words(self) -> str:
        """In words."""
        often = "" if self.times == 1 else f", entered {self.times:,} times"
        match self.kind:
            case "loop":
                return f"ran {self.trips:,} iteration{'' if self.trips == 1 else 's'}{often}"
            case "branch":
                return f"then side {self.then:,} of {self.times:,}"
            case _:
                return f"{self.trips:,} call{'' if self.trips == 1 else 's'}, depth {self.depth:,}"


@dataclass(frozen=True, slots=True)
class Trip:
    """A trip of the loop that a binding binds in one run; a turn of several `count` them."""

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
    """The brick wall: units by time. `kind` is "planned", "measured", "simulated" or
    "recorded"; only a clock says measured, and what a file says was measured is recorded.

    `host` is what Python runs meanwhile, in a lane of its own below the units': number `units`.
    `ran` and `trips`, of a measured wall, are what its control flow did, and its first trips.
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
    ran: tuple[Ran, ...] = ()
    trips: tuple[Trip, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.first_line, *(f"  idle: {line}" for line in self._idle())))

    @property
    def first_line(self) -> str:
        """How long it takes, and how busy the units are."""
        kind = "predicted" if self.kind in ("planned", "simulated") else self.kind
        head = f"{kind} schedule{f' of {self.device}' if self.device else ''}"
        tasks = f"{counted(len(self.bricks), 'task')} in {counted(self.units, 'row')}"
        return f"{head}: {duration(self.total_us)}, {tasks}, {percent(self.busy)} busy"

    def _idle(self) -> list[str]:
        """The causes of idle time, the longest first, as shares of all units' time."""
        area, found = self.units * self.total_us, defaultdict[str, float](float)
        for gap in self.gaps:
            found[gap.cause] += gap.end_us - gap.start_us
        causes = sorted(found.items(), key=lambda each: -each[1])
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
