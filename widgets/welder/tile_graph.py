"""The tile graph: the groups of fused kernels, the handover levels, and the bytes saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan, TileEdge
from explorer.ir.program import Program
from explorer.ir.shapes.dims import evaluate_dim
from explorer.ir.types import Tensor
from widgets.draw.see import Sentence
from widgets.draw.table import Table, count_text, size_text
from widgets.model.house import House
from widgets.welder.welded_group import level_name


@dataclass(frozen=True, slots=True)
class Handover:
    """An intermediate: its source and target members, its bytes, and its handover level."""

    source: str
    target: str
    tensor: str
    bytes: int
    level: str
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """A kernel after fusion: its members in order, and its memory traffic before and after."""

    name: str
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    handovers: tuple[Handover, ...]
    output_bytes: int
    steps: tuple[Candidate[bool], ...]
    ops: tuple[str, ...]
    plan: GroupPlan | None = None


def data(program: Program, sizes: Mapping[str, int] | None = None) -> tuple[KernelGroup, ...]:
    """Return every group in program order; empty if Welder has not run."""
    graph = program.decisions.tile_graph
    if graph is None:
        return ()
    bound = {**program.env.hints, **(sizes or {})}
    outputs = {
        b.name: sum(
            evaluate_dim(v.type.bytes, bound)
            for v in b.vars
            if isinstance(v.type, Tensor) and v.type.is_known
        )
        for b in program.kernel_calls
    }
    into: dict[str, list[int]] = {}
    for n, e in enumerate(graph.edges):
        into.setdefault(e.target, []).append(n)
    rows = []
    for g in graph.groups:
        inside = set(g.members)
        places = sorted(n for member in inside for n in into.get(member, ()))
        mine = [graph.edges[n] for n in places if graph.edges[n].source in inside]
        rows.append(_group(g, mine, outputs.get(g.name, 0), bound))
    return tuple(rows)


def groups(house: House, sizes: tuple[tuple[str, int], ...]) -> tuple[KernelGroup, ...]:
    """Return the memoized groups of the current program."""
    return house.cached("groups", sizes, lambda: data(house.compiled.program, dict(sizes)))


def _group(
    group: FusionGroup,
    inner: Sequence[TileEdge],
    output_bytes: int,
    sizes: Mapping[str, int],
) -> KernelGroup:
    return KernelGroup(
        group.name,
        group.members,
        group.kinds,
        group.bytes_before,
        group.bytes_after,
        tuple(_handover(e, sizes) for e in inner),
        output_bytes,
        group.steps,
        tuple(sorted(group.origin)),
        group.plan,
    )


def _handover(e: TileEdge, sizes: Mapping[str, int]) -> Handover:
    return Handover(
        e.source, e.target, e.tensor, evaluate_dim(e.bytes, sizes), e.level, e.reuse_tile
    )


def of_operator(groups: tuple[KernelGroup, ...], op: str) -> KernelGroup | None:
    """Return the group that computes an operator, else the largest one."""
    mine = next((g for g in groups if op in g.ops), None)
    return mine or max(groups, key=lambda g: len(g.members), default=None)


def table(groups: tuple[KernelGroup, ...], house: House, see: tuple[Sentence, ...] = ()) -> Table:
    """Return one row per group."""
    return Table(
        ("group", "members", "bytes before", "bytes after", "levels decided"),
        tuple(
            (
                house.label(g.name, g.ops),
                " → ".join(map(house.member, g.members)),
                g.bytes_before,
                g.bytes_after,
                ", ".join(sorted({level_name(h.level) for h in g.handovers})),
            )
            for g in groups
        ),
        tuple(g.ops for g in groups),
        caption(groups),
        see,
    )


def caption(groups: tuple[KernelGroup, ...]) -> str:
    """Describe the effect of all fusion in one line."""
    before, after = sum(g.bytes_before for g in groups), sum(g.bytes_after for g in groups)
    return (
        f"{count_text(sum(len(g.members) for g in groups), 'kernel')} became {len(groups)}; "
        "predicted traffic to memory "
        f"{size_text(before)} → {size_text(after)}"
    )
