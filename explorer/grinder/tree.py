"""The tree of uTasks as pictures show it, and the pass that leaves it in the program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from explorer.grinder.host import host_of
from explorer.grinder.independent import is_rest
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
from explorer.grinder.policy import LevelPolicy, Ways, lowest
from explorer.grinder.scalar_barriers import arm_needs_barrier, loop_needs_barrier
from explorer.grinder.transform.uprogram import uprogram
from explorer.ir.decisions.control import TaskTree
from explorer.ir.program import Program
from explorer.ir.stage import Stage

BESIDE = "; it needs nothing of the one before it, nor that of it"
ALONE = "; one unit does it, which waits for nobody"


@dataclass(frozen=True, slots=True)
class Grind:
    """After: the tree of uTasks stands among the decisions, each loop and branch with its level."""

    options: Options = Options()

    @property
    def remembered(self) -> bool:
        """Not with a function: what it answers today says nothing of tomorrow."""
        return isinstance(self.options.schedule, str)

    def __call__(self, program: Program) -> Program:
        """The program at stage TASKED."""
        decisions = replace(
            program.decisions,
            tasks=task_tree(program, self.options.ways),
            grinder=self.options,
        )
        return replace(program, stage=max(program.stage, Stage.TASKED), decisions=decisions)


def task_tree(program: Program, ways: Ways | LevelPolicy = lowest) -> TaskTree:
    """The tree for pictures: the whole program as a sequence of uTasks."""
    found = uprogram(program, ways)
    python = any(isinstance(p, LibraryTask) or _is_host(p) for p in found.parts)
    dynamic = host_of(program, found.hosted).dynamic
    worst = "host" if python or program.main.name in dynamic else "device"
    chosen = ways.chosen.values() if isinstance(ways, Ways) else ()
    alone = frozenset(d.binding for d in chosen if d.chosen.calls == "alone")
    parts = tuple(t for part in found.parts for t in _trees(part, found.values, alone))
    return TaskTree("sequence", program.name, worst, parts, reason="the whole program")


def _is_host(part: UTask) -> bool:
    return isinstance(part, (LoopTask, BranchTask)) and part.level == "host"


def _trees(part: UTask, values: Mapping[str, Value], alone: Collection[str]) -> list[TaskTree]:
    """`alone` are the bindings that one unit does, at the sizes that tiles are chosen for."""
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
            count = 0 if unmet else barriers_of(part, values)
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
    """Why it runs at its level, and on which units."""
    beside = BESIDE if part.beside and not is_rest(part) else ""
    return f"{part.reason}{ALONE if part.binding in alone else ''}{beside}"


def barriers_of(branch: BranchTask, values: Mapping[str, Value]) -> int:
    """How often all units meet at most for a look at what decides a branch."""
    return 1 + any(arm_needs_barrier(branch, made, values) for made in (1, 2))


def barriers_per_trip(loop: LoopTask, values: Mapping[str, Value]) -> int:
    """How often all units meet in one trip, the body's own control flow aside."""
    if loop.level == "host":
        return 0
    staged = any(c.staging for c in loop.carried) or any(s.value != s.row for s in loop.stacked)
    return 1 + loop_needs_barrier(loop, values) + max(0, len(loop.body) - 1) + 1 + staged
