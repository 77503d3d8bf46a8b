"""Waits are those of whole vector clocks, one a unit, however many units share what they know."""

from itertools import groupby, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.decisions.wall import Run, Wait
from explorer.rammer import POLICIES, Facts, Options, Placement, ROperator, Share, VDevice, schedule
from explorer.rammer.transform import Bricks, order_of, rprograms
from tests.examples import examples
from tests.rammer.walls import facts, rich_facts

BRICKS = st.sampled_from([Bricks(), Bricks(tasks=1), Bricks(tasks=2), Bricks(most=3, least_us=0.5)])


def by_vector_clocks(found, placement, bricks):
    """The instructions of each launch's units, and each operator's last steps and known steps; a
    clock of every unit for each brick, each pair of which is compared.
    """
    count, units = len(found.operators), found.device.units
    last, known = np.zeros((count, units), int), np.full((count, units), 1 << 40)
    launches = []
    for program in placement.programs:
        rows, clocks = [[] for _ in range(units)], [[0] * units for _ in range(units)]
        bricks_of, calls = {}, {}  # by operator and unit: tasks, step, clock of each brick
        for position, group in groupby(program, key=lambda share: share.operator):
            operator, call = found.operators[position], calls.setdefault(position, len(calls))
            for share in tuple(group):
                needed = {}
                for read in set(operator.reads):
                    for unit, made in bricks_of.get(read, {}).items():
                        for a, b, step, clock in made:
                            meets = a < share.last and share.first < b
                            is_read = read not in operator.aligned or meets
                            if is_read and step > needed.get(unit, (0, None))[0]:
                                needed[unit] = step, clock
                clock = clocks[share.unit]
                for unit, (step, _) in needed.items():
                    implied = any(
                        c[unit] >= step for other, (_, c) in needed.items() if other != unit
                    )
                    if not implied and clock[unit] < step:
                        rows[share.unit].append(Wait(unit, step))
                for _, other in needed.values():
                    clock = [max(pair) for pair in zip(clock, other, strict=True)]
                known[position] = np.minimum(known[position], clock)
                made = bricks_of.setdefault(position, {}).setdefault(share.unit, [])
                cuts = bricks.cuts(share, operator.kernel(share.kernel).task_us)
                for a, b in pairwise(cuts):
                    rows[share.unit].append(Run(call, a, b))
                    clock = [n + (u == share.unit) for u, n in enumerate(clock)]
                    made.append((a, b, clock[share.unit], clock))
                clocks[share.unit], last[position, share.unit] = clock, clock[share.unit]
        launches.append(rows)
    return launches, last, known


def agree(found, placement, bricks):
    programs, order = rprograms(found, placement, bricks)
    launches, last, known = by_vector_clocks(found, placement, bricks)
    for program, rows in zip(programs, launches, strict=True):
        for mine, right in zip(program.units, rows, strict=True):
            assert _in_any_order(mine) == _in_any_order(right)
    for one in (order, order_of(found, placement, bricks)):
        np.testing.assert_array_equal(one.last, last)
        np.testing.assert_array_equal(one.ended, known)
        np.testing.assert_array_equal(one.program, order.program)


def _in_any_order(rows):
    """Waits between two Runs as a set: they are over when all are."""
    return [set(group) if kind is Wait else list(group) for kind, group in groupby(rows, key=type)]


@settings(max_examples=examples(200))
@given(rich_facts(st.integers(1, 9)), st.sampled_from(sorted(POLICIES)), BRICKS)
def test_of_every_policy(found, policy, bricks):
    agree(found, schedule(found, Options(policy=policy)).placement, bricks)


@settings(max_examples=examples(200))
@given(st.one_of(facts(most=6), rich_facts(most=6, library=False)), BRICKS, st.data())
def test_of_tasks_on_any_units_in_any_order(found, bricks, data):
    units, launches = found.device.units, [[]]
    for position, operator in enumerate(found.operators):
        cuts = sorted({0, operator.tasks, *data.draw(st.sets(st.integers(0, operator.tasks)))})
        parts = [
            Share(position, data.draw(st.integers(0, units - 1)), a, b) for a, b in pairwise(cuts)
        ]
        launches[-1] += data.draw(st.permutations(parts))
        if data.draw(st.integers(0, 4)) == 0:
            launches.append([])
    agree(found, Placement(tuple(tuple(x) for x in launches if x)), bricks)


def test_what_waits_guarantee_is_known_without_writing_them() -> None:
    units, calls = 200, 5
    operators = (ROperator(f"op{n}", units, 1.0, (n - 1,) if n else ()) for n in range(calls))
    found = Facts(tuple(operators), VDevice(units))
    shares = tuple(Share(n, unit, unit, unit + 1) for n in range(calls) for unit in range(units))
    made = schedule(found, Options(policy=lambda _: Placement((shares,))))
    order = made.order
    assert order.ended[-1].tolist() == [calls - 1] * units and "_written" not in vars(made)
