"""Roller: the tile of each kernel, and every candidate of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.candidates import candidates, why
from explorer.cli.explained.find import about, no_such, shortened
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, BlockDecision, TilingDecision
from explorer.ir.stage import Stage
from explorer.plain_text import duration, table
from explorer.roller.tiles.order import why_first
from explorer.roller.tiles.weigh import label_of

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def tiles(c: Compilation, op: str | None) -> Answer:
    """The tile of each kernel; for one operator every candidate, its cost or its refusal."""
    origins, called = {b.name: b.origin for b in c.program.kernel_calls}, labels(c)
    found, blocks = [], {}
    for t in c.program.decisions.tilings:
        if about(op, t.binding, origins[t.binding]):
            found.append(t)
    for d in c.program.decisions.blocks:
        if about(op, d.binding, origins[d.binding]):
            blocks[d.binding] = _blocks(c, d)
    if op is not None and not found and not blocks:
        if any(about(op, name, origin) for name, origin in origins.items()):
            told = c.explain(op)  # a kernel without thread blocks
            return Answer({"kernels": [], "none": told.none}, str(told))
        raise no_such(c, op, origins)
    if blocks:
        return _thread_blocks(c, blocks, origins, called, op)
    data = {
        "stage": c.stage,
        "kernels": [{**_tiling(t, origins), "called": called[t.binding]} for t in found],
    }
    if op is None:
        rows = [
            (
                called[t.binding],
                t.binding,
                t.candidates[0].label,
                duration(t.candidates[0].cost_us),
                why(t.candidates[0]),
            )
            for t in found
        ]
        return Answer(
            data, table(("kernel", PROGRAM, "tile", ">a task", "of which"), shortened(rows, op, 5))
        )
    parts = [
        f"{called[t.binding]}: {t.binding} {PROGRAM}, "
        f"from {', '.join(sorted(origins[t.binding]))}\n"
        f"{candidates(t.candidates)}{_not_fastest(c, t)}{_efficient(t)}{_measured(t)}"
        for t in found
    ]
    return Answer(data, "\n\n".join(parts))


Blocks: TypeAlias = tuple[tuple[Candidate[Block], bool], ...]


def _blocks(c: Compilation, decision: BlockDecision) -> Blocks:
    """On a data sheet the thread blocks that were weighed for a kernel call, and which the wall
    took, or Roller where there is no wall yet.
    """
    taken = c.taken_blocks(decision.binding)
    weighed = c.weighed_blocks(decision.binding) if taken else decision.candidates
    return tuple((x, x.value in (taken or (decision.chosen,))) for x in weighed)


def _who(c: Compilation) -> str:
    """Who chose the thread blocks."""
    return "Roller" if c.stage < Stage.PLANNED else "the wall"


def _thread_blocks(
    c: Compilation,
    found: Mapping[str, Blocks],
    origins: Mapping[str, frozenset[str]],
    called: Mapping[str, str],
    op: str | None,
) -> Answer:
    """The thread blocks of each kernel; for one operator all that its price left."""
    kernels = [
        {
            "kernel": name,
            "called": called[name],
            "origins": origins.get(name),
            "candidates": [
                {"block": x.label, "cost_us": x.cost_us, "terms_us": dict(x.terms), "taken": on}
                for x, on in blocks
            ],
        }
        for name, blocks in found.items()
    ]
    data = {"kernels": kernels}
    if op is None:
        rows = [
            (called[name], name, x.label, duration(x.cost_us), why(x))
            for name, blocks in found.items()
            for x, on in blocks
            if on
        ]
        heads = ("kernel", PROGRAM, f"thread block of {_who(c)}", ">alone", "of which")
        return Answer(data, table(heads, shortened(rows, op, 5)))
    parts = []
    for name, blocks in found.items():
        taken = " and ".join(x.label for x, on in blocks if on)
        head = f"{called[name]}: {name} {PROGRAM}, from {', '.join(sorted(origins[name]))}"
        weighed = candidates([x for x, _ in blocks])
        parts.append(f"{head}\n{_who(c)} took {taken}; alone on the device\n{weighed}")
    return Answer(data, "\n\n".join(parts))


def _tiling(t: TilingDecision, origins: Mapping[str, frozenset[str]]) -> dict[str, object]:
    candidates = [
        {"tile": w.label, "cost_us": w.cost_us, "terms_us": dict(w.terms), "refused": w.refused}
        for w in t.candidates
    ]
    told: dict[str, object] = {
        "kernel": t.binding,
        "origins": origins.get(t.binding),
        "pinned": t.pinned,
        "candidates": candidates,
    }
    if t.efficient is not None:
        told["efficient"] = label_of(t.efficient)
    if t.measured:
        told["measured"] = [
            {"rank": m.rank, "predicted_us": m.predicted_us, "measured_us": m.measured_us}
            for m in t.measured
        ]
    return told


def _not_fastest(c: Compilation, t: TilingDecision) -> str:
    """What put the first before one that is faster by the model."""
    legal = [x for x in t.candidates if not x.refused]
    if t.pinned or t.measured or not legal:
        return ""
    kernel = c.binding(t.binding).kernel_call.kernel
    fastest = min(legal, key=lambda x: x.cost_us)
    why = why_first(legal[0], fastest, kernel, c.device, c.program.env.hints)
    return f"\nthe first is as good as the fastest, {fastest.label}, and {why}" if why else ""


def _efficient(t: TilingDecision) -> str:
    """The tile that the wall may run instead."""
    if t.efficient is None:
        return ""
    return (
        f"\nwhere units are short, the wall may run {label_of(t.efficient)}: it takes less of them"
    )


def _measured(t: TilingDecision) -> str:
    """What was timed, fastest first, beside the model's rank and time."""
    if not t.measured:
        return ""
    rows = [
        (c.label, str(m.rank), duration(m.predicted_us), duration(m.measured_us))
        for c, m in zip(t.candidates, t.measured, strict=False)
    ]
    return "\n" + table(("timed here", ">model's rank", ">predicted", ">measured"), rows)
