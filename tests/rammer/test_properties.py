"""The fourteen properties of Rammer's schedules, by number, for every policy.

Source: Ma et al., OSDI 2020, and the code that its authors published (13).
"""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.decisions.wall import Run, Wait
from explorer.rammer import POLICIES, Facts, Options, ROperator, VDevice, schedule
from explorer.rammer.wavefront import waves
from tests.examples import examples
from tests.rammer.walls import answers, facts, kernel_of, rich_facts, run_in_some_order

POLICY = st.sampled_from(sorted(POLICIES))
FEW = settings(max_examples=examples(60))


def laid(found, policy, brick_tasks=0):
    return schedule(found, Options(policy=policy, brick_tasks=brick_tasks))


@FEW
@given(rich_facts(), POLICY)
def test_property_1_bricks_of_a_unit_never_overlap_and_keep_the_programs_order(found, policy):
    made = laid(found, policy)
    for unit in range(made.wall.units):
        mine = [b for b in made.wall.bricks if b.unit == unit]
        assert all(a.end_us <= b.start_us + 1e-9 for a, b in pairwise(mine))
        rows = [
            (program.calls[row.call], row.first, row.last)
            for program in made.programs
            for row in program.units[unit]
            if isinstance(row, Run)
        ]
        assert rows == [(b.call, b.first, b.last) for b in mine]


@FEW
@given(rich_facts(), POLICY)
def test_property_2_every_task_appears_exactly_once(found, policy):
    made = laid(found, policy)
    chosen = kernel_of(found, made)
    ran = sorted((b.call, task) for b in made.wall.bricks for task in range(b.first, b.last))
    every = [(o.name, task) for o in found.operators for task in range(chosen[o.name].tasks)]
    assert ran == sorted(every)


@FEW
@given(rich_facts(), POLICY)
def test_property_3_a_reader_starts_after_what_it_reads_has_ended(found, policy):
    made = laid(found, policy, brick_tasks=1)
    bricks = {}
    for brick in made.wall.bricks:
        bricks.setdefault(brick.call, []).append(brick)
    for reader in found.operators:
        for read in reader.reads:
            for a in bricks[found.operators[read].name]:
                for b in bricks[reader.name]:
                    if read in reader.aligned and a.first != b.first:
                        continue
                    sync_us = found.device.barrier_us if a.unit != b.unit else 0.0
                    apart = a.program < b.program
                    assert b.start_us + 1e-9 >= a.end_us + (0.0 if apart else sync_us)


@FEW
@given(facts())
def test_property_4_operators_of_a_wave_do_not_reach_each_other(found):
    graph = nx.DiGraph([(r, n) for n, o in enumerate(found.operators) for r in o.reads])
    graph.add_nodes_from(range(len(found.operators)))
    together = waves(found)
    assert sorted(n for wave in together for n in wave) == list(range(len(found.operators)))
    for wave in together:
        for n in wave:
            assert not nx.descendants(graph, n) & set(wave)


@FEW
@given(rich_facts(), POLICY)
def test_property_5_a_task_waits_for_one_task_of_each_unit_at_most(found, policy):
    for program in laid(found, policy).programs:
        for unit, rows in enumerate(program.units):
            awaited = []
            for row in rows:
                if isinstance(row, Wait):
                    awaited.append(row.unit)
                    continue
                assert len(set(awaited)) == len(awaited) and unit not in awaited
                awaited = []
            assert not awaited, "nothing waits at the end of a program"


@FEW
@given(rich_facts(), POLICY)
def test_property_6_steps_that_are_awaited_rise_and_are_reached(found, policy):
    for program in laid(found, policy).programs:
        steps = [sum(isinstance(row, Run) for row in rows) for rows in program.units]
        for rows in program.units:
            last = [0] * len(program.units)
            for row in rows:
                if isinstance(row, Wait):
                    assert last[row.unit] < row.step <= steps[row.unit]
                    last[row.unit] = row.step


@settings(max_examples=examples(100))
@given(rich_facts(), POLICY, st.integers(0, 1 << 30))
def test_property_6_no_interleaving_deadlocks_or_changes_a_number(found, policy, seed):
    made = laid(found, policy, brick_tasks=seed % 3)
    right = answers(found, kernel_of(found, made))
    for turn in range(10):  # 1,000 interleavings in all
        assert run_in_some_order(found, made.programs, seed + turn) == right


