"""Welder's decisions: fused kernels, weighed merges, and the effect of a value at each level.

The algorithms of convolutions are here too: Welder weighs them with the merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from explorer.ir.decisions.candidate import Refusal
from explorer.ir.decisions.decided import AlgorithmDecision
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan, TileGraph
from explorer.ir.dims import Sizes
from explorer.plain_text import binding, counted, duration, folded, size, table
from explorer.views.answer import Answer
from explorer.views.candidates import candidates
from explorer.views.labels import (
    PROGRAM,
    is_about,
    labels,
    labels_before_fusion,
    shorten_rows,
    unknown_name,
)
from explorer.welder import plan_group
from explorer.welder.what_if import Move, WhatIf, inside_of

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation


def groups(c: Compilation, op: str | None) -> Answer:
    """Return the fused kernels and the bytes saved; for one operator each weighed merge."""
    graph = c.program.decisions.tile_graph
    fused = (
        []
        if graph is None
        else [g for g in graph.groups if is_about(op, g.name, g.origin, g.members)]
    )
    if op is not None and not fused:
        raise unknown_name(c, op, (g.name for g in graph.groups) if graph else ())
    before, after = sum(g.bytes_before for g in fused), sum(g.bytes_after for g in fused)
    call_labels = labels(c)
    rows = [
        (
            call_labels.get(g.name, g.name),
            g.name,
            str(len(g.members)),
            size(g.bytes_before),
            size(g.bytes_after),
            " + ".join(g.kinds),
        )
        for g in fused
    ]
    lines = [
        table(
            ("group", PROGRAM, ">kernels", ">apart", ">welded", "made of"),
            shorten_rows(rows, op, 6),
        ),
        f"\n  {size(before)} to and from memory apart, {size(after)} welded",
    ]
    if op is not None:
        names = labels_before_fusion(c)
        lines += [
            f"\n  {call_labels.get(g.name, g.name)}: merges weighed\n{candidates(g.steps, names)}"
            for g in fused
            if g.steps
        ]
    convolutions, text = algorithms(c, op)
    lines += [text] if text else []
    policy = "" if graph is None else graph.policy
    data = {
        "stage": c.stage,
        "policy": policy,
        "bytes_before": before,
        "bytes_after": after,
        "groups": fused,
        "convolutions": convolutions,
    }
    return Answer(data, "\n".join(lines))


def algorithms(c: Compilation, op: str | None) -> tuple[list[AlgorithmDecision], str]:
    """Return the decisions and a table: a row per convolution, or every candidate of one."""
    origins = {b.name: b.origin for b in c.program.kernel_calls}
    decisions = [
        a
        for a in c.program.decisions.algorithms
        if is_about(op, a.binding, origins.get(a.binding, frozenset()))
    ]
    if not decisions:
        return decisions, ""
    call_labels = labels(c)
    if op is not None:
        names = [call_labels.get(a.binding, a.binding) for a in decisions]
        parts = (
            f"\n  {name}: algorithms weighed\n{candidates(a.candidates)}"
            for name, a in zip(names, decisions, strict=True)
        )
        return decisions, "\n".join(parts)
    rows = [
        (
            call_labels.get(a.binding, a.binding),
            a.binding,
            a.chosen,
            duration(a.candidates[0].cost_us),
        )
        for a in decisions
    ]
    head = ("convolution", PROGRAM, "algorithm", ">predicted")
    return decisions, "\n" + table(head, shorten_rows(rows, op, 4))


Plans = Mapping[str, GroupPlan]  # by kernel


@dataclass(frozen=True, slots=True)
class LevelTraffic:
    """Bytes moved between a memory and the next farther one, by all kernels."""

    level: str
    capacity_bytes: int | None
    bytes_apart: int
    bytes_welded: int


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A fused kernel: its members, the level of each inner value, and memory traffic."""

    name: str
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    connected: Mapping[str, str]
    tile: Mapping[str, int]
    level: str
    bytes_apart: int
    bytes_welded: int
    recompute: float
    predicted_us: float


