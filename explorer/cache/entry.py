"""File format of one cache entry: a header with the checksum, then the payload.

An entry is intact or it counts as missing. The folder is given as an open descriptor.
"""

import errno
import os
import re
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import TypeAlias

from explorer.process.counters import counters

MAGIC = b"IRONWORK"
VERSION = 1
HEADER = struct.Struct("<8sHHQ32s")  # magic, version, kind, payload bytes, blake2b of all it is
KINDS = ("other", "kernel", "program", "constant", "search", "measurement", "parts of keys")
KEY = re.compile(r"[0-9a-f]{32,128}")
ENTRY_SUFFIX = ".entry"
WRITING_PREFIX = ".writing-"
ABANDONED_SECONDS = 600.0  # a temporary file this old belongs to a process that was killed
Payload: TypeAlias = bytes | memoryview  # of single bytes


def entry_name(key: str) -> str:
    """Return the file name of this key's entry; ``ValueError`` if the key is not a hex digest."""
    if not KEY.fullmatch(key):
        raise ValueError(f"a cache key is 32 to 128 lowercase hex digits; found {key!r}")
    return key + ENTRY_SUFFIX


def _digest(key: str, kind: int, payload: Payload) -> bytes:
    """Return the checksum of key, kind and payload."""
    state = blake2b(f"{key}\n".encode(), digest_size=32, person=bytes((kind,)))
    state.update(payload)
    return state.digest()


def read(folder: int, key: str, owner: int | None = None) -> bytes | None:
    """Return the payload of an intact entry, or None.

    In the user's own folder a damaged entry is removed and counted, and the use is recorded. In a
    folder of another `owner` nothing is changed.
    """
    name = entry_name(key)
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as problem:
        if problem.errno not in (errno.ELOOP, errno.EMLINK):  # a link is never an entry
            raise
        payload = None
    else:
        try:
            payload = _intact_payload(file, key, os.geteuid() if owner is None else owner)
            if owner is None and payload is not None:
                with suppress(OSError):
                    os.utime(file)  # eviction goes by last use
        finally:
            os.close(file)
    if payload is None and owner is not None:
        counters.add("cache_damaged_team")
    elif payload is None:
        counters.add("cache_damaged")
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
    return payload


def _intact_payload(file: int, key: str, owner: int) -> bytes | None:
    """Return the payload of an open entry file, or None if anything about it is wrong."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != owner or about.st_mode & 0o022:
        return None
    with os.fdopen(file, "rb", closefd=False) as entry:
        header = entry.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        magic, version, kind, length, digest = HEADER.unpack(header)
        if (magic, version, length) != (MAGIC, VERSION, about.st_size - HEADER.size):
            return None
        payload = entry.read(length)
    if len(payload) != length or kind >= len(KINDS) or _digest(key, kind, payload) != digest:
        return None
    return payload


def write(
    folder: int, key: str, payload: Payload, kind: str = "other", *, mode: int = 0o600
) -> None:
    """Write an entry atomically.

    Nothing waits for the disk: the checksum detects what a power cut leaves.
    """
    number = KINDS.index(kind)
    header = HEADER.pack(MAGIC, VERSION, number, len(payload), _digest(key, number, payload))
    writing = f"{WRITING_PREFIX}{os.urandom(16).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    file = os.open(writing, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as entry:
            os.fchmod(file, mode)
            entry.writelines((header, payload))
        os.replace(writing, entry_name(key), src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(writing, dir_fd=folder)
        raise


def entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the keys that have an entry, each with the status of its file."""
    for name in os.listdir(folder):
        key = name.removesuffix(ENTRY_SUFFIX)
        if key != name and KEY.fullmatch(key):
            with suppress(FileNotFoundError):  # another process removed it
                yield key, os.stat(name, dir_fd=folder, follow_symlinks=False)


def kind_of(folder: int, key: str) -> str:
    """Return the kind that an entry states, or "other"."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(entry_name(key), flags, dir_fd=folder)
        with os.fdopen(file, "rb", buffering=0) as entry:
            header = entry.read(HEADER.size)
        if len(header) == HEADER.size and (kind := HEADER.unpack(header)[2]) < len(KINDS):
            return KINDS[kind]
    return KINDS[0]


def remove(folder: int, key: str) -> bool:
    """Remove an entry; return False if it was gone already."""
    with suppress(FileNotFoundError):
        os.unlink(entry_name(key), dir_fd=folder)
        return True
    return False


def remove_abandoned(folder: int) -> None:
    """Remove old temporary files of writers that were killed."""
    for name in os.listdir(folder):
        if name.startswith(WRITING_PREFIX):
            with suppress(OSError):
                age = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                if age >= ABANDONED_SECONDS:
                    os.unlink(name, dir_fd=folder)
