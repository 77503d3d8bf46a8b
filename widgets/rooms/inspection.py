"""The thread and the inspector: every decision about one source operator, in words and rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeVar

from explorer.compiler.compilation import Compilation
from explorer.compiler.operators import Operator, in_words
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.decided import AlgorithmDecision
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.roller.tile_order import why_first
from explorer.views.memory import memory_rows
from explorer.views.roller import WeighedBlock, thread_blocks
from widgets.draw.table import size_text, time_text
from widgets.memory import memory_plan
from widgets.model import outline
from widgets.model.brick_wall import WallRows
from widgets.model.house import House
from widgets.model.knobs import Setting, tile_label
from widgets.model.picture import OnShow, Walls
from widgets.roller.tiled_kernel import timed_words
from widgets.welder import judge_moves, tile_graph
from widgets.welder.judge_moves import Act
from widgets.welder.pipeline import Scene, Value
from widgets.welder.tile_graph import KernelGroup
from widgets.welder.view import before_welding, group_in_use, level_name

T = TypeVar("T", Binding, BufferPlacement)
SHOWN = 8  # candidates, and so many refused ones
DIRECT = "direct"


def data(s: OnShow, op: str) -> dict[str, Any]:
    """Return the thread's stations and the inspector's sections for one source operator."""
    house, now, walls, plan = s.house, s.now, s.walls, s.plan
    operator = house.operators[house.order[op]]
    binding = _binding(house, operator)
    decisions, call = house.compiled.program.decisions, (*operator.calls, "")[0]
    decision, algorithm = decisions.tiling(call), decisions.algorithm(call)
    blocks = thread_blocks(now.compiled, call, dict(now.sizes))
    tile = (
        _thread_blocks(blocks, algorithm, _chooser(now, call))
        if blocks
        else _tile(house, now, operator, binding, decision, algorithm, walls)
    )
    return {
        "type": outline.type_text(binding.vars[0].type) if binding else "",
        "stations": _thread_stations(
            house, operator, binding, _sizes(blocks, decision), walls, plan
        ),
        "tile": tile,
        "fusion": _fusion(s, op),
        "placement": _placement(operator, walls),
        "shape": _shape(house, now, op),
        "memory": _memory(house, op, plan),
        "rewrites": _rewrites(house, op),
    }


def _binding(house: House, operator: Operator) -> Binding | None:
    if not operator.calls:
        return None
    bindings = house.cached(
        "bindings", (), lambda: {b.vars[0].name: b for _, b in house.compiled.program.bindings()}
    )
    return bindings.get(operator.calls[0])


def _thread_stations(
    house: House,
    operator: Operator,
    binding: Binding | None,
    tile: str,
    walls: Walls,
    plan: Any,
) -> list[tuple[str, str, bool, str]]:
    stations = [("source", operator.op, False, f"{operator.name} in the file")]
    if binding is None:
        return [*stations, ("no kernel", operator.dropped, False, "")]
    members, names = len(binding.origin), house.other_names(binding.name)
    if members > 1:
        stations.append(("fused", counted(members, "operator"), True, names))
    if tile:
        stations.append(("tile", tile, False, ""))
    if isinstance(binding.expr, KernelCall):
        stations.append(("kernel", house.label(binding.name), False, names))
    bricks = _bricks(walls.planned, operator.calls)
    if bricks:
        tasks = sum(last - first + 1 for _, first, last in bricks)
        stations.append(("tasks", counted(tasks, "task"), False, ""))
    buffer = _buffers(house, plan).named.get(binding.vars[0].name) if plan else None
    if buffer is not None:
        at = f"{size_text(buffer.bytes)} at {size_text(buffer.offset)}"
        stations.append(("buffer", at, True, ""))
    return stations


def _sizes(blocks: Sequence[WeighedBlock], decision: TilingDecision | None) -> str:
    """Return the sizes of the tile in use: of the wall's thread blocks, else of Roller's tile."""
    block = next((w.candidate.value for w in blocks if w.on), None)
    if block is not None:
        return short_tile(block)
    return "" if decision is None else short_tile(decision.chosen)


def _thread_blocks(
    blocks: Sequence[WeighedBlock], algorithm: AlgorithmDecision | None, who: str
) -> dict[str, Any]:
    """Return the weighed thread blocks of a data sheet's GPU, those of the wall first.

    The wall runs other blocks beside them, so it need not take the one that is fastest alone.
    """
    base = next((w.candidate.cost_us for w in blocks if w.on), 0.0)
    shown = [(n, w) for n, w in enumerate(blocks) if w.on or n < SHOWN]
    shown.sort(key=lambda x: not x[1].on)
    rows = [
        {
            "label": w.candidate.label,
            "us": w.candidate.cost_us,
            "terms": [list(t) for t in w.candidate.terms],
            "refused": "",
            "on": w.on,
            "index": 1 + n,  # the knob's first value leaves the choice to the wall
            "note": "chosen"
            if w.on
            else percent(w.candidate.cost_us / base - 1 if base else 0, "+"),
        }
        for n, w in shown
    ]
    chosen = " and ".join(w.candidate.label for w in blocks if w.on)
    sentences = (
        _algorithm(algorithm),
        f"{who} thread blocks of {chosen}, out of {len(blocks)} that were priced in full.",
        _not_fastest(blocks, base),
    )
    return {
        "sentence": " ".join(filter(None, sentences)),
        "candidates": rows,
        "axes": "thread block",
        "terms": list(dict.fromkeys(n for w in blocks for n, _ in w.candidate.terms)),
    }


def _not_fastest(blocks: Sequence[WeighedBlock], base_us: float) -> str:
    """Explain why the wall takes thread blocks that are not the fastest alone."""
    fastest = min((w.candidate for w in blocks), key=lambda c: c.cost_us)
    if not fastest.cost_us < base_us:
        return ""
    longer = percent(base_us / fastest.cost_us - 1)
    return (
        f"Alone these take {longer} longer than the fastest: what counts is also the memory that "
        "they leave to blocks beside them."
    )


def _chooser(now: Setting, call: str) -> str:
    """Return who chose the thread blocks of a call."""
    if call in dict(now.compiled.options.roller.pinned):
        return "You set"
    return "Roller took" if now.compiled.program.stage < Stage.PLANNED else "The wall took"


def short_tile(tiling: Tiling) -> str:
    """Return a tile by its sizes only."""
    return "×".join(str(n) for _, n in tiling.tile) or "everything"


def _bricks(rows: WallRows | None, calls: Sequence[str]) -> list[tuple[int, int, int]]:
    if rows is None:
        return []
    mine = rows.of_calls(calls)
    columns = (rows.unit[mine], rows.first[mine], rows.last[mine])
    return list(zip(*(column.tolist() for column in columns)))


def _section(
    sentence: str,
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Any]] = (),
    acts: Sequence[Sequence[Act]] = (),
) -> dict[str, Any]:
    """Return a section of the inspector; `acts` are the buttons of each of the last rows."""
    first = len(rows) - len(acts)
    return {
        "sentence": sentence,
        "columns": list(columns),
        "rows": [
            {
                "cells": [str(c) for c in row],
                "on": False,
                "acts": [asdict(a) for a in acts[n - first]] if n >= first else [],
            }
            for n, row in enumerate(rows)
        ],
    }


def _tile(
    house: House,
    now: Setting,
    operator: Operator,
    binding: Binding | None,
    decision: TilingDecision | None,
    algorithm: AlgorithmDecision | None,
    walls: Walls,
) -> dict[str, Any]:
    if decision is None or binding is None:
        why = operator.dropped if binding is None else "Roller has not cut this: it is no kernel."
        return {"sentence": why, "candidates": [], "terms": [], "axes": "tile"}
    legal = [c for c in decision.candidates if not c.refused]
    refused = [c for c in decision.candidates if c.refused]
    chosen = next((c for c in legal if c.value == decision.chosen), None)
    base = chosen.cost_us if chosen else 0.0
    places = sorted(range(min(len(legal), SHOWN)), key=lambda i: legal[i].cost_us)
    places.sort(key=lambda i: legal[i] is not chosen)
    rows = [_candidate(legal[i], i, base, legal[i] is chosen, decision) for i in places]
    rows += [
        {"label": tile_label(c), "refused": c.refused, "on": False, "index": -1}
        for c in refused[:SHOWN]
    ]
    measured = _measured(walls, operator.calls)
    rule = _explain_choice(house, now, binding, chosen, legal)
    sentences = (_algorithm(algorithm), _tile_sentence(decision, rule, len(refused), measured))
    return {
        "sentence": " ".join(filter(None, sentences)),
        "candidates": rows,
        "axes": "tile, registers",
        "terms": list(dict.fromkeys(n for c in legal for n, _ in c.terms)),
    }


def _algorithm(decision: AlgorithmDecision | None) -> str:
    """Describe a convolution's algorithm and the next best; "" for any other operator."""
    if decision is None:
        return ""
    first, *others = decision.candidates
    other = next((c for c in others if c.terms and isfinite(_modelled(c))), None)
    text = f"The convolution is done by {decision.chosen}"
    if first.label == DIRECT:
        text = "The convolution is done directly"
    if other is None:
        return f"{text}."
    manner = "directly" if other.label == DIRECT else f"by {other.label}"
    times = time_text(_modelled(first)), time_text(_modelled(other))
    return f"{text}, {times[0]} by the model; {manner} it would take {times[1]}."


