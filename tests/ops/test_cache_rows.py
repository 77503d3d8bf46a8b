"""Rows of a cache at run-time positions, of extents that only a run knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.python.tracing.emit import emit
from explorer.frontends.python.tracing.frames import attributed_to_call

tensor = explorer.tensor


@explorer.trace
def append(
    x: tensor("float32", "b", 2, "room", 3),
    rows: tensor("float32", "b", 2, "n", 3),
    at: tensor("int64", "b"),
) -> Any:
    with attributed_to_call("append"):
        return emit("TensorScatter", x, rows, at, axis=2, mode="drop")


@explorer.trace
def put(x: tensor("float32", "room"), y: tensor("float32", "n"), at: tensor("int64")) -> Any:
    with attributed_to_call("put"):
        return emit("SetSlice", x, y, at, axes=(0,))


@pytest.mark.parametrize("positions", [[0, 0], [3, 1], [-2, 2], [-9, 6], [5, 7]])
@pytest.mark.parametrize("donate", [(), ("x",)])
def test_rows_outside_of_a_cache_are_dropped(positions: list[int], donate: Any) -> None:
    rng = np.random.default_rng(0)
    x, rows = (rng.standard_normal((2, 2, n, 3), np.float32) for n in (7, 3))
    expected = x.copy()
    for b, first in enumerate(positions):
        for i in range(3):
            if 0 <= first + i < 7:
                expected[b, :, first + i] = rows[b, :, i]
    c = explorer.compile(append, donate=donate, check=True)
    got = c.run({"x": x.copy(), "rows": rows, "at": np.array(positions)})
    np.testing.assert_array_equal(got["output"], expected)


def test_a_block_of_an_unknown_extent_is_inferred_at_once() -> None:
    """Its extent was compared with every number of a range, which took forever."""
    c = explorer.compile(put)
    got = c.run({"x": np.zeros(5, np.float32), "y": np.ones(2, np.float32), "at": np.array(2)})
    assert got["output"].tolist() == [0, 0, 1, 1, 0]
