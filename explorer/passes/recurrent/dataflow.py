"""What each binding of a body needs of the others, by place; and sweeps along that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from explorer.ir.program import Binding
from explorer.ir.symbols import definitions, needed_by

Needs: TypeAlias = Sequence[Sequence[int]]  # for each place the places before it that it needs
Order: TypeAlias = list[tuple[int, ...]]  # places that run as one, in turn


def needs_of(body: Sequence[Binding]) -> list[list[int]]:
    """For each binding those that make what it reads, or find the symbols that it needs."""
    place: dict[str, int] = {}
    casts = definitions(body)
    found: list[list[int]] = []
    for n, b in enumerate(body):
        needed = {place[v.name] for v in b.reads if v.name in place}
        if casts:
            needed |= {casts[s] for s in needed_by(b) if casts.get(s, n) < n}
        found.append(sorted(needed))
        for v in b.vars:
            place[v.name] = n
    return found


def levels(needs: Needs, counted: Collection[int]) -> list[int]:
    """How many of the places that count are on one path to each place, at most, it included."""
    found: list[int] = []
    for n, needed in enumerate(needs):
        found.append(max([found[at] for at in needed], default=0) + (n in counted))
    return found


def levels_of_each(needs: Needs, columns: Mapping[int, int], width: int) -> np.ndarray:
    """The same for several kinds of places at once, [place, kind]: `columns` gives their kinds."""
    found = np.zeros((len(needs), width), np.int32)
    for n, needed in enumerate(needs):
        row = found[n]
        for at in needed:
            np.maximum(row, found[at], out=row)
        if n in columns:
            row[columns[n]] += 1
    return found


def in_turn(needs: Needs, groups: Sequence[Sequence[int]]) -> tuple[Order, set[int]]:
    """An order in which the places of each group run at once, as near to the one that they have as
    can be; and the groups, by number, that need themselves by way of other groups: their places run
    one by one. Where groups need each other, a later one gives way.
    """
    return _Turns(needs, groups).done()


class _Turns:
    """Places become ready, one after the other; a group is when all its places are."""

    def __init__(self, needs: Needs, groups: Sequence[Sequence[int]]) -> None:
        self.needs, self.groups = needs, groups
        self.group = {n: g for g, places in enumerate(groups) for n in places}
        self.broken: set[int] = set()
        self.held: dict[int, list[int]] = {}  # by group, its places that are ready
        self.ready: list[tuple[int, ...]] = []
        self.readers: list[list[int]] = [[] for _ in needs]
        self.missing = [0] * len(needs)
        for n in range(len(needs)):
            for at in self._outside(n):
                self._wait(n, at)
        for n, count in enumerate(self.missing):
            if not count:
                self._let(n)

    def done(self) -> tuple[Order, set[int]]:
        order: Order = []
        while self.ready or self.held:
            if not self.ready:
                self._break(max(g for g in self.held if self._needs_itself(g)))
                continue
            places = heappop(self.ready)
            order.append(places)
            for n in places:
                for reader in self.readers[n]:
                    self.missing[reader] -= 1
                    if not self.missing[reader]:
                        self._let(reader)
        return order, self.broken

    def _outside(self, n: int) -> Iterator[int]:
        mine = self.group.get(n)
        return (at for at in self.needs[n] if mine is None or self.group.get(at) != mine)

    def _wait(self, n: int, at: int) -> None:
        self.missing[n] += 1
        self.readers[at].append(n)

    def _let(self, n: int) -> None:
        """A place that all it needs has run before."""
        group = self.group.get(n)
        if group is None:
            heappush(self.ready, (n,))
            return
        held = self.held.setdefault(group, [])
        held.append(n)
        if len(held) == len(self.groups[group]):
            heappush(self.ready, tuple(sorted(self.held.pop(group))))

    def _needs_itself(self, group: int) -> bool:
        """Whether a place of a group waits for one of its own by way of other groups."""
        todo, seen = list(self.groups[group]), set[int]()
        while todo:
            for at in self._outside(todo.pop()):
                other = self.group.get(at)
                if other == group:
                    return True
                new = set(self.groups[other]) if other is not None else {at}
                todo += new - seen
                seen |= new
        return False

    def _break(self, group: int) -> None:
        self.broken.add(group)
        held = self.held.pop(group)
        for n in self.groups[group]:
            del self.group[n]
        for n in self.groups[group]:
            for at in self.needs[n]:
                if at in self.groups[group]:
                    self._wait(n, at)
        for n in held:
            if not self.missing[n]:
                self._let(n)
