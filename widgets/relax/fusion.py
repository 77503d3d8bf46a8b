"""FuseOps at work: pattern kinds with their evidence, the post-dominator tree, and each node's way
into a group or the reason why it stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.compilation.operators import Operator, in_words, told_apart
from explorer.relax.fusion import FusionPlan
from explorer.relax.fusion import plan as plan_of
from explorer.relax.fusion.model import Node
from widgets.model.compiled import Compiled
from widgets.relax.levels import lowered

RAN = "FuseOps ran: these groups became kernels"
BASELINE = "baseline: what FuseOps would do; Welder's groups are what runs"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A binding, and what a reader calls it: `evidence` is why it has its kind. `parent` is the
    position of its immediate post-dominator, -1 for none. `phase` is -1 where it was not taken:
    `reason` then says why. `group` counts from 1, 0 where it is alone; `anchor`: it is the group's
    OutEWiseFusable one.
    """

    name: str
    called: str
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
    """The nodes of the main function in program order; `groups` are those of several nodes."""

    nodes: tuple[NodeRow, ...]
    groups: int
    ran: bool

    @property
    def about(self) -> str:
        """Whether this is what runs."""
        return RAN if self.ran else BASELINE


def data(c: Compiled, known: Sequence[Operator] = ()) -> FusionRows:
    """The plan that was carried out, else the one that would be; `known` are the operators that its
    nodes are called after.
    """
    program = lowered(c)
    done = [p for p in c.program.decisions.fusion if isinstance(p, FusionPlan)]
    mine = next((p for p in done if p.graph.function == program.main.name), None)
    plan = mine or plan_of(program, program.main)
    return of_plan(plan, _origins(c, plan), mine is not None, known)


def _origins(c: Compiled, plan: FusionPlan) -> dict[str, tuple[str, ...]]:
    """The source operators of every node: of the last program that still has all nodes."""
    names = {node.name for node in plan.graph.nodes}
    for step in reversed(c.snapshots):
        found = {v.name: tuple(sorted(b.origin)) for b in step.after.main.body for v in b.vars}
        if names <= found.keys() and len(step.after.main.body) == len(names):
            return found
    return {}


def of_plan(
    plan: FusionPlan,
    origins: dict[str, tuple[str, ...]],
    ran: bool,
    known: Sequence[Operator] = (),
) -> FusionRows:
    """The rows of a plan."""
    together = [g for g in plan.groups if len(g.members) > 1]
    number = {m: i + 1 for i, g in enumerate(together) for m in g.members}
    anchors = {g.anchor for g in plan.groups if g.anchor}
    ends = {g.name for g in plan.groups}
    rows = tuple(
        _row(node, plan, number.get(node.name, 0), node.name in anchors, node.name in ends, origins)
        for node in plan.graph.nodes
    )
    called = told_apart(known, {r.name: (r.ops, r.label) for r in rows})
    named = (replace(r, called=called[r.name], reason=in_words(r.reason, called)) for r in rows)
    return FusionRows(tuple(named), len(together), ran)


def _row(
    node: Node,
    plan: FusionPlan,
    group: int,
    anchor: bool,
    last: bool,
    origins: dict[str, tuple[str, ...]],
) -> NodeRow:
    parent = plan.graph.parent(node.number)
    phase, reason = _fate(node, plan, group, last)
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


def _fate(node: Node, plan: FusionPlan, group: int, last: bool) -> tuple[int, str]:
    """The phase in which a node was taken and how, or -1 and why it was not."""
    for step in plan.steps:
        if step.taken and (step.node == node.name or node.name in step.merged):
            way = "" if step.node == node.name else f"on the way of {step.node}: "
            return step.phase, way + step.reason
    refused = next((s for s in plan.refusals if s.node == node.name), None)
    reason = refused.reason if refused else "no phase reached it"
    return -1, f"the group ends here: {reason}" if group and last else reason