@FEW
@given(facts(), POLICY)
def test_property_7_the_makespan_is_within_its_bounds(found, policy):
    made = laid(found, policy)
    units, total_us = found.device.units, made.wall.total_us
    way = [0.0] * len(found.operators)
    for n, o in enumerate(found.operators):
        rounds = -(-o.tasks // units)
        way[n] = rounds * o.task_us + max((way[r] for r in o.reads), default=0.0)
    work = sum(o.work_us for o in found.operators)
    assert total_us + 1e-6 >= max(*way, work / units)
    assert (
        made.wall.busy == pytest.approx(work / (units * total_us)) and 0 < made.wall.busy <= 1.001
    )


@FEW
@given(rich_facts(constants=False, library=False))
def test_property_8_a_wave_joins_exactly_where_that_is_not_slower(found):
    placement = POLICIES["wavefront"](found)
    joining = [w for w in placement.weighed if w.label.startswith("wave ")]
    assert len(joining) == len(waves(found))
    for wave in joining:
        terms = dict(wave.terms)
        assert bool(wave.refused) == (terms["joined"] > terms["apart"])
        if wave.refused:
            assert (wave.why.value, wave.why.limit) == (terms["joined"], terms["apart"])
    starts = sum(bool(wave.refused) for wave in joining) + (not joining[0].refused)
    assert len(placement.programs) == starts


@FEW
@given(rich_facts(constants=False, library=False))
def test_property_9_kernels_are_the_fastest_on_an_idle_device_else_what_is_faster(found):
    made = laid(found, "wavefront")
    chosen, units = kernel_of(found, made), found.device.units
    weighed = {w.label: w for w in made.placement.weighed}
    for number, wave in enumerate(waves(found)):
        operators = [found.operators[p] for p in wave]
        fast = {
            o.name: min(o.kernels, key=lambda k: -(-k.tasks // units) * k.task_us)
            for o in operators
            if o.kernels
        }
        thrifty = {
            o.name: min(o.kernels, key=lambda k: k.tasks * k.task_us)
            for o in operators
            if o.kernels
        }
        tasks = sum(fast[o.name].tasks if o.kernels else o.tasks for o in operators)
        taken = {name: chosen[name] for name in fast}
        assert taken in (fast, thrifty)
        if tasks < units:
            assert taken == fast
        elif fast != thrifty:
            terms = dict(weighed[f"kernels of wave {number}"].terms)
            assert (taken == thrifty) == (terms["efficient"] < terms["fastest"])


@FEW
@given(rich_facts(), POLICY)
def test_property_10_there_are_as_many_launches_as_programs_and_no_more_than_operators(
    found, policy
):
    made = laid(found, policy)
    assert len(made.wall.cuts_us) + 1 == len(made.programs) <= len(found.operators)


@FEW
@given(facts(units=st.just(1)), POLICY)
def test_property_11_one_unit_takes_the_sum_of_all_tasks(found, policy):
    made = laid(found, policy)
    work = sum(o.work_us for o in found.operators)
    launches = len(made.programs) * found.device.launch_us
    assert made.wall.total_us == pytest.approx(work + launches)


@FEW
@given(facts(units=st.just(200)), st.sampled_from(["wavefront", "critical-path"]))
def test_property_11_units_without_end_take_the_longest_way(found, policy):
    free = Facts(found.operators, VDevice(200))
    way = [0.0] * len(found.operators)
    for n, o in enumerate(found.operators):
        way[n] = o.task_us + max((way[r] for r in o.reads), default=0.0)
    assert laid(free, policy).wall.total_us == pytest.approx(max(way))


@FEW
@given(rich_facts(library=False))
def test_property_13_groups_without_gain_are_left_as_they_are(found):
    placement, units = POLICIES["gang"](found), found.device.units
    groups = [w for w in placement.weighed if " with " not in w.label]
    kept = [w for w in groups if not w.refused]
    for group in groups:
        terms = dict(group.terms)
        if group.why is None:
            assert terms["joined"] < terms["apart"]
        else:
            assert group.why.condition in ("operators", "large", "gain")
    alone = [p for p in placement.programs if len({s.operator for s in p}) == 1]
    assert len(placement.programs) - len(alone) == len(kept)
    for program in placement.programs:
        operators = {s.operator for s in program}
        large = [
            sum(s.last - s.first for s in program if s.operator == o) >= units for o in operators
        ]
        assert len(operators) == 1 or not all(large)


def test_property_13_a_group_has_at_most_128_operators():
    operators = tuple(ROperator(f"op{n}", 1, 1.0) for n in range(300))
    placement = POLICIES["gang"](Facts(operators, VDevice(4, 0.1, 1.0)))
    assert [len(program) for program in placement.programs] == [128, 128, 44]
