"""Welder as a pass: greedy grouping by modelled gain, in program order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from explorer.devices.model import Device
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions import Candidate, FusionGroup, TileEdge, TileGraph
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernel_size import Size, size_of
from explorer.ir.merge import concatenate, share_inputs
from explorer.ir.normal import normalise
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.passes.split_axes import open_inner_dims
from explorer.welder.model import form_of, loads_of
from explorer.welder.policy import Merge, Price, greedy, too_large

Policy = Callable[[Merge, Device, ShapeEnv, Price], Candidate]


@dataclass(frozen=True, slots=True)
class Options:
    """What Welder may be told. `cuts`: values that are kept apart by hand, by name."""

    enabled: bool = True
    policy: Policy = greedy
    cuts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Group:
    """Kernels that have become one so far."""

    number: int  # in program order
    binding: Binding
    kernel: Kernel
    args: tuple[Var, ...]
    members: list[str]
    kinds: list[str]
    uses: Counter[str]  # how many reads of each value are inside
    size: Size
    inner: list[TileEdge] = field(default_factory=list)
    steps: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Merged:
    """Two groups as one: the kernel, what it is given, and what the consumer read as `tensor`."""

    kernel: Kernel
    args: tuple[Var, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class Weld:
    """Fusion over the memory hierarchy for one device. `price` is Roller's modelled time of a
    kernel.
    """

    device: Device
    price: Price
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """After: kernels that share tiles are one kernel, and only their outputs are stored."""
        graph: list[FusionGroup] = []
        edges: list[TileEdge] = []
        functions = tuple(self._function(f, program, graph, edges) for f in program.functions)
        name = getattr(self.options.policy, "__name__", "policy")
        left = replace(
            program.decisions,
            tile_graph=TileGraph(
                tuple(graph), tuple(edges), name if self.options.enabled else "off"
            ),
        )
        return replace(program, functions=functions, decisions=left, stage=Stage.WELDED)

    def _function(
        self, f: Function, program: Program, graph: list[FusionGroup], edges: list[TileEdge]
    ) -> Function:
        uses = Counter(v.name for b in f.body for v in b.reads)
        uses.update(v.name for v in f.outputs)
        groups: dict[str, _Group] = {}
        for number, b in enumerate(f.body):
            if isinstance(b.expr, KernelCall):
                group = _alone(number, b, b.expr, program.env)
                self._absorb(group, groups, uses, program)
                groups[b.var.name] = group
        body = tuple(
            _welded(groups[b.var.name]) if isinstance(b.expr, KernelCall) else b
            for b in f.body
            if not isinstance(b.expr, KernelCall) or b.var.name in groups
        )
        for g in groups.values():
            graph.append(_summary(g, program))
            edges += [*g.inner, *_outer_edges(g, groups, self.device, program.env)]
        return replace(f, body=body)

    def _absorb(
        self, group: _Group, groups: dict[str, _Group], uses: Counter[str], program: Program
    ) -> None:
        """Take in producers, the latest first, for as long as one is worth it."""
        refused: set[str] = set()
        while True:
            ready = [a for a in group.args if a.name in groups and a.name not in refused]
            if not ready:
                return
            arg = max(ready, key=lambda a: groups[a.name].number)
            verdict, merged = self._weigh(group, groups[arg.name], arg, uses, program)
            group.steps.append(verdict)
            if merged is None:
                refused.add(arg.name)
                continue
            _take(group, groups.pop(arg.name), arg, merged)
            refused.clear()

    def _weigh(
        self, group: _Group, producer: _Group, arg: Var, uses: Counter[str], program: Program
    ) -> tuple[Candidate, _Merged | None]:
        """The verdict on a producer, and what both would be, where that is worth it."""
        label = f"{producer.members[-1]} into {group.members[-1]}"
        why = self._refusal(group, producer, arg, uses)
        if why:
            return Candidate(label, False, refused=why), None
        merged = _merged(group, producer, arg, program.env)
        merge = Merge(producer.kernel, group.kernel, merged.tensor, merged.kernel)
        verdict = self.options.policy(merge, self.device, program.env, self.price)
        return replace(verdict, label=label), None if verdict.refused else merged

    def _refusal(self, group: _Group, producer: _Group, arg: Var, uses: Counter[str]) -> str:
        """Why two groups stay apart, whatever the policy says of them."""
        if not self.options.enabled:
            return "fusion is switched off"
        if arg.name in self.options.cuts:
            return "it is kept apart by hand"
        readers, mine = uses[arg.name], group.uses[arg.name]
        if readers > mine:
            return f"{readers - mine} others read it, so it is stored anyway"
        tensor = next(t for t, a in zip(group.kernel.inputs, group.args) if a == arg)
        times = len(loads_of(group.kernel, tensor)) if form_of(producer.kernel).is_map else 0
        return too_large(producer.size, group.size, times)


def _alone(number: int, binding: Binding, call: KernelCall, env: ShapeEnv) -> _Group:
    kernel = normalise(open_inner_dims(call.kernel, env))
    uses = Counter(a.name for a in call.args)
    name = binding.var.name
    form, size = form_of(kernel), size_of(kernel)
    return _Group(number, binding, kernel, call.args, [name], [form.word], uses, size)


def _merged(group: _Group, producer: _Group, arg: Var, env: ShapeEnv) -> _Merged:
    by_name = {a.name: a for a in (*group.args, *producer.args)}
    consumer, names = share_inputs(group.kernel, tuple(a.name for a in group.args))
    tensor = consumer.inputs[names.index(arg.name)]
    both = concatenate(producer.kernel, consumer, tensor)
    args = (*(a.name for a in producer.args), *(n for n in names if n != arg.name))
    welded, kept = share_inputs(both, args)
    kernel = normalise(open_inner_dims(welded, env))
    return _Merged(kernel, tuple(by_name[n] for n in kept), tensor)


def _take(group: _Group, producer: _Group, arg: Var, merged: _Merged) -> None:
    group.kernel, group.args, group.size = merged.kernel, merged.args, size_of(merged.kernel)
    level = "register" if form_of(producer.kernel).is_map else "L1"
    if len([c for c in group.kernel.computes if c.reduce]) > 1:
        level = "L2"
    size = arg.type.bytes if isinstance(arg.type, Tensor) and arg.type.is_known else 0
    group.inner += [
        *producer.inner,
        TileEdge(producer.members[-1], group.members[0], arg.name, size, level),
    ]
    group.uses += producer.uses
    group.members = [*producer.members, *group.members]
    group.kinds = [*producer.kinds, *group.kinds]
    group.steps = [*producer.steps, *group.steps]
    origin = producer.binding.origin | group.binding.origin
    group.binding = replace(group.binding, origin=origin)


def _welded(group: _Group) -> Binding:
    return replace(group.binding, expr=KernelCall(group.kernel, group.args))


def _bytes(v: Var, env: ShapeEnv) -> int:
    known = isinstance(v.type, Tensor) and v.type.is_known
    return env.hint(v.type.bytes) if known and isinstance(v.type, Tensor) else 0


def _summary(g: _Group, program: Program) -> FusionGroup:
    after = sum(_bytes(a, program.env) for a in g.args) + _bytes(g.binding.var, program.env)
    inside = sum(program.env.hint(e.bytes) for e in g.inner)
    return FusionGroup(
        g.binding.var.name,
        tuple(g.members),
        tuple(g.kinds),
        after + 2 * inside,
        after,
        tuple(g.steps),
        g.binding.origin,
    )


def _outer_edges(
    g: _Group, groups: dict[str, _Group], device: Device, env: ShapeEnv
) -> list[TileEdge]:
    """What a group still takes from others: through the nearest level that all units share and that
    holds it.
    """
    out = []
    for a in g.args:
        if a.name in groups and isinstance(a.type, Tensor) and a.type.is_known:
            fits = [
                m.name
                for m in device.levels
                if m.shared and m.capacity_bytes and _bytes(a, env) <= m.capacity_bytes // 2
            ]
            level = fits[0] if fits else device.levels[-1].name
            out.append(
                TileEdge(groups[a.name].members[-1], g.members[0], a.name, a.type.bytes, level)
            )
    return out
