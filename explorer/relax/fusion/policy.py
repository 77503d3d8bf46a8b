"""Which operators become one: union-find along the post-dominator tree, in three phases.

After TVM's FuseOps, in which the paper's fusion is written. Stricter in one thing: the kind of an
edge is the worse of the reader's kind and of its loads of that very value, so a product that is
broadcast by its reader is not computed anew in each of the reader's tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    View,
)
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import defined_by, needed_by
from explorer.relax.fusion.model import (
    Dominator,
    Edge,
    FusionGraph,
    FusionPlan,
    Group,
    Node,
    Step,
)
from explorer.relax.fusion.views import view_kernel
from explorer.relax.pattern_kinds import KindFinding, PatternKind, pattern_kind

ELEMENTWISE, BROADCAST, INJECTIVE = (
    PatternKind.ELEMENTWISE,
    PatternKind.BROADCAST,
    PatternKind.INJECTIVE,
)
REDUCE, ANCHOR, OPAQUE = (
    PatternKind.COMM_REDUCE,
    PatternKind.OUT_EWISE_FUSABLE,
    PatternKind.OPAQUE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a group may be; TVM's FuseOps takes 256 nodes."""

    nodes: int = 256
    inputs: int = 64


# The dataflow graph.


def graph_of(program: Program, function: Function) -> FusionGraph:
    """The nodes of a function with their kinds, the edges between them, and the post-dominators.

    Parameters and constants are opaque: nothing is fused into them, and they are no nodes here.
    """
    outputs = {v.name for v in function.outputs}
    overwritten = _overwritten(function)
    found = [_finding(b, program, overwritten) for b in function.body]
    edges: list[list[Edge]] = [[] for _ in function.body]
    makers: dict[str, int] = {}
    symbols: dict[str, int] = {}
    for number, (binding, (_, kind)) in enumerate(zip(function.body, found, strict=True)):
        for name in dict.fromkeys(v.name for v in binding.reads):
            if name in makers:
                edges[makers[name]].append(_edge(number, binding, name, kind, program))
        for symbol in sorted(needed_by(binding)):
            if symbol in symbols:
                why = f"it needs {symbol}, which is defined there"
                edges[symbols[symbol]].append(Edge(number, kind.kind, why, symbol))
        makers.update((v.name, number) for v in binding.vars)
        symbols.update((s, number) for s in defined_by(binding) if s not in symbols)
    nodes = tuple(
        Node(
            number,
            binding.vars[0].name if binding.vars else f"binding {number}",
            label,
            kind.kind,
            kind.why,
            any(v.name in outputs for v in binding.vars),
            tuple(v.name for v in binding.reads),
            tuple(edges[number]),
        )
        for number, (binding, (label, kind)) in enumerate(zip(function.body, found, strict=True))
    )
    return FusionGraph(function.name, nodes, post_dominators(nodes))


def _overwritten(function: Function) -> frozenset[str]:
    """Values whose memory a kernel takes over: their readers must stay where they are."""
    return frozenset(
        arg.name
        for b in function.body
        if isinstance(b.expr, KernelCall) and b.expr.kernel.updates
        for tensor, arg in zip(b.expr.kernel.inputs, b.expr.args, strict=True)
        if tensor == b.expr.kernel.updates
    )


def _finding(
    binding: Binding, program: Program, overwritten: frozenset[str]
) -> tuple[str, KindFinding]:
    """What a binding is called, and its kind."""

    def opaque(label: str, why: str) -> tuple[str, KindFinding]:
        return label, KindFinding(OPAQUE, (), (why,), why)

    match binding.expr:
        case KernelCall(kernel, args, _):
            taken = [a.name for a in args if a.name in overwritten]
            if taken:
                return opaque(kernel.name, f"the memory of {taken[0]} is written over later")
            return kernel.name, pattern_kind(kernel)
        case View():
            copy = view_kernel(binding, program)
            if copy is None:
                return opaque("view", "no affine index says where its elements are")
            if {v.name for v in binding.reads} & overwritten:
                return opaque("view", "the memory behind it is written over later")
            return "view", KindFinding(
                INJECTIVE, pattern_kind(copy).loads, ("a reshape",), "a reshape"
            )
        case MatchCast():
            return opaque("match_cast", "a match_cast is checked where it stands")
        case LibraryCall(library, function, _, _):
            return opaque(f"{library}.{function}", "a library call has no loops to fuse")
        case ShapeOf():
            return opaque("shape", "a shape is no tensor of the device")
        case OpCall(op, _, _):
            return opaque(op, "it is not lowered yet")
        case Branch() | Loop() | FunctionCall():
            return opaque(type(binding.expr).__name__.lower(), "control flow ends a dataflow block")


