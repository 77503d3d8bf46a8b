"""Content-addressed store: results in memory, bytes on disk.

A key is a digest of everything that the result depends on, so an entry is never out of date. On
disk an entry is one file with its own checksum; damage by a crash, a full disk or another program
is detected, and the entry counts as missing. The folder belongs to one user alone, because object
code is loaded from it. `Memory` holds results of this process; parts of keys are stored to explain
a miss.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

from platformdirs import user_cache_dir

from explorer.cache.background_writer import finish, later
from explorer.cache.store import LIMIT_BYTES, DiskStats, DiskStore, Verified
from explorer.cache.team import FOLDER, OWNER, Published, TeamStore
from explorer.cache.team import publish as published
from explorer.process.budget import size_of
from explorer.process.counters import counters
from explorer.process.forking import ForkLock

__all__ = [
    "Difference",
    "DiskStats",
    "DiskStore",
    "Memory",
    "MemoryStats",
    "Published",
    "TeamStore",
    "Verified",
    "clear",
    "code_key",
    "content_key",
    "differences",
    "disk",
    "finish",
    "get",
    "has",
    "later",
    "memory",
    "publish",
    "put",
    "remember_parts",
    "stats",
    "team",
    "verify",
]

LIMIT = "IRONWORKS_CACHE_LIMIT"
REMEMBERED = 8  # keys of one subject, by their parts
Value = TypeVar("Value")
Parts = Iterable[tuple[int, int]]  # what a value holds: the identity and the bytes of each part


def content_key(*parts: str | bytes) -> str:
    """Return the digest of the parts; moving a byte from one part to the next changes it."""
    return _digest(parts)


def _digest(parts: Iterable[str | bytes]) -> str:
    """Return the digest of the parts, each with its kind and length."""
    state = blake2b(digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        kind = b"s" if isinstance(part, str) else b"b"
        state.update(kind + struct.pack("<Q", len(data)) + data)
    return state.hexdigest()


@cache
def code_key(*folders: str) -> str:
    """Return the digest of the code in these folders of the package.

    It keeps decisions of another version of the code from being found.
    """
    root = Path(__file__).parent.parent
    assert all((root / folder).is_dir() for folder in folders), f"a folder is gone: {folders}"
    files = (f for folder in folders for f in sorted((root / folder).rglob("*.py")))
    return _digest(file.read_bytes() for file in files)  # one at a time: all are 5 MB


_memories: dict[str, Memory[Any]] = {}
_memories_lock = ForkLock()


def memory(namespace: str) -> Memory[Any]:
    """Return the process's memory of this name, creating it at its first use."""
    with _memories_lock:
        return _memories.setdefault(namespace, Memory())


_stores: dict[tuple[Path, int], DiskStore] = {}
_teams: dict[tuple[str, str], TeamStore] = {}
_stores_lock = ForkLock()


def disk() -> DiskStore:
    """Return the user's store.

    It is ``$IRONWORKS_CACHE``, or ``ironworks`` in the user's cache folder, with at most
    ``$IRONWORKS_CACHE_LIMIT`` of bytes, such as 500MB.
    """
    chosen = os.environ.get("IRONWORKS_CACHE") or user_cache_dir("ironworks", appauthor=False)
    folder = Path(os.path.abspath(Path(chosen).expanduser()))
    text = os.environ.get(LIMIT, "").strip()
    limit = size_of(text, LIMIT) if text else LIMIT_BYTES
    with _stores_lock:
        if (folder, limit) not in _stores:
            _stores[folder, limit] = DiskStore(folder, limit)
        return _stores[folder, limit]


def team() -> TeamStore | None:
    """Return the team's store, ``$IRONWORKS_TEAM_CACHE`` of ``$IRONWORKS_TEAM_OWNER``, or None."""
    named = os.environ.get(FOLDER, "").strip(), os.environ.get(OWNER, "").strip()
    if not named[0]:
        return None
    with _stores_lock:
        if named not in _teams:
            _teams[named] = TeamStore(Path(os.path.abspath(Path(named[0]).expanduser())), named[1])
        return _teams[named]


def get(key: str) -> bytes | None:
    """Return the payload under this key in the user's store, else in the team's, or None."""
    payload, shared = disk().get(key), team()
    return shared.get(key) if payload is None and shared is not None else payload


def has(key: str) -> bool:
    """Return True if there is an entry under this key in either store, intact or not."""
    shared = team()
    return disk().has(key) or (shared is not None and shared.has(key))


def put(key: str, payload: bytes, kind: str = "other") -> bool:
    """Write the payload to the user's store; return False if that fails."""
    return disk().put(key, payload, kind)


def publish(folder: Path) -> Published:
    """Copy the user's store, without private entries, to a folder that a team reads."""
    finish()
    return published(disk(), folder)


def stats() -> DiskStats:
    """Return the size of the user's store."""
    finish()
    return disk().stats()


def clear() -> int:
    """Empty the user's store and return how many entries it had."""
    finish()
    return disk().clear()


def verify() -> Verified:
    """Read every entry of the user's store and remove the damaged ones."""
    finish()
    return disk().verify()


def remember_parts(store: DiskStore, subject: str, parts: Mapping[str, str]) -> None:
    """Store the parts of a key of this subject, for `differences` to compare."""
    key = content_key("parts of keys", subject)
    store.put(key, with_parts(store.get(key), parts), "parts of keys")


def differences(
    subject: str, parts: Mapping[str, str], is_there: Callable[[Mapping[str, str]], bool]
) -> tuple[Difference, ...] | None:
    """Return how a key's parts differ from the most similar entry of the same subject.

    `is_there` tells which entries still exist. The result is None if there is no entry, and () if
    the key has one.
    """
    return nearest(get(content_key("parts of keys", subject)), parts, is_there)


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Size of one memory, and how often it was queried."""

    entries: int
    size_bytes: int
    hits: int
    misses: int


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


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a key: its text in the existing entry, and its text now."""

    part: str
    then: str
    now: str


def remembered(data: bytes | None) -> list[dict[str, str]]:
    """Return the parts of each key, the newest last; none if the bytes are damaged."""
    try:
        keys = json.loads(data or b"[]")
        return [{str(part): str(text) for part, text in parts.items()} for parts in keys]
    except (ValueError, AttributeError, TypeError):
        return []


def with_parts(data: bytes | None, parts: Mapping[str, str]) -> bytes:
    """Return the bytes with the parts of one more key."""
    others = [key for key in remembered(data) if key != dict(parts)]
    return json.dumps([*others, dict(parts)][-REMEMBERED:]).encode()


def nearest(
    data: bytes | None, parts: Mapping[str, str], is_there: Callable[[Mapping[str, str]], bool]
) -> tuple[Difference, ...] | None:
    """Return the parts that differ from those of the most similar entry.

    The result is empty if an entry has these parts, and None if there is no entry.
    """
    changes = [_differences(key, parts) for key in remembered(data) if is_there(key)]
    return min(reversed(changes), key=len, default=None)


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the parts that differ between two keys."""
    names = dict.fromkeys((*now, *then))
    return tuple(
        Difference(name, then.get(name, ""), now.get(name, ""))
        for name in names
        if then.get(name) != now.get(name)
    )
