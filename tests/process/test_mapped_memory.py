"""Pages of mapped files leave the process, and arrays are read in place."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from explorer.process.mapped_memory import drop_pages, is_mapped

SIZE = 8 << 20


def file_bytes() -> int:
    """The bytes of mapped files in this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("RssFile")) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory")
def test_dropped_pages_take_no_memory_and_are_read_again(tmp_path: Path) -> None:
    data = np.arange(SIZE // 8)
    (tmp_path / "file").write_bytes(data.tobytes())
    mapped = np.asarray(np.memmap(tmp_path / "file", np.int64, "r"))
    part = mapped[1000:]
    before = file_bytes()
    assert part.sum() == data[1000:].sum()
    assert file_bytes() - before > SIZE // 2
    drop_pages(part)
    assert file_bytes() - before < SIZE // 4
    np.testing.assert_array_equal(mapped, data)


def test_arrays_in_memory_of_their_own_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(64))
    mapped = np.asarray(np.memmap(tmp_path / "file", np.uint8, "r"))
    assert is_mapped(mapped) and is_mapped(mapped[3:9].reshape(2, 3))
    assert not is_mapped(mapped[::2]) and not is_mapped(mapped.copy())
    written = np.memmap(tmp_path / "file", np.uint8, "r+")
    assert not is_mapped(np.asarray(written))
    own = np.ones(4)
    drop_pages(own)
    assert own.sum() == 4
