"""Parts of tensors that a task has: their bytes, and how often they begin in another page."""

from __future__ import annotations

import pytest

from explorer.cost.levels import levels_of
from explorer.cost.parts import TaskAxis, TensorPart
from explorer.devices.costs import Costs
from tests.roller.test_policy import DEVICE

NUMBERS = (512, 1024, 64, 40)  # two extents, two tiles
WHOLE = (TaskAxis(0, -1), TaskAxis(1, -1))
ROWS = (TaskAxis(0, 2, (("t_i", 1),)), TaskAxis(1, -1))
COLUMNS = (TaskAxis(0, -1), TaskAxis(1, 3))


def test_whole_rows_are_one_piece_of_memory() -> None:
    part = TensorPart(4, ROWS, False, False)
    assert part.moved(NUMBERS, {}) == (64 * 1024 * 4, pytest.approx(1.0))
    assert TensorPart(4, WHOLE, False, False).moved(NUMBERS, {}) == (512 * 1024 * 4, 0.0)


def test_parts_of_rows_count_in_whole_lines_and_each_begins_a_page() -> None:
    part = TensorPart(4, COLUMNS, False, False)
    assert part.moved(NUMBERS, {}) == (512 * 3 * 64, 512.0)
    assert TensorPart(4, COLUMNS, True, False).moved(NUMBERS, {}) == (512 * 40 * 4, 0.0)


def test_a_task_at_the_end_of_an_axis_has_less() -> None:
    part = TensorPart(4, ROWS, False, False)
    assert part.shape_of(NUMBERS, {"t_i": 60}) == (4, 1024)
    assert part.shape_of(NUMBERS, {"t_j": 60}) == (64, 1024)


def test_what_others_wrote_is_in_a_shared_level() -> None:
    known = levels_of(DEVICE)
    names = [known.levels[known.home(n, True)].name for n in (10 << 10, 400 << 10, 4 << 20, 1e9)]
    assert names == ["L1", "L2", "L3", "DRAM"]
    assert known.levels[known.home(10 << 10, False)].name == "L3"


def test_a_level_is_as_fast_as_it_is_when_all_units_read() -> None:
    from dataclasses import replace

    costs = Costs(together=(("DRAM", 7.0),), stores=(("L3", 0.5),))
    known = levels_of(replace(DEVICE, costs=costs))
    assert known.levels[3].bytes_per_us == 7e3 and known.levels[2].store == 0.5
    alone = levels_of(replace(DEVICE, costs=costs, units=1))
    assert alone.levels[3].bytes_per_us == 14e3
