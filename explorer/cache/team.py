"""Folder of entries that a team shares: one user publishes it, the others only read it.

It is used only if it is named together with its owner. Its contents are loaded as code, so the
owner is fully trusted; others must not be able to write there.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from explorer.cache import entry
from explorer.cache.store import DiskStats, DiskStore, stats_of
from explorer.errors import CacheError
from explorer.process.counters import counters

FOLDER, OWNER = "IRONWORKS_TEAM_CACHE", "IRONWORKS_TEAM_OWNER"
PRIVATE = frozenset({"other"})  # kinds that are not shared: faults, counts


@dataclass(frozen=True, slots=True)
class Published:
    """Number of entries added to a team's folder, and number that it had already."""

    folder: str
    added: int
    added_bytes: int
    already_there: int


class TeamStore:
    """Folder that is only read.

    Raises ``CacheError`` if it does not belong to its owner, or others can write to it. If it does
    not exist, it acts as empty and warns once.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        """Describe a team's store by its folder and the name of its owner."""
        self.folder, self.owner = folder, owner
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """Return the payload under this key, or None if it is missing or damaged."""
        payload = None
        with suppress(OSError), self._opened() as (folder, uid):
            payload = entry.read(folder, key, uid)
        if payload is not None:
            counters.add("cache_hits_team")
        return payload

    def has(self, key: str) -> bool:
        """Return True if there is an entry under this key, intact or not."""
        with suppress(OSError), self._opened() as (folder, _):
            os.stat(entry.entry_name(key), dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def stats(self) -> DiskStats:
        """Return the statistics of the folder; zeros if it does not exist."""
        with suppress(OSError), self._opened() as (folder, _):
            return stats_of(self.folder, folder, 0)
        return DiskStats(str(self.folder), 0, 0, 0)

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        """Open the folder as a descriptor, and give it with its owner."""
        uid = _user(self.owner, self.folder)
        try:
            folder = _descriptor(self.folder)
        except OSError as problem:
            self._is_not_there(problem)
            raise
        try:
            _refuse_unless_owned(self.folder, os.fstat(folder), uid, self.owner)
            yield folder, uid
        finally:
            os.close(folder)

    def _is_not_there(self, problem: OSError) -> None:
        """Warn once that the folder cannot be read."""
        first, self._warned = not self._warned, True
        if first:
            warnings.warn(
                f"the team's cache folder {self.folder} could not be read ({problem.strerror})",
                RuntimeWarning,
                stacklevel=6,
            )


def publish(private: DiskStore, folder: Path) -> Published:
    """Copy the entries of the private folder to a team's folder, creating it if needed.

    Raises:
        CacheError: The folder is not this user's, or others can write to it.
    """
    uid, added, size, already_there = os.geteuid(), 0, 0, 0
    try:
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            folder.chmod(0o755)
        opened = _descriptor(folder)
        try:
            _refuse_unless_owned(folder, os.fstat(opened), uid, _name(uid))
            for key, kind, payload in private.each():
                if kind in PRIVATE:
                    continue
                if entry.read(opened, key, uid) == payload:
                    already_there += 1
                    continue
                entry.write(opened, key, payload, kind, mode=0o644)
                added, size = added + 1, size + entry.HEADER.size + len(payload)
        finally:
            os.close(opened)
    except OSError as problem:
        raise CacheError(
            f"the team's cache folder {folder} could not be written: {problem.strerror}",
            where=folder,
        ) from problem
    return Published(str(folder), added, size, already_there)


def _descriptor(folder: Path) -> int:
    """Open a folder without following links."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as problem:
        if problem.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            raise
        raise CacheError(
            f"the team's cache folder {folder} is a link or a file, not a folder of its own",
            where=folder,
            expected="a folder",
            try_=f"set {FOLDER} to the real folder",
        ) from problem


def _refuse_unless_owned(folder: Path, about: os.stat_result, uid: int, owner: str) -> None:
    """Raise CacheError unless the folder is its owner's, who alone can write to it."""
    if about.st_uid != uid:
        raise CacheError(
            f"the team's cache folder {folder} belongs to {_name(about.st_uid)} and not to "
            f"{owner}, so it is not used",
            where=folder,
            expected=owner,
            actual=_name(about.st_uid),
            try_=f"set {OWNER} to who publishes it, if you trust them as yourself",
        )
    if about.st_mode & 0o022:
        raise CacheError(
            f"the team's cache folder {folder} can be written by others than its owner, so it is "
            f"not used",
            where=folder,
            expected="mode 755",
            actual=f"mode {stat.S_IMODE(about.st_mode):03o}",
            try_=f"{owner} publishes it anew, after chmod 755 and removing what is in it",
        )


def _user(owner: str, folder: Path) -> int:
    """Return the id of the owner; raise CacheError if this machine does not know the name."""
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        description = f"{owner!r}, whom this machine does not know" if owner else "nobody"
        raise CacheError(
            f"the team's cache folder {folder} is named with {description} as its owner",
            where=folder,
            expected=f"{OWNER}, the name of the user who publishes it",
            actual=owner,
        ) from None


def _name(uid: int) -> str:
    """Return the name of a user id."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