def _modelled(c: Candidate[str | None]) -> float:
    """Return a candidate's modelled time, also if an option refused it."""
    return sum(us for _, us in c.terms)


def _candidate(
    c: Candidate[Tiling], index: int, base: float, on: bool, decision: TilingDecision
) -> dict[str, Any]:
    change = c.cost_us / base - 1 if base else 0.0
    return {
        "label": tile_label(c),
        "us": c.cost_us,
        "terms": [list(t) for t in c.terms],
        "refused": "",
        "on": on,
        "index": index,
        "note": ("chosen" if on else percent(change, "+")) + _timed(c, decision),
    }


def _timed(c: Candidate[Tiling], decision: TilingDecision) -> str:
    """Return a candidate's measured time and its rank in the model, if it was timed."""
    for m in decision.measured:
        if m.tiling == c.value:
            return f", {timed_words(m)}"
    return ""


def percent(share: float, sign: str = "") -> str:
    """Return a share in percent, with one decimal below one percent."""
    share = 0.0 if abs(share) < 0.0005 else share
    return f"{share:{sign}.{1 if 0 < abs(share) < 0.00995 else 0}%}"


def _explain_choice(
    house: House,
    now: Setting,
    binding: Binding,
    chosen: Candidate[Tiling] | None,
    legal: Sequence[Candidate[Tiling]],
) -> str:
    """Explain why a tile came first among the legal ones."""
    count, fastest = counted(len(legal), "legal tile"), min(legal, key=lambda c: c.cost_us)
    if chosen is None or chosen.cost_us <= fastest.cost_us:
        return f", the fastest by its model of {count} it kept"
    sizes = {**house.compiled.program.env.hints, **dict(now.sizes)}
    kernel, device = binding.kernel_call.kernel, house.compiled.device
    why = why_first(chosen, fastest, kernel, device, sizes)
    longer = percent(chosen.cost_us / fastest.cost_us - 1)
    rule = f", predicted {longer} longer than the fastest of {count} it kept"
    return f"{rule}, but {why}" if why else rule


