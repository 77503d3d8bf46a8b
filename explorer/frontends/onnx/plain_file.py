"""A user's file, read by position into our own memory; only weights of decoders are mapped.

A mapped file that shrinks ends the process, and one that is rewritten changes an open model. So
each part is read once, and a modification meanwhile is an error. Large parts are copied to an
unnamed file of our own, and that one is mapped.
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
    """An open regular file; BadModelFile for a pipe, a folder, a device or a socket."""

    def __init__(self, path: Path) -> None:
        """Open the file without waiting for a pipe's writer."""
        self.name = path.name
        self._descriptor = -1
        self._descriptor = os.open(path, FLAGS)  # does not block on a pipe without a writer
        try:
            self._first_stat = self._stat()
        except BadModelFile:
            self.close()
            raise
        self._block, self._block_at = b"", 0

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> PlainFile:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    @property
    def size(self) -> int:
        """The number of bytes when it was opened."""
        return self._first_stat[0]

    def _stat(self) -> tuple[int, ...]:
        status = os.fstat(self._descriptor)
        if not S_ISREG(status.st_mode):
            kind = "a folder" if S_ISDIR(status.st_mode) else "a pipe, a device or a socket"
            raise BadModelFile(f"cannot be read: it is {kind}, not a file")
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def check_unchanged(self) -> None:
        """Raise BadModelFile if the file was modified since it was opened."""
        if self._stat() != self._first_stat:
            raise BadModelFile(f"cannot be read: {self.name} was changed meanwhile; load it again")

    def read(self, first: int, last: int) -> bytes:
        """Return the bytes from one position up to another; fewer at the end of the file."""
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
        """Fill an array of bytes; return True if the file had that many."""
        os.lseek(self._descriptor, first, os.SEEK_SET)
        with os.fdopen(os.dup(self._descriptor), "rb", buffering=0) as file:
            done = 0
            while done < len(target):
                count = file.readinto(target.data[done:])
                if not count:
                    return False
                done += count
        return True

    def map(self) -> np.ndarray:
        """Return the file as bytes mapped in place, for weights that may exceed memory.

        Reading them after another process cut the file off ends this one.
        """
        if not self.size:
            return np.empty(0, np.uint8)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            return np.asarray(np.memmap(file, np.uint8, "r", 0, (self.size,)))

    def map_copy(self, first: int, length: int) -> np.ndarray:
        """Return bytes as an array mapped over a copy on disk, loaded on demand.

        Raises:
            OSError: the disk is full.
        """
        with tempfile.TemporaryFile() as ours:
            for begin, end in self._data_ranges(first, first + length):
                ours.seek(begin - first)
                for at in range(begin, end, COPIED_AT_ONCE):
                    ours.write(self._read(at, min(COPIED_AT_ONCE, end - at)))
            ours.truncate(length)
            return np.asarray(np.memmap(ours, np.uint8, "r", 0, (length,)))

    def _data_ranges(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that are not holes of a sparse file, as far as the system tells."""
        while first < last:
            begin, end = first, last  # if the system reports no holes
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
    """Return the free bytes of the temporary folder."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0
