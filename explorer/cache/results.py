"""Results in memory: what this process made, the least recently used dropped first."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from explorer.counters import counters
from explorer.forking import ForkLock

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """How full one memory is, and how often it was asked."""

    entries: int
    size_bytes: int
    hits: int
    misses: int


Parts = Iterable[tuple[int, int]]  # what a value holds: the identity and the bytes of each part


class Memory(Generic[Value]):
    """Results of this process, the least recently used dropped first.

    Bounded by entries and by approximate bytes. Values are immutable, so they are shared, not
    copied. Where values share what they are made of, `parts` tells it, and what several hold is
    counted once. Safe to use from several threads.
    """

    def __init__(
        self,
        limit_entries: int = 1024,
        limit_bytes: int = 256 * 1024**2,
        parts: Callable[[Value], Parts] | None = None,
    ) -> None:
        self.limit_entries = limit_entries
        self.limit_bytes = limit_bytes
        self._parts = parts or _whole
        self._lock = ForkLock()
        self._kept: OrderedDict[Hashable, tuple[Value, tuple[int, ...]]] = OrderedDict()
        self._held: dict[int, tuple[int, int]] = {}  # of a part: bytes, and values that hold it
        self._size_bytes = 0
        self._hits = 0
        self._misses = 0

    def get(self, key: Hashable) -> Value | None:
        """The value under this key, or None."""
        with self._lock:
            if key not in self._kept:
                self._misses += 1
                return None
            self._kept.move_to_end(key)
            self._hits += 1
            value = self._kept[key][0]
        counters.add("cache_hits_memory")
        return value

    def put(self, key: Hashable, value: Value) -> Value:
        """Keep a value; returns the one that is kept, which is the first if two threads raced.

        A value larger than the whole bound is returned and not kept.
        """
        parts = dict(self._parts(value))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            if sum(parts.values()) > self.limit_bytes or self.limit_entries < 1:
                return value
            self._kept[key] = (value, tuple(parts))
            for part, size in parts.items():
                known, holders = self._held.get(part, (size, 0))
                self._held[part] = known, holders + 1
                self._size_bytes += 0 if holders else size
            while self._size_bytes > self.limit_bytes or len(self._kept) > self.limit_entries:
                self._drop()
        return value

    def _drop(self) -> None:
        """Forget the value that was used least recently, and what no other one holds."""
        _, (_, parts) = self._kept.popitem(last=False)
        for part in parts:
            size, holders = self._held.pop(part)
            if holders > 1:
                self._held[part] = size, holders - 1
            else:
                self._size_bytes -= size

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value under this key, made where it is missing; a failure keeps nothing."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found

    def clear(self) -> None:
        """Forget every value."""
        with self._lock:
            self._kept.clear()
            self._held.clear()
            self._size_bytes = 0

    def stats(self) -> MemoryStats:
        """How full it is, and how often it was asked."""
        with self._lock:
            return MemoryStats(len(self._kept), self._size_bytes, self._hits, self._misses)


def _whole(value: object) -> Parts:
    size = getattr(value, "nbytes", None)
    return ((id(value), size if isinstance(size, int) else sys.getsizeof(value)),)
