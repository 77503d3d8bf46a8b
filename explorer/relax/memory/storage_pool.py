"""Storages that are free, and which of them a size may take: by proof, or by the paper's rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import takewhile

from explorer.ir.shapes.dims import Dim, ShapeEnv, simplify
from explorer.ir.types import ITEM_BYTES, Tensor

REACH_TIMES = 16  # a storage is taken from a 16th of a size to 16 times it: the rule of Relax
NEAR_SIZES = 8  # symbolic ones that are tried on either side: a bound on time, chosen
NONE_FREE = "no buffer of its dtype and memory is free"


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
        self.hints: list[tuple[int, int, Dim]] = []  # the symbolic sizes by their hints
        self.returned = 0

    def give(self, free: Free) -> None:
        """The storage may be taken again."""
        self.returned += 1
        if isinstance(free.bytes, int):
            insort(self.numbers, (free.bytes, self.returned, free), key=lambda row: row[:2])
        elif free.bytes in self.symbolic:
            self.symbolic[free.bytes].append(free)
        else:
            self.symbolic[free.bytes] = [free]
            row = (self.env.hint(free.bytes), self.returned, free.bytes)
            insort(self.hints, row, key=lambda row: row[:2])

    def take(self, room: Dim, kind: Tensor) -> Choice:
        """A storage for so many bytes and why it may be taken; None and why there is none."""
        claim, sign = text(kind), "=" if room == kind.bytes else "is at most"
        if claim != str(room):
            claim = f"{claim} {sign} {room}"
        return self._number(room, claim) if isinstance(room, int) else self._proved(room, claim)

    def _number(self, room: int, claim: str) -> Choice:
        """The smallest of `room` to 16 times that; else the largest of a 16th, grown."""
        at = bisect_left(self.numbers, room, key=lambda row: row[0])
        if at < len(self.numbers) and self.numbers[at][0] <= REACH_TIMES * room:
            found = self.numbers.pop(at)[2]
            return Choice(found, f"{freed(found)}; {claim} bytes fit into its {found.bytes}")
        if at and REACH_TIMES * self.numbers[at - 1][0] >= room:
            count = self.numbers[at - 1][0]  # of the largest ones the first that came back
            found = self.numbers.pop(bisect_left(self.numbers, count, key=lambda row: row[0]))[2]
            reason = f"{freed(found)}; {claim} bytes, to which its {found.bytes} grow"
            return Choice(found, reason, grows=True)
        if not self.numbers:
            return Choice(None, NONE_FREE)
        near = self.numbers[min(at, len(self.numbers) - 1)][2]
        reason = f"{claim} bytes; {near.name} has {near.bytes}, more than {REACH_TIMES} times off"
        return Choice(None, reason)

    def _proved(self, room: Dim, claim: str) -> Choice:
        if room in self.symbolic:
            return self._equal(room, claim)
        hint = self.env.hint(room)
        at = bisect_left(self.hints, hint, key=lambda row: row[0])
        alike = takewhile(lambda row: row[0] == hint, self.hints[at:])
        for _, _, known in alike:  # what is equal in every binding is so in this one
            if self.env.equal(known, room) is True:
                return self._equal(known, claim)
        if not self.hints:
            return Choice(None, NONE_FREE)
        if self.ordered and (found := self._ordered(room, at, claim)):
            return found
        near = [known for _, _, known in self.hints[max(0, at - 2) : at + 1]]
        others = ", ".join(f"{self.symbolic[d][0].name} of {d}" for d in near)
        return Choice(None, f"{claim}, not provably equal to {others} bytes")

    def _ordered(self, room: Dim, at: int, claim: str) -> Choice | None:
        """The smallest that is provably large enough, else the largest to grow, by their hints."""
        for _, _, known in self.hints[at : at + NEAR_SIZES]:
            if at_most(room, known, self.env):
                found = self._pop(known)
                reason = f"{freed(found)}; {claim}, at most its {found.bytes} in every binding"
                return Choice(found, reason)
        for _, _, known in reversed(self.hints[max(0, at - NEAR_SIZES) : at]):
            if at_most(known, room, self.env):
                found = self._pop(known)
                grows = f"to which its {found.bytes} grows in any binding"
                return Choice(found, f"{freed(found)}; {claim}, {grows}", grows=True)
        return None

    def _equal(self, known: Dim, claim: str) -> Choice:
        found = self._pop(known)
        return Choice(found, f"{freed(found)}; {claim} equals its {known} in every binding")

    def _pop(self, known: Dim) -> Free:
        """The first that came back of those of a size."""
        every = self.symbolic[known]
        found = every.pop(0)
        if not every:
            del self.symbolic[known]
            self.hints = [row for row in self.hints if row[2] != known]
        return found


def at_most(small: Dim, large: Dim, env: ShapeEnv) -> bool:
    """Whether one size is at most another in every binding, as far as can be proved."""
    return env.bounds(simplify(large - small))[0] >= 0


def freed(free: Free) -> str:
    """Since when a storage is free."""
    return f"{free.name} is free since {free.holder} died at {free.since}"


def text(kind: Tensor) -> str:
    """The bytes of a tensor as a product that is not multiplied out: `4*2*n`."""
    parts = [str(ITEM_BYTES[kind.element]), *(_factor(d) for d in kind.dims)]
    return "*".join(parts)


def _factor(dim: Dim) -> str:
    return f"({dim})" if not isinstance(dim, int) and dim.is_Add else str(dim)
