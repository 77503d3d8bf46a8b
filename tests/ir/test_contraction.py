"""Columns that fill no vector: when a register tile is worth it all the same."""

from __future__ import annotations

from explorer.ir.kernels.contraction import contraction, few_columns
from tests.roller.halo_chains import Chain, Step


def narrow(columns: int, channels: int, size: int = 3) -> bool:
    kernel = Chain(32, 32, channels, (Step("conv", columns, size),)).kernel()
    found = contraction(kernel.computes[0])
    assert found is not None
    return few_columns(found)


def test_an_image_of_three_colours_is_made_in_register_tiles() -> None:
    assert not narrow(3, 16)
    assert not narrow(3, 48)


def test_long_sums_of_few_columns_are_loops_along_what_is_summed() -> None:
    assert narrow(2, 512)
    assert narrow(3, 512)


def test_eight_columns_are_enough_whatever_is_summed() -> None:
    assert not narrow(8, 512)
