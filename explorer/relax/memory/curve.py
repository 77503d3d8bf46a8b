"""Bytes at each position of the launch order, with and without the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes by position.

    `naive`: taken if no memory were freed; `planned`: taken by the plan; `live`: of live values, a
    lower bound of every plan.
    """

    naive: tuple[int, ...]
    planned: tuple[int, ...]
    live: tuple[int, ...]

    @property
    def peaks(self) -> tuple[int, int, int]:
        """The greatest of each."""
        return max(self.naive, default=0), max(self.planned, default=0), max(self.live, default=0)


def memory_curve(plan: MemoryPlan) -> MemoryCurve:
    """Return the curve of one binding's plan, either policy's."""
    owners = [row for row in plan.buffers if not row.alias_of]
    count = max((row.last + 1 for row in owners), default=0)
    naive, live = [0] * count, [0] * count
    for row in owners:
        naive[row.first] += row.bytes
    for position, size in _live(owners):
        live[position] += size
    return MemoryCurve(_running(naive), _taken(plan, owners, count), tuple(live))


def _running(added: Iterable[int]) -> tuple[int, ...]:
    total, out = 0, []
    for size in added:
        total += size
        out.append(total)
    return tuple(out)


def _live(owners: Iterable[BufferPlacement]) -> Iterable[tuple[int, int]]:
    """Yield (position, live bytes); a value written in place is counted once."""
    for row in owners:
        first = row.first + (row.taken == "in place")
        yield from ((position, row.bytes) for position in range(first, row.last + 1))


def _taken(plan: MemoryPlan, owners: Iterable[BufferPlacement], count: int) -> tuple[int, ...]:
    """Return the bytes of the arena used so far: storages, or the highest address."""
    if plan.policy == "storages":
        begins: dict[str, int] = {}
        for row in owners:
            begins[row.storage] = min(row.first, begins.get(row.storage, row.first))
        added: defaultdict[int, int] = defaultdict(int)
        for storage in plan.storages:
            added[begins[storage.name]] += storage.bytes
        return _running(added[position] for position in range(count))
    reached = [0] * count
    for row in owners:
        reached[row.first] = max(reached[row.first], row.offset + row.bytes)
    highest, out = 0, []
    for address in reached:
        highest = max(highest, address)
        out.append(highest)
    return tuple(out)
