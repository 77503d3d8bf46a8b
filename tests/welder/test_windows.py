"""Windows over what a group makes: weighed where no cache holds it, left alone where one does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx import helper

from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.passes.copies.copies import fold_copies
from explorer.passes.layout.layout import choose_layout
from explorer.roller import Price
from explorer.welder import Weld
from tests.passes.programs import legalized, weights

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
    after = Weld(device, Price(device))(choose_layout(fold_copies(before)))
    graph = after.decisions.tile_graph
    assert graph is not None
    return any({"a", "y"} <= set(g.members) for g in graph.groups)


def test_what_a_cache_holds_is_not_computed_again_by_neighbours(tmp_path: Path) -> None:
    assert not joined(tmp_path, 4 << 20)


def test_windows_that_would_read_from_memory_read_what_their_tile_makes(tmp_path: Path) -> None:
    assert joined(tmp_path, 1 << 20)
