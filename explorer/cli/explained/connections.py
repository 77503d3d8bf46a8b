"""Welder's groups by memory level, and one value at every level, or why it cannot be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import no_such, shortened
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan, TileGraph
from explorer.ir.shapes.dims import Sizes
from explorer.plain_text import binding, counted, duration, folded, size, table
from explorer.welder import plan_group
from explorer.welder.what_if import Move, WhatIf, inside_of

if TYPE_CHECKING:
    from explorer.compilation import Compilation

Plans = Mapping[str, GroupPlan]  # by kernel


@dataclass(frozen=True, slots=True)
class Level:
    """Bytes moved between a memory and the next farther one, by all kernels."""

    level: str
    capacity_bytes: int | None
    bytes_apart: int
    bytes_welded: int


@dataclass(frozen=True, slots=True)
class Group:
    """A kernel: its members, where each inner value is handed over, bytes to and from memory."""

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
class Refused:
    """A merge that was weighed and not made."""

    merge: str
    condition: str
    text: str
    change: str


def groups(c: Compilation, apart: Compilation, sizes: Sizes) -> Answer:
    """The groups of a compilation against those of one in which nothing is welded: bytes and times
    at the sizes, decisions and refusals as they were made, at the hints.
    """
    graph = c.snapshot("fuse (Welder)").after.decisions.tile_graph
    assert graph is not None
    after, before = _plans(c, sizes), _plans(apart, sizes)
    rows = [_group(g, graph, after, before) for g in graph.groups]
    levels = list(_levels(after, before))
    refusals = [r for g in graph.groups for r in _refused(g)]
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


def why(c: Compilation, name: str, sizes: Sizes) -> Answer:
    """A value at every memory level: what is predicted at the sizes, or why not and what would flip
    it.
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
    """Every kernel at the sizes, under the tile that Roller chose; on a GPU under Welder's own."""
    found, env = {}, c.program.env.at(sizes)
    for b in c.program.kernel_calls:
        found[b.name] = plan_group(b.kernel_call.kernel, c.device, env, b.kernel_call.tiling)
    return found


def _group(g: FusionGroup, graph: TileGraph, after: Plans, before: Plans) -> Group:
    inside = inside_of(g)
    plan = after.get(g.name)
    return Group(
        g.name,
        g.members,
        g.kinds,
        {e.tensor: e.level for e in graph.edges if e.tensor in inside},
        dict(plan.tile) if plan else {},
        plan.level if plan else "",
        sum(_dram(before.get(m)) for m in g.members),
        _dram(plan),
        plan.recompute if plan else 1.0,
        plan.predicted_us if plan else 0.0,
    )


def _dram(plan: GroupPlan | None) -> int:
    return 0 if plan is None else plan.levels[-2].traffic


def _levels(after: Plans, before: Plans) -> Iterator[Level]:
    every = next(iter((*after.values(), *before.values())), None)
    for n, memory in enumerate(every.levels[:-1] if every else ()):
        moved = [sum(p.levels[n].traffic for p in plans.values()) for plans in (before, after)]
        yield Level(memory.level, memory.capacity, *moved)


def _refused(g: FusionGroup) -> Iterator[Refused]:
    """The last word on every value that a group reads and that stayed outside."""
    last = {s.label.split(" into ")[0]: s for s in g.steps if s.refused}
    for value, s in last.items():
        if value not in g.members:
            found = s.why or Refusal("", 0, 0, s.refused)
            yield Refused(f"{value} into {g.name}", found.condition, found.text, found.change)


def _group_table(rows: Sequence[Group]) -> str:
    welded = [g for g in rows if len(g.members) > 1]
    cells = [
        (
            g.name,
            str(len(g.members)),
            ", ".join(dict.fromkeys(g.connected.values())),
            size(g.bytes_apart),
            size(g.bytes_welded),
            duration(g.predicted_us),
            _counted(g.kinds),
        )
        for g in welded
    ]
    head = ("group", ">kernels", "stays in", ">apart", ">welded", ">predicted", "made of")
    alone = len(rows) - len(welded)
    return f"{folded(head, shortened(cells, None, len(head)))}\n  {counted(alone, 'kernel')} alone"


def _counted(kinds: Sequence[str]) -> str:
    """Kinds in order, one after the other of the same kind as one: `contraction, 3 elementwise`."""
    runs = ((kind, len(list(same))) for kind, same in groupby(kinds))
    return ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in runs)


def _level_table(levels: Sequence[Level]) -> str:
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


def _refusal_table(refusals: Sequence[Refused]) -> str:
    cells = [(r.merge, r.text, r.change) for r in refusals]
    if not cells:
        return ""
    return folded(("not welded", "because", "what would flip it"), shortened(cells, None, 3))


def _value(c: Compilation, name: str) -> str:
    """The value of that name, or the last one that comes from the operator of that name."""
    calls = c.snapshot("fuse (Welder)").before.kernel_calls
    found = [b.name for b in calls if b.name == name]
    found = found or [b.name for b in calls if name in b.origin]
    if not found:
        raise no_such(c, name, (b.name for b in calls))
    return found[-1]


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
