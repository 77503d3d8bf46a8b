"""Storages that are free, and which of them a size may take: by proof, or by the paper's rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from explorer.ir.dims import Dim, ShapeEnv
from explorer.ir.types import ITEM_BYTES, Tensor

REACH = 16  # a number of bytes takes a storage from a 16th of it to 16 times it


@dataclass(frozen=True, slots=True)
class Free:
    """A storage that nothing lies in since `holder` died at `since`."""

    number: int
    bytes: Dim
    name: str
    holder: str
    since: int


class Pool:
    """The free storages of one dtype, block and scope."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
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

    def take(self, room: Dim, formula: str) -> tuple[Free | None, str]:
        """A storage for so many bytes and why it may be taken; None and why there is none."""
        if isinstance(room, int):
            return self._number(room)
        return self._proved(room, formula)

    def _number(self, room: int) -> tuple[Free | None, str]:
        """The smallest of `room` to 16 times that; else the largest of a 16th, grown."""
        at = bisect_left(self.numbers, room, key=lambda row: row[0])
        if at < len(self.numbers) and self.numbers[at][0] <= REACH * room:
            found = self.numbers.pop(at)[2]
            return found, f"{_freed(found)}; {room} bytes fit into its {found.bytes}"
        if at and REACH * self.numbers[at - 1][0] >= room:
            count = self.numbers[at - 1][0]  # of the largest ones the first that came back
            found = self.numbers.pop(bisect_left(self.numbers, count, key=lambda row: row[0]))[2]
            return found, f"{_freed(found)}; it grows from {found.bytes} to {room} bytes"
        if not self.numbers:
            return None, "no storage of its dtype and block is free"
        near = self.numbers[min(at, len(self.numbers) - 1)][2]
        return None, f"{near.name} has {near.bytes} bytes, not within 16 times {room} either way"

    def _proved(self, room: Dim, formula: str) -> tuple[Free | None, str]:
        if self.symbolic.get(room):
            return self._taken(room, formula, room)
        for known, free in self.symbolic.items():
            if free and self.env.equal(known, room) is True:
                return self._taken(known, formula, room)
        known = [d for d, free in self.symbolic.items() if free]
        if not known:
            return None, "no storage of its dtype and block is free"
        others = ", ".join(f"{self.symbolic[d][0].name} of {d}" for d in known[:3])
        return None, f"{formula} = {room} is not provably equal to {others} bytes"

    def _taken(self, known: Dim, formula: str, room: Dim) -> tuple[Free, str]:
        found = self.symbolic[known].pop(0)
        return found, f"{_freed(found)}; {formula} = {room} equals its {known} in every binding"


def _freed(free: Free) -> str:
    return f"{free.name} is free since {free.holder} died at {free.since}"


def text(kind: Tensor) -> str:
    """The bytes of a tensor as a product that is not multiplied out: `4*2*n`."""
    parts = [str(ITEM_BYTES[kind.element]), *(_factor(d) for d in kind.dims)]
    return "*".join(parts)


def _factor(dim: Dim) -> str:
    return f"({dim})" if not isinstance(dim, int) and dim.is_Add else str(dim)
