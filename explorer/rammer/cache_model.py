"""Which parts of constants a unit's private cache still holds: least recently read leaves first."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import TypeAlias

from explorer.rammer.model import RKernel, ROperator, VDevice

ROUNDING = 1e-9


Span: TypeAlias = tuple[float, float]  # of a constant, as fractions


class Kept:
    """The constants that one unit has read; task n of an operator reads the n-th part of its own.

    A constant of which more was read than there is room for is not held but for what was read
    last: read in turn, each line would leave before it is read again.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.spans: OrderedDict[str, list[Span]] = OrderedDict()
        self.held: dict[str, float] = {}  # bytes
        self.bytes = 0.0

    def ranges(self, constant: str, tasks: int) -> list[tuple[int, int]]:
        """The tasks, of so many in all, whose parts are wholly held."""
        out = []
        for begin, end in self.spans.get(constant, ()):
            first, last = ceil(begin * tasks - ROUNDING), int(end * tasks + ROUNDING)
            if first < last:
                out.append((first, last))
        return out

    def hits(self, constant: str, tasks: int, first: int, last: int) -> int:
        """How many of the tasks `first .. last-1` find their part."""
        found = self.ranges(constant, tasks)
        return sum(max(0, min(last, end) - max(first, begin)) for begin, end in found)

    def read(self, constant: str, all_bytes: int, tasks: int, first: int, last: int) -> None:
        """The unit has run these tasks."""
        new = first / tasks, last / tasks
        spans = self.spans.pop(constant, [])
        self.bytes -= self.held.pop(constant, 0.0)
        joined = _joined(spans, new)
        if _length(joined) * all_bytes > self.capacity_bytes:
            joined = [new]
        needed = _length(joined) * all_bytes
        while self.spans and self.bytes + needed > self.capacity_bytes:
            self.bytes -= self.held.pop(self.spans.popitem(last=False)[0])
        if needed <= self.capacity_bytes:
            self.spans[constant], self.held[constant] = joined, needed
            self.bytes += needed


def _length(spans: list[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _joined(spans: list[Span], new: Span) -> list[Span]:
    """With another span; those that touch are one."""
    begin, end = new
    apart = []
    for span in spans:
        if span[0] <= begin and end <= span[1]:
            return spans
        if span[1] < begin - ROUNDING or end + ROUNDING < span[0]:
            apart.append(span)
        else:
            begin, end = min(begin, span[0]), max(end, span[1])
    return [*apart, (begin, end)]


def caches(device: VDevice) -> list[Kept]:
    """One for each unit."""
    return [Kept(device.cache_bytes) for _ in range(device.units)]


def run_us(kept: Kept, operator: ROperator, chosen: RKernel, first: int, last: int) -> float:
    """How long a unit takes for these tasks, after which it holds what they read."""
    if not operator.constant or not kept.capacity_bytes:
        return (last - first) * chosen.task_us
    hits = 0
    if chosen.kept_us > 0.0:
        hits = kept.hits(operator.constant, chosen.tasks, first, last)
    kept.read(operator.constant, operator.constant_bytes, chosen.tasks, first, last)
    return (last - first - hits) * chosen.task_us + hits * chosen.kept_us
