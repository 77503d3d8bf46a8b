"""FuseOps at work: pattern kinds with their evidence, the post-dominator tree, and the groups.

Each node has the phase in which it joined a group, or the reason why it stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.compilation.operators import Operator, distinct_labels, in_words
from explorer.relax.fusion import FusionPlan
from explorer.relax.fusion import plan as plan_of
from explorer.relax.fusion.model import FusionNode
from widgets.model.compiled import Compiled
from widgets.relax.levels import lowered_program

RAN = "FuseOps ran: these groups became kernels"
BASELINE = "baseline: what FuseOps would do; Welder's groups are what runs"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A binding with its display name.

    `evidence` is the reason for its kind. `parent` is the position of its immediate post-dominator,
    -1 for none. `phase` is -1 where it was not fused: `reason` then says why. `group` counts from
    1 and is 0 where the node is alone. `anchor`: it is the group's OutEWiseFusable node.
    """

    name: str
    display_name: str
    label: str
    kind: str
    rank: int
    evidence: str
    parent: int
    phase: int
    reason: str
    group: int
    anchor: bool
    last: bool
    output: bool
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FusionRows:
    """The nodes of the main function in program order; `groups` counts those of several nodes."""

    nodes: tuple[NodeRow, ...]
    groups: int
    ran: bool

    @property
    def about(self) -> str:
        """The role of these groups: compiled into kernels, or only a baseline."""
        return RAN if self.ran else BASELINE


def data(c: Compiled, operators: Sequence[Operator] = ()) -> FusionRows:
    """Return the plan that was carried out, else the one that FuseOps would make.

    `operators` are the source operators, from which the nodes' display names come.
    """
    program = lowered_program(c)
    done = [p for p in c.program.decisions.fusion if isinstance(p, FusionPlan)]
    mine = next((p for p in done if p.graph.function == program.main.name), None)
    plan = mine or plan_of(program, program.main)
    return of_plan(plan, _origins(c, plan), mine is not None, operators)


def _origins(c: Compiled, plan: FusionPlan) -> dict[str, tuple[str, ...]]:
    """Return the source operators of every node, from the last program that has all nodes."""
    names = {node.name for node in plan.graph.nodes}
    for step in reversed(c.snapshots):
        origins = {v.name: tuple(sorted(b.origin)) for b in step.after.main.body for v in b.vars}
        if names <= origins.keys() and len(step.after.main.body) == len(names):
            return origins
    return {}


def of_plan(
    plan: FusionPlan,
    origins: dict[str, tuple[str, ...]],
    ran: bool,
    operators: Sequence[Operator] = (),
) -> FusionRows:
    """Return the rows of a plan."""
    together = [g for g in plan.groups if len(g.members) > 1]
    number = {m: i + 1 for i, g in enumerate(together) for m in g.members}
    anchors = {g.anchor for g in plan.groups if g.anchor}
    ends = {g.name for g in plan.groups}
    rows = tuple(
        _row(node, plan, number.get(node.name, 0), node.name in anchors, node.name in ends, origins)
        for node in plan.graph.nodes
    )
    display_names = distinct_labels(operators, {r.name: (r.ops, r.label) for r in rows})
    named = (
        replace(r, display_name=display_names[r.name], reason=in_words(r.reason, display_names))
        for r in rows
    )
    return FusionRows(tuple(named), len(together), ran)


def _row(
    node: FusionNode,
    plan: FusionPlan,
    group: int,
    anchor: bool,
    last: bool,
    origins: dict[str, tuple[str, ...]],
) -> NodeRow:
    parent = plan.graph.parent(node.number)
    phase, reason = _describe_outcome(node, plan, group, last)
    return NodeRow(
        node.name,
        node.name,
        node.label,
        node.kind.word,
        int(node.kind),
        node.why or "nothing is loaded",
        -1 if parent is None else parent.number,
        phase,
        reason,
        group,
        anchor and group > 0,
        last,
        node.extern,
        origins.get(node.name, ()),
    )


def _describe_outcome(
    node: FusionNode, plan: FusionPlan, group: int, last: bool
) -> tuple[int, str]:
    """Return the phase in which a node was fused and how, or -1 and the reason why not."""
    for step in plan.steps:
        if step.taken and (step.node == node.name or node.name in step.merged):
            via = "" if step.node == node.name else f"on the way of {step.node}: "
            return step.phase, via + step.reason
    refused = next((s for s in plan.refusals if s.node == node.name), None)
    reason = refused.reason if refused else "no phase reached it"
    return -1, f"the group ends here: {reason}" if group and last else reason