def _edge(number: int, binding: Binding, name: str, kind: KindFinding, program: Program) -> Edge:
    """An edge to the binding that reads `name`."""
    call = binding.expr
    if kind.kind is OPAQUE or not isinstance(call, KernelCall):
        return Edge(number, kind.kind, kind.why)
    tensors = [t for t, a in zip(call.kernel.inputs, call.args, strict=True) if a.name == name]
    worst, why = kind.kind, kind.why
    for load in (load for t in tensors for load in kind.loads_of(t)):
        if not load.moves:
            return Edge(number, OPAQUE, load.sentence)
        if load.kind is not None and load.kind > worst:
            worst, why = load.kind, load.sentence
    return Edge(number, worst, why)


# The post-dominator tree.


def post_dominators(nodes: Sequence[Node]) -> tuple[Dominator, ...]:
    """The tree, by the least common ancestor of each node's readers, last node first."""
    found: list[Dominator] = [Dominator(n.number, None, 1, OPAQUE) for n in nodes]
    for node in reversed(nodes):
        if node.extern or not node.edges:
            continue
        parent, kind = node.edges[0].target, node.edges[0].kind
        common: int | None = parent
        for edge in node.edges[1:]:
            kind = max(kind, edge.kind)
            common, kind = _common(common, edge.target, kind, found)
        depth = 1 if common is None else found[common].depth + 1
        found[node.number] = Dominator(node.number, common, depth, kind)
    return tuple(found)


def _common(
    a: int | None, b: int | None, kind: PatternKind, found: Sequence[Dominator]
) -> tuple[int | None, PatternKind]:
    """The least common ancestor, and the greatest kind on the ways to it."""
    while a != b:
        if a is None or b is None:
            return None, kind
        left, right = found[a], found[b]
        if left.depth <= right.depth:
            kind, b = max(kind, right.kind), right.parent
        if right.depth <= left.depth:
            kind, a = max(kind, left.kind), left.parent
    return a, kind


# The three phases.


def plan(program: Program, function: Function, limits: Limits = Limits()) -> FusionPlan:
    """The groups of a function, with every step of every phase and the reason of each refusal."""
    graph = graph_of(program, function)
    fuser = _Fuser(graph, limits)
    for phase in (0, 1, 2):
        for node in graph.nodes:
            fuser.visit(phase, node)
    return FusionPlan(graph, fuser.groups(), tuple(fuser.steps))


OnPath = Callable[[PatternKind, bool], str]  # a group's kind, whether it is the sink -> refusal


@dataclass(slots=True)
class _Set:
    """A set of the union-find; its root is the node that its others lead to."""

    kind: PatternKind
    members: list[int]
    anchor: int | None = None


