"""Grinder's decisions: control flow as uTasks, and the schedules that were weighed for it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A uTask: an operator (leaf), or a loop, branch, call or sequence over parts.

    `kind` is "operator", "sequence", "loop", "branch", "call" or "library". `level` is the hardware
    level that runs it: "host" (back to Python), "device" (all units in step, with barriers), or
    "unit" (each on its own).
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
class ControlSchedule:
    """A schedule of control flow.

    `level` is a level as in `TaskTree`, or "both": both arms of a branch are computed and one
    result is selected. A loop tests its condition once in `unroll` iterations. The calls of a
    recursion run on all units "together", on one unit "alone", or on units "apart"; "" where there
    is one unit. Independent loops and branches run "together" or "apart" as well. A single one runs
    on all units together (""), or on one unit "alone".
    """

    level: str
    unroll: int = 1
    calls: str = ""

    @property
    def words(self) -> str:
        """The schedule in words."""
        if self.level == "both":
            return "both sides"
        text = f"unrolled by {self.unroll}" if self.unroll > 1 else self.level
        return f"{text}, {self.calls}" if self.calls else text


@dataclass(frozen=True, slots=True)
class MeasuredSchedule:
    """A schedule that was timed in whole runs on this machine, beside the prediction.

    Both times are of one iteration or decision. `rank` 1 is the model's first choice.
    """

    rank: int
    schedule: ControlSchedule
    predicted_us: float
    measured_us: float


COST_UNITS = {
    "loop": "iteration",
    "branch": "decision",
    "call": "call",
    "group": "entry",
}  # by kind


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """The schedules that were weighed for a loop, a branch, or the outermost call of a recursion.

    The choice stands first. A candidate's terms are predictions for one iteration, decision or
    call. `measured` are those that were timed, the choice first; they lead the candidates.
    """

    binding: str
    kind: str  # "loop", "branch", "call", or "group": of those that need nothing of each other
    chosen: ControlSchedule
    candidates: tuple[Candidate[ControlSchedule], ...]
    reason: str = ""
    measured: tuple[MeasuredSchedule, ...] = ()
