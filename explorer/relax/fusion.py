"""FuseOps and FuseTIR (Relax, section 4.2): operators grouped along a post-dominator tree.

Groups follow the pattern kinds of their kernels, and the kernels of a group become one, in place of
the last of them:

    a: float32[n] = kernel exp(x); y: float32[n] = kernel add(a, b)
    ->  y: float32[n] = kernel fused_exp_add(x, b)

The groups are found by union-find, in three phases. This follows TVM's FuseOps, the implementation
of the paper's fusion, and is stricter in one point. The kind of an edge is the greater of the
reader's kind and the kinds of its loads of that value. So a product that its reader broadcasts is
not recomputed in each of the reader's tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from explorer.ir.annotations import defined_by, symbols_in
from explorer.ir.calls import FunctionCall, KernelCall, ShapeOf, Var, View
from explorer.ir.dims import symbol
from explorer.ir.kernels.merge import MergePart, merge
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.symbols import symbols_of_kernel
from explorer.ir.types import ShapeType
from explorer.passes.registry import compiler_pass
from explorer.relax.fusion_graph import (
    BindingGroup,
    Edge,
    FusionGraph,
    FusionNode,
    FusionPlan,
    GroupFunction,
    PhaseResult,
    graph_of,
    view_kernel,
)
from explorer.relax.pattern_kinds import PatternKind
from explorer.transforms.rewrite import record_match

MOST_WORDS = 6  # of a fused kernel's name; chosen
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
    """Limits on the size of a group; TVM's FuseOps takes 256 nodes.

    `depth`: how deep its expressions may nest, since merging inlines them.
    """

    nodes: int = 256
    inputs: int = 64
    depth: int = 200


@compiler_pass("fuse-ops", paper="Relax, ASPLOS 2025, section 4.2: dynamic shape-aware fusion")
@dataclass(frozen=True, slots=True)
class FuseOps:
    """Operator groups as fused kernels.

    After: each group of operators is one kernel; its intermediates are not stored.

    `merge` False stops before FuseTIR: each group is then a private function that is called, with
    `shape(n)` as its last argument if its other parameters do not define n.
    """

    limits: Limits = Limits()
    merge: bool = True

    def __call__(self, program: Program) -> Program:
        """Return the program with its groups fused, and the plans among its decisions."""
        plans: list[FusionPlan] = []
        outlined: list[Function] = []
        for function in program.functions:
            fusion_plan = plan(program, function, self.limits)
            fused, functions = _fused(program, function, fusion_plan)
            if not self.merge:
                fused, group_functions = outline(program, function, functions)
                outlined += group_functions
            plans.append(replace(fusion_plan, functions=functions))
            program = program.with_function(fused)
        return replace(
            program,
            functions=(*program.functions, *outlined),
            stage=max(program.stage, Stage.LEGALIZED),
            decisions=replace(program.decisions, fusion=tuple(plans)),
        )


def _fused(
    program: Program, function: Function, fusion_plan: FusionPlan
) -> tuple[Function, tuple[GroupFunction, ...]]:
    """Return a function with each group as one binding, and the groups as functions."""
    bindings = {b.vars[0].name: b for b in function.body if b.vars}
    groups = {g.name: g for g in fusion_plan.groups if _is_fused(g, bindings)}
    inside = {m for g in groups.values() for m in g.members} - groups.keys()
    body: list[Binding] = []
    functions: list[GroupFunction] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in inside:
            continue
        if name in groups:
            members = [bindings[m] for m in groups[name].members]
            binding = merge_members(program, members)
            record_match(plan, tuple(members), (binding,), "fuse a group")
            prefix = "" if function.name == program.main.name else f"{function.name}."
            functions.append(group_function(f"fused_{prefix}{name}", groups[name], binding))
        body.append(binding)
    return replace(function, body=tuple(body)), tuple(functions)


def outline(
    program: Program, function: Function, groups: tuple[GroupFunction, ...]
) -> tuple[Function, list[Function]]:
    """Return the function with a call for each group, and the groups as private functions.

    All functions see the constants, so they are not passed.
    """
    members = {m: g for g in groups for m in g.members}
    inside: dict[str, list[Binding]] = {g.name: [] for g in groups}
    body: list[Binding] = []
    for binding in function.body:
        group = members.get(binding.vars[0].name) if binding.vars else None
        if group is None:
            body.append(binding)
            continue
        inside[group.name].append(binding)
        if binding.vars[0].name == group.result.name:
            origin = frozenset[str]().union(*(b.origin for b in inside[group.name]))
            passed = tuple(p for p in group.params if p.name not in program.constants)
            shape = group.shape_parameter
            if shape is not None:
                assert shape.dims is not None
                body.append(Binding((passed[-1],), ShapeOf(shape.dims), origin))
            body.append(Binding(binding.vars, FunctionCall(group.name, passed), origin))
    private = [
        Function(
            g.name,
            tuple(p for p in g.params if p.name not in program.constants),
            tuple(inside[g.name]),
            (g.result,),
        )
        for g in groups
    ]
    return replace(function, body=tuple(body)), private


def _is_fused(group: BindingGroup, bindings: dict[str, Binding]) -> bool:
    """Return True if a group has kernels to merge; views alone stay views, which cost nothing."""
    several = len(group.members) > 1
    return several and any(isinstance(bindings[m].expr, KernelCall) for m in group.members)


def merge_members(program: Program, members: list[Binding]) -> Binding:
    """Return the last member's value by a kernel that computes all members."""
    parts = [_part(b, program) for b in members]
    words = list(dict.fromkeys(p.kernel.name for p in parts))
    more = [f"and_{len(words) - MOST_WORDS}_more"] if len(words) > MOST_WORDS else []
    name = "_".join(["fused", *words[:MOST_WORDS], *more])
    kernel, inputs = merge(name, parts)
    args = {v.name: v for b in members for v in b.reads}
    origin = frozenset[str]().union(*(b.origin for b in members))
    call = KernelCall(kernel, tuple(args[a] for a in inputs))
    return Binding(members[-1].vars, call, origin)


