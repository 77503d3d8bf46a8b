"""Rows that data select are what a task reads, not the table that they are rows of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as enp
from explorer.cost.parts import gathered_regions
from explorer.cost.traffic import traffic
from explorer.devices.hardware import Options as Hardware
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate


def kernel_of(model: Any) -> Kernel:
    c = explorer.compile(model, until="rolled")
    return normalise(next(b.kernel_call.kernel for b in c.program.kernel_calls))


def embedding(words: int, width: int = 64) -> Any:
    table = np.ones((words, width), np.float32)

    @explorer.trace
    def model(i: explorer.tensor("int64", 128)) -> Any:  # type: ignore[valid-type]
        return enp.take(table, i, axis=0)

    return model


def test_a_row_is_read_for_each_place_and_no_table() -> None:
    kernel = kernel_of(embedding(500))
    table = next(t for t in kernel.inputs if kernel.shape(t) == (500, 64))
    store = kernel.computes[-1].axes
    for tile, rows in (({}, 128), ({store[0].name: 2}, 2), ({store[1].name: 8}, 128)):
        places, columns = gathered_regions(kernel, propagate(kernel, tile))[table]
        assert places.size == rows and columns.size == tile.get(store[1].name, 64)


@pytest.mark.few(1)
@pytest.mark.parametrize("line_bytes", [1, 32, 64])
def test_rows_of_a_table_move_as_rows(line_bytes: int) -> None:
    """Each of their elements was a line of its own: BERT's words moved 6.3 MB, not 0.4."""
    kernel = kernel_of(embedding(30_522, 768))
    table = next(t for t in kernel.inputs if kernel.shape(t) == (30_522, 768))
    rows, columns = (a.name for a in kernel.computes[-1].axes)
    for tile in ({}, {rows: 16}, {columns: 16}, {rows: 1, columns: 256}):
        found = traffic(kernel, tile, line_bytes=line_bytes)
        row_bytes = 4 * tile.get(columns, 768)
        loaded = next(t.bytes for t in found.loaded if t.tensor == table)
        assert loaded == tile.get(rows, 128) * row_bytes


def test_elements_that_data_selects_move_in_lines_of_their_own() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", 4096), i: explorer.tensor("int64", 32)) -> Any:  # type: ignore[valid-type]
        return enp.take(x, i, axis=0)

    kernel = kernel_of(model)
    loaded = {t.tensor: t.bytes for t in traffic(kernel, {}, line_bytes=64).loaded}
    assert sorted(loaded.values()) == [8 * 32, 64 * 32]


def test_of_a_table_that_is_read_otherwise_too_nothing_is_said() -> None:
    table = np.ones((20, 16), np.float32)

    @explorer.trace
    def model(i: explorer.tensor("int64", 20)) -> Any:  # type: ignore[valid-type]
        return enp.take(table, i, axis=0) + table

    kernel = kernel_of(model)
    first = kernel.computes[-1].axes[0].name
    assert gathered_regions(kernel, propagate(kernel, {first: 4})) == {}


@pytest.mark.parametrize("units", [2, 64])
def test_a_long_table_takes_no_longer(units: int) -> None:
    """Each of 64 units read all of it in the plan, and BERT's words took 19 ms, not 0.1."""
    short, long = (
        explorer.compile(embedding(n), until="planned").with_options(
            hardware=Hardware({"units": units})  # type: ignore[arg-type]
        )
        for n in (2_000, 60_000)
    )
    assert long.planned_wall().total_us < 12 * short.planned_wall().total_us  # DRAM, no cache
