"""Model of a unit's private cache of constants, with least-recently-used eviction."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import TypeAlias

from explorer.rammer.model import RKernel, ROperator, VDevice

ROUNDING = 1e-9


Span: TypeAlias = tuple[float, float]  # of a constant, as fractions


class UnitCache:
    """Constants that one unit has read; task n of an operator reads the n-th part of its constant.

    If more of a constant was read than fits, only the last read part stays: read cyclically, each
    line would be evicted before it is read again.
    """

    def __init__(self, capacity_bytes: int) -> None:
        """Create an empty cache of `capacity_bytes`."""
        self.capacity_bytes = capacity_bytes
        self.spans: OrderedDict[str, list[Span]] = OrderedDict()
        self.cached_bytes: dict[str, float] = {}  # bytes
        self.bytes = 0.0

    def ranges(self, constant: str, tasks: int) -> list[tuple[int, int]]:
        """Return the ranges of `tasks` tasks whose parts are completely cached."""
        out = []
        for begin, end in self.spans.get(constant, ()):
            first, last = ceil(begin * tasks - ROUNDING), int(end * tasks + ROUNDING)
            if first < last:
                out.append((first, last))
        return out

    def hits(self, constant: str, tasks: int, first: int, last: int) -> int:
        """Return how many of the tasks `first .. last-1` find their part in the cache."""
        ranges = self.ranges(constant, tasks)
        return sum(max(0, min(last, end) - max(first, begin)) for begin, end in ranges)

    def read(self, constant: str, all_bytes: int, tasks: int, first: int, last: int) -> None:
        """Record that the unit has run these tasks."""
        new = first / tasks, last / tasks
        spans = self.spans.pop(constant, [])
        self.bytes -= self.cached_bytes.pop(constant, 0.0)
        joined = _merge_span(spans, new)
        if _length(joined) * all_bytes > self.capacity_bytes:
            joined = [new]
        needed = _length(joined) * all_bytes
        while self.spans and self.bytes + needed > self.capacity_bytes:
            self.bytes -= self.cached_bytes.pop(self.spans.popitem(last=False)[0])
        if needed <= self.capacity_bytes:
            self.spans[constant], self.cached_bytes[constant] = joined, needed
            self.bytes += needed


def _length(spans: list[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _merge_span(spans: list[Span], new: Span) -> list[Span]:
    """Return the spans with another one; those that touch are merged."""
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


def unit_caches(device: VDevice) -> list[UnitCache]:
    """Return a cache for each unit."""
    return [UnitCache(device.cache_bytes) for _ in range(device.units)]


def run_us(cache: UnitCache, operator: ROperator, chosen: RKernel, first: int, last: int) -> float:
    """Return the time of these tasks on a unit, and record their reads in its cache."""
    if not operator.constant or not cache.capacity_bytes:
        return (last - first) * chosen.task_us
    hits = 0
    if chosen.cached_us > 0.0:
        hits = cache.hits(operator.constant, chosen.tasks, first, last)
    cache.read(operator.constant, operator.constant_bytes, chosen.tasks, first, last)
    return (last - first - hits) * chosen.task_us + hits * chosen.cached_us
