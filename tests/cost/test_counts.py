"""What the model counts: register tiles, edges, runs, packing, and lines that drive each other out
of a cache.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.cost.counts import VECTOR, miss_cycles
from explorer.cost.estimate import Estimate, kernel_terms, tasks
from explorer.devices.costs import NAMES
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.running import running
from explorer.measure.fit import elementwise, product
from tests.roller.test_policy import DEVICE
from tests.sample_kernels import batched_product, convolution, layer_norm, reduction, transpose

ONE = replace(DEVICE, units=1)


def count(kernel: Kernel, tiling: Tiling, name: str) -> float:
    """How often all tasks together do one thing."""
    return Estimate(kernel, tiling, DEVICE, once=True).counts({}).each[NAMES.index(name)]


def us(kernel: Kernel, tiling: Tiling) -> float:
    return sum(x for _, x in kernel_terms(kernel, tiling, ONE, {}))


def test_register_tiles_cover_rows_and_columns() -> None:
    kernel = product(64, 32, 96)
    assert count(kernel, Tiling((), Micro(8, 2)), "tile") == 8 * 3
    assert count(kernel, Tiling((), Micro(9, 2)), "tile") == 8 * 3
    assert count(kernel, Tiling((("e0", 20),), Micro(8, 2)), "tile") == (3 * 3 + 1) * 3


def test_multiplying_takes_what_the_units_can_do_at_best() -> None:
    kernel = product(64, 512, 64)
    made = Estimate(kernel, Tiling((), Micro(8, 2)), DEVICE, once=True).counts({})
    assert made.multiply == 64 * 512 * 64 / (16 * 2)
    narrow = Estimate(kernel, Tiling((), Micro(1, 2)), DEVICE, once=True).counts({})
    assert narrow.multiply > 3 * made.multiply  # the latency of a sum shows


def test_the_last_tile_of_an_axis_counts_with_its_own_size() -> None:
    kernel = elementwise((100, 64), "add")
    whole = count(kernel, Tiling(), "vector")
    for size in (1, 7, 33, 99):
        assert count(kernel, Tiling((("a0", size),)), "vector") == whole


def test_axes_that_are_one_in_memory_are_one_run() -> None:
    kernel = elementwise((10, 8, 16), "add")
    assert count(kernel, Tiling(), "run") == 1
    assert count(kernel, Tiling((("a0", 5),)), "run") == 2
    assert count(kernel, Tiling((("a1", 4),)), "run") == 20
    assert count(kernel, Tiling((("a2", 8),)), "run") == 160


def test_columns_of_constants_are_packed_ahead_and_others_in_the_tile() -> None:
    assert count(product(64, 32, 64), Tiling((), Micro(8, 2)), "pack") == 0
    open_ = product(64, 32, 60, constant=False)
    assert count(open_, Tiling((), Micro(8, 2)), "pack") == 32 * 64
    even = product(64, 32, 64, constant=False)
    assert count(even, Tiling((), Micro(8, 2)), "pack") == 0  # its rows are panels as they lie
    assert count(even, Tiling((), Micro(8, 2), True), "pack") == 32 * 64
    turned = batched_product(2, 64, 32, 64, turned=True)
    assert count(turned, Tiling((), Micro(8, 2)), "turn") == 2 * 32 * 64


def test_rows_at_an_edge_go_through_l1_where_no_tile_can_be_moved_back() -> None:
    kernel = product(64, 32, 64)
    assert count(kernel, Tiling((), Micro(9, 2)), "edge_row") == 0
    assert count(kernel, Tiling((("e0", 30),), Micro(9, 2)), "edge_row") > 0
    assert count(product(64, 32, 70), Tiling((), Micro(8, 2)), "edge_row") == 64


def test_what_an_axis_does_not_change_is_not_counted_for_it() -> None:
    assert count(layer_norm(7, 64), Tiling(), "function") == 0


@pytest.mark.parametrize("kernel", [product(30, 20, 40), reduction(40, 64, 0)])
def test_a_kernel_takes_its_tasks_and_the_imbalance_of_the_last_ones(kernel: Kernel) -> None:
    last = kernel.computes[-1].axes[0].name
    for size in (1, 2, 7, 16):
        tiling = Tiling(((last, size),), Micro(4, 1))
        number = tasks(kernel, tiling, {})
        one = sum(x for _, x in Estimate(kernel, tiling, DEVICE).terms({}))
        whole = dict(kernel_terms(kernel, tiling, DEVICE, {}))
        even = one * number / DEVICE.units
        assert sum(whole.values()) == pytest.approx(even + whole["load imbalance"])
        assert -1e-9 <= whole["load imbalance"] <= 1.5 * one
        assert whole["load imbalance"] > 0 or number % 2 == 0


def test_lines_of_one_set_drive_each_other_out() -> None:
    assert miss_cycles(6, 4096, DEVICE) == 0
    assert miss_cycles(64, 4096, DEVICE) == 20
    assert miss_cycles(1024, 4096, DEVICE) == 120
    assert miss_cycles(64, 4096 + 64, DEVICE) == 0


def test_what_a_miss_waits_and_how_far_a_core_fetches_ahead_are_the_devices() -> None:
    slow = replace(DEVICE, costs=replace(DEVICE.costs, misses=(30.0, 200.0)))
    assert (miss_cycles(64, 4096, slow), miss_cycles(1024, 4096, slow)) == (30, 200)
    kernel, cut = transpose((1024, 1024), (1, 0)), Tiling((("a1", 64),))
    far = replace(ONE, costs=replace(ONE.costs, prefetched_pages=64))
    assert sum(t for _, t in kernel_terms(kernel, cut, far, {})) < us(kernel, cut)


def test_a_transpose_that_walks_many_lines_of_one_set_takes_longer() -> None:
    power, odd = transpose((1024, 1024), (1, 0)), transpose((1040, 1040), (1, 0))
    bad = Tiling((("a1", 24),))
    assert us(power, bad) > 3 * us(odd, bad)


def test_a_cut_of_the_columns_of_an_image_costs_the_run_of_its_rows() -> None:
    kernel = convolution(28, 64, 64, 1)
    assert us(kernel, Tiling((("e1", 5),), Micro(8, 2))) > us(kernel, Tiling((), Micro(8, 2)))


def test_one_unit_has_nobody_to_wait_for() -> None:
    kernel = reduction(512, 1024, 0)
    for size in (832, 480, 31):
        whole = dict(kernel_terms(kernel, Tiling((("j", size),)), ONE, {}))
        assert whole["load imbalance"] == pytest.approx(0.0, abs=1e-9)


def test_narrow_columns_of_wide_rows_begin_a_page_for_each_row() -> None:
    kernel = reduction(512, 1024, 0)
    few, many = Tiling((("j", 256),)), Tiling((("j", 16),))
    assert us(kernel, many) > 2 * us(kernel, few)


def test_a_running_reduction_over_nothing_is_counted() -> None:
    x, y = TensorSpec("x", (3, 0)), TensorSpec("y", (3, 0))
    before = Read("x", (var("i"), var("j") - var("k")), 0.0)
    compute = Compute("y", (Axis("i", 3), Axis("j", 0)), before, (Axis("k", 0),), "sum")
    kernel = Kernel("sums", (x, y), (compute,), ("x",), ("y",))
    assert running(kernel, compute) is not None
    made = Estimate(kernel, Tiling(), DEVICE, once=True).counts({})
    assert made.each[VECTOR] <= 9  # its start, at most
