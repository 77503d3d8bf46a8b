"""Storages that are free, and which of them a size may take: by proof, or by the paper's rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from explorer.ir.dims import Dim, ShapeEnv, simplify
from explorer.ir.types import ITEM_BYTES, Tensor

REACH = 16  # a number of bytes takes a storage from a 16th of it to 16 times it
NONE_FREE = "no storage of its dtype and block is free"


@dataclass(frozen=True, slots=True)
class Free:
    """A storage that nothing lies in since `holder` died at `since`."""

    number: int
    bytes: Dim
    name: str
    holder: str
    since: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The storage to take, None for a fresh one, and why; `grows`: to the size asked for."""

    free: Free | None
    reason: str
    grows: bool = False


class Pool:
    """The free storages of one dtype, block and scope.

    `ordered`: a symbolic size may also take a storage that is provably as large, or one that is
    provably smaller and grows; the paper asks for equality.
    """

    def __init__(self, env: ShapeEnv, ordered: bool = False) -> None:
        self.env, self.ordered = env, ordered
        self.numbers: list[tuple[int, int, Free]] = []  # by bytes, then in the order of return
        self.symbolic: dict[Dim, list[Free]] = {}
        self.returned = 0

    def give(self, free: Free) -> None:
        """The storage may be taken again."""
        if isinstance(free.bytes, int):
            self.returned += 1
            insort(self.numbers, (free.bytes, self.returned, free), key=lambda row: row[:2])
        else:
            self.symbolic.setdefault(free.bytes, []).append(free)

    def take(self, room: Dim, kind: Tensor) -> Choice:
        """A storage for so many bytes and why it may be taken; None and why there is none."""
        claim, sign = text(kind), "=" if room == kind.bytes else "is at most"
        if claim != str(room):
            claim = f"{claim} {sign} {room}"
        return self._number(room, claim) if isinstance(room, int) else self._proved(room, claim)

    def _number(self, room: int, claim: str) -> Choice:
        """The smallest of `room` to 16 times that; else the largest of a 16th, grown."""
        at = bisect_left(self.numbers, room, key=lambda row: row[0])
        if at < len(self.numbers) and self.numbers[at][0] <= REACH * room:
            found = self.numbers.pop(at)[2]
            return Choice(found, f"{_freed(found)}; {claim} bytes fit into its {found.bytes}")
        if at and REACH * self.numbers[at - 1][0] >= room:
            count = self.numbers[at - 1][0]  # of the largest ones the first that came back
            found = self.numbers.pop(bisect_left(self.numbers, count, key=lambda row: row[0]))[2]
            reason = f"{_freed(found)}; {claim} bytes, to which its {found.bytes} grow"
            return Choice(found, reason, grows=True)
        if not self.numbers:
            return Choice(None, NONE_FREE)
        near = self.numbers[min(at, len(self.numbers) - 1)][2]
        reason = f"{claim} bytes; {near.name} has {near.bytes}, more than {REACH} times off"
        return Choice(None, reason)

    def _proved(self, room: Dim, claim: str) -> Choice:
        if self.symbolic.get(room):
            return self._taken(room, claim)
        for known, free in self.symbolic.items():
            if free and self.env.equal(known, room) is True:
                return self._taken(known, claim)
        known = [d for d, free in self.symbolic.items() if free]
        if not known:
            return Choice(None, NONE_FREE)
        if self.ordered and (found := self._ordered(known, room, claim)):
            return found
        others = ", ".join(f"{self.symbolic[d][0].name} of {d}" for d in known[:3])
        return Choice(None, f"{claim}, not provably equal to {others} bytes")

    def _ordered(self, known: list[Dim], room: Dim, claim: str) -> Choice | None:
        """The smallest that is provably large enough, else the largest to grow, by their hints."""
        fits = [d for d in known if self._at_most(room, d)]
        if fits:
            found = self.symbolic[min(fits, key=self.env.hint)].pop(0)
            reason = f"{_freed(found)}; {claim}, at most its {found.bytes} in every binding"
            return Choice(found, reason)
        short = [d for d in known if self._at_most(d, room)]
        if not short:
            return None
        found = self.symbolic[max(short, key=self.env.hint)].pop(0)
        reason = f"{_freed(found)}; {claim}, to which its {found.bytes} grows in any binding"
        return Choice(found, reason, grows=True)

    def _at_most(self, small: Dim, large: Dim) -> bool:
        return self.env.bounds(simplify(large - small))[0] >= 0

    def _taken(self, known: Dim, claim: str) -> Choice:
        found = self.symbolic[known].pop(0)
        return Choice(found, f"{_freed(found)}; {claim} equals its {known} in every binding")


def _freed(free: Free) -> str:
    return f"{free.name} is free since {free.holder} died at {free.since}"


def text(kind: Tensor) -> str:
    """The bytes of a tensor as a product that is not multiplied out: `4*2*n`."""
    parts = [str(ITEM_BYTES[kind.element]), *(_factor(d) for d in kind.dims)]
    return "*".join(parts)


def _factor(dim: Dim) -> str:
    return f"({dim})" if not isinstance(dim, int) and dim.is_Add else str(dim)
