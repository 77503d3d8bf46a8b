"""Data of fusion: nodes and edges with their kinds, post-dominators, groups, refusals."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.calls import Var
from explorer.ir.types import ShapeType
from explorer.relax.pattern_kinds import PatternKind


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that a later node reads, or a symbol that it needs (`symbol` is then its name).

    `kind` is the greater of the reader's kind and the kinds of its loads of this value.
    """

    target: int
    kind: PatternKind
    evidence: str
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class FusionNode:
    """One binding.

    `why` is the evidence of its kind. An extern node is read outside of the function, so it may end
    a group but not be inside of one. `depth` is how deep its scalar expressions nest.
    """

    number: int
    name: str
    label: str
    kind: PatternKind
    why: str
    extern: bool
    reads: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Dominator:
    """A node in the post-dominator tree: every path from it leads through `parent`.

    `kind` is the greatest kind of an edge on these paths.
    """

    node: int
    parent: int | None
    depth: int
    kind: PatternKind


@dataclass(frozen=True, slots=True)
class FusionGraph:
    """The dataflow of a function, nodes in the order of its bindings, and its post-dominators."""

    function: str
    nodes: tuple[FusionNode, ...]
    dominators: tuple[Dominator, ...]

    def parent(self, number: int) -> FusionNode | None:
        """Return the immediate post-dominator of a node."""
        number_of_parent = self.dominators[number].parent
        return None if number_of_parent is None else self.nodes[number_of_parent]


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The result of one phase for a node: fused into its post-dominator's group, or why not."""

    phase: int
    node: str
    dominator: str
    taken: bool
    reason: str
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindingGroup:
    """Bindings that become one kernel, in order; the last one post-dominates the others.

    `anchor` is the OutEWiseFusable one, if there is one.
    """

    name: str
    members: tuple[str, ...]
    kind: PatternKind
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class GroupFunction:
    """A group as a function of its own.

    If its other parameters do not define a symbol that it needs, the last one is a shape that does:
    `shape(n)`.
    """

    name: str
    params: tuple[Var, ...]
    result: Var
    members: tuple[str, ...]

    @property
    def shape_parameter(self) -> ShapeType | None:
        """The annotation of the extra parameter."""
        last = self.params[-1].type if self.params else None
        return last if isinstance(last, ShapeType) else None


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """The groups of a function, and every step that led to them, refusals included."""

    graph: FusionGraph
    groups: tuple[BindingGroup, ...]
    steps: tuple[PhaseResult, ...]
    functions: tuple[GroupFunction, ...] = ()

    def group_of(self, name: str) -> BindingGroup:
        """Return the group that computes a value."""
        return next(g for g in self.groups if name in g.members)

    @property
    def refusals(self) -> tuple[PhaseResult, ...]:
        """The last refusal of each node that was not fused into its post-dominator."""
        taken = {s.node for s in self.steps if s.taken}
        last = {s.node: s for s in self.steps if not s.taken and s.node not in taken}
        return tuple(last.values())