@dataclass(frozen=True, slots=True)
class RefusedMerge:
    """A merge that was weighed and refused."""

    merge: str
    condition: str
    text: str
    change: str


def compare_groups(c: Compilation, apart: Compilation, sizes: Sizes) -> Answer:
    """Compare the fusion groups of a compilation with the same model without fusion.

    Bytes and times are those at the sizes. Decisions and refusals were made at the hints.
    """
    graph = c.snapshot("fuse (Welder)").after.decisions.tile_graph
    assert graph is not None
    after, before = _plans(c, sizes), _plans(apart, sizes)
    rows = [_group(g, graph, after, before) for g in graph.groups]
    levels = list(_levels(after, before))
    refusals = [r for g in graph.groups for r in _refused_merges(g)]
    welder = c.options.welder
    data = {
        "policy": graph.policy,
        "connect": dict(welder.connect),
        "kernels_apart": len(before),
        "kernels_welded": len(after),
        "levels": levels,
        "predicted_us_apart": sum(p.predicted_us for p in before.values()),
        "predicted_us_welded": sum(p.predicted_us for p in after.values()),
        "groups": rows,
        "refused": refusals,
    }
    head = (
        f"{c.model.name} on {c.device.name}, policy {graph.policy}{binding(sizes)}: "
        f"{counted(len(before), 'kernel')} apart, {len(after):,} welded"
    )
    parts = [head, _group_table(rows), _level_table(levels), _refusal_table(refusals)]
    return Answer(data, "\n\n".join(p for p in parts if p))


def value_at_levels(c: Compilation, name: str, sizes: Sizes) -> Answer:
    """Predict a value at every memory level, or return the reason against a level.

    A reason names the change that would allow the level.
    """
    value = _value(c, name)
    what_if = WhatIf(c, sizes)
    moves = [what_if.connect(value, level) for level in what_if.levels]
    rows = [_move_row(m) for m in moves]
    head = ("level", "stays in", ">kernels", ">memory traffic", ">time predicted", "")
    now = moves[0].before
    text = (
        f"  {value} now: {counted(len(now.groups), 'kernel')}, {size(now.dram_bytes)} of memory "
        f"traffic, {duration(now.predicted_us)} predicted\n{folded(head, rows)}"
    )
    now_data = {"kernels": now.groups, "dram_bytes": now.dram_bytes, "us": now.predicted_us}
    data = {"value": value, "now": now_data, "moves": [_move_data(m) for m in moves]}
    return Answer({"why": data}, text)


def _plans(c: Compilation, sizes: Sizes) -> dict[str, GroupPlan]:
    """Return the plan of every kernel at the sizes.

    A plan uses the tile that Roller chose; on a GPU it uses Welder's own.
    """
    plans, env = {}, c.program.env.at(sizes)
    for b in c.program.kernel_calls:
        plans[b.name] = plan_group(b.kernel_call.kernel, c.device, env, b.kernel_call.core_tiling)
    return plans


def _group(g: FusionGroup, graph: TileGraph, after: Plans, before: Plans) -> FusedKernel:
    inside = inside_of(g)
    plan = after.get(g.name)
    return FusedKernel(
        g.name,
        g.members,
        g.kinds,
        {e.tensor: e.level for e in graph.edges if e.tensor in inside},
        dict(plan.tile) if plan else {},
        plan.level if plan else "",
        sum(_dram_traffic(before.get(m)) for m in g.members),
        _dram_traffic(plan),
        plan.recompute if plan else 1.0,
        plan.predicted_us if plan else 0.0,
    )


def _dram_traffic(plan: GroupPlan | None) -> int:
    return 0 if plan is None else plan.levels[-2].traffic


