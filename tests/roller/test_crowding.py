"""A right operand whose rows share cache sets is copied into panels; others are read in place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import ShapeEnv
from explorer.roller.policy import candidates
from explorer.roller.tiles.inside import depth_block
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


@pytest.mark.parametrize("n", [512, 1040, 1344])
def test_rows_that_spread_over_the_sets_stay(n: int) -> None:
    assert not packs(128, n, 1024 if n > 512 else 512)


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
