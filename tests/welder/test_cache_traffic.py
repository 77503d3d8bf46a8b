"""Traffic of the last cache, as a simulator of it counts, is within a tenth of the model."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from explorer.cost.bind_kernel import extents
from explorer.cost.footprint import footprint, padded_bytes
from explorer.cost.traffic import cached_traffic, traffic
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.tile.lowering.lower import lower
from tests.welder import groups
from tests.welder.cache_simulator import LINE, Cache, Walker


def measured(kernel: Kernel, tiling: Tiling, capacity: int) -> int:
    """Bytes that the simulated cache moved."""
    rng = np.random.default_rng(0)
    arrays = {}
    for t in kernel.tensors:
        shape = evaluate_shape(t.shape, {})
        arrays[t.name] = rng.random(shape, np.float32)
    program = lower(kernel, tiling)
    cache = Cache(capacity)
    walker = Walker(program, arrays, {}, cache)
    walker.run()
    return cache.moved


def modelled(kernel: Kernel, tiling: Tiling, capacity: int) -> int:
    tile = dict(tiling.tile)
    inner = footprint(kernel, tile, inner=True).bytes
    inner += padded_bytes(kernel, propagate(kernel, tile))
    kept = cached_traffic(kernel, tile, capacity, line_bytes=LINE, beside=inner)
    return kept.traffic.total_bytes


I16, H4, ROWS, IJ = (("i", 16),), (("h_y", 4),), (("i", 8),), (("i", 32), ("j", 352))
CASES = [
    ("matmul and softmax", groups.matmul_softmax(384, 64, 128), I16, 80),
    ("the same, rows that do not divide", groups.matmul_softmax(250, 64, 128), I16, 80),
    ("conv, relu and pool", groups.conv_relu_pool(32, 16, 16), H4, 128),
    ("conv, relu and overlapping pool", groups.conv_relu_pool(33, 16, 16, 3), H4, 128),
    ("two convolutions", groups.conv_conv(24, 16, 16), H4, 128),
    ("layer norm", groups.layer_norm(128, 512), ROWS, 64),
    ("chain", groups.chain(128, 512), ROWS, 64),
    ("attention", groups.attention(128, 128, 32), I16, 96),
    ("perceptron", groups.mlp(128, 64, 128), I16, 128),
    ("product, right operand again for all rows", groups.matmul(256, 64, 1056), IJ, 192),
    ("product, right operand kept", groups.matmul(256, 64, 1056), IJ, 512),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "kernel", "tile", "capacity"), CASES, ids=[c[0] for c in CASES])
def test_traffic_is_within_a_tenth_of_the_model(
    name: str, kernel: Kernel, tile: tuple[tuple[str, int], ...], capacity: int
) -> None:
    kernel, tiling = normalise(kernel), Tiling(tile, Micro(6, 2, 16))
    found, expected = (
        measured(kernel, tiling, capacity << 10),
        modelled(kernel, tiling, capacity << 10),
    )
    print(name, found, expected, found / expected)
    assert abs(found - expected) <= 0.1 * expected


@pytest.mark.parametrize("capacity", [64, 512])
def test_each_unit_fetches_what_its_share_of_the_tasks_needs(capacity: int) -> None:
    """Two units with a cache each move what two kernels of half the rows do."""
    both, half = (groups.matmul_softmax(n, 64, 128) for n in (384, 192))
    two = cached_traffic(both, {"i": 16}, capacity << 10, units=2, line_bytes=LINE)
    one = cached_traffic(half, {"i": 16}, capacity << 10, line_bytes=LINE)
    assert two.traffic.total_bytes == 2 * one.traffic.total_bytes


def test_a_tile_that_a_cache_cannot_hold_is_fetched_by_each_task() -> None:
    kernel = groups.matmul_softmax(384, 64, 128)
    kept = cached_traffic(kernel, {"i": 16}, 16 << 10, line_bytes=LINE)
    assert kept.resident_bytes == 0
    assert kept.traffic == traffic(kernel, {"i": 16}, line_bytes=LINE)


@pytest.mark.parametrize("kernel", [c[1] for c in CASES], ids=[c[0] for c in CASES])
def test_a_larger_cache_moves_no_more(kernel: Kernel) -> None:
    tile = {a: max(1, n // 4) for a, n in extents(kernel).items()}
    moved = [
        cached_traffic(kernel, tile, 1 << n, line_bytes=LINE).traffic.total_bytes
        for n in range(10, 24)
    ]
    assert moved == sorted(moved, reverse=True)
    border = (evaluate_shape(kernel.shape(n), {}) for n in (*kernel.inputs, kernel.output))
    assert moved[-1] >= sum(4 * prod(shape) for shape in border)
