"""Free storages, and the choice of one for a size: by proof, or by the paper's rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from explorer.ir.dims import Dim, ShapeEnv, simplify
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.passes.policy_call import PolicyCall, policy_name
from explorer.process.user_code import shown as written

REACH_TIMES = 16  # a storage is taken from a 16th of a size to 16 times it: the rule of Relax
NEAR_SIZES = 8  # symbolic sizes tried on either side: a bound on time, chosen
NONE_FREE = "no buffer of its dtype and memory is free"


@dataclass(frozen=True, slots=True)
class Free:
    """A storage that is free since `holder` died at `since`."""

    number: int
    bytes: Dim
    name: str
    holder: str
    since: int


@dataclass(frozen=True, slots=True)
class StorageChoice:
    """The storage to take, None for a fresh one, and the reason; `grows`: to the needed size."""

    free: Free | None
    reason: str
    grows: bool = False


class Pool:
    """The free storages of one dtype, block and scope.

    `ordered`: a symbolic size may also take a storage that is provably as large, or one that is
    provably smaller and grows; the paper asks for equality.
    """

    def __init__(self, env: ShapeEnv, ordered: bool = False) -> None:
        """Start without a free storage."""
        self.env, self.ordered = env, ordered
        self.numbers: list[tuple[int, int, Free]] = []  # by bytes, then in the order of return
        self.symbolic: dict[Dim, list[Free]] = {}
        self.hints: list[tuple[int, int, Dim]] = []  # the symbolic sizes by their hints
        self.returned = 0

    def release(self, free: Free) -> None:
        """Free a storage."""
        self.returned += 1
        if isinstance(free.bytes, int):
            insort(self.numbers, (free.bytes, self.returned, free), key=lambda row: row[:2])
        elif free.bytes in self.symbolic:
            self.symbolic[free.bytes].append(free)
        else:
            self.symbolic[free.bytes] = [free]
            row = (self.env.hint(free.bytes), self.returned, free.bytes)
            insort(self.hints, row, key=lambda row: row[:2])

    def take(self, needed: Dim, kind: Tensor) -> StorageChoice:
        """Return a storage for so many bytes, or None, with the reason."""
        claim, sign = text(kind), "=" if needed == kind.bytes else "is at most"
        if claim != str(needed):
            claim = f"{claim} {sign} {needed}"
        return (
            self._number(needed, claim) if isinstance(needed, int) else self._proved(needed, claim)
        )

    def _number(self, needed: int, claim: str) -> StorageChoice:
        """Take the smallest of `needed` to 16 times that; else the largest of a 16th, grown."""
        at = bisect_left(self.numbers, needed, key=lambda row: row[0])
        if at < len(self.numbers) and self.numbers[at][0] <= REACH_TIMES * needed:
            storage = self.numbers.pop(at)[2]
            return StorageChoice(
                storage, f"{freed(storage)}; {claim} bytes fit into its {storage.bytes}"
            )
        if at and REACH_TIMES * self.numbers[at - 1][0] >= needed:
            count = self.numbers[at - 1][0]  # of the largest ones the first that was freed
            storage = self.numbers.pop(bisect_left(self.numbers, count, key=lambda row: row[0]))[2]
            reason = f"{freed(storage)}; {claim} bytes, to which its {storage.bytes} grow"
            return StorageChoice(storage, reason, grows=True)
        if not self.numbers:
            return StorageChoice(None, NONE_FREE)
        near = self.numbers[min(at, len(self.numbers) - 1)][2]
        reason = f"{claim} bytes; {near.name} has {near.bytes}, more than {REACH_TIMES} times off"
        return StorageChoice(None, reason)

    def _proved(self, needed: Dim, claim: str) -> StorageChoice:
        if needed in self.symbolic:
            return self._equal(needed, claim)
        hint = self.env.hint(needed)
        at = bisect_left(self.hints, hint, key=lambda row: row[0])
        alike = takewhile(lambda row: row[0] == hint, self.hints[at:])
        for _, _, size in alike:  # sizes equal in every binding have equal hints
            if self.env.equal(size, needed) is True:
                return self._equal(size, claim)
        if not self.hints:
            return StorageChoice(None, NONE_FREE)
        if self.ordered and (choice := self._ordered(needed, at, claim)):
            return choice
        near = [size for _, _, size in self.hints[max(0, at - 2) : at + 1]]
        others = ", ".join(f"{self.symbolic[d][0].name} of {d}" for d in near)
        return StorageChoice(None, f"{claim}, not provably equal to {others} bytes")

    def _ordered(self, needed: Dim, at: int, claim: str) -> StorageChoice | None:
        """Take the smallest that is provably large enough, else grow the largest, by hints."""
        for _, _, size in self.hints[at : at + NEAR_SIZES]:
            if at_most(needed, size, self.env):
                storage = self._pop(size)
                reason = f"{freed(storage)}; {claim}, at most its {storage.bytes} in every binding"
                return StorageChoice(storage, reason)
        for _, _, size in reversed(self.hints[max(0, at - NEAR_SIZES) : at]):
            if at_most(size, needed, self.env):
                storage = self._pop(size)
                grows = f"to which its {storage.bytes} grows in any binding"
                return StorageChoice(storage, f"{freed(storage)}; {claim}, {grows}", grows=True)
        return None

    def _equal(self, size: Dim, claim: str) -> StorageChoice:
        storage = self._pop(size)
        return StorageChoice(
            storage, f"{freed(storage)}; {claim} equals its {size} in every binding"
        )

    def _pop(self, size: Dim) -> Free:
        """Take the storage of a size that was freed first."""
        every = self.symbolic[size]
        storage = every.pop(0)
        if not every:
            del self.symbolic[size]
            self.hints = [row for row in self.hints if row[2] != size]
        return storage


def at_most(small: Dim, large: Dim, env: ShapeEnv) -> bool:
    """Return True if one size is provably at most another in every binding."""
    return env.bounds(simplify(large - small))[0] >= 0


def freed(free: Free) -> str:
    """Return since when a storage is free, in words."""
    return f"{free.name} is free since {free.holder} died at {free.since}"


def text(kind: Tensor) -> str:
    """Return the bytes of a tensor as an unevaluated product: `4*2*n`."""
    parts = [str(ITEM_BYTES[kind.element]), *(_factor(d) for d in kind.dims)]
    return "*".join(parts)


def _factor(dim: Dim) -> str:
    return f"({dim})" if not isinstance(dim, int) and dim.is_Add else str(dim)


def is_enough(needed: Dim, storage: Dim, env: ShapeEnv) -> bool:
    """Return True if a storage is provably large enough in every binding."""
    return env.equal(needed, storage) is True or at_most(needed, storage, env)


class PolicyPool:
    """The free storages of one dtype, block and scope, in the order in which they were freed.

    The policy gets the bytes that a value needs, these storages, and the bounds of the symbols. It
    returns one of them, or None for a fresh one. BadPolicy is raised if it returns anything else,
    or one that is not provably large enough.
    """

    def __init__(self, env: ShapeEnv, policy: Choose) -> None:
        """Start without a free storage."""
        self.env, self.policy = env, policy
        self.free: list[Free] = []

    def release(self, free: Free) -> None:
        """Free a storage."""
        self.free.append(free)

    def take(self, needed: Dim, kind: Tensor) -> StorageChoice:
        """Return the storage that the policy chooses, or a fresh one, and the reason."""
        if not self.free:
            return StorageChoice(None, NONE_FREE)
        name, policy_call = (
            policy_name(self.policy),
            PolicyCall("Memory", self.policy, f"{needed} bytes"),
        )
        with policy_call.guarding():
            storage = self.policy(needed, tuple(self.free), self.env)
        if storage is None:
            return StorageChoice(None, f"{text(kind)} bytes: {name} takes a fresh one")
        if not any(storage is free for free in self.free):
            rule = "returned an object that is not a free buffer"
            raise policy_call.refused(rule, "one of the free buffers, or None", written(storage))
        if not is_enough(needed, storage.bytes, self.env):
            raise policy_call.refused(
                f"returned {storage.name}, whose {storage.bytes} bytes are not provably enough",
                f"at least {needed} bytes in every binding",
                f"{storage.bytes} bytes",
            )
        self.free = [free for free in self.free if free is not storage]
        return StorageChoice(
            storage, f"{freed(storage)}; {name} takes its {storage.bytes} for {text(kind)}"
        )


Choose: TypeAlias = Callable[[Dim, tuple[Free, ...], ShapeEnv], Free | None]
