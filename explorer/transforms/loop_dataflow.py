"""Dependences between the bindings of a body, by position, and sweeps along them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np

from explorer.ir.program import Binding
from explorer.ir.symbols import definitions, needed_by

Needs: TypeAlias = Sequence[
    Sequence[int]
]  # for each position the earlier positions that it depends on
Order: TypeAlias = list[tuple[int, ...]]  # positions that run as one, in order


def needs_of(body: Sequence[Binding]) -> list[list[int]]:
    """Return for each binding the positions of the bindings that it depends on.

    These compute the values that it reads or define the symbols that it needs.
    """
    place: dict[str, int] = {}
    casts = definitions(body)
    dependences: list[list[int]] = []
    for n, b in enumerate(body):
        needed = {place[v.name] for v in b.reads if v.name in place}
        if casts:
            needed |= {casts[s] for s in needed_by(b) if casts.get(s, n) < n}
        dependences.append(sorted(needed))
        for v in b.vars:
            place[v.name] = n
    return dependences


def levels(needs: Needs, counted: Collection[int]) -> list[int]:
    """Return the largest number of counted positions on a path to each position, inclusive."""
    counts: list[int] = []
    for n, needed in enumerate(needs):
        counts.append(max([counts[at] for at in needed], default=0) + (n in counted))
    return counts


def levels_of_each(needs: Needs, columns: Mapping[int, int], width: int) -> np.ndarray:
    """Return the levels of several kinds of positions at once, [position, kind].

    `columns` maps each counted position to its kind.
    """
    counts = np.zeros((len(needs), width), np.int32)
    for n, needed in enumerate(needs):
        row = counts[n]
        for at in needed:
            np.maximum(row, counts[at], out=row)
        if n in columns:
            row[columns[n]] += 1
    return counts


def order_groups(needs: Needs, groups: Sequence[Sequence[int]]) -> tuple[Order, set[int]]:
    """Order positions so that each group runs at once, as close to program order as possible.

    Returns the order and the numbers of the groups that depend on themselves through other groups.
    The positions of these run one by one. If groups depend on each other, the later one is broken
    up.
    """
    return _GroupedSort(needs, groups).run()


class _GroupedSort:
    """A topological sort whose groups become ready when all their positions are."""

    def __init__(self, needs: Needs, groups: Sequence[Sequence[int]]) -> None:
        """Count the unmet dependences of each position."""
        self.needs, self.groups = needs, groups
        self.group = {n: g for g, places in enumerate(groups) for n in places}
        self.broken: set[int] = set()
        self.partly_ready: dict[int, list[int]] = {}  # by group, its members that are ready
        self.ready: list[tuple[int, ...]] = []
        self.readers: list[list[int]] = [[] for _ in needs]
        self.missing = [0] * len(needs)
        for n in range(len(needs)):
            for at in self._outside_needs(n):
                self._add_dependence(n, at)
        for n, count in enumerate(self.missing):
            if not count:
                self._release(n)

    def run(self) -> tuple[Order, set[int]]:
        """Return the order and the broken groups."""
        order: Order = []
        while self.ready or self.partly_ready:
            if not self.ready:
                self._break(max(g for g in self.partly_ready if self._needs_itself(g)))
                continue
            places = heappop(self.ready)
            order.append(places)
            for n in places:
                for reader in self.readers[n]:
                    self.missing[reader] -= 1
                    if not self.missing[reader]:
                        self._release(reader)
        return order, self.broken

    def _outside_needs(self, n: int) -> Iterator[int]:
        mine = self.group.get(n)
        return (at for at in self.needs[n] if mine is None or self.group.get(at) != mine)

    def _add_dependence(self, n: int, at: int) -> None:
        self.missing[n] += 1
        self.readers[at].append(n)

    def _release(self, n: int) -> None:
        """Mark a position as ready."""
        group = self.group.get(n)
        if group is None:
            heappush(self.ready, (n,))
            return
        ready_members = self.partly_ready.setdefault(group, [])
        ready_members.append(n)
        if len(ready_members) == len(self.groups[group]):
            heappush(self.ready, tuple(sorted(self.partly_ready.pop(group))))

    def _needs_itself(self, group: int) -> bool:
        """Return True if a position of a group depends on another of it through other groups."""
        todo, seen = list(self.groups[group]), set[int]()
        while todo:
            for at in self._outside_needs(todo.pop()):
                other = self.group.get(at)
                if other == group:
                    return True
                new = set(self.groups[other]) if other is not None else {at}
                todo += new - seen
                seen |= new
        return False

    def _break(self, group: int) -> None:
        self.broken.add(group)
        ready_members = self.partly_ready.pop(group)
        for n in self.groups[group]:
            del self.group[n]
        for n in self.groups[group]:
            for at in self.needs[n]:
                if at in self.groups[group]:
                    self._add_dependence(n, at)
        for n in ready_members:
            if not self.missing[n]:
                self._release(n)
