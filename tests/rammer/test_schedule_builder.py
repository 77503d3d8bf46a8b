"""The scheduling interface: tasks appended by hand, and what waits for what."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import BadPolicy
from explorer.ir.decisions.wall import Run, Wait
from explorer.rammer import (
    Facts,
    Options,
    Placement,
    ROperator,
    RTask,
    Share,
    VDevice,
    schedule,
)
from tests.rammer.schedule_builder import Builder
from tests.rammer.walls import answers, facts, kernel_of, run_in_some_order

FIGURE_9 = Facts(
    (
        ROperator("MatMul", 2, 2.0),
        ROperator("Relu", 4, 1.0),
        ROperator("Conv", 2, 1.0, (0, 1)),
    ),
    VDevice(2),
)


def figure_9():
    built = Builder(FIGURE_9)
    for task in range(2):
        built.append(RTask(0, task), 0)
    for task in range(4):
        built.append(RTask(1, task), 1)
    built.wait(RTask(2, 0), [RTask(0, 0), RTask(0, 1), *(RTask(1, n) for n in range(4))])
    built.wait(RTask(2, 1), [RTask(0, 0), RTask(0, 1), *(RTask(1, n) for n in range(4))])
    built.append(RTask(2, 0), 0)
    built.append(RTask(2, 1), 1)
    return built


def test_of_the_awaited_tasks_of_a_unit_the_last_is_kept():
    built = figure_9()
    assert built.program().units == (
        (Run(0, 0, 1), Run(0, 1, 2), Wait(1, 4), Run(2, 0, 1)),
        (Run(1, 0, 1), Run(1, 1, 2), Run(1, 2, 3), Run(1, 3, 4), Wait(0, 2), Run(2, 1, 2)),
    )
    assert not built.unguarded()


def test_a_wall_by_hand_is_a_policy():
    made = schedule(FIGURE_9, Options(policy=lambda found: figure_9().placement(), brick_tasks=1))
    assert made.programs[0].units == figure_9().program().units
    assert made.wall.total_us == 5.0


@pytest.mark.parametrize("cut", [(0, 4), (0, 2, 4), (0, 1, 4)])
def test_aligned_tasks_wait_for_the_last_brick_that_they_read(cut):
    made, used = ROperator("Relu", 4, 1.0), ROperator("Add", 4, 1.0, (0,), aligned=(0,))
    shares = [Share(1, 1, a, b) for a, b in pairwise(cut)]
    placed = Placement(((Share(0, 0, 0, 4), *shares),))
    found = Facts((made, used), VDevice(2))
    built = schedule(found, Options(policy=lambda _: placed, brick_tasks=1))
    rows = built.programs[0].units[1]
    assert [row.step for row in rows if isinstance(row, Wait)] == [*cut[1:]]


def test_a_missing_wait_is_found():
    built = Builder(FIGURE_9)
    for operator, tasks in ((0, 2), (1, 4), (2, 2)):
        for task in range(tasks):
            built.append(RTask(operator, task), int(operator == 1))
    built.wait(RTask(2, 0), [RTask(1, 2)])
    assert built.unguarded() == [(RTask(2, 0), RTask(1, 3)), (RTask(2, 1), RTask(1, 3))]


@given(facts(most=6), st.data())
def test_tasks_by_hand_in_any_order_on_any_unit_run_right(found, data):
    def by_hand(found):
        built = Builder(found)
        for position, operator in enumerate(found.operators):
            for task in data.draw(st.permutations(range(operator.tasks))):
                unit = data.draw(st.integers(0, found.device.units - 1))
                built.append(RTask(position, task), unit)
        return built.placement()

    made = schedule(found, Options(policy=by_hand))
    right = answers(found, kernel_of(found, made))
    assert run_in_some_order(found, made.programs, 0) == right


def test_what_cannot_be_is_refused():
    built = Builder(FIGURE_9)
    built.append(RTask(0, 0), 0)
    with pytest.raises(BadPolicy, match="task 0 of MatMul is on unit 0 already"):
        built.append(RTask(0, 0), 1)
    with pytest.raises(BadPolicy, match="a unit that does not exist"):
        built.append(RTask(0, 1), 2)
    with pytest.raises(BadPolicy, match="there is no task 2 of operator 0"):
        built.append(RTask(0, 2), 0)
    built.append(RTask(0, 1), 1)
    built.wait(RTask(0, 0), [RTask(1, 0)])
    with pytest.raises(BadPolicy, match="task 0 of Relu, which was not appended"):
        built.program()
    built.append(RTask(1, 0), 0)
    with pytest.raises(BadPolicy, match="comes after it on unit 0"):
        built.program()


def test_units_that_wait_for_each_other_are_found():
    built = Builder(FIGURE_9)
    for unit in range(2):
        built.append(RTask(0, unit), unit)
        built.append(RTask(1, unit), unit)
    built.wait(RTask(0, 0), [RTask(1, 1)])
    built.wait(RTask(0, 1), [RTask(1, 0)])
    with pytest.raises(BadPolicy, match="in a cycle"):
        built.program()
