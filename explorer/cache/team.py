"""A folder of entries that a team shares: one user publishes it, the others only read it.

It is used where it is named together with its owner. What lies in it is loaded as code, so that
its owner is trusted as one trusts oneself; nobody else may write there.
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
from explorer.counters import counters
from explorer.errors import CacheError

FOLDER, OWNER = "IRONWORKS_TEAM_CACHE", "IRONWORKS_TEAM_OWNER"
PRIVATE = frozenset({"other"})  # kinds that are nobody else's: faults, what was counted


@dataclass(frozen=True, slots=True)
class Published:
    """How many entries a team's folder got, and how many it had already."""

    folder: str
    added: int
    added_bytes: int
    known: int


class TeamStore:
    """A folder that is only read. Raises ``CacheError`` where it does not belong to its owner, or
    others can write there; where it is not there, it is empty, and that is said once.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder, self.owner = folder, owner
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """The payload under this key, or None if it is not there or not intact."""
        payload = None
        with suppress(OSError), self._opened() as (folder, uid):
            payload = entry.read(folder, key, uid)
        if payload is not None:
            counters.add("cache_hits_team")
        return payload

    def has(self, key: str) -> bool:
        """Whether there is an entry under this key, intact or not."""
        with suppress(OSError), self._opened() as (folder, _):
            os.stat(entry.entry_name(key), dir_fd=folder, follow_symlinks=False)
            return True
        return False

    def stats(self) -> DiskStats:
        """What the folder holds; nothing where it is not there."""
        with suppress(OSError), self._opened() as (folder, _):
            return stats_of(self.folder, folder, 0)
        return DiskStats(str(self.folder), 0, 0, 0)

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        """The folder as a descriptor, and its owner."""
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
        first, self._warned = not self._warned, True
        if first:
            warnings.warn(
                f"the team's cache folder {self.folder} could not be read ({problem.strerror})",
                RuntimeWarning,
                stacklevel=6,
            )


def publish(private: DiskStore, folder: Path) -> Published:
    """After: the folder, which is made where it is not there, holds what the private one does.

    Raises ``CacheError`` where it is not this user's, or others can write there.
    """
    uid, added, size, known = os.geteuid(), 0, 0, 0
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
                    known += 1
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
    return Published(str(folder), added, size, known)


def _descriptor(folder: Path) -> int:
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
    if about.st_uid != uid:
        raise CacheError(
            f"the team's cache folder {folder} belongs to {_name(about.st_uid)} and not to "
            f"{owner}, so it is not used",
            where=folder,
            expected=owner,
            found=_name(about.st_uid),
            try_=f"set {OWNER} to who publishes it, if you trust them as yourself",
        )
    if about.st_mode & 0o022:
        raise CacheError(
            f"the team's cache folder {folder} can be written by others than its owner, so it is "
            f"not used",
            where=folder,
            expected="mode 755",
            found=f"mode {stat.S_IMODE(about.st_mode):03o}",
            try_=f"{owner} publishes it anew, after chmod 755 and removing what is in it",
        )


def _user(owner: str, folder: Path) -> int:
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        said = f"{owner!r}, whom this machine does not know" if owner else "nobody"
        raise CacheError(
            f"the team's cache folder {folder} is named with {said} as its owner",
            where=folder,
            expected=f"{OWNER}, the name of the user who publishes it",
            found=owner,
        ) from None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
