"""The memory plan: the offset and the lifetime of each intermediate, and the bytes shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.memory.rows import memory_curve
from explorer.plain_text import percent, size, table
from explorer.views.answer import Answer
from explorer.views.labels import PROGRAM, is_about, labels, shorten_rows, unknown_name

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """The buffers that own bytes (no aliases), and the live bytes at each launch position."""

    buffers: tuple[BufferPlacement, ...]
    aliases: tuple[BufferPlacement, ...]
    planned_bytes: int
    naive_bytes: int
    live: tuple[int, ...]
    labels: Mapping[str, str]  # by buffer
    families: Mapping[str, str] = field(default_factory=dict)  # the writer's family, by buffer

    def label(self, buffer: str) -> str:
        """Return the display name of a buffer, that of the kernel that writes it."""
        return self.labels.get(buffer, buffer)

    @property
    def peak(self) -> int:
        """The first call with the most live bytes."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def alive(self, call: int) -> tuple[BufferPlacement, ...]:
        """Return the buffers that are live at a call."""
        return tuple(b for b in self.buffers if begin(b) <= call <= b.last)

    def sharing(self, buffer: BufferPlacement) -> tuple[BufferPlacement, ...]:
        """Return the other buffers that overlap a buffer's bytes, at other times."""
        low, high = buffer.offset, buffer.offset + buffer.bytes
        return tuple(
            b
            for b in self.buffers
            if b is not buffer and b.offset < high and b.offset + b.bytes > low
        )

    @property
    def largest(self) -> tuple[BufferPlacement, ...]:
        """The buffers with the most bytes."""
        most = max((b.bytes for b in self.buffers), default=0)
        return tuple(b for b in self.buffers if b.bytes == most)


def begin(b: BufferPlacement) -> int:
    """Return the first call at which a buffer alone owns its bytes.

    A buffer written in place begins one call after the write.
    """
    return min(b.last, b.first + (b.taken == "in place"))


def memory_rows(
    plan: MemoryPlan, labels: Mapping[str, str], families: Mapping[str, str] | None = None
) -> MemoryRows:
    """Return the rows of a plan.

    `labels` are the buffers' display names, `families` the operator families of their writers.
    """
    own = tuple(
        sorted((b for b in plan.buffers if not b.alias_of), key=lambda b: (b.first, b.offset))
    )
    live, calls = memory_curve(plan).live, max((b.last + 1 for b in plan.buffers), default=0)
    live += (0,) * (calls - len(live))
    aliases = tuple(b for b in plan.buffers if b.alias_of)
    named = families or {}
    return MemoryRows(own, aliases, plan.planned_bytes, plan.naive_bytes, live, labels, named)


def memory(c: Compilation, op: str | None, sizes: Mapping[str, int]) -> Answer:
    """Return the offset and lifetime of each intermediate, and the bytes saved by sharing."""
    plan = c.memory(sizes)
    buffers = [b for b in plan.buffers if is_about(op, b.name, b.origin)]
    if op is not None and not buffers:
        raise unknown_name(c, op, (b.name for b in plan.buffers))
    named = memory_rows(plan, labels(c))
    rows = [
        (
            named.label(b.name),
            b.name,
            size(b.bytes),
            f"{b.offset:,}",
            f"{b.first}–{b.last}",
            b.formula or "",
            named.label(b.alias_of),
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
