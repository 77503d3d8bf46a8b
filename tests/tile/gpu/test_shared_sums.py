"""A contraction whose sums several threads share is what it was, whatever their order, and each of
its Syncs is needed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.codegen.cuda.build import print_block
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import Reduce, Sync, TileProgram
from explorer.ir.tile_traversal import statements
from explorer.roller.blocks.thread_block import launched, thread_block_steps
from explorer.tile.hazards import race
from tests.codegen.cases import ENV, Case, conv, linear
from tests.codegen.cuda.launched import SMALL
from tests.codegen.cuda.launched import is_right as launch_is_right
from tests.tile.gpu.blocks import is_right
from tests.tile.gpu.test_missing_syncs import without

ONE, SEVERAL = (1, 24, 10), (3, 24, 10)  # rows, what is summed, columns
GPU = replace(SMALL, block_threads=64)


def block_of(k: Kernel, parts: int, chunk: int) -> Tiling:
    """Two rows and four columns, one of each a thread, so many threads for each sum."""
    main, last = k.computes[0], k.computes[-1]
    sizes = (*(1,) * (len(last.axes) - 2), 2, 4)[-len(last.axes) :]
    tile = tuple((a.name, n) for a, n in zip(last.axes, sizes, strict=True))
    register = tuple((a.name, 1) for a in main.axes)
    along = max(main.reduce, key=lambda a: int(a.extent)).name
    shared = tuple((a.name, chunk if a.name == along else int(a.extent)) for a in main.reduce)
    return thread_block(tile, 8 * parts, register, shared, ((along, parts),))


def steps(c: Case, parts: int, chunk: int) -> dict[str, TileProgram]:
    kernel = normalise(c.kernel)
    return dict(thread_block_steps(kernel, GPU, ENV, c.sizes, block_of(kernel, parts, chunk)))


CASES = (linear(*ONE, "relu", {}), linear(*SEVERAL, "relu", {}), conv(3, 3, 4, 2, 3, 1, 1))


@pytest.mark.exhaustive
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("chunk", [1, 3, 24])
def test_shared_sums_are_what_they_were(c: Case, parts: int, chunk: int) -> None:
    for name, program in steps(c, parts, chunk).items():
        assert all(is_right(c, program, seed) for seed in range(2)), name


@pytest.mark.parametrize("parts", [2, 4])
def test_each_thread_sums_a_piece_and_few_add_what_they_made(parts: int) -> None:
    found = steps(CASES[1], parts, 24)["share long reductions"]
    first, second = (s for s in statements(found.body) if isinstance(s, Reduce))
    assert [int(x.size) for x in first.over] == [24 // parts]
    assert [int(x.size) for x in second.over] == [parts]


def test_an_axis_that_parts_do_not_divide_is_summed_whole() -> None:
    found = steps(CASES[1], 5, 24)
    assert found["share long reductions"] == found["lower"]


def test_every_sync_of_shared_sums_is_needed() -> None:
    c = CASES[1]
    program = steps(c, 4, 3)["place syncs"]
    count = sum(isinstance(s, Sync) for s in statements(program.body))
    assert count >= 3
    for n in range(count):
        assert race(without(program, n))


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_printed_blocks_make_what_the_kernel_is(c: Case) -> None:
    block = block_of(launched(c.kernel, c.sizes), 4, 3)
    code = print_block(c.kernel, GPU, ENV, c.sizes, block)
    assert "_parts" in code.source
    assert all(launch_is_right(c, code, seed) for seed in range(3))
