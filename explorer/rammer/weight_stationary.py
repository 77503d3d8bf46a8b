"""Weight-stationary scheduling: tasks return to the unit that has their weights in its cache.

A recurrent model reads the same weights in every step. The unit of each task is fixed before the
run, so a unit can get the same columns each time. They then come from its private cache, not from
the shared memory. The opposing cost is load imbalance: a task that moves to a less loaded unit
reads its part anew (`task_us` instead of `cached_us`).
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from itertools import accumulate, groupby

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.cache_model import UnitCache, run_us, unit_caches
from explorer.rammer.critical_path import Ready, longest_paths
from explorer.rammer.lanes import Lanes, PlacedOperator, earliest_start_counts
from explorer.rammer.model import Facts, Placement, ROperator, Share, Weighed
from explorer.rammer.rkernels import fastest
from explorer.rammer.wavefront import place_alone

RECENT_CONSTANTS = 8  # whose readers are preferred: a bound on search time, chosen


def weight_stationary(facts: Facts) -> Placement:
    """Schedule by the longest path, with home units for constants.

    `weighed` holds each operator of which tasks were moved away from their cached part.
    """
    return _Stationary(facts).placement()


class _Stationary:
    """One weight-stationary schedule in progress."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.ready = facts, Ready(facts)
        self.ahead_us = longest_paths(facts)
        self.lanes = Lanes.empty(facts.device)
        self.caches = unit_caches(facts.device)
        self.left = Counter(o.constant for o in facts.operators if _gains_from_home(o, facts))
        self.heap: list[tuple[float, int]] = []
        self.by_constant: dict[str, list[tuple[float, int]]] = {}
        self.recent: OrderedDict[str, None] = OrderedDict()
        self.placed = [False] * len(facts.operators)
        self.weighed: list[Weighed] = []

    def placement(self) -> Placement:
        programs: list[tuple[Share, ...]] = []
        for position in self.ready.first:
            self._can_start(position)
        while (position := self._next()) >= 0:
            operator = self.facts.operators[position]
            if operator.kind == "library":
                programs += (self.lanes.shares, place_alone(self.facts, position))
                self.lanes = Lanes.empty(self.facts.device)
            else:
                self._place(position, operator)
            self.placed[position] = True
            for reader in self.ready.after(position):
                self._can_start(reader)
        return Placement(tuple(p for p in (*programs, self.lanes.shares) if p), tuple(self.weighed))

    def _can_start(self, position: int) -> None:
        entry = (-self.ahead_us[position], position)
        heapq.heappush(self.heap, entry)
        operator = self.facts.operators[position]
        if _gains_from_home(operator, self.facts):
            heapq.heappush(self.by_constant.setdefault(operator.constant, []), entry)

    def _next(self) -> int:
        """Return the next operator to place, -1 if none is left.

        It has the longest path, or it reads a cached constant and does not start later by more than
        it saves.
        """
        longest = self._first(self.heap)
        if longest < 0 or not self.recent:
            return longest
        start_us = self._start_us(longest)
        for constant in reversed(self.recent):
            candidate = self._first(self.by_constant.get(constant, []))
            if candidate == longest:
                return longest
            if candidate >= 0 and self._start_us(candidate) - start_us <= self._saved_us(candidate):
                return candidate
        return longest

    def _first(self, heap: list[tuple[float, int]]) -> int:
        while heap and self.placed[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1] if heap else -1

    def _start_us(self, position: int) -> float:
        return min(self.lanes.starts(self.facts.operators[position]))

    def _saved_us(self, position: int) -> float:
        """Return the time that its tasks save by cache hits, as time of all units."""
        operator = self.facts.operators[position]
        hits = sum(
            cache.hits(operator.constant, operator.tasks, 0, operator.tasks)
            for cache in self.caches
        )
        return hits * (operator.task_us - operator.cached_us) / len(self.caches)

    def _place(self, position: int, operator: ROperator) -> None:
        lanes = self.lanes
        if not _gains_from_home(operator, self.facts) or operator.tasks < 1:
            lanes.place(position, operator, fastest(operator, self.facts.device.units))
            self._read(position, operator)
            return
        starts = lanes.starts(operator)
        homes = _homes(self.caches, operator)
        counts = self._counts(operator, starts, homes)
        laid = _assign_tasks(position, homes, counts)
        if operator.aligned:
            starts = lanes.starts_as(operator, laid)
        ends = []
        for unit, first, count in zip(laid.units, laid.firsts, laid.counts):
            kernel = operator.kernel(0)
            starts[unit] += run_us(self.caches[unit], operator, kernel, first, first + count)
            ends.append(starts[unit])
        lanes.lay(laid._replace(ends_us=tuple(ends)))
        self.left[operator.constant] -= 1
        self._note(operator.constant)

    def _counts(self, operator: ROperator, starts: list[float], homes: list[int]) -> list[int]:
        """Return the number of tasks of each unit.

        These are the tasks with cached parts, except those worth moving.
        """
        counts = [0] * len(starts)
        for unit in homes:
            if unit >= 0:
                counts[unit] += 1
        homeless = operator.tasks - sum(counts)
        cached_us, task_us = operator.cached_us, operator.task_us
        if homeless:
            busy = [start + count * cached_us for start, count in zip(starts, counts)]
            new = earliest_start_counts(busy, homeless, task_us)
            counts = [a + b for a, b in zip(counts, new)]
            if homeless == operator.tasks:
                return counts
        # A persistent imbalance costs in every later step, a move only once.
        once_us = cached_us + (task_us - cached_us) / max(1, self.left[operator.constant])
        moved = _move_tasks([0.0] * len(counts), counts, cached_us, once_us)
        moved += _move_tasks(starts, counts, cached_us, task_us)
        if moved:
            text = f"{moved} of {operator.tasks} tasks read their part anew, to end earlier"
            why = Refusal("load", moved, operator.tasks, text)
            self.weighed.append(Candidate(f"home of {operator.name}", None, (), text, why))
        return counts

    def _read(self, position: int, operator: ROperator) -> None:
        """Record the reads of a constant without homes, which passes through the caches as well."""
        if not operator.constant or not self.facts.device.cache_bytes:
            return
        if self.lanes.laid and self.lanes.laid[-1].operator == position:
            laid = self.lanes.laid[-1]
            kernel = operator.kernel(laid.kernel)
            for unit, first, count in zip(laid.units, laid.firsts, laid.counts):
                run_us(self.caches[unit], operator, kernel, first, first + count)

    def _note(self, constant: str) -> None:
        self.recent[constant] = None
        self.recent.move_to_end(constant)
        if len(self.recent) > RECENT_CONSTANTS:
            self.recent.popitem(last=False)


