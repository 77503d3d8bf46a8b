"""Roller: the tile of each kernel, and every candidate of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.candidates import candidates, why
from explorer.cli.explained.find import about, no_such, shortened
from explorer.cli.text import duration, table
from explorer.ir.decisions import Candidate

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def tiles(c: Compilation, op: str | None) -> Answer:
    """The tile of each kernel; for one operator every candidate, its cost or its refusal."""
    origins = {b.var.name: b.origin for b in c.program.kernel_calls}
    found = [
        t
        for t in c.program.decisions.tilings
        if about(op, t.binding, origins.get(t.binding, frozenset()))
    ]
    if op is not None and not found:
        raise no_such(c, op, origins)
    data = {
        "stage": c.stage,
        "kernels": [_tiling(t.binding, origins, t.candidates, t.pinned) for t in found],
    }
    if op is None:
        rows = [
            (
                t.binding,
                t.candidates[0].label,
                duration(t.candidates[0].cost_us),
                why(t.candidates[0]),
            )
            for t in found
        ]
        return Answer(
            data, table(("kernel", "tile", ">a task", "of which"), shortened(rows, op, 4))
        )
    parts = [
        f"{t.binding}, from {', '.join(sorted(origins[t.binding]))}\n{candidates(t.candidates)}"
        for t in found
    ]
    return Answer(data, "\n\n".join(parts))


def _tiling(
    name: str, origins: Mapping[str, frozenset[str]], weighed: Sequence[Candidate], pinned: bool
) -> dict[str, object]:
    candidates = [
        {"tile": w.label, "cost_us": w.cost_us, "terms_us": dict(w.terms), "refused": w.refused}
        for w in weighed
    ]
    return {
        "kernel": name,
        "origins": origins.get(name),
        "pinned": pinned,
        "candidates": candidates,
    }