def _tile_sentence(
    decision: TilingDecision, rule: str, refused: int, measured: float | None
) -> str:
    who = "You set" if decision.pinned else "Roller took"
    why = rule
    if decision.pinned:
        why = ""
    elif decision.measured:
        best = decision.measured[0]
        why = (
            f", the fastest of {len(decision.measured)} that were timed alone: "
            f"{time_text(best.measured_us)}, number {best.rank} by the model"
        )
    more = f"; {refused} more were refused" if refused else ""
    text = f"{who} {outline.tiling_text(decision.chosen)}{why}{more}."
    if measured is None:
        return text
    return f"{text} Its tasks took {time_text(measured)} of measured time in all."


def _measured(walls: Walls, calls: Sequence[str]) -> float | None:
    rows = walls.measured
    if rows is None:
        return None
    mine = rows.of_calls(calls)
    return float((rows.end[mine] - rows.start[mine]).sum()) if len(mine) else None


def _fusion(s: OnShow, op: str) -> dict[str, Any]:
    house, now = s.house, s.now
    group = house.cached("group of", now.sizes, lambda: _groups(house, now)).get(op)
    if group is None:
        return _section("Welder decided nothing about this operator.")
    saved = group.bytes_before - group.bytes_after
    sentence = (
        f"{len(group.members)} kernels are one: {size_text(saved)} less moved to and from memory."
        if len(group.members) > 1
        else "This kernel stands alone."
    )
    rows = house.cached(f"handed on in {group.name}", now.sizes, lambda: _handovers(s, group.name))
    explained = [x for x in group.steps if x.refused or not group.handovers]
    weighed = [
        (in_words(x.label, house.values), in_words(x.refused, house.values) or _taken_text(x))
        for x in explained
    ]
    can = isinstance(now.compiled, Compilation)
    acts = [judge_moves.fusion_actions(x, now.compiled.device) if can else () for x in explained]
    return _section(sentence, (), [*rows, *weighed], acts)


def _handovers(s: OnShow, group: str) -> list[tuple[str, str]]:
    """Return the level and the granularity at which each value inside a group is handed on."""
    graph = s.now.compiled.program.decisions.tile_graph
    mine = next((g for g in graph.groups if g.name == group), None) if graph else None
    w = group_in_use(s, mine) if mine is not None and len(mine.members) > 1 else None
    if w is None:
        return []
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    rows = Scene(w, before_welding(s.now.compiled), s.house, sizes).frame(None)
    return [
        (
            f"{v.label} → {', '.join(rows.operators[r].label for r in v.readers)}",
            f"stays in {level_name(v.level)}, {_at_once(v)}",
        )
        for v in rows.inner
    ]


def _at_once(v: Value) -> str:
    if 0 < v.tile_bytes < v.bytes:
        return f"{size_text(v.tile_bytes)} of {size_text(v.bytes)} at a time"
    return size_text(v.bytes)


