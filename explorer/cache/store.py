"""Store on disk: one private folder of entries, shared by all processes of one user."""

import errno
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from explorer.cache import entry
from explorer.errors import CacheError
from explorer.process.counters import counters
from explorer.process.forking import ForkLock

LIMIT_BYTES = 2 * 1024**3
LOCK_NAME = ".lock"
LOCK_SECONDS = 10.0
SHARE_AFTER_EVICTION = 0.9  # of the limit, so that the next put does not evict again


@dataclass(frozen=True, slots=True)
class KindStats:
    """Number and size of a folder's entries of one kind."""

    kind: str
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DiskStats:
    """Number and size of a folder's entries, also by kind, the largest first."""

    folder: str
    entries: int
    size_bytes: int
    limit_bytes: int
    kinds: tuple[KindStats, ...] = ()


def stats_of(folder: Path, opened: int, limit_bytes: int) -> DiskStats:
    """Return the statistics of an open folder."""
    sizes: dict[str, list[int]] = {}
    for key, file in entry.entries(opened):
        sizes.setdefault(entry.kind_of(opened, key), []).append(file.st_size)
    kinds = tuple(
        KindStats(kind, len(entry_sizes), sum(entry_sizes)) for kind, entry_sizes in sizes.items()
    )
    ranked = tuple(sorted(kinds, key=lambda k: -k.size_bytes))
    entries, size = sum(k.entries for k in kinds), sum(k.size_bytes for k in kinds)
    return DiskStats(str(folder), entries, size, limit_bytes, ranked)


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of reading every entry: intact ones, and damaged ones that were removed."""

    intact: int
    removed: int


class DiskStore:
    """One private folder of entries, shared by all processes of one user.

    Raises ``CacheError`` if the folder is not private. If it cannot be written, it acts as an empty
    store that stores nothing, and warns once.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """Describe a store; its folder is created by the first write."""
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._lock = ForkLock()
        self._size_bytes: int | None = None  # what this process believes; None: not looked yet
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """Return the payload under this key, or None if it is missing or damaged."""
        entry.entry_name(key)  # refuse an invalid key before touching anything
        try:
            with self._opened(make=False) as folder:
                payload = entry.read(folder, key)
        except OSError:
            payload = None
        counters.add("cache_misses" if payload is None else "cache_hits_disk")
        return payload

    def put(self, key: str, payload: entry.Payload, kind: str = "other") -> bool:
        """Write the payload; return False, and leave nothing half-written, if that fails."""
        entry.entry_name(key)
        size = entry.HEADER.size + len(payload)
        if size > self.limit_bytes:
            return False
        try:
            with self._opened(make=True) as folder:
                entry.write(folder, key, payload, kind)
                if self._grew(folder, size) > self.limit_bytes:
                    self._evict(folder)
        except OSError as problem:
            self._could_not_write(problem)
            return False
        return True

    def has(self, key: str) -> bool:
        """Return True if there is an entry under this key, intact or not."""
        name = entry.entry_name(key)
        try:
            with self._opened(make=False) as folder:
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def discard(self, key: str) -> None:
        """Remove an entry that is intact and of no use to its reader."""
        with suppress(OSError), self._opened(make=False) as folder:
            if entry.remove(folder, key):
                counters.add("cache_damaged")

    def stats(self) -> DiskStats:
        """Return the statistics of the folder; zeros if it does not exist."""
        try:
            with self._opened(make=False) as folder:
                return stats_of(self.folder, folder, self.limit_bytes)
        except OSError:
            return DiskStats(str(self.folder), 0, 0, self.limit_bytes)

    def each(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield key, kind and payload of every intact entry."""
        with suppress(FileNotFoundError), self._opened(make=False) as folder:
            for key, _ in entry.entries(folder):
                payload = entry.read(folder, key)
                if payload is not None:
                    yield key, entry.kind_of(folder, key), payload

    def clear(self) -> int:
        """Remove every entry and return how many there were. Other files stay."""
        try:
            with self._opened(make=False) as folder, self._locked(folder, LOCK_SECONDS):
                gone = [key for key, _ in entry.entries(folder) if entry.remove(folder, key)]
                entry.remove_abandoned(folder)
        except FileNotFoundError:
            return 0
        except Timeout:
            raise self._error(
                f"the cache at {self.folder} is held by another process, so it was not cleared",
                try_="wait for it to end, then clear again",
            ) from None
        except OSError as problem:
            raise self._error(
                f"the cache at {self.folder} could not be cleared: {problem.strerror}"
            ) from problem
        with self._lock:
            self._size_bytes = None
        return len(gone)

    def verify(self) -> Verified:
        """Read every entry and remove those whose checksum is wrong."""
        intact = removed = 0
        try:
            with self._opened(make=False) as folder:
                for key, _ in entry.entries(folder):
                    damaged = entry.read(folder, key) is None
                    removed += damaged
                    intact += not damaged
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise self._error(
                f"the cache at {self.folder} could not be read: {problem.strerror}"
            ) from problem
        return Verified(intact, removed)

    @contextmanager
    def _opened(self, *, make: bool) -> Iterator[int]:
        """Open the folder as a descriptor, so that the folder that was checked is the one used."""
        if make:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as problem:
            if problem.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            raise self._error(
                f"the cache folder {self.folder} is a link or a file, not a folder of its own",
                expected="a folder",
                try_="set IRONWORKS_CACHE to the real folder",
            ) from problem
        try:
            self._refuse_if_shared(os.fstat(folder))
            yield folder
        finally:
            os.close(folder)

    def _refuse_if_shared(self, folder: os.stat_result) -> None:
        """Raise CacheError if the folder belongs to another user or others can write to it."""
        if folder.st_uid != os.geteuid():
            raise self._error(
                f"the cache folder {self.folder} belongs to another user, so it is not used",
                expected=f"owner {os.geteuid()}",
                actual=f"owner {folder.st_uid}",
                try_="set IRONWORKS_CACHE to a folder of your own",
            )
        if folder.st_mode & 0o022:
            raise self._error(
                f"the cache folder {self.folder} can be written by others, so it is not used",
                expected="mode 700",
                actual=f"mode {stat.S_IMODE(folder.st_mode):03o}",
                try_=f"chmod 700 {self.folder}, then clear it",
            )

    def _error(self, sentence: str, **fields: str) -> CacheError:
        """Return a CacheError about the folder."""
        return CacheError(sentence, where=self.folder, **fields)

    def _grew(self, folder: int, size: int) -> int:
        """Add the size of a new entry and return the size of the folder."""
        with self._lock:
            if self._size_bytes is None:
                self._size_bytes = sum(file.st_size for _, file in entry.entries(folder))
            else:
                self._size_bytes += size
            return self._size_bytes

    def _evict(self, folder: int) -> None:
        """Remove the least recently used entries until the folder is within its bound."""
        try:
            with self._locked(folder, wait_seconds=0):
                oldest_first = sorted(entry.entries(folder), key=lambda keyed: keyed[1].st_mtime_ns)
                size_bytes = sum(file.st_size for _, file in oldest_first)
                for key, file in oldest_first:
                    if size_bytes <= self.limit_bytes * SHARE_AFTER_EVICTION:
                        break
                    if entry.remove(folder, key):
                        counters.add("cache_evictions")
                    size_bytes -= file.st_size
                entry.remove_abandoned(folder)
        except Timeout:
            return  # another process is evicting
        with self._lock:
            self._size_bytes = size_bytes

    @contextmanager
    def _locked(self, folder: int, wait_seconds: float) -> Iterator[None]:
        """Lock the removal of entries to one process; readers and writers need no lock."""
        with suppress(FileExistsError):
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
            os.close(os.open(LOCK_NAME, flags, 0o600, dir_fd=folder))
        with FileLock(self.folder / LOCK_NAME, timeout=wait_seconds, mode=0o600):
            yield

    def _could_not_write(self, problem: OSError) -> None:
        """Count a failed write, and warn at the first one."""
        counters.add("cache_write_failures")
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            reason = problem.strerror or type(problem).__name__
            warnings.warn(
                f"results are not kept on disk: {self.folder} could not be written ({reason})",
                RuntimeWarning,
                stacklevel=4,
            )
