"""Welder as a pass: the groups of a policy become kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.tile_graph import FusionGroup, TileEdge, TileGraph
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernels.canonical import kernel_text
from explorer.ir.kernels.in_place import overwritten
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.passes.policy_call import PolicyCall
from explorer.transforms.rewrite import is_recorded, record_match
from explorer.welder.groups import Facts, Group, single_group
from explorer.welder.join_loops import bytes_of, loop_rows
from explorer.welder.model import Price
from explorer.welder.options import Options, no_fusion, policy_of
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.plan import plan_group


@dataclass(frozen=True, slots=True)
class Weld:
    """Fusion over the memory hierarchy for one device.

    `price` is Roller's modelled time of a kernel.
    """

    device: Device
    price: Price
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Fuse kernels.

        After: kernels that share tiles are one kernel, and only their outputs are stored.

        Raises:
            BadOption: no kernel makes a connected value, or the device lacks its level.
            BadPolicy: a user's policy breaks a rule.
        """
        _check(self.options, self.device, program)
        graph: list[FusionGroup] = []
        edges: list[TileEdge] = []
        functions = tuple(self._function(f, program, graph, edges) for f in program.functions)
        name = self.options.name if self.options.enabled else "off"
        left = replace(program.decisions, tile_graph=TileGraph(tuple(graph), tuple(edges), name))
        after = replace(program, functions=functions, decisions=left, stage=Stage.WELDED)
        if self._is_own:
            PolicyCall("Welder", self.options.policy).check_program(after)
        return after

    @property
    def _is_own(self) -> bool:
        return self.options.enabled and not isinstance(self.options.policy, str)

    def _function(
        self, f: Function, program: Program, graph: list[FusionGroup], edges: list[TileEdge]
    ) -> Function:
        facts = self._facts(f, program)
        kernels = tuple(
            single_group(number, b, b.expr, program.env)
            for number, b in enumerate(f.body)
            if isinstance(b.expr, KernelCall)
        )
        policy = policy_of(self.options.policy) if self.options.enabled else no_fusion
        if self._is_own:
            policy_call = PolicyCall("Welder", policy, f"the kernels of {f.name!r}")
            from explorer.welder.validate_policy import validate_groups  # a user's policy

            policy_groups = validate_groups(policy_call, lambda: policy(kernels, facts), kernels, f)
        else:
            policy_groups = tuple(policy(kernels, facts))
        groups = {g.name: g for g in policy_groups}
        if is_recorded():
            _record_normal_forms(f, groups)
        body = tuple(
            _welded(b, groups[b.name]) if isinstance(b.expr, KernelCall) else b
            for b in f.body
            if not isinstance(b.expr, KernelCall) or b.name in groups
        )
        results = {b.name: b.vars for b in body if b.vars}
        apart_bytes = {b.name: _traffic_bytes(b, program.env) for b in f.body if b.vars}
        for g in groups.values():
            graph.append(_summary(g, results[g.name], program, self.device, apart_bytes))
            edges += [*g.inner, *_outer_edges(g, groups, self.device, program.env)]
        return replace(f, body=body)

    def _facts(self, f: Function, program: Program) -> Facts:
        uses = Counter(v.name for b in f.body for v in b.reads)
        uses.update(v.name for v in f.outputs)
        readers: dict[str, list[str]] = {}
        for b in f.body:
            for v in dict.fromkeys(b.reads):
                readers.setdefault(v.name, []).append(b.vars[0].name)
        results = frozenset(v.name for v in f.outputs)
        connect = dict(self.options.connect)
        over, rows = overwritten(f.body), loop_rows(f, program)
        device, env, price = self.device, program.env, self.price
        return Facts(device, env, price, uses, readers, results, connect, over, rows)


def _check(options: Options, device: Device, program: Program) -> None:
    names = *(m.name for m in memories(device)), *(m.name for m in device.levels)
    levels = dict.fromkeys(names)
    calls = (b for _, b in program.bindings() if isinstance(b.expr, KernelCall))
    kernel_results = {v.name for b in calls for v in b.vars}
    for value, level in options.connect:
        if value not in kernel_results:
            raise BadOption(
                f"no kernel makes a value named {value!r}",
                where=value,
                actual=value,
                try_="a member of a group of `ironworks weld MODEL --json`",
            )
        if level not in levels:
            raise BadOption(
                f"{value} cannot be connected at {level!r}: {device.name} has no such level",
                where=value,
                expected=", ".join(levels),
                actual=level,
            )


def _record_normal_forms(f: Function, groups: dict[str, Group]) -> None:
    """Record the rewrite of kernels that stay single and are in normal form from here on."""
    for b in f.body:
        group = groups.get(b.name)
        if group is None or len(group.members) > 1 or not isinstance(b.expr, KernelCall):
            continue
        if kernel_text(group.with_origins) != kernel_text(b.expr.kernel):
            record_match(normalise, (b,), (_welded(b, group),), "put into normal form")


def _welded(binding: Binding, group: Group) -> Binding:
    call = KernelCall(group.with_origins, group.args)
    return replace(binding, expr=call, origin=group.origin)


def _summary(
    g: Group,
    results: tuple[Var, ...],
    program: Program,
    device: Device,
    apart_bytes: Mapping[str, int],
) -> FusionGroup:
    """Return the summary of a group.

    Before fusion each member read its arguments and stored its results.
    """
    after = sum(bytes_of(v, program.env) for v in (*g.args, *results))
    plan = None
    if g.tile is not None:
        bound = bind_kernel(g.kernel, sizes_of(g.kernel, program.env))
        plan = plan_group(g.kernel, device, program.env, dict(g.tile.cut_of(bound)))
    before = sum(apart_bytes[m] for m in g.members)
    return FusionGroup(g.name, g.members, g.kinds, before, after, g.steps, g.origin, plan)


def _traffic_bytes(b: Binding, env: ShapeEnv) -> int:
    """Return the bytes of a call's operands and results; 0 for other bindings."""
    if not isinstance(b.expr, KernelCall):
        return 0
    return sum(bytes_of(v, env) for v in (*dict.fromkeys(b.expr.args), *b.vars))


def _outer_edges(
    g: Group, groups: dict[str, Group], device: Device, env: ShapeEnv
) -> list[TileEdge]:
    """Return the edges from other groups into one.

    They pass through the nearest level that all units share and that holds the value.
    """
    out = []
    for a in g.args:
        if a.name in groups and isinstance(a.type, Tensor) and a.type.is_known:
            fits = [
                m.name
                for m in device.levels
                if m.shared and m.capacity_bytes and bytes_of(a, env) <= m.capacity_bytes // 2
            ]
            level = fits[0] if fits else device.levels[-1].name
            out.append(
                TileEdge(groups[a.name].members[-1], g.members[0], a.name, a.type.bytes, level)
            )
    return out
