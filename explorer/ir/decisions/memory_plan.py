"""Memory plans: offset and live range of each buffer in the arena, for one binding of symbols."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest

from explorer.plain_text import counted, percent, size, table
from explorer.printed import Printed


@dataclass(frozen=True, slots=True)
class BufferPlacement:
    """The offset of one intermediate in the arena, and its live range.

    `first` and `last` are positions in the launch order. `storage` and the reason for it are set
    only where storages were planned.
    """

    name: str
    bytes: int
    offset: int
    first: int
    last: int
    formula: str = ""
    alias_of: str = ""
    origin: frozenset[str] = frozenset()
    storage: str = ""
    taken: str = ""  # "fresh", "reused", "grown", "in place", "kept"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoragePlacement:
    """A storage of Relax's plan under one binding; `static`: its size is the same in every one.

    `exclusive_reason` says why it holds one value only, "" where several values may share it.
    """

    name: str
    bytes: int
    offset: int
    formula: str
    static: bool
    dtype: str
    values: tuple[str, ...]
    block: str = ""
    exclusive_reason: str = ""


MOST_BUFFERS = 10  # that a summary lists; chosen


@dataclass(frozen=True, slots=True, repr=False)
class MemoryPlan(Printed):
    """The arena of one binding.

    `naive_bytes` is the sum of all intermediates, `result_bytes` that of the results, which are
    fresh arrays of each run.

    With the policy "storages" it also has the storages, and both sums as formulas. `bounded_bytes`
    is set where no binding changes the arena, with the `bounds` that were used, such as "seq <=
    512". `unbounded` are the symbols without a bound, because of which the arena changes.
    """

    buffers: tuple[BufferPlacement, ...]
    planned_bytes: int
    naive_bytes: int
    policy: str = "arena"
    storages: tuple[StoragePlacement, ...] = ()
    planned_formula: str = ""
    naive_formula: str = ""
    bounded_bytes: int | None = None
    result_bytes: int = 0
    bounds: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the summary line and a table of the largest buffers."""
        shown = nlargest(MOST_BUFFERS, self.buffers, key=lambda b: b.bytes)
        rows = [(b.name, size(b.bytes), f"{b.offset:,}", f"{b.first} to {b.last}") for b in shown]
        head = ("largest buffers", ">size", ">offset", "used by calls")
        return "\n".join((self.first_line, *([table(head, rows)] if rows else [])))

    @property
    def first_line(self) -> str:
        """The size of the arena beside that of one buffer for each value."""
        naive = self.naive_bytes
        share = f", {percent(self.planned_bytes / naive)} of it" if naive else ""
        values = f"{counted(len(self.buffers), 'buffer')} in {size(self.planned_bytes)}"
        return f"{values}; one buffer each would take {size(naive)}{share}"
