"""Walls compared and profiled: golden numbers by hand, and properties of rank correlation."""

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.ir.kernel import Axis, Compute, Kernel, TensorSpec, apply, at
from explorer.ir.program import Binding, Function, Program, SourceOp
from explorer.ir.types import Tensor
from explorer.measure.walls import IdleTime, compare_walls, profile_of, spearman
from explorer.rammer.wall_statistics import idle_by_cause

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


AXIS = (Axis("i", 8),)
RELU = Kernel(
    "relu",
    (TensorSpec("x", (8,)), TensorSpec("y", (8,))),
    (Compute("y", AXIS, apply("max", at("x", AXIS), 0.0)),),
    ("x",),
    ("y",),
)


def value(name: str) -> Var:
    return Var(name, Tensor((8,), "float32"))


def call(name: str, *origin: str) -> Binding:
    return Binding((value(name),), KernelCall(RELU, (value("x"),)), frozenset(origin))


PROGRAM = Program(
    (
        Function(
            "main",
            (value("x"),),
            (call("a", "conv_0", "relu_0"), call("b", "relu_1"), call("c", "relu_0")),
            (value("c"),),
        ),
    ),
    sources=tuple(
        SourceOp(name, name.split("_")[0].title())
        for name in ("conv_0", "relu_0", "relu_1", "cast_0")
    ),
    dropped=(("cast_0", "became a constant"),),
)
ORIGINS = {b.var.name: b.origin for b in PROGRAM.main.body}


def profiled_brick(
    name: str, unit: int, start: float, us: float, first: int = 0, last: int = 1
) -> Brick:
    return Brick(unit, start, start + us, name, first, last, ORIGINS[name])


WALL = Wall(
    "measured",
    (
        profiled_brick("a", 0, 0.0, 30.0, 0, 3),
        profiled_brick("a", 1, 0.0, 10.0, 3, 4),
        profiled_brick("b", 1, 10.0, 50.0),
        profiled_brick("c", 0, 30.0, 10.0),
    ),
    (),
    2,
    60.0,
)


def test_kernels_stand_longest_first_with_the_time_of_all_their_bricks() -> None:
    found = profile_of(PROGRAM, WALL)
    assert [(k.name, k.us, k.share) for k in found.kernels] == [
        ("b", 50.0, 0.5),
        ("a", 40.0, 0.4),
        ("c", 10.0, 0.1),
    ]
    a = found.kernels[1]
    assert (a.tasks, a.bricks, a.family, a.origin) == (4, 2, "elementwise", ("conv_0", "relu_0"))


def test_operators_of_a_shared_kernel_split_its_time_evenly_and_say_so() -> None:
    found = profile_of(PROGRAM, WALL)
    assert [(o.name, o.kind, o.us, o.shared, o.kernels) for o in found.operators] == [
        ("relu_1", "Relu", 50.0, False, ("b",)),
        ("relu_0", "Relu", 30.0, True, ("a", "c")),
        ("conv_0", "Conv", 20.0, True, ("a",)),
    ]


def test_an_operator_that_took_no_time_has_its_reason() -> None:
    assert profile_of(PROGRAM, WALL).absent == (("cast_0", "became a constant"),)


def test_an_operator_that_is_only_a_view_or_did_not_run_says_so() -> None:
    view = Binding((value("v"),), View(value("x")), frozenset({"cast_0"}))
    program = replace(PROGRAM.with_body((*PROGRAM.main.body, view)), dropped=())
    assert profile_of(program, WALL).absent == (("cast_0", "only a view: nothing moves"),)
    found = profile_of(program, replace(WALL, bricks=()))
    assert ("conv_0", "did not run") in found.absent and len(found.absent) == 4


def test_the_profile_keeps_the_kind_of_its_wall() -> None:
    found = profile_of(PROGRAM, replace(WALL, kind="planned"))
    assert (found.kind, found.units, found.total_us, found.busy_us) == ("planned", 2, 60.0, 100.0)


def test_a_wall_without_bricks_has_no_shares() -> None:
    found = profile_of(PROGRAM, replace(WALL, bricks=()))
    assert not found.kernels and not found.operators and found.busy_us == 0.0


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.floats(0.001, 1e6)), min_size=1
    )
)
def test_no_time_is_lost_between_bricks_kernels_and_operators(
    drawn: list[tuple[str, int, float]],
) -> None:
    bricks = tuple(profiled_brick(name, unit, 0.0, us) for name, unit, us in drawn)
    found = profile_of(PROGRAM, replace(WALL, bricks=bricks))
    whole = pytest.approx(sum(us for _, _, us in drawn))
    assert sum(k.us for k in found.kernels) == whole
    assert sum(o.us for o in found.operators) == whole
    assert sum(o.share for o in found.operators) == pytest.approx(1.0)
    times = [o.us for o in found.operators]
    assert times == sorted(times, reverse=True)