def _gains_from_home(operator: ROperator, facts: Facts) -> bool:
    """Return True if an operator can gain from a home unit."""
    gains = 0.0 < operator.cached_us < operator.task_us and len(operator.kernels) < 2
    return gains and bool(operator.constant) and facts.device.cache_bytes > 0


def _homes(caches: list[UnitCache], operator: ROperator) -> list[int]:
    """Return for each task the unit that caches its part, -1 if none does.

    Of several units the one that caches the least of the constant is preferred.
    """
    homes = [-1] * operator.tasks
    ranges = [(k.ranges(operator.constant, operator.tasks), n) for n, k in enumerate(caches)]
    cached = [(sum(last - first for first, last in spans), unit, spans) for spans, unit in ranges]
    for _, unit, spans in sorted(cached):
        for first, last in spans:
            for task in range(first, last):
                if homes[task] < 0:
                    homes[task] = unit
    return homes


def _assign_tasks(position: int, homes: list[int], counts: list[int]) -> PlacedOperator:
    """Return runs of tasks: each unit's first cached ones, then the others where there is room."""
    room, units, unplaced = counts[:], homes[:], []
    for task, unit in enumerate(homes):
        if unit >= 0 and room[unit]:
            room[unit] -= 1
        else:
            unplaced.append(task)
    takers = [unit for unit, count in enumerate(room) for _ in range(count)]
    for task, unit in zip(unplaced, takers, strict=True):
        units[task] = unit
    runs = [(unit, len(list(run))) for unit, run in groupby(units)]
    firsts = accumulate((count for _, count in runs[:-1]), initial=0)
    return PlacedOperator(
        position, 0, tuple(u for u, _ in runs), tuple(firsts), tuple(c for _, c in runs), ()
    )


def _move_tasks(starts: list[float], counts: list[int], cached_us: float, cold_us: float) -> int:
    """Move tasks from the unit that ends last to the one that ends first, while that ends earlier.

    Return the number of moved tasks. `cold_us` is the price of a moved task.
    """
    moved, tasks = 0, sum(counts)
    ends = [start + count * cached_us for start, count in zip(starts, counts)]
    while moved < tasks:
        early = ends.index(min(ends))
        late = max((unit for unit, count in enumerate(counts) if count), key=ends.__getitem__)
        over_us = ends[late] - ends[early] - cold_us
        if over_us <= 1e-9:
            break
        many = min(counts[late], int(over_us // (cached_us + cold_us)) + 1)
        counts[late] -= many
        counts[early] += many
        ends[late] -= many * cached_us
        ends[early] += many * cold_us
        moved += many
    return moved