def _part(binding: Binding, program: Program) -> MergePart:
    match binding.expr:
        case KernelCall(kernel, args, _):
            return MergePart(kernel, binding.var.name, tuple(a.name for a in args))
        case View(arg, _):
            copy = view_kernel(binding, program)
            assert copy is not None, "the policy takes in views that are kernels"
            return MergePart(copy, binding.var.name, (arg.name,))
    raise AssertionError(f"{binding.var.name} is no kernel")


def group_function(name: str, group: BindingGroup, fused: Binding) -> GroupFunction:
    """Return the group as a function.

    A kernel call may use any symbol of its caller. A function sees only those that its parameters
    define, and gets the others in a shape.
    """
    args, result = fused.kernel_call.args, fused.var
    needed = symbols_of_kernel(fused.kernel_call.kernel) | symbols_in(result.type)
    defined = frozenset[str]()
    for arg in args:
        needed |= symbols_in(arg.type)
        defined |= frozenset(defined_by(arg.type))
    missing = sorted(needed - defined)
    extra: tuple[Var, ...] = ()
    if missing:
        extra = (Var(f"{group.name}.shape", ShapeType(tuple(symbol(n) for n in missing))),)
    return GroupFunction(name, (*args, *extra), result, group.members)


def plan(program: Program, function: Function, limits: Limits = Limits()) -> FusionPlan:
    """Return the groups of a function, with every step of every phase and each refusal's reason."""
    graph = graph_of(program, function)
    fuser = _Fuser(graph, limits)
    for phase in (0, 1, 2):
        for node in graph.nodes:
            fuser.visit(phase, node)
    return FusionPlan(graph, fuser.groups(), tuple(fuser.steps))


OnPath = Callable[[PatternKind, bool], str]  # a group's kind, whether it is the sink -> refusal


@dataclass(slots=True)
class _Set:
    """A set of the union-find; its root post-dominates the other nodes."""

    kind: PatternKind
    members: list[int]
    anchor: int | None = None


