"""The memory planner: where each intermediate lies, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import about, no_such, shortened
from explorer.cli.text import percent, size, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def memory(c: Compilation, op: str | None, sizes: Mapping[str, int]) -> Answer:
    """Where each intermediate lies, from when to when, and what sharing saves."""
    plan = c.memory(sizes)
    found = [b for b in plan.buffers if about(op, b.name, b.origin)]
    if op is not None and not found:
        raise no_such(c, op, (b.name for b in plan.buffers))
    rows = [
        (b.name, size(b.bytes), f"{b.offset:,}", f"{b.first}–{b.last}", b.formula or "", b.alias_of)
        for b in found
    ]
    head = ("buffer", ">size", ">at byte", ">calls", "elements", "same bytes as")
    share = f", {percent(plan.planned_bytes / plan.naive_bytes)} of it" if plan.naive_bytes else ""
    note = (
        f"\n\n  {size(plan.planned_bytes)} of arena; one buffer each would take "
        f"{size(plan.naive_bytes)}{share}"
    )
    data = {
        "stage": "planned",
        "sizes": sizes,
        "planned_bytes": plan.planned_bytes,
        "naive_bytes": plan.naive_bytes,
        "buffers": found,
    }
    return Answer(data, table(head, shortened(rows, op, 6)) + note)
