"""Dataflow graph of a function for fusion, and the plan of its groups.

The paper's nouns here: dataflow graph (`FusionGraph`), post-dominator tree (`Dominator`), group
with its anchor (`BindingGroup`), the fused function with its extra shape parameter
(`GroupFunction`). Nodes have pattern kinds; edges stand for values and for symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.affine import var
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
    updates_of,
)
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, TensorSpec, axes
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import defined_by, needed_by
from explorer.ir.types import ShapeType, Tensor
from explorer.relax.pattern_kinds import KindFinding, PatternKind, pattern_kind
from explorer.transforms.copies.index_maps import Ranges, through_reshape

OPAQUE = PatternKind.OPAQUE


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


def graph_of(program: Program, function: Function) -> FusionGraph:
    """Return the nodes of a function with their kinds, their edges, and the post-dominators.

    Parameters and constants are opaque: nothing is fused into them, and they are no nodes here.
    """
    outputs = {v.name for v in function.outputs}
    pinned_values = pinned(function)
    findings = [_finding(b, program, pinned_values) for b in function.body]
    edges: list[list[Edge]] = [[] for _ in function.body]
    makers: dict[str, int] = {}
    symbols: dict[str, int] = {}
    for number, (binding, (_, kind)) in enumerate(zip(function.body, findings, strict=True)):
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
        FusionNode(
            number,
            binding.vars[0].name if binding.vars else f"binding {number}",
            label,
            kind.kind,
            kind.why,
            any(v.name in outputs for v in binding.vars),
            tuple(v.name for v in binding.reads),
            tuple(edges[number]),
            _depth(binding),
        )
        for number, (binding, (label, kind)) in enumerate(zip(function.body, findings, strict=True))
    )
    return FusionGraph(function.name, nodes, post_dominators(nodes))


def _depth(binding: Binding) -> int:
    """Return how deep a kernel's scalar expressions nest if its computes are inlined."""
    if not isinstance(binding.expr, KernelCall):
        return 0
    return sum(_nesting(c.expr) for c in binding.expr.kernel.computes)


def _nesting(expr: Expr) -> int:
    return 1 + max(map(_nesting, expr.args), default=0) if isinstance(expr, Apply) else 0


def pinned(function: Function) -> dict[str, str]:
    """Return bindings that read memory which a later kernel overwrites, by the value they read.

    They must keep their position.
    """
    root: dict[str, str] = {}
    last: dict[str, int] = {}
    for number, binding in enumerate(function.body):
        for value, source in _memory_of(binding):
            root[value.name] = root.get(source.name, source.name)
            if isinstance(binding.expr, KernelCall):
                last[root[value.name]] = number
    pinned_values: dict[str, str] = {}
    for number, binding in enumerate(function.body):
        for value in binding.reads:
            if binding.vars and last.get(root.get(value.name, value.name), -1) > number:
                pinned_values[binding.vars[0].name] = value.name
    return pinned_values


def _memory_of(binding: Binding) -> tuple[tuple[Var, Var], ...]:
    """Return the values of a binding that lie in the memory of others, each with the other."""
    match binding.expr:
        case View(arg, _) | MatchCast(arg):
            return ((binding.var, arg),)
        case KernelCall() as call:
            return updates_of(call, binding.vars)
    return ()


def _finding(
    binding: Binding, program: Program, pinned_values: Mapping[str, str]
) -> tuple[str, KindFinding]:
    """Return the label of a binding, and its kind."""

    def opaque(label: str, why: str) -> tuple[str, KindFinding]:
        return label, KindFinding(OPAQUE, (), (why,), why)

    over = pinned_values.get(binding.vars[0].name) if binding.vars else None
    if over is not None and isinstance(binding.expr, KernelCall | View):
        label = binding.expr.kernel.name if isinstance(binding.expr, KernelCall) else "view"
        return opaque(label, f"the memory of {over} is overwritten later")
    match binding.expr:
        case KernelCall(kernel, _, _):
            return kernel.name, pattern_kind(kernel)
        case View():
            copy = view_kernel(binding, program)
            if copy is None:
                return opaque("view", "its elements have no affine index")
            loads = pattern_kind(copy).loads
            return "view", KindFinding(PatternKind.INJECTIVE, loads, ("a reshape",), "a reshape")
        case MatchCast():
            return opaque("match_cast", "a match_cast is checked at its position")
        case LibraryCall(library, function, _, _):
            return opaque(f"{library}.{function}", "a library call has no loops to fuse")
        case ShapeOf():
            return opaque("shape", "a shape is not a tensor of the device")
        case OpCall(op, _, _):
            return opaque(op, "it is not lowered yet")
        case Branch() | Loop() | FunctionCall() | Gradient():
            return opaque(type(binding.expr).__name__.lower(), "control flow ends a dataflow block")


def _edge(number: int, binding: Binding, name: str, kind: KindFinding, program: Program) -> Edge:
    """Return the edge to the binding that reads `name`."""
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


def post_dominators(nodes: Sequence[FusionNode]) -> tuple[Dominator, ...]:
    """Return the post-dominator tree: least common ancestors of readers, last node first."""
    tree: list[Dominator] = [Dominator(n.number, None, 1, OPAQUE) for n in nodes]
    for node in reversed(nodes):
        if node.extern or not node.edges:
            continue
        parent, kind = node.edges[0].target, node.edges[0].kind
        common: int | None = parent
        for edge in node.edges[1:]:
            kind = max(kind, edge.kind)
            common, kind = _common(common, edge.target, kind, tree)
        depth = 1 if common is None else tree[common].depth + 1
        tree[node.number] = Dominator(node.number, common, depth, kind)
    return tuple(tree)


def _common(
    a: int | None, b: int | None, kind: PatternKind, tree: Sequence[Dominator]
) -> tuple[int | None, PatternKind]:
    """Return the least common ancestor, and the greatest kind on the paths to it."""
    while a != b:
        if a is None or b is None:
            return None, kind
        left, right = tree[a], tree[b]
        if left.depth <= right.depth:
            kind, b = max(kind, right.kind), right.parent
        if right.depth <= left.depth:
            kind, a = max(kind, left.kind), left.parent
    return a, kind


def view_kernel(binding: Binding, program: Program) -> Kernel | None:
    """Return a kernel `y[i, j, k] = x[i, j*4 + k]` for a view.

    Return None if a load would need quotients, as in joining dims.
    """
    if not isinstance(binding.expr, View):
        return None
    arg, result = binding.expr.arg, binding.var
    before, after = arg.type, result.type
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)):
        return None
    if not (before.is_known and after.is_known) or before.dtype != after.dtype:
        return None
    over = axes("i", after.dims)
    ranges = Ranges({a.name: a.extent for a in over}, program.env)
    here = tuple(var(a.name) for a in over)
    index = through_reshape(here, after.dims, before.dims, ranges, binding.expr.offset)
    if not isinstance(index, tuple):
        return None
    return Kernel(
        "view",
        (TensorSpec("x", before.dims, before.element), TensorSpec("y", after.dims, after.element)),
        (Compute("y", over, Read("x", index), origin=binding.origin),),
        ("x",),
        ("y",),
        frozenset({"x"}) if arg.name in program.constants else frozenset(),
    )
