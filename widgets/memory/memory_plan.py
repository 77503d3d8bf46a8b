"""Where each intermediate lies in the arena, and when: addresses by program position, and the bytes
that live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from widgets.draw.svg import fit, label, rect
from widgets.draw.table import Table, size_text

WIDTH = 680


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """The buffers that own bytes (no aliases) by address, and the live bytes at each position of
    the launch order.
    """

    buffers: tuple[BufferPlacement, ...]
    aliases: tuple[BufferPlacement, ...]
    planned_bytes: int
    naive_bytes: int
    live: tuple[int, ...]
    labels: Mapping[str, str]  # by buffer

    def label(self, buffer: str) -> str:
        """What a reader calls a buffer: as the kernel that writes it."""
        return self.labels.get(buffer, buffer)


def data(plan: MemoryPlan, labels: Mapping[str, str]) -> MemoryRows:
    """The rows of a plan; `labels` says what its buffers are called."""
    own = tuple(
        sorted((b for b in plan.buffers if not b.alias_of), key=lambda b: (b.first, b.offset))
    )
    ends = [b.last for b in plan.buffers]
    change = [0] * (max(ends, default=-1) + 2)
    for b in own:
        change[b.first] += b.bytes
        change[b.last + 1] -= b.bytes
    live = tuple(accumulate(change))[:-1]
    aliases = tuple(b for b in plan.buffers if b.alias_of)
    return MemoryRows(own, aliases, plan.planned_bytes, plan.naive_bytes, live, labels)


def table(rows: MemoryRows) -> Table:
    """One row a buffer."""
    everything = rows.buffers + rows.aliases
    return Table(
        (
            "buffer",
            "in the program",
            "bytes",
            "formula",
            "offset",
            "first call",
            "last call",
            "alias of",
        ),
        tuple(
            (rows.label(b.name), b.name, b.bytes, b.formula, b.offset, b.first, b.last, b.alias_of)
            for b in everything
        ),
        tuple(tuple(sorted(b.origin)) for b in everything),
        caption(rows),
    )


def caption(rows: MemoryRows) -> str:
    """Planned against naive in one line."""
    saved = 1 - rows.planned_bytes / rows.naive_bytes if rows.naive_bytes else 0
    return (
        f"packed {size_text(rows.planned_bytes)}, no sharing {size_text(rows.naive_bytes)} "
        f"({saved:.0%} saved), live at peak {size_text(max(rows.live, default=0))}"
    )


def arena(rows: MemoryRows, selected: str = "") -> list[str]:
    """The arena as a map: left to right the launch order, upwards the address."""
    left, right, top, floor = 84, WIDTH - 12, 28, 236
    steps = max(len(rows.live), 1)
    high = max(rows.planned_bytes, 1)

    def x(position: float) -> float:
        return left + position / steps * (right - left)

    def y(address: float) -> float:
        return floor - address / high * (floor - top)

    marks = [
        label(12, 20, "Memory", "i w"),
        label(left, 20, caption(rows)),
        rect(left, top, right - left, floor - top, "var(--app)"),
        label(left - 6, floor, "0", "q", anchor="end"),
        label(left - 6, top + 8, size_text(rows.planned_bytes), "q", anchor="end"),
    ]
    for b in rows.buffers:
        marks += _buffer(
            b,
            rows.label(b.name),
            x(b.first),
            x(b.last + 1),
            y(b.offset + b.bytes),
            y(b.offset),
            selected,
        )
    return marks


def _buffer(
    b: BufferPlacement, name: str, x0: float, x1: float, y0: float, y1: float, selected: str
) -> list[str]:
    on = bool(selected) and selected in b.origin
    ground, edge = ("var(--soft)", "var(--accent)") if on else ("var(--tint)", "var(--edge)")
    formula = f" = {b.formula}" if b.formula else ""
    said = (
        f"{name}: {size_text(b.bytes)}{formula}, calls {b.first} to {b.last}; "
        f"{b.name} in the program"
    )
    box = rect(
        x0 + 0.5,
        y0 + 0.5,
        max(x1 - x0 - 1, 1),
        max(y1 - y0 - 1, 0.8),
        ground,
        f'stroke="{edge}" stroke-width="{1.6 if on else 0.8}"',
        title=said,
        ops=sorted(b.origin),
    )
    if y1 - y0 < 13 or x1 - x0 < 24:
        return [box]
    shown = fit(name, x1 - x0 - 6)
    if shown == "…":
        return [box]
    return [box, label((x0 + x1) / 2, (y0 + y1) / 2 + 4, shown, "i", anchor="middle")]
