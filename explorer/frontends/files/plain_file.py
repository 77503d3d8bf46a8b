"""A file of somebody else's, read by position: what is read becomes ours, and nothing is mapped.

A mapped file that shrinks ends the process, and one that is rewritten changes under a model that is
open. So what is needed is read, once, and a file that changed meanwhile is said so. What is large
comes to a file of our own that no other process can name, and that one is mapped.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import numpy as np

from explorer.errors import BadModelFile

BLOCK_BYTES = 1 << 16
COPIED_AT_ONCE = 8 << 20
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class PlainFile:
    """An open file; BadModelFile where it is a pipe, a folder, a device or a socket."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._descriptor = -1
        self._descriptor = os.open(path, FLAGS)  # a pipe without a writer is not waited for
        try:
            self._first_seen = self._seen()
        except BadModelFile:
            self.close()
            raise
        self._block, self._block_at = b"", 0

    def close(self) -> None:
        """Give the file back to the system."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """How many bytes it had when it was opened."""
        return self._first_seen[0]

    def _seen(self) -> tuple[int, ...]:
        found = os.fstat(self._descriptor)
        if not S_ISREG(found.st_mode):
            kind = "a folder" if S_ISDIR(found.st_mode) else "a pipe, a device or a socket"
            raise BadModelFile(f"cannot be read: it is {kind}, not a file")
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def check_unchanged(self) -> None:
        """BadModelFile where it was written to since it was opened."""
        if self._seen() != self._first_seen:
            raise BadModelFile(f"cannot be read: {self.name} was changed meanwhile; load it again")

    def read(self, first: int, last: int) -> bytes:
        """The bytes from one position up to another; fewer where the file ends before."""
        begin = first - self._block_at
        if begin < 0 or last - self._block_at > len(self._block):
            if last - first > BLOCK_BYTES // 2:
                return self._read(first, last - first)
            self._block, self._block_at = self._read(first, BLOCK_BYTES), first
            begin = 0
        return self._block[begin : begin + last - first]

    def _read(self, first: int, count: int) -> bytes:
        parts = []
        while count > 0:
            os.lseek(self._descriptor, first, os.SEEK_SET)
            part = os.read(self._descriptor, min(count, 1 << 30))
            if not part:
                break
            parts.append(part)
            first, count = first + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, target: np.ndarray, first: int) -> bool:
        """Fill an array of bytes; whether the file had that many."""
        os.lseek(self._descriptor, first, os.SEEK_SET)
        with os.fdopen(os.dup(self._descriptor), "rb", buffering=0) as file:
            done = 0
            while done < len(target):
                count = file.readinto(target.data[done:])
                if not count:
                    return False
                done += count
        return True

    def copied(self, first: int, length: int) -> np.ndarray:
        """These bytes as an array over a copy on the disk, of which what is read becomes memory.

        Raises OSError where the disk is full.
        """
        with tempfile.TemporaryFile() as ours:
            for begin, end in self._written(first, first + length):
                ours.seek(begin - first)
                for at in range(begin, end, COPIED_AT_ONCE):
                    ours.write(self._read(at, min(COPIED_AT_ONCE, end - at)))
            ours.truncate(length)
            return np.asarray(np.memmap(ours, np.uint8, "r", 0, (length,)))

    def _written(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Where the file holds more than zeros that take no room, as far as the system tells."""
        while first < last:
            begin, end = first, last  # where nothing is told
            if hasattr(os, "SEEK_DATA"):
                try:
                    begin = os.lseek(self._descriptor, first, os.SEEK_DATA)
                    end = os.lseek(self._descriptor, begin, os.SEEK_HOLE)
                except OSError as error:
                    if error.errno == errno.ENXIO:  # zeros up to the end
                        return
            yield begin, min(end, last)
            first = end


def room_on_disk() -> int:
    """How many bytes a copy may take."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0