def _levels(after: Plans, before: Plans) -> Iterator[LevelTraffic]:
    first_plan = next(iter((*after.values(), *before.values())), None)
    for n, memory in enumerate(first_plan.levels[:-1] if first_plan else ()):
        moved = [sum(p.levels[n].traffic for p in plans.values()) for plans in (before, after)]
        yield LevelTraffic(memory.level, memory.capacity, *moved)


def _refused_merges(g: FusionGroup) -> Iterator[RefusedMerge]:
    """Yield the last refusal of each value that a group reads and does not contain."""
    last = {s.label.split(" into ")[0]: s for s in g.steps if s.refused}
    for value, s in last.items():
        if value not in g.members:
            refusal = s.why or Refusal("", 0, 0, s.refused)
            yield RefusedMerge(
                f"{value} into {g.name}", refusal.condition, refusal.text, refusal.change
            )


def _group_table(rows: Sequence[FusedKernel]) -> str:
    welded = [g for g in rows if len(g.members) > 1]
    cells = [
        (
            g.name,
            str(len(g.members)),
            ", ".join(dict.fromkeys(g.connected.values())),
            size(g.bytes_apart),
            size(g.bytes_welded),
            duration(g.predicted_us),
            _count_kinds(g.kinds),
        )
        for g in welded
    ]
    head = ("group", ">kernels", "stays in", ">apart", ">welded", ">predicted", "made of")
    alone = len(rows) - len(welded)
    return (
        f"{folded(head, shorten_rows(cells, None, len(head)))}\n  {counted(alone, 'kernel')} alone"
    )


def _count_kinds(kinds: Sequence[str]) -> str:
    """Join equal neighbours of a list of kinds: `contraction, 3 elementwise`."""
    runs = ((kind, len(list(same))) for kind, same in groupby(kinds))
    return ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)


def _level_table(levels: Sequence[LevelTraffic]) -> str:
    cells = [
        (
            f"{m.level} to {levels[n + 1].level if n + 1 < len(levels) else 'memory'}",
            size(m.bytes_apart),
            size(m.bytes_welded),
            f"{m.bytes_welded / m.bytes_apart:.2f}" if m.bytes_apart else "",
        )
        for n, m in enumerate(levels)
    ]
    return table(("moved, by the model", ">apart", ">welded", ">share"), cells)


def _refusal_table(refusals: Sequence[RefusedMerge]) -> str:
    cells = [(r.merge, r.text, r.change) for r in refusals]
    if not cells:
        return ""
    return folded(("not welded", "because", "what would flip it"), shorten_rows(cells, None, 3))


def _value(c: Compilation, name: str) -> str:
    """Return the value of that name, else the last one from the operator of that name."""
    calls = c.snapshot("fuse (Welder)").before.kernel_calls
    matches = [b.name for b in calls if b.name == name]
    matches = matches or [b.name for b in calls if name in b.origin]
    if not matches:
        raise unknown_name(c, name, (b.name for b in calls))
    return matches[-1]


def _move_row(m: Move[Compilation]) -> tuple[str, ...]:
    if m.after is None:
        assert m.refused is not None
        return m.level, "", "", "", "", f"no: {m.refused.words}"
    gain = m.gain_us
    word = f"{duration(abs(gain))} {'less' if gain > 0 else 'more'}" if gain else "as now"
    return (
        m.level,
        m.reached,
        str(len(m.after.groups)),
        size(m.after.dram_bytes),
        duration(m.after.predicted_us),
        word,
    )


def _move_data(m: Move[Compilation]) -> dict[str, object]:
    after = m.after
    return {
        "level": m.level,
        "legal": m.refused is None,
        "reached": m.reached or None,
        "kernels": None if after is None else after.groups,
        "levels": None if after is None else after.levels,
        "dram_bytes": None if after is None else after.dram_bytes,
        "predicted_us": None if after is None else after.predicted_us,
        "tile": None if m.tiling is None else dict(m.tiling.tile),
        "refused": m.refused,
    }