class _Fuser:
    def __init__(self, graph: FusionGraph, limits: Limits) -> None:
        self.graph, self.limits = graph, limits
        self.up = list(range(len(graph.nodes)))
        self.sets = [
            _Set(n.kind, [n.number], n.number if n.kind is ANCHOR else None) for n in graph.nodes
        ]
        self.steps: list[Step] = []

    def root(self, number: int) -> int:
        while self.up[number] != number:
            self.up[number] = self.up[self.up[number]]
            number = self.up[number]
        return number

    def set_of(self, number: int) -> _Set:
        return self.sets[self.root(number)]

    def groups(self) -> tuple[Group, ...]:
        nodes = self.graph.nodes
        made = []
        for number, node in enumerate(nodes):
            if self.root(number) == number:
                own = self.sets[number]
                members = tuple(nodes[m].name for m in sorted(own.members))
                anchor = "" if own.anchor is None else nodes[own.anchor].name
                made.append(Group(node.name, members, own.kind, anchor))
        return tuple(made)

    def visit(self, phase: int, node: Node) -> None:
        """Fuse a node with its post-dominator, or say why not; nothing where it is not its turn."""
        dominator = self.graph.parent(node.number)
        if dominator is not None and self.root(dominator.number) == self.root(node.number):
            return
        kind = self.sets[node.number].kind
        if not _is_its_turn(phase, kind):
            return
        refusal, inner = self._refusal(node, dominator, kind)
        if refusal or dominator is None:
            name = "" if dominator is None else dominator.name
            self.steps.append(Step(phase, node.name, name, False, refusal))
            return
        self._commit(inner, dominator.number)
        merged = tuple(self.graph.nodes[n].name for n in sorted(inner))
        edge = self.graph.dominators[node.number].kind.word
        reason = f"{kind.word} into {dominator.name}, by edges that are {edge} at most"
        self.steps.append(Step(phase, node.name, dominator.name, True, reason, merged))

    def _refusal(
        self, node: Node, dominator: Node | None, kind: PatternKind
    ) -> tuple[str, set[int]]:
        """Why a node stays apart, or all nodes on its ways to the post-dominator."""
        if kind is OPAQUE:
            return node.why, set()
        if node.extern:
            return "it is an output, so it is stored", set()
        if dominator is None:
            return "its readers lead to no one place" if node.edges else "nothing reads it", set()
        if kind is REDUCE:
            return "a reduction ends a group and never starts one", set()
        why = self._edges(node, dominator, kind)
        if why:
            return why, set()
        on_path = _ON_PATH[kind]
        inner: set[int] = set()
        why = self._paths(node, dominator, on_path, inner)
        return why or self._size(inner, dominator), inner

    def _edges(self, node: Node, sink: Node, kind: PatternKind) -> str:
        most = self.graph.dominators[node.number].kind
        worst = self._worst(node, sink, most)
        evidence = f"{self.graph.nodes[worst.target].name}, {worst.evidence}"
        if kind is ANCHOR and most > ELEMENTWISE:
            return f"an edge is {most.word}, and {kind.word} takes ElementWise alone: {evidence}"
        if kind <= BROADCAST and most > INJECTIVE and most is not REDUCE:
            return f"an edge is {most.word}, at most Injective or CommReduce: {evidence}"
        if kind is INJECTIVE and most > INJECTIVE:
            return f"an edge is {most.word}, at most Injective: {evidence}"
        return ""

    def _worst(self, node: Node, sink: Node, kind: PatternKind) -> Edge:
        """The first edge of that kind on the ways to the sink."""
        todo, seen = [node.number], {sink.number}
        while todo:
            number = todo.pop(0)
            for edge in self.graph.nodes[number].edges:
                if edge.kind is kind:
                    return edge
                if edge.target not in seen:
                    seen.add(edge.target)
                    todo.append(edge.target)
        raise AssertionError("the kind of a dominator is that of an edge on the ways to it")

    def _paths(self, node: Node, sink: Node, on_path: OnPath, inner: set[int]) -> str:
        """The first refusal on the ways to the sink; `inner` gets the nodes on them."""
        todo = [node.number]
        while todo:
            number = todo.pop()
            if number in inner or number == sink.number:
                continue
            inner.add(number)
            for edge in self.graph.nodes[number].edges:
                why = on_path(self.set_of(edge.target).kind, edge.target == sink.number)
                if why:
                    return f"{self.graph.nodes[edge.target].name} {why}"
                todo.append(edge.target)
        return ""

    def _size(self, inner: set[int], dominator: Node) -> str:
        roots = {self.root(n) for n in (*inner, dominator.number)}
        members = [m for r in roots for m in self.sets[r].members]
        anchors = [r for r in roots if self.sets[r].anchor is not None]
        if len(anchors) > 1:
            return "the group would have two anchors"
        if len(members) > self.limits.nodes:
            return f"the group would have {len(members)} nodes, at most {self.limits.nodes}"
        made = {self.graph.nodes[m].name for m in members}
        inputs = {r for m in members for r in self.graph.nodes[m].reads} - made
        if len(inputs) > self.limits.inputs:
            return f"the group would read {len(inputs)} values, at most {self.limits.inputs}"
        return ""

    def _commit(self, inner: set[int], sink: int) -> None:
        target = self.root(sink)
        for number in inner:
            child = self.root(number)
            if child == target:
                continue
            mine, taken = self.sets[target], self.sets[child]
            mine.members += taken.members
            mine.kind = max(mine.kind, taken.kind)
            mine.anchor = taken.anchor if mine.anchor is None else mine.anchor
            self.up[child] = target


def _is_its_turn(phase: int, kind: PatternKind) -> bool:
    """Anchors in phase 0, what is at most Broadcast in all, Injective in 1; others say why once."""
    if kind <= BROADCAST:
        return True
    return phase == (1 if kind is INJECTIVE else 0)


def _after_anchor(kind: PatternKind, sink: bool) -> str:
    return "" if kind <= BROADCAST else f"is {kind.word}, at most Broadcast"


def _before_reader(kind: PatternKind, sink: bool) -> str:
    if kind <= INJECTIVE or (sink and kind in (REDUCE, ANCHOR)):
        return ""
    return f"is {kind.word}, at most Injective on the way"


def _injective(kind: PatternKind, sink: bool) -> str:
    return "" if kind <= INJECTIVE else f"is {kind.word}, at most Injective"


_ON_PATH: dict[PatternKind, OnPath] = {
    ELEMENTWISE: _before_reader,
    BROADCAST: _before_reader,
    INJECTIVE: _injective,
    ANCHOR: _after_anchor,
}
