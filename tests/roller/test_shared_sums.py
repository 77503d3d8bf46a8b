"""Products of few tiles and long sums fill a GPU: threads of a block share each sum where that is
faster, and only there.
"""

from __future__ import annotations

from math import prod

import pytest

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.catalogue import device
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.kernels.normal import normalise
from explorer.rammer.device_sheet_kernels import choose_pair
from explorer.roller.blocks.gpu_candidates import grids
from explorer.roller.blocks.matrix_pieces import sharing
from tests.roller.operators import matmul

GPUS = ("v100", "a100", "h100")
SHAPES = ((1, 1000, 4096), (1, 64, 16384), (16, 1000, 4096), (49, 512, 4608), (64, 64, 4096))
FLOOR_RATIO = 1.2  # of the time that the operands take from memory


def best(m: int, n: int, k: int, gpu: str) -> ThreadBlocks:
    sheet = device(gpu)
    return choose_pair(grids(normalise(matmul(m, n, k)), sheet), sheet).fastest


@pytest.mark.parametrize("gpu", GPUS)
def test_one_row_takes_little_more_than_its_weights_take_from_memory(gpu: str) -> None:
    sheet, n, k = device(gpu), 4096, 4096
    floor_us = 4 * k * n / (sheet.all_gb_per_s(sheet.levels[-1]) * 1e3)
    found = best(1, n, k, gpu)
    assert floor_us <= found.whole_us(sheet) < FLOOR_RATIO * floor_us
    assert found.block is not None and prod(n for _, n in found.block.parts) > 1


@pytest.mark.few(2)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shared_sums_are_faster_than_whole_ones(
    gpu: str, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = best(*shape, gpu).whole_us(device(gpu))
    monkeypatch.setattr(
        "explorer.roller.blocks.gpu_candidates._BlockSearch._share_sums", lambda *_: None
    )
    assert found < 0.8 * best(*shape, gpu).whole_us(device(gpu))


@pytest.mark.few(2)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", [(2048, 2048, 512), (4096, 4096, 64)])
def test_a_product_with_tiles_for_all_units_shares_none(
    gpu: str, shape: tuple[int, int, int]
) -> None:
    block = best(*shape, gpu).block
    assert block is not None and not block.parts


def test_neighbours_divide_what_is_summed() -> None:
    block = thread_block((("n", 8),), 8, (("n", 1),), (("k", 32),))
    found = list(sharing(block, {"k": 96}, device("a100")))
    assert found
    for b in found:
        parts = dict(b.parts).get("k", 1)
        assert 96 % parts == 0 and 96 // parts % dict(b.shared)["k"] == 0
        assert b.threads == 8 * parts
    assert not list(sharing(block, {"k": 37}, device("a100")))[1:]  # a prime: all of it at once
