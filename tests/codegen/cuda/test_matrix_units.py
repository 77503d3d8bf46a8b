"""Printed products of whole warps, in the stand-in for a GPU, which does what the instruction does
with the words that lanes bring; and what the assembler makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.cuda.assemble import assemble, disassembler, sass, why_not
from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.cuda.simulated import launch
from explorer.codegen.cuda.simulator import Multiply
from explorer.devices.catalogue import device
from explorer.errors import CheckFailed
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dtypes import numpy_dtype
from explorer.rammer.device_sheet_kernels import choose_pair
from explorer.roller.blocks.gpu_candidates import grids
from explorer.roller.blocks.matrix_pieces import sharing
from explorer.roller.blocks.thread_block import launched
from tests.codegen.cases import ENV, Case, conv, linear
from tests.codegen.cuda.launched import is_right
from tests.tile.gpu.banks.test_pad_banks import by_steps, counted
from tests.tile.gpu.products import A100, CASES, batched, behind, blocks, narrow

DTYPES = ("float16", "bfloat16")
EACH = 6  # blocks of a case, drawn


def codes(c: Case, count: int = EACH) -> list[tuple[Tiling, BlockCode]]:
    """Some of the blocks that Roller weighs for a case."""
    found = blocks(launched(c.kernel, c.sizes))
    drawn = np.random.default_rng(0).permutation(len(found))[:count]
    return [(found[n], print_block(c.kernel, A100, ENV, c.sizes, found[n])) for n in drawn]


@pytest.mark.few(3)
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_printed_blocks_make_what_the_kernel_is(c: Case) -> None:
    for seed, (block, code) in enumerate(codes(c)):
        assert "= mma_" in code.source
        assert is_right(c, code, seed), block


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(32, 48, 24), (37, 32, 20), (18, 50, 12), (64, 40, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_factor_may_be_made_in_the_block(shape: tuple[int, int, int], dtype: str) -> None:
    """It has no room for rows, or for what is summed, past its ends: then threads multiply."""
    c = behind(*shape, dtype)
    found = codes(c, 3)
    assert all(is_right(c, code) for _, code in found)
    least = min(blocks(launched(c.kernel, {})), key=lambda b: (b.threads, b.shared, b.register))
    source = print_block(c.kernel, A100, ENV, {}, least).source
    assert ("= mma_" in source) == (shape[0] % 16 == shape[1] % 16 == 0)


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(8))
def test_random_products_of_whole_numbers_are_exact(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, depth, columns, batch = (int(n) for n in rng.integers(2, (50, 70, 50, 3)))
    c = batched(rows, depth, columns, batch, dtype)
    found = blocks(launched(c.kernel, {}))
    if not found:
        pytest.skip("most of each piece would be past the ends")
    code = print_block(c.kernel, A100, ENV, {}, found[int(rng.integers(len(found)))])
    assert "= mma_" in code.source
    x, w = (rng.integers(-4, 5, c.kernel.shape(t)).astype(numpy_dtype(dtype)) for t in ("x", "w"))
    (y,) = launch(code, c.kernel, (x, w), {}, seed)
    np.testing.assert_array_equal(y, x.astype("f4") @ w.astype("f4"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "c",
    [
        narrow(linear(20, 64, 24, "relu", {})),
        pytest.param(narrow(conv(4, 10, 32, 8, 3, 1, 1)), marks=pytest.mark.exhaustive),
    ],
    ids=lambda c: c.name,
)
def test_warps_share_sums(c: Case) -> None:
    """Each multiplies pieces of its part of what is summed; then the parts are added."""
    k = launched(c.kernel, {})
    reduced = {a.name: int(a.extent) for a in k.computes[0].reduce}
    found = 0
    for block in blocks(k)[:3]:
        for near in sharing(block, reduced, A100):
            code = print_block(c.kernel, A100, ENV, {}, near)
            found += bool(near.parts) and "= mma_" in code.source
            assert is_right(c, code, found), near
    assert found > 2


WRONG: tuple[Callable[[str], str], ...] = (
    lambda s: re.sub(r"mma_float16\((\w+), (\w+), ", r"mma_float16(\2, \1, ", s),  # rows of a
    lambda s: re.sub(r"(mma_float16\(\w+, \w+, )(\w+), (\w+), ", r"\1\3, \2, ", s),  # halves of a
    lambda s: re.sub(
        r"(\w+), (\w+)(, \w+_sums_\d+, \w+_sums_\d+, \w+_sums_\d+, \w+_sums_\d+\))", r"\2, \1\3", s
    ),
    lambda s: re.sub(
        r"^(\s+)(\w+), (\w+), (\w+), (\w+) = mma", r"\1\2, \4, \3, \5 = mma", s, flags=re.M
    ),
    lambda s: s.replace("_thread // 4 % 8", "_thread % 8").replace(
        "_thread % 4", "_thread // 8 % 4"
    ),
    lambda s: re.sub(r"(_t_\w+_l) \* 2 \+", r"\1 +", s),  # neighbours along what is summed
)


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_lane_layout_is_found(number: int) -> None:
    c = narrow(linear(32, 32, 16, "relu", {}))
    for _, code in codes(c, 3):
        assert is_right(c, code)
        planted = replace(code, source=WRONG[number](code.source))
        assert planted.source != code.source
        with suppress(CheckFailed):  # a word from an odd element on
            assert not is_right(c, planted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_stand_in_multiplies_what_lanes_bring(dtype: str) -> None:
    """By the figures of the PTX ISA, written down here a second time: element by element."""
    rng = np.random.default_rng(1)
    a = rng.integers(-4, 5, (16, 16)).astype(numpy_dtype(dtype))
    b = rng.integers(-4, 5, (16, 8)).astype(numpy_dtype(dtype))
    c = rng.integers(-9, 9, (16, 8)).astype(np.float32)

    def word(*pair: np.generic) -> np.uint32:
        return np.array(pair).view(np.uint32)[0]  # type: ignore[no-any-return]

    lanes = {}
    for n in range(32):
        words = []
        for i in range(0, 8, 2):  # a0 to a7
            row = n // 4 + (0 if i in (0, 1, 4, 5) else 8)
            column = (n % 4) * 2 + (8 if i >= 4 else 0)
            words.append(word(a[row, column], a[row, column + 1]))
        for i in range(0, 4, 2):  # b0 to b3
            row = (n % 4) * 2 + (8 if i >= 2 else 0)
            words.append(word(b[row, n // 4], b[row + 1, n // 4]))
        sums = [c[n // 4 + (8 if i >= 2 else 0), (n % 4) * 2 + (i & 1)] for i in range(4)]
        lanes[n] = Multiply(dtype, *words, *sums)
    found, want = lanes[0].others(lanes), a.astype("f4") @ b.astype("f4") + c
    for n in range(32):
        for i in range(4):
            assert found[n][i] == want[n // 4 + (8 if i >= 2 else 0), (n % 4) * 2 + (i & 1)]


def test_steps_tell_what_the_source_does() -> None:
    """The words that lanes ask shared memory for, and the cycles that it takes."""
    for c in CASES:
        for block, code in codes(c, 2):
            want, found = counted(code), by_steps(code.tile_program)
            reads = {key for key in want if not key[1]}
            assert reads and all(found[key] == want[key] for key in reads), (c.name, block)


def test_neighbours_come_as_words_and_rows_without_conflicts() -> None:
    c = narrow(linear(256, 128, 256, "relu", {}))
    k = launched(c.kernel, {})
    block = next(b for b in blocks(k) if b.threads == 128)
    code = print_block(c.kernel, A100, ENV, {}, block)
    found = by_steps(code.tile_program)
    (rows,) = {key[0] for key in found if not key[1] and "_x0_" in key[0]}
    assert "word2(" in code.source and "word_of(" not in code.source
    assert found[rows, False, "cycles"] == found[rows, False, "least"] > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sheet", ["a100", "h100"])
def test_it_assembles(sheet: str, dtype: str) -> None:
    gpu = device(sheet)
    if why := why_not(gpu):
        pytest.skip(why)
    c = narrow(linear(128, 64, 128, "none", {}), dtype)
    k = launched(c.kernel, {})
    block = max(
        blocks(k), key=lambda b: (dict(b.register)["i0"] * dict(b.register)["i1"], b.threads)
    )
    code = print_block(c.kernel, gpu, ENV, {}, block)
    found = assemble(code, gpu)
    name = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32" in found.ptx
    assert found.spilled_bytes == 0 and "ld.shared.u32" in found.ptx and ".local" not in found.ptx
    if disassembler():
        assert "HMMA.16816.F32" in sass(found.cubin)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_16_bits_are_loaded_by_eights(dtype: str) -> None:
    """Where these begin at a multiple: bits are copied, and no number is rounded on the way."""
    c = batched(32, 64, 32, 1, dtype)
    k = launched(c.kernel, {})
    block = next(b for b in blocks(k) if dict(b.shared)["r2"] == 32 and b.threads == 64)
    code, plain = (
        print_block(c.kernel, A100, ENV, {}, block, aligned) for aligned in (True, False)
    )
    assert "load8(x0, " in code.source and "load8(" not in plain.source
    assert all(is_right(c, each, 1) for each in (code, plain))
    odd = batched(32, 60, 32, 1, dtype)  # rows begin at multiples of four
    code = print_block(odd.kernel, A100, ENV, {}, blocks(launched(odd.kernel, {}))[0])
    assert "load8(x0, " not in code.source and is_right(odd, code)


@pytest.mark.parametrize("sheet", ["a100", "h100"])
def test_a_unit_holds_as_many_blocks_as_is_planned(sheet: str) -> None:
    """By the registers that the assembler takes: a lane has the words of two steps."""
    gpu = device(sheet)
    if why := why_not(gpu):
        pytest.skip(why)
    kernel = narrow(linear(2048, 2048, 2048, "none", {})).kernel
    best = choose_pair(grids(launched(kernel, {}), gpu), gpu).fastest
    found = assemble(print_block(kernel, gpu, ENV, {}, best.block), gpu)
    assert best.block is not None and best.block.matrix
    assert found.occupancy.blocks >= best.resident(gpu)
