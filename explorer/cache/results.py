"""Results in memory, with the least recently used dropped first."""

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
    """Size of one memory, and how often it was queried."""

    entries: int
    size_bytes: int
    hits: int
    misses: int


Parts = Iterable[tuple[int, int]]  # what a value holds: the identity and the bytes of each part


class Memory(Generic[Value]):
    """Results of this process, with the least recently used dropped first.

    Bounded by entries and by approximate bytes. Values are immutable, so they are shared, not
    copied. If values share parts, `parts` lists these, and a part that several values hold counts
    once. Safe to use from several threads.
    """

    def __init__(
        self,
        limit_entries: int = 1024,
        limit_bytes: int = 256 * 1024**2,
        parts: Callable[[Value], Parts] | None = None,
    ) -> None:
        """Create an empty memory with these bounds."""
        self.limit_entries = limit_entries
        self.limit_bytes = limit_bytes
        self._parts = parts or _as_one_part
        self._lock = ForkLock()
        self._values: OrderedDict[Hashable, tuple[Value, tuple[int, ...]]] = OrderedDict()
        self._parts_in_use: dict[
            int, tuple[int, int]
        ] = {}  # of a part: bytes, and values that hold it
        self._size_bytes = 0
        self._hits = 0
        self._misses = 0

    def get(self, key: Hashable) -> Value | None:
        """Return the value under this key, or None."""
        with self._lock:
            if key not in self._values:
                self._misses += 1
                return None
            self._values.move_to_end(key)
            self._hits += 1
            value = self._values[key][0]
        counters.add("cache_hits_memory")
        return value

    def put(self, key: Hashable, value: Value) -> Value:
        """Store a value and return the one that is stored: the first if two threads raced.

        A value larger than the whole bound is returned and not stored.
        """
        parts = dict(self._parts(value))
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
            if sum(parts.values()) > self.limit_bytes or self.limit_entries < 1:
                return value
            self._values[key] = (value, tuple(parts))
            for part, size in parts.items():
                first_size, holders = self._parts_in_use.get(part, (size, 0))
                self._parts_in_use[part] = first_size, holders + 1
                self._size_bytes += 0 if holders else size
            while self._size_bytes > self.limit_bytes or len(self._values) > self.limit_entries:
                self._drop()
        return value

    def _drop(self) -> None:
        """Remove the least recently used value, and the bytes that no other value shares."""
        _, (_, parts) = self._values.popitem(last=False)
        for part in parts:
            size, holders = self._parts_in_use.pop(part)
            if holders > 1:
                self._parts_in_use[part] = size, holders - 1
            else:
                self._size_bytes -= size

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value under this key, making it if it is missing; a failure stores nothing."""
        value = self.get(key)
        return self.put(key, make()) if value is None else value

    def clear(self) -> None:
        """Remove every value."""
        with self._lock:
            self._values.clear()
            self._parts_in_use.clear()
            self._size_bytes = 0

    def stats(self) -> MemoryStats:
        """Return how full it is, and how often it was queried."""
        with self._lock:
            return MemoryStats(len(self._values), self._size_bytes, self._hits, self._misses)


def _as_one_part(value: object) -> Parts:
    """Return a value as its own only part."""
    size = getattr(value, "nbytes", None)
    return ((id(value), size if isinstance(size, int) else sys.getsizeof(value)),)
