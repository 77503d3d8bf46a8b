"""The file of one cache entry: a header with the checksum, then the payload.

An entry is whole or it counts as not there. The folder is given as an open descriptor.
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

from explorer.counters import counters

MAGIC = b"IRONWORK"
VERSION = 1
HEADER = struct.Struct("<8sIQ32s")  # magic, version, payload bytes, blake2b of key and payload
KEY = re.compile(r"[0-9a-f]{32,128}")
ENTRY_SUFFIX = ".entry"
WRITING_PREFIX = ".writing-"
ABANDONED_SECONDS = 600.0  # a temporary file this old belongs to a process that was killed


def entry_name(key: str) -> str:
    """The file name of this key's entry; a ``ValueError`` if the key is not a hex digest."""
    if not KEY.fullmatch(key):
        raise ValueError(f"a cache key is 32 to 128 lowercase hex digits; found {key!r}")
    return key + ENTRY_SUFFIX


def _digest(key: str, payload: bytes) -> bytes:
    state = blake2b(f"{key}\n".encode(), digest_size=32)
    state.update(payload)
    return state.digest()


def read(folder: int, key: str) -> bytes | None:
    """The payload of an intact entry; a damaged one is removed and counted."""
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
            payload = _intact_payload(file, key)
        finally:
            os.close(file)
    if payload is None:
        counters.add("cache_damaged")
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
    return payload


def _intact_payload(file: int, key: str) -> bytes | None:
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        return None
    with os.fdopen(file, "rb", closefd=False) as entry:
        header = entry.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        magic, version, length, digest = HEADER.unpack(header)
        if (magic, version, length) != (MAGIC, VERSION, about.st_size - HEADER.size):
            return None
        payload = entry.read(length)
    if len(payload) != length or _digest(key, payload) != digest:
        return None
    with suppress(OSError):
        os.utime(file)  # eviction goes by last use
    return payload


def write(folder: int, key: str, payload: bytes) -> None:
    """After: the entry is whole under its name, or its name is as it was.

    Nothing waits for the disk: of what a power cut leaves, the checksum tells.
    """
    header = HEADER.pack(MAGIC, VERSION, len(payload), _digest(key, payload))
    writing = f"{WRITING_PREFIX}{os.urandom(16).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    file = os.open(writing, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as entry:
            entry.writelines((header, payload))
        os.replace(writing, entry_name(key), src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(writing, dir_fd=folder)
        raise


def entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """The keys that have an entry, each with what its file is."""
    for name in os.listdir(folder):
        key = name.removesuffix(ENTRY_SUFFIX)
        if key != name and KEY.fullmatch(key):
            with suppress(FileNotFoundError):  # another process removed it
                yield key, os.stat(name, dir_fd=folder, follow_symlinks=False)


def remove(folder: int, key: str) -> bool:
    """Remove an entry; False if it was gone already."""
    with suppress(FileNotFoundError):
        os.unlink(entry_name(key), dir_fd=folder)
        return True
    return False


def remove_abandoned(folder: int) -> None:
    """Remove what killed writers left long ago."""
    for name in os.listdir(folder):
        if name.startswith(WRITING_PREFIX):
            with suppress(OSError):
                age = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
                if age >= ABANDONED_SECONDS:
                    os.unlink(name, dir_fd=folder)
