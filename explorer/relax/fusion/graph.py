"""The dataflow of a function as fusion sees it: kinds, edges for values and for symbols, and the
post-dominator tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from explorer.ir.kernel import Apply, Expr
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import defined_by, needed_by
from explorer.relax.fusion.model import Dominator, Edge, FusionGraph, Node
from explorer.relax.fusion.views import view_kernel
from explorer.relax.pattern_kinds import KindFinding, PatternKind, pattern_kind

OPAQUE = PatternKind.OPAQUE


def graph_of(program: Program, function: Function) -> FusionGraph:
    """The nodes of a function with their kinds, the edges between them, and the post-dominators.

    Parameters and constants are opaque: nothing is fused into them, and they are no nodes here.
    """
    outputs = {v.name for v in function.outputs}
    kept = pinned(function)
    found = [_finding(b, program, kept) for b in function.body]
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
            _depth(binding),
        )
        for number, (binding, (label, kind)) in enumerate(zip(function.body, found, strict=True))
    )
    return FusionGraph(function.name, nodes, post_dominators(nodes))


def _depth(binding: Binding) -> int:
    """How deep the scalar expressions of a kernel nest, its computes one in the other."""
    if not isinstance(binding.expr, KernelCall):
        return 0
    return sum(_nesting(c.expr) for c in binding.expr.kernel.computes)


def _nesting(expr: Expr) -> int:
    return 1 + max(map(_nesting, expr.args), default=0) if isinstance(expr, Apply) else 0


def pinned(function: Function) -> dict[str, str]:
    """Bindings that read memory which a later kernel writes over, and as which value they read it:
    they must stay where they are.
    """
    root: dict[str, str] = {}
    last: dict[str, int] = {}
    for number, binding in enumerate(function.body):
        for var, source in _memory_of(binding):
            root[var.name] = root.get(source.name, source.name)
            if isinstance(binding.expr, KernelCall):
                last[root[var.name]] = number
    found: dict[str, str] = {}
    for number, binding in enumerate(function.body):
        for var in binding.reads:
            if binding.vars and last.get(root.get(var.name, var.name), -1) > number:
                found[binding.vars[0].name] = var.name
    return found


def _memory_of(binding: Binding) -> tuple[tuple[Var, Var], ...]:
    """The values of a binding that lie in the memory of others, each with the other."""
    match binding.expr:
        case View(arg, _) | MatchCast(arg):
            return ((binding.var, arg),)
        case KernelCall() as call:
            return updates_of(call, binding.vars)
    return ()


def _finding(
    binding: Binding, program: Program, kept: Mapping[str, str]
) -> tuple[str, KindFinding]:
    """What a binding is called, and its kind."""

    def opaque(label: str, why: str) -> tuple[str, KindFinding]:
        return label, KindFinding(OPAQUE, (), (why,), why)

    over = kept.get(binding.vars[0].name) if binding.vars else None
    if over is not None and isinstance(binding.expr, KernelCall | View):
        label = binding.expr.kernel.name if isinstance(binding.expr, KernelCall) else "view"
        return opaque(label, f"the memory of {over} is written over later")
    match binding.expr:
        case KernelCall(kernel, _, _):
            return kernel.name, pattern_kind(kernel)
        case View():
            copy = view_kernel(binding, program)
            if copy is None:
                return opaque("view", "no affine index says where its elements are")
            loads = pattern_kind(copy).loads
            return "view", KindFinding(PatternKind.INJECTIVE, loads, ("a reshape",), "a reshape")
        case MatchCast():
            return opaque("match_cast", "a match_cast is checked where it stands")
        case LibraryCall(library, function, _, _):
            return opaque(f"{library}.{function}", "a library call has no loops to fuse")
        case ShapeOf():
            return opaque("shape", "a shape is no tensor of the device")
        case OpCall(op, _, _):
            return opaque(op, "it is not lowered yet")
        case Branch() | Loop() | FunctionCall() | Gradient():
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
