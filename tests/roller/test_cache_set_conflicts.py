"""Cache-set conflicts of a right operand: copied into panels, or read in place."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.devices.model import LINE_BYTES, MemoryLevel
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import normalise
from explorer.roller.contraction_in_tile import depth_block, has_set_conflicts
from explorer.roller.policy import candidates
from tests.roller.test_policy import DEVICE


def product(m: int, n: int, k: int) -> Kernel:
    axes, over = (Axis("m", m), Axis("n", n)), (Axis("k", k),)
    expr = Apply("mul", (Read("a", (var("m"), var("k"))), Read("b", (var("k"), var("n")))))
    specs = (TensorSpec("a", (m, k)), TensorSpec("b", (k, n)), TensorSpec("y", (m, n)))
    return Kernel("product", specs, (Compute("y", axes, expr, over, "sum"),), ("a", "b"), ("y",))


def packs(m: int, n: int, k: int) -> bool:
    best = next(candidates(normalise(product(m, n, k)), DEVICE, ShapeEnv(), {}))
    assert isinstance(best.value, Tiling)
    return best.value.pack


def test_rows_a_page_apart_are_packed() -> None:
    assert packs(128, 1024, 1024)


@pytest.mark.parametrize(("n", "k"), [(512, 512), (512, 128), (1344, 1024)])
def test_rows_that_crowd_in_the_nearest_cache_alone_are_packed(n: int, k: int) -> None:
    """They fit the next one: read from there in place, products of 32 rows and more took up to 1.8
    times as long (Zen 3, 128 x 512 x 512: 1.16 to 1.44 ms instead of 0.82).
    """
    assert packs(128, n, k)


@pytest.mark.parametrize(("n", "k"), [(1040, 1024), (1072, 1024), (528, 512), (512, 24)])
def test_rows_that_spread_over_the_sets_stay(n: int, k: int) -> None:
    assert not packs(128, n, k)


@given(st.integers(1, 768), st.integers(1, 200), st.sampled_from([(8, 64), (12, 64), (8, 1024)]))
def test_rows_are_crowded_where_a_cache_does_not_keep_them_for_the_next_time(
    rows: int, lines_apart: int, cache: tuple[int, int]
) -> None:
    """Of no more lines than the cache has: judged by one that is simulated, least recently used
    lines going first.
    """
    ways, sets = cache
    rows = min(rows, ways * sets)
    level = MemoryLevel("near", ways * sets * LINE_BYTES, 100.0, LINE_BYTES, ways=ways)
    device = replace(DEVICE, levels=(level, *DEVICE.levels[2:]))
    kernel = product(64, lines_apart * LINE_BYTES // 4, rows)
    found = contraction(kernel.computes[0])
    assert found is not None
    held: dict[int, OrderedDict[int, None]] = {}
    missed = 0
    for line in [r * lines_apart for r in range(rows)] * 2:
        kept = held.setdefault(line % sets, OrderedDict())
        missed += line not in kept
        kept[line] = None
        kept.move_to_end(line)
        if len(kept) > ways:
            kept.popitem(last=False)
    assert has_set_conflicts(kernel, found, device, {}) == (missed > rows)


def test_few_rows_do_not_pay_for_a_copy() -> None:
    assert not packs(8, 1024, 1024)


@pytest.mark.parametrize(("k", "block"), [(8192, depth_block(DEVICE)), (512, 0)])
def test_long_sums_over_many_rows_are_done_in_blocks(k: int, block: int) -> None:
    kernel = replace(product(128, 512, k), constants=frozenset({"b"}))
    best = next(candidates(normalise(kernel), DEVICE, ShapeEnv(), {}))
    assert isinstance(best.value, Tiling)
    assert best.value.depth_block == block


@pytest.mark.parametrize(
    ("near_bytes", "lanes", "block"), [(48 << 10, 16, 768), (32 << 10, 8, 1024)]
)
def test_a_block_is_as_long_as_the_nearest_cache_holds(
    near_bytes: int, lanes: int, block: int
) -> None:
    near = replace(DEVICE.levels[0], capacity_bytes=near_bytes)
    device = replace(DEVICE, lanes=lanes, levels=(near, *DEVICE.levels[1:]))
    assert depth_block(device) == block