def _groups(house: House, now: Setting) -> dict[str, KernelGroup]:
    """Return the first group of each source operator."""
    groups = tile_graph.groups(house, now.sizes)
    return {op: g for g in reversed(groups) for op in g.ops}


def _taken_text(step: Candidate[bool]) -> str:
    return "taken: " + ", ".join(f"{name} {time_text(us)}" for name, us in step.terms)


def _placement(operator: Operator, walls: Walls) -> dict[str, Any]:
    planned, (ran, _) = _bricks(walls.planned, operator.calls), walls.ran
    if not planned:
        return _section("It is on no wall.")
    tasks_of: dict[int, list[tuple[int, int]]] = {}
    for unit, first, last in planned:
        tasks_of.setdefault(unit, []).append((first, last))
    rows = []
    for unit, mine in sorted(tasks_of.items()):
        tasks = sum(b - a + 1 for a, b in mine)
        ranges = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in mine[:6])
        more = " …" if len(mine) > 6 else ""
        rows.append((f"w{unit}", counted(tasks, "task"), ranges + more))
    kind = "predicted" if ran is None else f"predicted and {ran.title}"
    return _section(
        f"Rammer placed it as {counted(len(planned), 'chunk')}, {kind}.",
        ("unit", "tasks", "which"),
        rows,
    )


def _shape(house: House, now: Setting, op: str) -> dict[str, Any]:
    main = house.compiled.model.program.main
    read = house.cached("imported", (), lambda: _by_operator(main.body))
    typed = house.cached("annotations", (), lambda: _annotations(house))
    rows = [
        (v.name, typed.get(v.name) or outline.type_text(v.type) or "unknown before deduction")
        for b in read.get(op, ())
        for v in (*b.reads, *b.vars)
    ]
    sizes = ", ".join(f"{n} = {v}" for n, v in now.sizes)
    return _section(
        f"What it reads and makes{f', now with {sizes}' if sizes else ''}.",
        ("value", "annotation"),
        rows,
    )


def _annotations(house: House) -> dict[str, str]:
    """Return the annotation of each value, as text."""
    return {
        v.name: outline.type_text(v.type)
        for step in house.compiled.snapshots[:2]
        for _, b in step.after.bindings()
        for v in b.vars
    }


def _by_operator(parts: Iterable[T]) -> dict[str, list[T]]:
    """Return the bindings or buffers that come from each source operator, in order."""
    by_op: dict[str, list[T]] = {}
    for part in parts:
        for op in part.origin:
            by_op.setdefault(op, []).append(part)
    return by_op


def _memory(house: House, op: str, plan: Any) -> dict[str, Any]:
    buffers = _buffers(house, plan) if plan else None
    mine = buffers.of.get(op) if buffers else None
    if buffers is None or not mine:
        return _section("No buffer is its own: it writes an output, or lives in registers.")
    rows = [
        (
            house.label(b.name, b.origin),
            size_text(b.bytes),
            f"alias of {house.label(b.alias_of)}" if b.alias_of else f"at {b.offset:,}",
            f"calls {b.first}–{b.last}",
        )
        for b in mine
    ]
    return _section(
        buffers.caption,
        ("buffer", "bytes", "place", "lives"),
        rows,
    )


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The buffers of a memory plan by name and by source operator, with a common caption."""

    plan: MemoryPlan
    named: dict[str, BufferPlacement]
    of: dict[str, list[BufferPlacement]]
    caption: str


def _buffers(house: House, plan: MemoryPlan) -> _Buffers:
    def read() -> _Buffers:
        caption = memory_plan.caption(memory_rows(plan, house.labels))
        named = {b.name: b for b in plan.buffers}
        return _Buffers(plan, named, _by_operator(plan.buffers), f"{caption}.")

    return house.cached("buffers", id(plan), read)


def _rewrites(house: House, op: str) -> dict[str, Any]:
    rows = []
    for step in house.compiled.snapshots:
        both = _bindings(house, step.before, op), _bindings(house, step.after, op)
        if len(both[0]) == len(both[1]) and all(a is b for a, b in zip(*both)):
            continue
        before, after = (list(map(outline.binding_text, mine)) for mine in both)
        if before != after:
            rows.append(
                (
                    step.name,
                    "; ".join(after)
                    or "gone: " + dict(step.after.dropped).get(op, "nothing computes it"),
                )
            )
    return _section(f"{counted(len(rows), 'step')} rewrote it.", ("step", "afterwards"), rows)


def _bindings(house: House, program: Program, op: str) -> list[Binding]:
    """Return the bindings of a step's program that come from an operator."""
    every = partial(_by_operator, (b for _, b in program.bindings()))
    # The id stays valid: steps hold the program as long as the house.
    by_op = house.cached("by operator", id(program), every)
    return by_op.get(op, [])
