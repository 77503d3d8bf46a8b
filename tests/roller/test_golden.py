"""Roller's published numbers: the ten tiles of a 4096^3 product on a V100, and the small ones."""

from __future__ import annotations

import pytest

from explorer.devices.catalogue import device
from explorer.ir.dims import Sizes
from explorer.roller.construct.alignment import bank_padding
from explorer.roller.construct.construct import Growth, construct
from explorer.roller.construct.enlarge import operator_traffic
from explorer.roller.construct.expression import expression_of
from explorer.roller.construct.rtile import RTile
from tests.roller.operators import matmul

NONE: Sizes = {}
FIRST_TEN = (
    (128, 64, 8), (128, 128, 8), (128, 128, 32), (256, 64, 8), (256, 64, 32),
    (128, 64, 32), (64, 128, 8), (64, 256, 8), (64, 256, 32), (64, 128, 32),
)  # fmt: skip


def test_the_ten_tiles_of_4096_cubed_on_a_v100_come_in_the_artifacts_order() -> None:
    found = construct(matmul(4096, 4096, 4096), device("v100"))
    assert tuple(p.tile(0).shape for p in found.results) == FIRST_TEN
    assert {p.tile(1).shape for p in found.results} == {(8, 4, 1)}
    assert {p.threads for p in found.results} == {256, 512}
    assert (found.visited, found.eps, found.policy) == (47, 0.0, "compute bound")
    assert not any(p.border or p.shrunk_from for p in found.results)


def test_the_tutorials_best_is_the_sixth() -> None:
    found = construct(matmul(4096, 4096, 4096), device("v100"))
    best = found.results[5]
    assert (best.tile(0).shape, best.tile(1).shape) == ((128, 64, 32), (8, 4, 1))


def test_1000_columns_need_a_fifth_of_waste() -> None:
    found = construct(matmul(128, 1000, 2048), device("v100"), NONE, Growth(shrink=False))
    assert found.eps == 0.2
    assert [(r.eps, r.results) for r in found.rounds] == [(0.0, 0), (0.2, 10)]
    assert found.results[0].tile(0).shape == (128, 96, 8)


def test_rows_of_4_read_one_by_one_from_4_banks_are_padded_by_1() -> None:
    assert bank_padding(4, 1, 4) == 1


@pytest.mark.parametrize(("tile", "reads"), [((1, 1), 2.0), ((1, 4), 1.25), ((4, 4), 0.5)])
def test_wider_tiles_read_each_operand_less_often(tile: tuple[int, int], reads: float) -> None:
    m, n, k = 64, 128, 32
    found = RTile(expression_of(matmul(m, n, k)), (*tile, k))
    loaded = operator_traffic(found) - 4 * m * n
    assert loaded == reads * 4 * m * n * k


def test_a_tile_of_4_4_2_loads_two_panels_and_writes_a_square() -> None:
    found = RTile(expression_of(matmul(64, 64, 64)), (4, 4, 2))
    assert found.input_tiles == ((4, 2), (2, 4)) and found.output_tile == (4, 4)
    assert found.points * 2 == 32  # multiply-adds of one step
