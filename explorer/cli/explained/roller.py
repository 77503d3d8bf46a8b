"""Roller: the tile of each kernel, and every candidate of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.candidates import candidates, why
from explorer.cli.explained.find import about, no_such, shortened
from explorer.cli.text import duration, table
from explorer.ir.decisions.tiling import TilingDecision
from explorer.roller.tiles.weigh import label_of

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def tiles(c: Compilation, op: str | None) -> Answer:
    """The tile of each kernel; for one operator every candidate, its cost or its refusal."""
    origins, called = {b.name: b.origin for b in c.program.kernel_calls}, labels(c)
    found = [
        t
        for t in c.program.decisions.tilings
        if about(op, t.binding, origins.get(t.binding, frozenset()))
    ]
    if op is not None and not found:
        raise no_such(c, op, origins)
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
        f"{candidates(t.candidates)}{_efficient(t)}{_measured(t)}"
        for t in found
    ]
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
