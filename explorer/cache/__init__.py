"""Content-addressed store: results in memory, bytes on disk.

A key is a digest of everything that the result depends on, so an entry is never out of date. On
disk an entry is one file with its own checksum; damage by a crash, a full disk or another program
is detected, and the entry counts as missing. The folder belongs to one user alone, because object
code is loaded from it.
"""

import os
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from explorer.budget import size_of
from explorer.cache.background_writer import finish, later
from explorer.cache.parts import Difference, nearest, with_parts
from explorer.cache.results import Memory, MemoryStats
from explorer.cache.store import LIMIT_BYTES, DiskStats, DiskStore, Verified
from explorer.cache.team import FOLDER, OWNER, Published, TeamStore
from explorer.cache.team import publish as published
from explorer.forking import ForkLock

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
    files = (f for folder in folders for f in sorted((root / folder).rglob("*.py")))
    return _digest(file.read_bytes() for file in files)  # one at a time: all are 5 MB


LIMIT = "IRONWORKS_CACHE_LIMIT"

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