class _Fuser:
    """A union-find of fusion groups over a dataflow graph."""

    def __init__(self, graph: FusionGraph, limits: Limits) -> None:
        """Start with each node in a set of its own."""
        self.graph, self.limits = graph, limits
        self.up = list(range(len(graph.nodes)))
        self.sets = [
            _Set(n.kind, [n.number], n.number if n.kind is ANCHOR else None) for n in graph.nodes
        ]
        self.steps: list[PhaseResult] = []

    def root(self, number: int) -> int:
        """Return the root of a node's set."""
        while self.up[number] != number:
            self.up[number] = self.up[self.up[number]]
            number = self.up[number]
        return number

    def set_of(self, number: int) -> _Set:
        """Return the set of a node."""
        return self.sets[self.root(number)]

    def groups(self) -> tuple[BindingGroup, ...]:
        """Return the groups, by their roots."""
        nodes = self.graph.nodes
        result = []
        for number, node in enumerate(nodes):
            if self.root(number) == number:
                own = self.sets[number]
                members = tuple(nodes[m].name for m in sorted(own.members))
                anchor = "" if own.anchor is None else nodes[own.anchor].name
                result.append(BindingGroup(node.name, members, own.kind, anchor))
        return tuple(result)

    def visit(self, phase: int, node: FusionNode) -> None:
        """Fuse a node with its post-dominator, or record why not; do nothing in another phase."""
        dominator = self.graph.parent(node.number)
        if dominator is not None and self.root(dominator.number) == self.root(node.number):
            return
        kind = self.sets[node.number].kind
        if not _is_its_turn(phase, kind):
            return
        refusal, inner = self._refusal(node, dominator, kind)
        if refusal or dominator is None:
            name = "" if dominator is None else dominator.name
            self.steps.append(PhaseResult(phase, node.name, name, False, refusal))
            return
        self._commit(inner, dominator.number)
        merged = tuple(self.graph.nodes[n].name for n in sorted(inner))
        edge = self.graph.dominators[node.number].kind.word
        reason = f"{kind.word} into {dominator.name}, by edges that are {edge} at most"
        self.steps.append(PhaseResult(phase, node.name, dominator.name, True, reason, merged))

    def _refusal(
        self, node: FusionNode, dominator: FusionNode | None, kind: PatternKind
    ) -> tuple[str, set[int]]:
        """Return why a node is not fused, or all nodes on its paths to the post-dominator."""
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

    def _edges(self, node: FusionNode, sink: FusionNode, kind: PatternKind) -> str:
        most = self.graph.dominators[node.number].kind
        worst = self._worst(node, sink, most)
        evidence = f"{self.graph.nodes[worst.target].name}, {worst.evidence}"
        if kind is ANCHOR and most > ELEMENTWISE:
            return f"an edge is {most.word}, and {kind.word} takes ElementWise alone: {evidence}"
        if kind <= BROADCAST and most > INJECTIVE and most is not REDUCE:
            return f"an edge is {most.word}, beyond Injective and CommReduce: {evidence}"
        if kind is INJECTIVE and most > INJECTIVE:
            return f"an edge is {most.word}, beyond Injective: {evidence}"
        return ""

    def _worst(self, node: FusionNode, sink: FusionNode, kind: PatternKind) -> Edge:
        """Return the first edge of that kind on the paths to the sink."""
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

    def _paths(self, node: FusionNode, sink: FusionNode, on_path: OnPath, inner: set[int]) -> str:
        """Return the first refusal on the paths to the sink; `inner` collects their nodes."""
        todo = [node.number]
        while todo:
            number = todo.pop()
            if number in inner or number == sink.number:
                continue
            inner.add(number)
            if len(inner) > self.limits.nodes:  # as `_size` would say at the end of the walk
                return (
                    f"the group would have {len(inner)} nodes or more, at most {self.limits.nodes}"
                )
            for edge in self.graph.nodes[number].edges:
                why = on_path(self.set_of(edge.target).kind, edge.target == sink.number)
                if why:
                    return f"{self.graph.nodes[edge.target].name} {why}"
                todo.append(edge.target)
        return ""

    def _size(self, inner: set[int], dominator: FusionNode) -> str:
        roots = {self.root(n) for n in (*inner, dominator.number)}
        members = [m for r in roots for m in self.sets[r].members]
        anchors = [r for r in roots if self.sets[r].anchor is not None]
        if len(anchors) > 1:
            return "the group would have two anchors"
        if len(members) > self.limits.nodes:
            return f"the group would have {len(members)} nodes, at most {self.limits.nodes}"
        depth = sum(self.graph.nodes[m].depth for m in members)
        if depth > self.limits.depth:
            return f"its expressions would nest {depth} deep, at most {self.limits.depth}"
        internal = {self.graph.nodes[m].name for m in members}
        inputs = {r for m in members for r in self.graph.nodes[m].reads} - internal
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
    """Return True if a kind is fused in a phase.

    Anchors are fused in phase 0, Injective in phase 1, kinds up to Broadcast in all.
    """
    if kind <= BROADCAST:
        return True
    return phase == (1 if kind is INJECTIVE else 0)


def _after_anchor(kind: PatternKind, sink: bool) -> str:
    return "" if kind <= BROADCAST else f"is {kind.word}, beyond Broadcast"


def _before_reader(kind: PatternKind, sink: bool) -> str:
    if kind <= INJECTIVE or (sink and kind in (REDUCE, ANCHOR)):
        return ""
    return f"is {kind.word}, beyond Injective, on the way"


def _injective(kind: PatternKind, sink: bool) -> str:
    return "" if kind <= INJECTIVE else f"is {kind.word}, beyond Injective"


_ON_PATH: dict[PatternKind, OnPath] = {
    ELEMENTWISE: _before_reader,
    BROADCAST: _before_reader,
    INJECTIVE: _injective,
    ANCHOR: _after_anchor,
}
