"""Manual moves of bricks: the changed placement, or the dependency that the move would break.

A brick moves to a unit, after another brick there. All other bricks keep their order; a move is
legal if no operator would then wait for its own results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TypeAlias

from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.rammer.model import Facts, Placement, Policy, Share
from explorer.rammer.policy import name_of, resolve_policy

Programs: TypeAlias = list[list[Share]]


@dataclass(frozen=True, slots=True)
class Move:
    """A move of the tasks `first .. last-1` of an operator to a unit of a launch.

    They go after the brick of another operator that ends before the task `after[1]`; `after` None:
    to the front.
    """

    operator: str
    first: int
    last: int
    unit: int
    launch: int = 0
    after: tuple[str, int] | None = None

    @property
    def text(self) -> str:
        """The move as a sentence's subject."""
        place = f"after {self.after[0]}" if self.after else "first"
        return f"{self.operator} {self.first}–{self.last - 1} to unit {self.unit}, {place}"


@dataclass(frozen=True, slots=True)
class BrokenDependency(Refusal):
    """A refusal because of a dependency: `reader` reads the result of `writer`."""

    writer: str = ""
    reader: str = ""


def apply_move(facts: Facts, placement: Placement, move: Move) -> Placement | Refusal:
    """Return the placement after a move, all else in its order; or the reason why it is illegal."""
    return _MoveInProgress(facts, placement, move).result()


@dataclass(frozen=True)
class PolicyWithMoves:
    """A policy with manual moves: the placement of `base`, then the moves.

    A move that does not fit the placement of a binding (fewer tasks, other operators) is left out.
    """

    base: str | Policy
    moves: tuple[Move, ...] = ()

    def __post_init__(self) -> None:
        """Check the name of the base policy."""
        resolve_policy(self.base)

    def __call__(self, facts: Facts) -> Placement:
        """Return the placement after all moves; `weighed` tells whether each was made."""
        placement = resolve_policy(self.base)(facts)
        names = {o.name for o in facts.operators}
        for move in self.moves:
            if move.operator in names:
                outcome = apply_move(facts, placement, move)
                refused = outcome.words if isinstance(outcome, Refusal) else ""
                placement = placement if isinstance(outcome, Refusal) else outcome
                weighed = Candidate(move.text, None, (), refused)
                placement = replace(placement, weighed=(*placement.weighed, weighed))
        return placement

    @property
    def base_name(self) -> str:
        """The name of the policy whose placement is changed."""
        return name_of(self.base)

    @property
    def __name__(self) -> str:
        """The name in pictures."""
        return f"{self.base_name}, {len(self.moves)} by hand"

    def with_move(self, move: Move) -> PolicyWithMoves:
        """Return the policy with one more move."""
        return replace(self, moves=(*self.moves, move))


