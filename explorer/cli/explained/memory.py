"""Report on the memory planner: the offset and the lifetime of each intermediate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import is_about, shorten_rows, unknown_name
from explorer.cli.explained.labels import PROGRAM, labels
from explorer.plain_text import percent, size, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan


def memory(c: Compilation, op: str | None, sizes: Mapping[str, int]) -> Answer:
    """Return the offset and lifetime of each intermediate, and the bytes saved by sharing."""
    plan = c.memory(sizes)
    buffers = [b for b in plan.buffers if is_about(op, b.name, b.origin)]
    if op is not None and not buffers:
        raise unknown_name(c, op, (b.name for b in plan.buffers))
    call_labels = labels(c)
    rows = [
        (
            call_labels.get(b.name, b.name),
            b.name,
            size(b.bytes),
            f"{b.offset:,}",
            f"{b.first}–{b.last}",
            b.formula or "",
            call_labels.get(b.alias_of, b.alias_of),
        )
        for b in buffers
    ]
    head = ("buffer", PROGRAM, ">size", ">at byte", ">calls", "elements", "same bytes as")
    share = f", {percent(plan.planned_bytes / plan.naive_bytes)} of it" if plan.naive_bytes else ""
    note = (
        f"\n\n  {size(plan.planned_bytes)} of memory; one buffer each would take "
        f"{size(plan.naive_bytes)}{share}; results are {size(plan.result_bytes)} more"
    )
    data = {
        "stage": "planned",
        "sizes": sizes,
        "policy": plan.policy,
        "planned_bytes": plan.planned_bytes,
        "naive_bytes": plan.naive_bytes,
        "bounded_bytes": plan.bounded_bytes,
        "planned_formula": plan.planned_formula,
        "naive_formula": plan.naive_formula,
        "result_bytes": plan.result_bytes,
        "bounds": plan.bounds,
        "unbounded": plan.unbounded,
        "buffers": buffers,
        "storages": plan.storages,
    }
    text = table(head, shorten_rows(rows, op, 7)) + note
    return Answer(data, text + _reasons(buffers, op) + _storages(plan, op))


def _reasons(buffers: Sequence[BufferPlacement], op: str | None) -> str:
    """Return the reason for the storage of each selected buffer."""
    lines = [f"  {b.name} in {b.storage}: {b.reason}" for b in buffers if b.reason]
    return "\n\n" + "\n".join(lines) if lines and op is not None else ""


def _storages(plan: MemoryPlan, op: str | None) -> str:
    """Tabulate Relax's storages with their values in turn, and the totals as formulas."""
    if not plan.storages or op is not None:
        return ""
    head = ("storage", ">size", "bytes", "dtype", "values in turn")
    rows = [
        (s.name, size(s.bytes), s.formula, s.dtype, s.exclusive_reason or ", ".join(s.values))
        for s in plan.storages
    ]
    by = f"with bounds {' and '.join(plan.bounds)}" if plan.bounds else "no bound is used"
    free = f"; {', '.join(plan.unbounded)} without a bound" if plan.unbounded else ""
    sums = f"\n\n  planned {plan.planned_formula}; naive {plan.naive_formula}; {by}{free}"
    return "\n\n" + table(head, shorten_rows(rows, op, 5)) + sums
