"""What fusion talks about: nodes and edges with their kinds, post-dominators, groups, refusals."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.calls import Var
from explorer.ir.types import ShapeType
from explorer.relax.pattern_kinds import PatternKind


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that a later node reads, or a symbol that it needs (`symbol` is then its name).

    `kind` is the worse of the reader's kind and of what its loads of this value are.
    """

    target: int
    kind: PatternKind
    evidence: str
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One binding. `why` is the evidence of its kind; an extern node is read outside of the
    function, so it may end a group and is never inside of one. `depth`: how deep its scalar
    expressions nest.
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
    """A node in the post-dominator tree: every way out of it leads through `parent`.

    `kind` is the greatest kind of an edge on the ways there.
    """

    node: int
    parent: int | None
    depth: int
    kind: PatternKind


@dataclass(frozen=True, slots=True)
class FusionGraph:
    """The dataflow of a function, nodes in the order of its bindings, and its post-dominators."""

    function: str
    nodes: tuple[Node, ...]
    dominators: tuple[Dominator, ...]

    def parent(self, number: int) -> Node | None:
        """The immediate post-dominator of a node."""
        found = self.dominators[number].parent
        return None if found is None else self.nodes[found]


@dataclass(frozen=True, slots=True)
class Step:
    """What one phase made of a node: `taken` into its post-dominator's group, or why not."""

    phase: int
    node: str
    dominator: str
    taken: bool
    reason: str
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Bindings that become one kernel, in order; the last is what the others lead to. `anchor` is
    the one that is OutEWiseFusable, if there is one.
    """

    name: str
    members: tuple[str, ...]
    kind: PatternKind
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class GroupFunction:
    """A group as a function of its own. Where its other parameters do not define a symbol that it
    needs, the last one is a shape that does: `shape(n)`.
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
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    functions: tuple[GroupFunction, ...] = ()

    def group_of(self, name: str) -> Group:
        """The group that a value is made in."""
        return next(g for g in self.groups if name in g.members)

    @property
    def refusals(self) -> tuple[Step, ...]:
        """Why each node that stayed apart from its post-dominator did, in its last phase."""
        taken = {s.node for s in self.steps if s.taken}
        last = {s.node: s for s in self.steps if not s.taken and s.node not in taken}
        return tuple(last.values())
