"""Bandwidth by level and number of units."""

from __future__ import annotations

import pytest

from explorer.measure.this_machine.bandwidth import Bandwidth, bandwidths
from explorer.measure.this_machine.this_cpu import code_of


def test_a_byte_stored_costs_what_a_copy_takes_beyond_reading() -> None:
    assert Bandwidth("L3", 100.0, 100.0, 0, 0).store_weight == pytest.approx(1.0)
    assert Bandwidth("L3", 100.0, 50.0, 0, 0).store_weight == pytest.approx(3.0)
    assert Bandwidth("L3", 100.0, 400.0, 0, 0).store_weight == 0.0


def test_every_level_is_read_and_copied_by_one_unit_and_by_all() -> None:
    from explorer.measure.this_machine.bandwidth import COPY, READ

    spans = {"L1": 16 << 10, "L2": 128 << 10, "L3": 1 << 20}
    read, copy = code_of(READ), code_of(COPY)
    found = bandwidths(spans, frozenset({"L3"}), 2, read.address, copy.address)
    assert [b.level for b in found] == list(spans)
    for b in found:
        assert min(b.read, b.copy, b.read_together, b.copy_together) > 0.1
