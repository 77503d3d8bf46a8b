"""Shared-memory accesses of a printed thread block: the words that its threads request.

The indices of each access are evaluated for all threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.cuda.bank_source import MEANINGS, Plan, Site, Source, weight
from explorer.codegen.cuda.build import BlockCode
from explorer.tile.gpu.bank_accesses import WORD_BYTES, Words, cycles_of, lanes_at_once

MOST_REQUESTS = 30_000  # evaluated one by one; a bound on time, chosen
FEW = 3_000  # evaluated of one loop if there are more in total
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SharedAccess:
    """A place in the source where threads read or write an array in shared memory.

    `phase` counts the syncs of all threads before it, `lane_bytes` is what each thread moves.

    `words` has a row a thread: its words of the array in the slowest trip, -1 for a thread that is
    idle then. `cycles` are each warp's in that trip, `least` the cycles without bank conflicts.
    `times` is the number of trips evaluated.
    """

    phase: int
    line: int
    array: str
    store: bool
    lane_bytes: int
    words: Words
    cycles: tuple[int, ...]
    least: tuple[int, ...]
    times: int

    @property
    def lanes_at_once(self) -> int:
        """The number of threads that are served together."""
        return lanes_at_once(self.lane_bytes)

    @property
    def worst(self) -> int:
        """The warp that waits longest."""
        return max(range(len(self.cycles)), key=lambda w: self.cycles[w])


@dataclass(frozen=True, eq=False)
class BlockAccesses:
    """All accesses of a block in the order of its source.

    `owners` has for each output the elements written and their threads. `exact`: every trip of
    every loop was evaluated, not only the first ones and the last. `unknown` are the lines whose
    indices depend on data.
    """

    threads: int
    accesses: tuple[SharedAccess, ...]
    owners: Mapping[str, tuple[Words, Words]]
    exact: bool
    unknown: tuple[int, ...]


def accesses(code: BlockCode, block: int = 0) -> BlockAccesses:
    """Return the shared-memory accesses of one block of a launch."""
    source = Source(code)
    try:
        return _Run(source, code.threads, block, MOST_REQUESTS, 0).result()
    except _TooManyError:
        return _Run(source, code.threads, block, 0, FEW).result()


class _TooManyError(Exception):
    """More requests than are evaluated one by one."""


@dataclass(eq=False, slots=True)
class _SiteCycles:
    words: Words
    cycles: tuple[int, ...]
    least: tuple[int, ...]
    times: int = 1


@dataclass(eq=False)
class _Run:
    """The evaluation of a block's plan for all of its threads.

    It stops after `most` requests. If `most` is 0, it evaluates as many trips of each loop as have
    `few` requests.
    """

    source: Source
    threads: int
    block: int
    most: int
    few: int
    env: dict[str, Any] = field(default_factory=dict)
    seen: dict[int, _SiteCycles] = field(default_factory=dict)
    sites: dict[int, Site] = field(default_factory=dict)
    cycles_by_distances: dict[tuple[Any, ...], tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=dict
    )
    stored: dict[str, list[tuple[Words, Words]]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    requests: int = 0
    cut: bool = False

    def result(self) -> BlockAccesses:
        """Evaluate the plan; return its accesses."""
        every = np.arange(self.threads, dtype=np.int64)
        self.env |= {"_block": self.block, "_thread": every}
        self._evaluate(self.source.plan, np.ones(self.threads, np.bool_))
        measured = [self._access(self.sites[n], seen) for n, seen in self.seen.items()]
        owners = {
            name: (np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts]))
            for name, parts in self.stored.items()
        }
        ordered = tuple(sorted(measured, key=lambda a: (a.line, a.store)))
        return BlockAccesses(
            self.threads, ordered, owners, not self.cut, tuple(sorted(self.unknown))
        )

    def _access(self, site: Site, seen: _SiteCycles) -> SharedAccess:
        """Return the access of a site with the figures of its slowest trip."""
        return SharedAccess(
            site.phase,
            site.line,
            site.array,
            site.store,
            site.item_bytes * site.count,
            seen.words,
            seen.cycles,
            seen.least,
            seen.times,
        )

    def _value(self, code: CodeType | None) -> Any:
        """Return an expression's value for every thread; None if it depends on data."""
        if code is None:
            return None
        try:
            return eval(
                code, {"__builtins__": {}, **MEANINGS}, self.env
            )  # code of a printed source
        except NameError:
            return None

    def _evaluate(self, plan: Plan, mask: Mask) -> None:
        """Run a plan for the threads of a mask."""
        for item in plan:
            match item:
                case ("set", "_block" | "_thread", _):
                    pass
                case ("set", name, code):
                    self._set(name, self._value(code), mask)
                case ("access", site, _):
                    self._request(site, mask)
                case ("for", name, codes, body):
                    self._loop(name, [self._value(c) for c in codes], body, mask)
                case ("if", code, body, other):
                    test = self._value(code)
                    yes = mask if test is None else mask & test
                    no = mask if test is None else mask & ~np.broadcast_to(test, mask.shape)
                    for part, chosen in ((body, yes), (other, no)):
                        if part and chosen.any():
                            self._evaluate(part, chosen)

    def _set(self, name: str, value: Any, mask: Mask) -> None:
        if value is None:
            self.env.pop(name, None)
        elif mask.all() or name not in self.env:
            self.env[name] = value
        else:
            self.env[name] = np.where(mask, value, self.env[name])

    def _loop(self, name: str, ends: list[Any], body: Plan, mask: Mask) -> None:
        """Run a loop's body for each trip, or for the first ones and the last."""
        if any(e is None for e in ends):
            self.env.pop(name, None)
            self._evaluate(body, mask)
            return
        low, high, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
        low, high = (np.broadcast_to(np.asarray(e), mask.shape) for e in (low, high))
        trips = int(np.max(np.where(mask, -(-(high - low) // step), 0), initial=0))
        shown = range(trips)
        if self.few and trips > (most := max(4, self.few // max(1, weight(body)))):
            shown, self.cut = [*range(most - 1), trips - 1], True  # type: ignore[assignment]
        for n in shown:
            at = low + n * step
            now = mask & (at < high)
            if now.any():
                self.env[name] = at
                self._evaluate(body, now)

    def _request(self, site: Site, mask: Mask) -> None:
        """Record one request of the threads of a mask; raise _TooManyError past the limit."""
        self.requests += 1
        if self.most and self.requests > self.most:
            raise _TooManyError
        index = self._value(site.index)
        if index is None:
            self.unknown.add(site.line)
            return
        index = np.broadcast_to(np.asarray(index, np.int64), mask.shape)
        if not site.shared:
            stores = self.stored.setdefault(site.array, [])
            stores += [(index[mask] + n, np.flatnonzero(mask)) for n in range(site.count)]
            return
        words = self._words(site, index, mask)
        cycles, least = self._cycles(words, site.item_bytes * site.count)
        n = id(site)
        self.sites[n] = site
        was = self.seen.get(n)
        if was is None:
            self.seen[n] = _SiteCycles(words, cycles, least)
            return
        was.times += 1
        if max(cycles) > max(was.cycles):
            was.words, was.cycles, was.least = words, cycles, least

    def _words(self, site: Site, index: Words, mask: Mask) -> Words:
        """Return a row a thread: the words that hold its bytes."""
        first = index * site.item_bytes
        count = max(1, site.item_bytes * site.count // WORD_BYTES)
        words = first[:, None] // WORD_BYTES + np.arange(count)
        return np.where(mask[:, None], words, -1)

    def _cycles(self, words: Words, lane_bytes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return each warp's cycles and least cycles, cached by the words' distances."""
        active = words[:, 0] >= 0
        moved = np.where(words >= 0, words - words[active][0, 0], -1 << 40)
        key = (lane_bytes, moved.tobytes())
        cycles = self.cycles_by_distances.get(key)
        if cycles is None:
            cycles = self.cycles_by_distances[key] = cycles_of(words, lane_bytes)
        return cycles
