"""A block is as large as shared memory has room for, and does what it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.devices.model import Device
from explorer.errors import CheckFailed
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import TileProgram
from explorer.roller.blocks.fitting_block import fitting
from explorer.roller.blocks.gpu_candidates import grids
from explorer.roller.blocks.thread_block import thread_block_steps
from explorer.tile.verify import shared_bytes
from explorer.transforms.winograd import ALGORITHMS, apply_algorithm
from tests.codegen.cases import ENV, Case, conv
from tests.tile.gpu.blocks import SMALL, V100, first_block, is_right

ROOM = 1 << 16


def filtered(h: int) -> Case:
    """A convolution by minimal filtering, with all that lies in between."""
    c = conv(h, 9, 3, 2, 3, 1, 1)
    (compute, *_) = (x for x in c.kernel.computes if x.reduce)
    kernel = apply_algorithm(c.kernel, compute, ALGORITHMS["f2"])
    assert not isinstance(kernel, str)
    return replace(c, kernel=kernel)


def program(c: Case, gpu: Device) -> TileProgram:
    return thread_block_steps(normalise(c.kernel), gpu, ENV, c.sizes)[-1][1]


@pytest.mark.few(1)
@pytest.mark.parametrize("h", [1, 7, 8])
def test_it_shrinks_until_it_fits(h: int) -> None:
    c = filtered(h)
    wide = program(c, replace(SMALL, block_shared_bytes=ROOM))
    used = shared_bytes(wide, SMALL)
    for share in (2, 4):
        gpu = replace(SMALL, block_shared_bytes=used // share)
        tight = program(c, gpu)
        assert 0 < shared_bytes(tight, gpu) <= used // share
        assert is_right(c, tight, share)


def test_a_unit_can_hold_several_blocks_of_every_kernel() -> None:
    """Else all other kernels would have one block a unit, too: they share the units."""
    k = normalise(filtered(8).kernel)
    roomy = replace(V100, capability=80)
    used = max(b.shared_bytes for b in grids(k, roomy))
    tight = replace(roomy, block_shared_bytes=used, unit_shared_bytes=used + used // 8)
    found = grids(k, tight)
    assert {b.resident(tight) for b in found} >= {1, 2, 4}
    for b in found:
        assert b.block is not None


def test_what_fits_is_left_and_what_never_does_is_told() -> None:
    """Of a filtered convolution one tile of results needs its 16 products and more."""
    c = filtered(1)
    k, roomy = normalise(c.kernel), replace(SMALL, block_shared_bytes=ROOM)
    block = first_block(k, roomy)
    assert fitting(k, block, ENV, roomy) == block
    with pytest.raises(CheckFailed, match="a block's scratch takes"):
        program(c, replace(SMALL, block_shared_bytes=64))
