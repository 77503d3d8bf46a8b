"""Address and lifetime of each intermediate in the arena: rows, text and key sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.relax.memory.curve import memory_curve
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, size_text


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


def formula_text(b: BufferPlacement) -> str:
    """Return a buffer's byte formula as " = 4*n", "" if it is a plain number."""
    return f" = {b.formula}" if b.formula and not b.formula.isdigit() else ""


def data(
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


def table(rows: MemoryRows) -> Table:
    """Return one row per buffer."""
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
        see(rows),
    )


def caption(rows: MemoryRows) -> str:
    """Compare planned with naive bytes in one line."""
    saved = 1 - rows.planned_bytes / rows.naive_bytes if rows.naive_bytes else 0
    return (
        f"packed {size_text(rows.planned_bytes)}, no sharing {size_text(rows.naive_bytes)} "
        f"({saved:.0%} saved), live at peak {size_text(max(rows.live, default=0))}"
    )


def see(rows: MemoryRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the planned bytes, the peak, and the largest value's sharers."""
    if not rows.buffers:
        return (("No value of this program lies in memory between two calls.",),)
    taken = Mark(size_text(rows.planned_bytes), "taken")
    share = rows.planned_bytes / rows.naive_bytes if rows.naive_bytes else 1.0
    all_values = size_text(rows.naive_bytes)
    peak, alive = rows.peak, rows.alive(rows.peak)
    most, count = rows.largest[0], len(rows.largest)
    others = len(rows.sharing(most))
    lead = "is the largest" if count == 1 else f"is one of the {count:,} largest"
    return (
        ("The plan takes ", taken, f", {share:.0%} of the {all_values} that all values take."),
        (
            "The peak is at ",
            Mark(written_at(rows, peak), "peak"),
            ": ",
            Mark(count_text(len(alive), "value"), "alive"),
            f" live, {size_text(rows.live[peak])}.",
        ),
        (
            Mark(rows.label(most.name), "largest"),
            f" {lead}, {size_text(most.bytes)}, and shares its bytes with ",
            *((Mark(count_text(others, "other"), "sharer"), ".") if others else ("no other.",)),
        ),
    )


def written_at(rows: MemoryRows, call: int) -> str:
    """Return the display name of a call: that of the largest buffer that it writes."""
    mine = [b for b in rows.buffers if b.first == call]
    named = max(mine, key=lambda b: b.bytes, default=None)
    return rows.label(named.name) if named else f"call {call}"
