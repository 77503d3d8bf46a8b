"""Products of 16-bit floats get blocks of whole pieces of matrices where these are faster, and only
there.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, TensorSpec, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.rammer.device_sheet_kernels import choose_pair
from explorer.roller.blocks.gpu_candidates import grids
from explorer.roller.blocks.matrix_pieces import matrix_blocks, products_of_pieces
from explorer.roller.blocks.thread_block import all_axes
from explorer.roller.construct.expression import heaviest
from tests.codegen.cases import linear
from tests.roller.operators import conv
from tests.tile.gpu.products import CASES, narrow

GPUS = ("a100", "h100", "rtx3090")


def product(m: int, n: int, k: int, dtype: str = "float16") -> Kernel:
    return normalise(narrow(linear(m, k, n, "relu", {}), dtype).kernel)


def best(k: Kernel, gpu: Device) -> ThreadBlocks:
    return choose_pair(grids(k, gpu), gpu).fastest


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_large_products_are_made_on_matrix_units(gpu: str, dtype: str) -> None:
    sheet, k = device(gpu), product(1024, 1024, 1024, dtype)
    found, plain = best(k, sheet), best(k, replace(sheet, unit_matrix_gflops=0.0))
    assert found.block is not None and found.block.matrix and "matrix units" in found.label
    assert plain.block is not None and not plain.block.matrix
    assert found.whole_us(sheet) < 0.3 * plain.whole_us(sheet)


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", GPUS)
def test_no_product_is_faster_than_the_units_are(gpu: str) -> None:
    sheet = device(gpu)
    for m, n, k in ((4096, 4096, 4096), (512, 2048, 256), (256, 256, 8192)):
        us = best(product(m, n, k), sheet).whole_us(sheet)
        assert 2 * m * n * k / us / 1e3 < sheet.matrix_gflops


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", [(1, 1000, 4096), (16, 1024, 1024), (64, 48, 80), (2048, 8, 64)])
def test_matrix_units_make_nothing_slower(gpu: str, shape: tuple[int, int, int]) -> None:
    sheet, k = device(gpu), product(*shape)
    without = replace(sheet, unit_matrix_gflops=0.0)
    assert best(k, sheet).whole_us(sheet) <= 1.06 * best(k, without).whole_us(without)


def test_tiles_are_whole_pieces() -> None:
    sheet = device("a100")
    for c in CASES:
        k = normalise(c.kernel)
        main = heaviest(k, {})
        found = list(matrix_blocks(k, main, sheet, (all_axes(k),)))
        assert found
        for b, label in found:
            rows, columns, depth = b.matrix
            register, shared, tile = dict(b.register), dict(b.shared), dict(b.tile)
            out = {a: all_axes(k)[a][0] for a in (rows, columns)}
            assert register[rows] % 2 == register[columns] % 2 == shared[depth] % 16 == 0
            assert tile.get(out[rows], 16) % (8 * register[rows]) in (0, 16 % (8 * register[rows]))
            assert tile.get(out[columns], 8) % 8 == 0 and b.threads % 32 == 0, label
            assert prod(register.values()) <= sheet.thread_registers


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", GPUS)
def test_pieces_lie_along_what_is_dense_in_memory_where_that_is_faster(gpu: str) -> None:
    """Images with channels first: 32 of them waste nothing, 56 pixels of a row lie together."""
    a, k = axes("a", (32, 56, 256)), Axis("k", 64)
    reads = at("x", (a[0], k, a[1])), at("w", (k, a[2]))
    factors = tuple(Apply("cast_float32", (r,)) for r in reads)
    tensors = tuple(
        TensorSpec(n, shape, "float16") for n, shape in (("x", (32, 64, 56)), ("w", (64, 256)))
    )
    c = Compute("y", a, Apply("mul", factors), (k,), "sum")
    out = TensorSpec("y", (32, 56, 256))
    pixels = Kernel("pixels", (*tensors, out), (c,), ("x", "w"), ("y",))
    found = best(normalise(pixels), device(gpu)).block
    assert found is not None and found.matrix == ("a1", "a2", "k")


def test_what_no_instruction_multiplies_has_no_pieces() -> None:
    sheet = device("a100")
    kernels = (linear(64, 64, 64, "relu", {}).kernel, conv(1, 8, 16, 16, 3))
    mixed = narrow(linear(64, 64, 64, "relu", {}), names=("x",)).kernel
    for k in (*map(normalise, kernels), normalise(mixed)):
        assert not [*products_of_pieces(k, heaviest(k, {}))]
        assert not list(matrix_blocks(k, heaviest(k, {}), sheet, (all_axes(k),)))
    k = product(64, 64, 64)
    assert not list(matrix_blocks(k, heaviest(k, {}), device("v100"), (all_axes(k),)))
