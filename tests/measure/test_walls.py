"""Walls compared: golden numbers by hand, and properties of rank correlation."""

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.measure.walls import IdleTime, compare_walls, spearman
from explorer.rammer.walls.wall_statistics import idle_by_cause

NONE = frozenset()


def brick(unit, start_us, end_us, call, first=0, last=1, iteration=0):
    return Brick(unit, start_us, end_us, call, first, last, NONE, 0, iteration)


PLANNED = Wall(
    "planned",
    (
        brick(0, 1, 5, "a", 0, 2),
        brick(1, 1, 4, "a", 2, 4),
        brick(0, 5, 7, "b"),
        brick(1, 5, 8, "c"),
    ),
    (Gap(0, 0, 1, "launch"), Gap(1, 0, 1, "launch"), Gap(1, 4, 5, "barrier"), Gap(0, 7, 8, "tail")),
    2,
    8.0,
)
MEASURED = Wall(
    "measured",
    (
        brick(1, 1, 6, "a", 2, 4),
        brick(0, 2, 8, "a", 0, 2),
        brick(1, 8, 9, "b"),
        brick(0, 8, 10, "b"),
    ),
    (
        Gap(0, 0, 2, "launch"),
        Gap(1, 0, 1, "launch"),
        Gap(1, 6, 8, "dependency"),
        Gap(1, 9, 10, "tail"),
    ),
    2,
    10.0,
)


def test_a_plan_and_a_run_by_hand():
    found = compare_walls(PLANNED, MEASURED)
    assert found.error == pytest.approx(-0.2)
    assert [b.planned for b in found.bricks] == [1, 0, -1, 2]  # in the order of the measured
    assert found.missing == 1  # c did not run
    assert [b.error_us for b in found.bricks] == [-2, -2, -1, 0]
    assert found.total_error_us == 2 + 2 + 1 + 0 + 3
    # durations (3, 4, 2) against (5, 6, 2), starts (1, 1, 5) against (1, 2, 8)
    assert found.rank_correlation == pytest.approx(1.0)
    assert found.start_correlation == pytest.approx(0.866, abs=1e-3)
    assert found.idle == (
        IdleTime("barrier", 1, 0),
        IdleTime("dependency", 0, 2),
        IdleTime("launch", 2, 3),
        IdleTime("tail", 1, 1),
    )


@pytest.mark.parametrize("wall", [PLANNED, MEASURED], ids=lambda wall: wall.kind)
def test_bricks_and_idle_time_fill_the_wall(wall):
    busy = sum(b.end_us - b.start_us for b in wall.bricks)
    assert busy + sum(idle_by_cause(wall).values()) == wall.units * wall.total_us


def test_a_wall_is_its_own_best_plan_and_an_empty_one_compares():
    same = compare_walls(PLANNED, PLANNED)
    assert (same.error, same.total_error_us, same.missing) == (0, 0, 0)
    assert same.rank_correlation == same.start_correlation == pytest.approx(1.0)
    empty = Wall("measured", (), (), 2, 0.0)
    nothing = compare_walls(PLANNED, empty)
    assert nothing.missing == 4 and nothing.error == 0.0 and isnan(nothing.rank_correlation)


def test_ties_share_their_rank():
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)
    assert isnan(spearman([1, 1, 1], [1, 2, 3])) and isnan(spearman([1], [1]))


@given(st.lists(st.integers(-1000, 1000), min_size=2, unique=True), st.randoms())
def test_only_the_order_counts(values, random):
    shuffled = values[:]
    random.shuffle(shuffled)
    found = spearman(values, shuffled)
    assert -1 - 1e-9 <= found <= 1 + 1e-9
    assert spearman([v**3 + 5 for v in values], shuffled) == pytest.approx(found)
    assert spearman([-v for v in values], shuffled) == pytest.approx(-found)
    assert spearman(values, values) == pytest.approx(1.0)
