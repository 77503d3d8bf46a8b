"""A task goes where the same part of the same constant was read last, while that is still cached.

A recurrent model reads the same weights in every step. Which unit runs a task is fixed before the
run, so a unit can be given the same columns each time: they then come from its private cache, and
not from the memory that all units share. What speaks against it is load: a task that is moved to a
unit with less to do reads its part anew (`task_us` instead of `kept_us`).
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from itertools import accumulate, groupby

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.cache_model import Kept, caches, run_us
from explorer.rammer.model import Facts, Placement, ROperator, Share, Weighed
from explorer.rammer.policies.lanes import Laid, Lanes, earliest_start_counts
from explorer.rammer.policies.op_by_op import alone
from explorer.rammer.policies.ready import Ready, longest_ways
from explorer.rammer.policies.rkernels import fastest

RECENT_CONSTANTS = 8  # whose readers are preferred: a bound on search time, chosen


def weight_stationary(facts: Facts) -> Placement:
    """List scheduling by the longest way, with homes for constants; `weighed` holds each operator
    of which tasks were moved away from what they read.
    """
    return _Stationary(facts).placement()


class _Stationary:
    def __init__(self, facts: Facts) -> None:
        self.facts, self.ready = facts, Ready(facts)
        self.ahead_us = longest_ways(facts)
        self.lanes = Lanes.empty(facts.device)
        self.kept = caches(facts.device)
        self.left = Counter(o.constant for o in facts.operators if _keeps(o, facts))
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
                programs += (self.lanes.shares, alone(self.facts, position))
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
        if _keeps(operator, self.facts):
            heapq.heappush(self.by_constant.setdefault(operator.constant, []), entry)

    def _next(self) -> int:
        """The operator with the longest way, or one that reads what is cached now, where it does
        not start later than what it saves. -1: none is left.
        """
        longest = self._first(self.heap)
        if longest < 0 or not self.recent:
            return longest
        start_us = self._start_us(longest)
        for constant in reversed(self.recent):
            found = self._first(self.by_constant.get(constant, []))
            if found == longest:
                return longest
            if found >= 0 and self._start_us(found) - start_us <= self._saved_us(found):
                return found
        return longest

    def _first(self, heap: list[tuple[float, int]]) -> int:
        while heap and self.placed[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1] if heap else -1

    def _start_us(self, position: int) -> float:
        return min(self.lanes.starts(self.facts.operators[position]))

    def _saved_us(self, position: int) -> float:
        """What its tasks gain from the caches, as time of all units."""
        operator = self.facts.operators[position]
        hits = sum(
            kept.hits(operator.constant, operator.tasks, 0, operator.tasks) for kept in self.kept
        )
        return hits * (operator.task_us - operator.kept_us) / len(self.kept)

    def _place(self, position: int, operator: ROperator) -> None:
        lanes = self.lanes
        if not _keeps(operator, self.facts) or operator.tasks < 1:
            lanes.place(position, operator, fastest(operator, self.facts.device.units))
            self._read(position, operator)
            return
        starts = lanes.starts(operator)
        homes = _homes(self.kept, operator)
        counts = self._counts(operator, starts, homes)
        laid = _laid(position, homes, counts)
        if operator.aligned:
            starts = lanes.starts_as(operator, laid)
        ends = []
        for unit, first, count in zip(laid.units, laid.firsts, laid.counts):
            kernel = operator.kernel(0)
            starts[unit] += run_us(self.kept[unit], operator, kernel, first, first + count)
            ends.append(starts[unit])
        lanes.lay(laid._replace(ends_us=tuple(ends)))
        self.left[operator.constant] -= 1
        self._note(operator.constant)

    def _counts(self, operator: ROperator, starts: list[float], homes: list[int]) -> list[int]:
        """Tasks of each unit: those that it holds, but for those that are worth moving."""
        counts = [0] * len(starts)
        for unit in homes:
            if unit >= 0:
                counts[unit] += 1
        homeless = operator.tasks - sum(counts)
        kept_us, task_us = operator.kept_us, operator.task_us
        if homeless:
            busy = [start + count * kept_us for start, count in zip(starts, counts)]
            new = earliest_start_counts(busy, homeless, task_us)
            counts = [a + b for a, b in zip(counts, new)]
            if homeless == operator.tasks:
                return counts
        # A share that stays lopsided costs in every step to come, and moving it only once.
        once_us = kept_us + (task_us - kept_us) / max(1, self.left[operator.constant])
        moved = _moved([0.0] * len(counts), counts, kept_us, once_us)
        moved += _moved(starts, counts, kept_us, task_us)
        if moved:
            text = f"{moved} of {operator.tasks} tasks read their part anew, to end earlier"
            why = Refusal("load", moved, operator.tasks, text)
            self.weighed.append(Candidate(f"home of {operator.name}", None, (), text, why))
        return counts

    def _read(self, position: int, operator: ROperator) -> None:
        """What is no weight to keep passes through the caches all the same."""
        if not operator.constant or not self.facts.device.cache_bytes:
            return
        if self.lanes.laid and self.lanes.laid[-1].operator == position:
            laid = self.lanes.laid[-1]
            kernel = operator.kernel(laid.kernel)
            for unit, first, count in zip(laid.units, laid.firsts, laid.counts):
                run_us(self.kept[unit], operator, kernel, first, first + count)

    def _note(self, constant: str) -> None:
        self.recent[constant] = None
        self.recent.move_to_end(constant)
        if len(self.recent) > RECENT_CONSTANTS:
            self.recent.popitem(last=False)


def _keeps(operator: ROperator, facts: Facts) -> bool:
    """Whether there is anything to gain from a home."""
    gains = 0.0 < operator.kept_us < operator.task_us and len(operator.kernels) < 2
    return gains and bool(operator.constant) and facts.device.cache_bytes > 0


def _homes(kept: list[Kept], operator: ROperator) -> list[int]:
    """For each task the unit that holds its part, -1 where none does; of several the one that holds
    the least of it all.
    """
    homes = [-1] * operator.tasks
    ranges = [(k.ranges(operator.constant, operator.tasks), n) for n, k in enumerate(kept)]
    held = [(sum(last - first for first, last in found), unit, found) for found, unit in ranges]
    for _, unit, found in sorted(held):
        for first, last in found:
            for task in range(first, last):
                if homes[task] < 0:
                    homes[task] = unit
    return homes


def _laid(position: int, homes: list[int], counts: list[int]) -> Laid:
    """Runs of tasks: every unit the first of those that it holds, the rest where there is room."""
    room, units, rest = counts[:], homes[:], []
    for task, unit in enumerate(homes):
        if unit >= 0 and room[unit]:
            room[unit] -= 1
        else:
            rest.append(task)
    takers = [unit for unit, count in enumerate(room) for _ in range(count)]
    for task, unit in zip(rest, takers, strict=True):
        units[task] = unit
    runs = [(unit, len(list(run))) for unit, run in groupby(units)]
    firsts = accumulate((count for _, count in runs[:-1]), initial=0)
    return Laid(
        position, 0, tuple(u for u, _ in runs), tuple(firsts), tuple(c for _, c in runs), ()
    )


def _moved(starts: list[float], counts: list[int], kept_us: float, cold_us: float) -> int:
    """Move tasks from the unit that ends last to the one that ends first while that ends earlier;
    how many. `cold_us` is the price of a moved task.
    """
    moved, tasks = 0, sum(counts)
    ends = [start + count * kept_us for start, count in zip(starts, counts)]
    while moved < tasks:
        early = ends.index(min(ends))
        late = max((unit for unit, count in enumerate(counts) if count), key=ends.__getitem__)
        over_us = ends[late] - ends[early] - cold_us
        if over_us <= 1e-9:
            break
        many = min(counts[late], int(over_us // (kept_us + cold_us)) + 1)
        counts[late] -= many
        counts[early] += many
        ends[late] -= many * kept_us
        ends[early] += many * cold_us
        moved += many
    return moved
