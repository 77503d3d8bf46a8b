"""Windows over what a group makes: weighed where no cache holds it, left alone where one does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import explorer
import explorer.np as enp
from explorer.measure.this_cpu import this_cpu
from explorer.roller import Price
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from explorer.welder import Weld
from tests.transforms.programs import legalized, weights

node = helper.make_node


def joined(tmp_path: Path, cache_bytes: int) -> bool:
    """Whether a 1 x 1 convolution and a depthwise one behind it become one kernel, where cores
    share so much cache. What is in between takes 1 MiB, what is read for it 256 KiB.
    """
    nodes = [
        node("Conv", ["x", "w1"], ["a"]),
        node("Conv", ["a", "w2"], ["y"], group=64, pads=[1, 1, 1, 1]),
        node("Conv", ["y", "w3"], ["z"]),
    ]
    constants = {
        "w1": weights(64, 16, 1, 1), "w2": weights(64, 1, 3, 3, seed=1),
        "w3": weights(16, 64, 1, 1, seed=2),
    }  # fmt: skip
    before = legalized(tmp_path, nodes, {"x": (1, 16, 64, 64)}, ["z"], constants)
    known = this_cpu()
    levels = tuple(
        replace(m, capacity_bytes=cache_bytes) if m.shared and m.capacity_bytes else m
        for m in known.levels
    )
    device = replace(known, levels=levels)
    after = Weld(device, Price(device))(ChooseLayout()(fold_copies(before)))
    graph = after.decisions.tile_graph
    assert graph is not None
    return any({"a", "y"} <= set(g.members) for g in graph.groups)


def test_what_a_cache_holds_is_not_computed_again_by_neighbours(tmp_path: Path) -> None:
    assert not joined(tmp_path, 4 << 20)


def test_windows_that_would_read_from_memory_read_what_their_tile_makes(tmp_path: Path) -> None:
    assert joined(tmp_path, 1 << 20)


@pytest.mark.parametrize("rows", [256, 3 * 254])
def test_what_is_reduced_in_parts_is_computed_where_it_is_read(rows: int) -> None:
    """A part is one piece of rows: no element is read twice, nothing is stored in between."""

    def exponential(x: Any) -> Any:
        return enp.exp(x * 0.5).max()

    largest = explorer.trace(exponential)(explorer.tensor("float32", rows, 301))
    device = replace(this_cpu(), units=2)
    program = explorer.compile(largest, device, until="rolled").program
    assert [b.name for b in program.kernel_calls] == ["reduce_max.y_parts", "reduce_max"]
    x = np.random.default_rng(0).normal(size=(rows, 301)).astype(np.float32)
    for odd in (None, np.nan, np.inf):
        x[rows - 3, 7] = x[rows - 3, 7] if odd is None else odd
        (found,) = explorer.compile(largest).run(x).values()
        np.testing.assert_allclose(found, np.exp(x * np.float32(0.5)).max(), rtol=1e-6)