@dataclass
class _MoveInProgress:
    """One move in progress; `positions` are the operators' by name."""

    facts: Facts
    placement: Placement
    move: Move
    positions: dict[str, int] = field(default_factory=dict)

    def result(self) -> Placement | Refusal:
        self.positions = {o.name: n for n, o in enumerate(self.facts.operators)}
        wrong = self._out_of_range()
        if wrong:
            return wrong
        me, m = self.positions[self.move.operator], self.move
        programs, taken = _take_tasks([list(p) for p in self.placement.programs], me, m)
        if taken is None:
            return Refusal("tasks", 0, m.last - m.first, f"{m.operator} has no such task")
        split = self._split(programs, me)
        if split:
            return split
        lanes = self._lanes(programs)
        refusal = self._put(lanes, replace(taken, unit=m.unit))
        if isinstance(refusal, Refusal):
            return refusal
        broken = self._launches(lanes, me)
        if broken:
            return broken
        ordered: list[tuple[Share, ...]] = []
        for units in lanes:
            order = self._ordered(units)
            if isinstance(order, Refusal):
                return order
            ordered.append(tuple(_merge_shares(order)))
        return replace(self.placement, programs=tuple(p for p in ordered if p))

    def _out_of_range(self) -> Refusal | None:
        m, units, launches = self.move, self.facts.device.units, len(self.placement.programs)
        if m.operator not in self.positions:
            return Refusal("operator", 0, 0, f"no operator is called {m.operator}")
        if not 0 <= m.unit < units:
            return Refusal("unit", m.unit, units, f"there are {units} units, none is {m.unit}")
        if not 0 <= m.launch < launches:
            text = f"there are {launches} launches, none is number {m.launch}"
            return Refusal("launch", m.launch, launches, text)
        return None

    def _split(self, programs: Programs, me: int) -> Refusal | None:
        """Refuse a move that would split an operator over launches: its readers wait for one."""
        others = {n for n, p in enumerate(programs) for share in p if share.operator == me}
        if others <= {self.move.launch}:
            return None
        text = f"the other tasks of {self.move.operator} are in launch P{min(others)}"
        change = "move it within that launch"
        return Refusal("launch", self.move.launch, min(others), text, change)

    def _lanes(self, programs: Programs) -> list[list[list[Share]]]:
        """Return the shares of each launch and unit in order."""
        units = range(self.facts.device.units)
        return [[[s for s in p if s.unit == u] for u in units] for p in programs]

    def _put(self, lanes: list[list[list[Share]]], share: Share) -> Refusal | None:
        lane, after = lanes[self.move.launch][self.move.unit], self.move.after
        if after is None:
            lane.insert(0, share)
            return None
        name, last = after
        for n, s in enumerate(lane):
            if self.facts.operators[s.operator].name == name and s.first < last <= s.last:
                pieces = (replace(s, last=last), share, replace(s, first=last))
                lane[n : n + 1] = [p for p in pieces if p.first < p.last]
                return None
        text = f"{name} has no task that ends there on core {self.move.unit}"
        return Refusal("brick", last, 0, text)

    def _launches(self, lanes: list[list[list[Share]]], me: int) -> Refusal | None:
        """Refuse if an operator would be launched before one that it reads."""
        launch: dict[int, int] = {}
        for n, units in enumerate(lanes):
            launch.update({s.operator: n for lane in units for s in lane})
        for reader, o in enumerate(self.facts.operators):
            for read in o.reads:
                if me in (reader, read) and launch.get(read, -1) > launch.get(reader, len(lanes)):
                    names = [o.name for o in self.facts.operators]
                    text = f"{names[reader]} reads {names[read]}, which would be launched after it"
                    return _dependency(text, names[read], names[reader])
        return None

    def _ordered(self, units: Sequence[Sequence[Share]]) -> list[Share] | Refusal:
        """Return the shares of a launch in an order that respects all units and dependencies."""
        left: dict[int, int] = {}
        for share in (s for lane in units for s in lane):
            left[share.operator] = left.get(share.operator, 0) + 1
        heads, order = [deque(lane) for lane in units], list[Share]()
        ready: list[tuple[int, int, int]] = []  # heads without waits: (…, unit)
        asleep: dict[int, list[int]] = {}  # units by an operator that they wait for

        def look(unit: int) -> None:
            if heads[unit]:
                share = heads[unit][0]
                missing = self._missing(share, left)
                if missing:
                    asleep.setdefault(missing[0], []).append(unit)
                else:
                    heappush(ready, (share.operator, share.first, unit))

        for unit in range(len(heads)):
            look(unit)
        while ready:
            *_, unit = heappop(ready)
            share = heads[unit].popleft()
            order.append(share)
            left[share.operator] -= 1
            if not left[share.operator]:
                for other in asleep.pop(share.operator, ()):
                    look(other)
            look(unit)
        return self._cycle(heads, left) if any(heads) else order

    def _missing(self, share: Share, left: dict[int, int]) -> list[int]:
        """Return the operators that a share reads and whose tasks are not all placed yet."""
        return [r for r in self.facts.operators[share.operator].reads if left.get(r)]

    def _cycle(self, heads: Sequence[deque[Share]], left: dict[int, int]) -> Refusal:
        """Return the refusal for a cycle of waits.

        It names the result that is read across units, and the neighbour of the moved share through
        which both would wait for each other.
        """
        me, lane = self.positions[self.move.operator], list(heads[self.move.unit])
        at = next((n for n, s in enumerate(lane) if self._is_moved(s)), len(lane))
        if 0 < at < len(lane):
            waits = self._waits(heads, left, lane[at - 1], at - 1)
            for reader in sorted(waits):
                if me in self.facts.operators[reader].reads:
                    return self._broken(me, reader, lane[at - 1].operator, "before")
        behind = {s.operator for s in lane[at + 1 :]}
        for read in self.facts.operators[me].reads:
            queue = next((q for q in heads if any(s.operator == read for s in q)), None)
            if queue is None:
                continue
            last = max(n for n, s in enumerate(queue) if s.operator == read)
            waits = self._waits(heads, left, queue[last], last)
            for other in sorted(waits & behind):
                return self._broken(read, me, other, "after")
        text = f"{self.move.operator} would wait for its own results"
        return Refusal("dependency", 1, 0, text)

    def _waits(
        self, heads: Sequence[deque[Share]], left: dict[int, int], share: Share, at: int
    ) -> set[int]:
        """Return the operators of all shares that one waits for, its own included.

        These are the shares before it on its unit, and those whose results they read, transitively.
        """
        places: dict[int, list[tuple[int, int]]] = {}
        for unit, queue in enumerate(heads):
            for n, s in enumerate(queue):
                places.setdefault(s.operator, []).append((unit, n))
        unit = next(n for n, q in enumerate(heads) if at < len(q) and q[at] is share)
        todo, seen = [(unit, at)], {(unit, at)}
        while todo:
            here, n = todo.pop()
            before = [(here, n - 1)] if n else []
            for read in self._missing(heads[here][n], left):
                before += places.get(read, [])
            for place in before:
                if place not in seen:
                    seen.add(place)
                    todo.append(place)
        return {heads[u][n].operator for u, n in seen}

    def _is_moved(self, share: Share) -> bool:
        m = self.move
        mine = self.facts.operators[share.operator].name == m.operator
        return mine and share.first == m.first and share.last == m.last

    def _broken(self, writer: int, reader: int, neighbour: int, position: str) -> BrokenDependency:
        """Return the refusal for a cycle with `neighbour` before or after the moved share."""
        names = [o.name for o in self.facts.operators]
        mine = reader if position == "before" else writer
        waits = "" if neighbour == mine else f", which waits for {names[mine]},"
        if position == "after":
            waits = "" if neighbour == mine else f", for which {names[mine]} waits,"
        text = (
            f"{names[reader]} reads {names[writer]}, and {names[neighbour]}{waits} "
            f"would stand {position} {self.move.operator} on unit {self.move.unit}"
        )
        return _dependency(text, names[writer], names[reader])


def _merge_shares(shares: Sequence[Share]) -> list[Share]:
    """Merge adjacent tasks that one unit runs one after the other."""
    out: list[Share] = []
    latest: dict[int, int] = {}  # unit -> position of its last share
    for share in shares:
        at = latest.get(share.unit)
        if at is not None and out[at] == replace(share, first=out[at].first, last=share.first):
            out[at] = replace(out[at], last=share.last)
        else:
            latest[share.unit] = len(out)
            out.append(share)
    return out


def _dependency(text: str, writer: str, reader: str) -> BrokenDependency:
    return BrokenDependency("dependency", 1, 0, text, writer=writer, reader=reader)


def _take_tasks(programs: Programs, operator: int, m: Move) -> tuple[Programs, Share | None]:
    """Return the programs without these tasks, and the share that they were."""
    taken = None
    for program in programs:
        for n, s in enumerate(program):
            if s.operator == operator and s.first <= m.first and m.last <= s.last and not taken:
                taken = replace(s, first=m.first, last=m.last)
                remainders = (replace(s, last=m.first), replace(s, first=m.last))
                program[n : n + 1] = [r for r in remainders if r.first < r.last]
                break
    return programs, taken if m.first < m.last else None
