"""What Grinder decided: control flow as uTasks, and the ways that were weighed for it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A uTask: an operator (leaf), or a loop, branch, call or sequence over parts, run at a
    hardware level.

    `kind` is "operator", "sequence", "loop", "branch", "call" or "library"; `level` is "host" (back
    to Python), "device" (all units in step, barriers between), or "unit" (each on its own).
    """

    kind: str
    name: str
    level: str
    parts: tuple[TaskTree, ...] = ()
    binding: str = ""
    reason: str = ""
    barriers_per_trip: int = 0
    origin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ControlWay:
    """How control flow may run: at a level as in `TaskTree`, or "both": both sides of a branch
    are computed and one is selected. A turn of a loop makes `turn` trips. Units make the `calls` of
    a recursion all "together", one "alone", or "apart"; "" where there is one unit. Loops and
    branches that need nothing of each other they run "together" or "apart" as well; one that
    stands alone all together (""), or one unit "alone".
    """

    level: str
    turn: int = 1
    calls: str = ""

    @property
    def words(self) -> str:
        """What texts call it."""
        if self.level == "both":
            return "both sides"
        said = f"unrolled by {self.turn}" if self.turn > 1 else self.level
        return f"{said}, {self.calls}" if self.calls else said


@dataclass(frozen=True, slots=True)
class MeasuredWay:
    """A way that was timed in whole runs on this machine, beside what the model had said of a trip
    or decision; `rank` 1 is the model's first.
    """

    rank: int
    way: ControlWay
    predicted_us: float
    measured_us: float


COSTS_ARE_OF = {
    "loop": "iteration",
    "branch": "decision",
    "call": "call",
    "group": "entry",
}  # by kind


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """The ways that were weighed for the loop, branch or outermost call of a recursion that a
    binding binds, the one taken first; a candidate's terms are of one trip, decision or call, as
    predicted. `measured` are those that were timed, the one taken first; they lead the candidates.
    """

    binding: str
    kind: str  # "loop", "branch", "call", or "group": of those that need nothing of each other
    chosen: ControlWay
    candidates: tuple[Candidate[ControlWay], ...]
    reason: str = ""
    measured: tuple[MeasuredWay, ...] = ()
