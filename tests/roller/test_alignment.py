"""The four alignment rules, each with the number that it compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.roller.construct.alignment import (
    aligned_base,
    bank,
    bank_padding,
    cache_set,
    cache_sets,
    execution_unit,
    keeps_shape,
    memory_transaction,
    moved_bytes,
    set_conflicts,
    set_padding,
    tensor_shape,
    wasted,
)


def test_threads_come_in_warps_of_all_schedulers() -> None:
    assert execution_unit(256, 128).holds
    refused = execution_unit(200, 128)
    assert not refused.holds and (refused.value, refused.limit) == (200, 128)
    assert refused.text == "200 threads, the execution unit takes multiples of 128"
    assert not execution_unit(0, 128).holds


def test_a_row_is_whole_transactions_or_all_of_the_tensors() -> None:
    assert memory_transaction(8, 4096, 4, 32).holds
    assert memory_transaction(5, 5, 4, 32).holds
    refused = memory_transaction(6, 4096, 4, 32)
    assert not refused.holds and (refused.value, refused.limit) == (24, 32)


def test_a_base_becomes_whole_transactions() -> None:
    assert aligned_base(4, 4, 32) == 8
    assert aligned_base(6, 4, 32) == 24
    assert aligned_base(3, 64, 32) == 3


def test_what_moves_is_whole_transactions() -> None:
    assert moved_bytes(9, 4, 32) == 64
    assert moved_bytes(0, 4, 32) == 0


@pytest.mark.parametrize(
    ("inner", "read", "banks", "items", "padding"),
    [(4, 1, 4, 1, 1), (32, 1, 32, 1, 1), (8, 1, 32, 1, 25), (33, 1, 32, 1, 0), (32, 4, 32, 1, 4),
     (64, 1, 32, 2, 2)],
)  # fmt: skip
def test_rows_are_padded_by_the_formula(
    inner: int, read: int, banks: int, items: int, padding: int
) -> None:
    assert bank_padding(inner, read, banks, items) == padding


def test_the_bank_rule_counts_words_from_one_bank() -> None:
    refused = bank(8, 32, 1, 32)
    assert not refused.holds and (refused.value, refused.limit) == (8, 1)
    assert bank(8, 33, 1, 32).holds


def test_rows_a_page_apart_share_one_set_of_l1_until_they_are_padded() -> None:
    sets = cache_sets(48 << 10, 64, 12)
    assert sets == 64
    assert set_conflicts(14, 4096, 64, sets) == 14
    assert not cache_set(14, 4096, 64, sets, 12).holds
    assert set_padding(14, 4096, 64, sets, 12) == 64
    assert cache_set(14, 4096 + 64, 64, sets, 12).holds
    assert set_padding(12, 4096, 64, sets, 12) == 0


@given(
    st.integers(0, 700),
    st.integers(0, 600),
    st.sampled_from([1, 16, 64]),
    st.sampled_from([1, 3, 4, 64]),
)
def test_rows_of_a_cache_set_are_those_that_are_counted(
    rows: int, stride: int, line: int, sets: int
) -> None:
    begins = [r * stride // line % sets for r in range(rows)]
    assert set_conflicts(rows, stride, line, sets) == max(map(begins.count, begins), default=0)


def test_a_table_of_many_rows_takes_no_longer_than_a_period() -> None:
    assert set_conflicts(10**12, 256, 64, 1024) == 10**12 // 256


@given(st.integers(1, 64), st.integers(1, 200), st.integers(1, 16))
def test_padded_rows_never_ask_more_of_a_set_than_it_holds(
    rows: int, lines: int, ways: int
) -> None:
    padded = lines * 64 + set_padding(rows, lines * 64, 64, 64, ways)
    assert set_conflicts(rows, padded, 64, 64) <= max(ways, -(-rows // 64))


def test_tiles_may_reach_past_the_end_by_eps() -> None:
    assert wasted(1000, 96) == pytest.approx(0.056)
    assert not keeps_shape(1000, 96, 0.0) and keeps_shape(1000, 96, 0.2)
    refused = tensor_shape(1000, 96, 0.0)
    assert not refused.holds and refused.value == pytest.approx(0.056)
    assert wasted(0, 16) == 0.0 and wasted(96, 96) == 0.0


@given(st.integers(1, 3000), st.integers(1, 300))
def test_waste_is_what_is_computed_beyond_the_tensor(extent: int, tile: int) -> None:
    computed = -(-extent // tile) * tile
    assert wasted(extent, tile) == pytest.approx((computed - extent) / extent)
    assert keeps_shape(extent, tile, wasted(extent, tile) + 1e-9)
