"""The pass that selects the schedules of control flow: it loads their model when there is some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.grinder import Options as GrinderOptions
from explorer.grinder import control_schedules_of, task_tree
from explorer.ir.decisions.control import ControlDecision
from explorer.ir.program import Program
from explorer.ir.stage import Stage


@dataclass(frozen=True, slots=True)
class SelectControlSchedule:
    """After: the candidate schedules of each loop, branch and recursion are among the decisions.

    The tree of uTasks has the chosen ones and counts the kernels that run.
    """

    device: Device
    options: GrinderOptions = GrinderOptions()

    @property
    def remembered(self) -> bool:
        """True unless the policy is a function, which is called again for each plan."""
        return isinstance(self.options.schedule, str)

    def __call__(self, program: Program) -> Program:
        """Return the program at stage RAMMED."""
        before = {d.binding: d for d in program.decisions.control}
        decided = tuple(d for d in before.values() if d.chosen.level == "both")
        if isinstance(self.options.schedule, str):
            new_decisions = _decisions(program, self.device, self.options)
            decided += tuple(_with_if_conversion(d, before.get(d.binding)) for d in new_decisions)
        all_decisions = replace(program.decisions, control=decided, grinder=self.options)
        tree = task_tree(program, control_schedules_of(all_decisions))
        all_decisions = replace(all_decisions, tasks=tree)
        return replace(program, stage=Stage.RAMMED, decisions=all_decisions)


def _with_if_conversion(
    decision: ControlDecision, before: ControlDecision | None
) -> ControlDecision:
    """Return the decision with the candidate of if-conversion that was compared before tiling."""
    both_arms = [c for c in before.candidates if c.value.level == "both"] if before else []
    return replace(decision, candidates=(*decision.candidates, *both_arms))


def _decisions(
    program: Program, device: Device, options: GrinderOptions
) -> Iterable[ControlDecision]:
    """Return the decisions of a program, none if it has no control flow."""
    if not any(b.calls for _, b in program.bindings()):
        return ()
    # most programs have no control flow, and its costs need the planner of walls
    from explorer.runtime.planning.control_decisions import decisions

    return decisions(program, device, options)
