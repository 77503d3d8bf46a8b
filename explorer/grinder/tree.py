"""Tree of uTasks for pictures, and the pass that stores it in the program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.grinder.host import analyse_host
from explorer.grinder.independent import is_remainder
from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
    Value,
)
from explorer.grinder.options import Options
from explorer.grinder.policy import ControlSchedules, LevelPolicy, lowest
from explorer.grinder.transform import uprogram
from explorer.ir.decisions.control import TaskTree
from explorer.ir.program import Program
from explorer.ir.stage import Stage

BESIDE = "; independent of the previous one"
ALONE = "; on one unit, without barriers"


@dataclass(frozen=True, slots=True)
class Grind:
    """After: the tree of uTasks is among the decisions, each loop and branch with its level."""

    options: Options = Options()

    @property
    def remembered(self) -> bool:
        """True unless the policy is a function, whose answer may change between runs."""
        return isinstance(self.options.schedule, str)

    def __call__(self, program: Program) -> Program:
        """Return the program at stage TASKED."""
        decisions = replace(
            program.decisions,
            tasks=task_tree(program, self.options.control_schedules),
            grinder=self.options,
        )
        return replace(program, stage=max(program.stage, Stage.TASKED), decisions=decisions)


def task_tree(program: Program, schedules: ControlSchedules | LevelPolicy = lowest) -> TaskTree:
    """Return the tree of a program as a sequence of uTasks."""
    tasks = uprogram(program, schedules)
    python = any(isinstance(p, LibraryTask) or _is_host(p) for p in tasks.parts)
    dynamic = analyse_host(program, tasks.hosted).dynamic
    worst = "host" if python or program.main.name in dynamic else "device"
    chosen = schedules.chosen.values() if isinstance(schedules, ControlSchedules) else ()
    alone = frozenset(d.binding for d in chosen if d.chosen.calls == "alone")
    parts = tuple(t for part in tasks.parts for t in _trees(part, tasks.values, alone))
    return TaskTree("sequence", program.name, worst, parts, reason="the whole program")


def _is_host(part: UTask) -> bool:
    return isinstance(part, (LoopTask, BranchTask)) and part.level == "host"


def _trees(part: UTask, values: Mapping[str, Value], alone: Collection[str]) -> list[TaskTree]:
    """Return the trees of a part.

    `alone` are the bindings that one unit runs, at the sizes that tiles are chosen for.
    """
    match part:
        case Straight(operators):
            return [
                TaskTree("operator", o.name, "device", binding=o.binding, origin=o.origin)
                for o in operators
            ]
        case LibraryTask(name, binding, call, _, _, origin):
            reason = f"{call.library}.{call.function} runs in Python"
            if call.library == "host":
                reason = f"Python follows {call.function}, which calls itself: {call.attrs[0][1]}"
            return [TaskTree("library", name, "host", (), binding, reason, 0, origin)]
        case RecursionTask(name, binding, level, reason, body=body, origin=origin):
            inner = tuple(t for p in body for t in _trees(p, values, alone))
            return [TaskTree("call", name, level, inner, binding, reason, 2, origin)]
        case CallTask(name, binding, _, function, origin=origin):
            reason = f"{function} again, in the next frame"
            return [TaskTree("call", name, "device", (), binding, reason, 2, origin)]
        case LoopTask():
            reason = _reason(part, alone)
            inner = tuple(t for p in part.body for t in _trees(p, values, alone))
            count = 0 if part.binding in alone else barriers_per_trip(part, values)
            return [
                TaskTree(
                    "loop",
                    part.name,
                    part.level,
                    inner,
                    part.binding,
                    reason,
                    count,
                    part.origin,
                )
            ]
        case BranchTask():
            reason = _reason(part, alone)
            arms = tuple(
                TaskTree(
                    "sequence",
                    label,
                    part.level,
                    tuple(t for p in arm for t in _trees(p, values, alone)),
                )
                for label, arm in (("then", part.then), ("else", part.orelse))
            )
            unmet = part.level == "host" or part.binding in alone
            count = 0 if unmet else branch_barriers(part, values)
            return [
                TaskTree(
                    "branch",
                    part.name,
                    part.level,
                    arms,
                    part.binding,
                    reason,
                    count,
                    part.origin,
                )
            ]


def _reason(part: LoopTask | BranchTask, alone: Collection[str]) -> str:
    """Return why a part runs at its level, and on which units."""
    beside = BESIDE if part.beside and not is_remainder(part) else ""
    return f"{part.reason}{ALONE if part.binding in alone else ''}{beside}"


def branch_barriers(branch: BranchTask, values: Mapping[str, Value]) -> int:
    """Return the largest number of barriers that reads of a branch's condition need."""
    return 1 + any(arm_needs_barrier(branch, arm, values) for arm in (1, 2))


def barriers_per_trip(loop: LoopTask, values: Mapping[str, Value]) -> int:
    """Return the number of barriers in one trip, without those of control flow in the body."""
    if loop.level == "host":
        return 0
    staged = any(c.staging for c in loop.carried) or any(s.value != s.row for s in loop.stacked)
    return 1 + loop_needs_barrier(loop, values) + max(0, len(loop.body) - 1) + 1 + staged


Pair = tuple[str, str]  # target and source of a copy


def loop_needs_barrier(loop: LoopTask, values: Mapping[str, Value]) -> bool:
    """Return True if a barrier must separate the loop's end condition from its body."""
    return loop.checked and needs_barrier(loop.going, loop.body, (), values)


def arm_needs_barrier(branch: BranchTask, arm: int, values: Mapping[str, Value]) -> bool:
    """Return True if a barrier must precede a branch's first arm (`arm` 1) or second arm (2)."""
    parts = branch.then if arm == 1 else branch.orelse
    return needs_barrier(branch.cond, parts, [(row[0], row[arm]) for row in branch.results], values)


def needs_barrier(
    scalar: str, parts: Sequence[UTask], copied: Sequence[Pair], values: Mapping[str, Value]
) -> bool:
    """Return True if the first part may overwrite the scalar, or if no first part is known.

    `copied` follows the parts.
    """
    written = [to for to, source in copied if not values[to].is_at(values[source])]
    if parts:
        first = parts[0]
        if not isinstance(first, Straight):
            return True
        written = [name for operator in first.operators for name in operator.results]
    return not written or any(values[name].root == values[scalar].root for name in written)
