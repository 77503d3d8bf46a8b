"""Weights that stay where they are: homes of tasks, what they gain, and what moves a task away."""

from dataclasses import replace

import pytest

from explorer.rammer import Facts, Options, ROperator, VDevice, schedule
from explorer.rammer.cache_model import UnitCache

CPU = VDevice(2, 0.1, 1.0, cache_bytes=1000, resident=True)


def recurrence(steps, layers=1, weight_bytes=1600, tasks=4):
    """Layer by layer, each step after the one before it and after that of the layer below."""
    operators, at = [], {}
    for layer in range(layers):
        for step in range(steps):
            reads = [at[k] for k in ((layer, step - 1), (layer - 1, step)) if k in at]
            weights = f"weights{layer}"
            operators.append(
                ROperator(f"cell{layer}.{step}", tasks, 1.0, tuple(reads), frozenset(), (), weights,
                          weight_bytes, 0.25)
            )  # fmt: skip
            at[layer, step] = len(operators) - 1
    return Facts(tuple(operators), CPU)


def homes(made, call):
    return sorted((b.first, b.last, b.unit) for b in made.wall.bricks if b.call == call)


def test_a_step_runs_each_task_where_the_step_before_ran_it():
    made = schedule(recurrence(10), Options(policy="weight-stationary"))
    first = homes(made, "cell0.0")
    assert {unit for *_, unit in first} == {0, 1}
    assert all(homes(made, f"cell0.{step}") == first for step in range(1, 10))
    assert made.wall.total_us == pytest.approx(2.0 + 9 * (2 * 0.25 + 0.1))


def test_steps_of_a_layer_follow_each_other_where_one_layer_fits_the_caches():
    facts = recurrence(8, layers=4)
    made = schedule(facts, Options(policy="weight-stationary"))
    order = [b.call for b in made.wall.bricks if b.unit == 0]
    layers = [call[4] for call in dict.fromkeys(order)]
    assert layers == sorted(layers)
    waves = schedule(facts, Options(policy="wavefront"))
    assert made.wall.total_us < 0.5 * waves.wall.total_us


def test_weights_that_do_not_fit_are_read_anew_each_time():
    made = schedule(recurrence(6, weight_bytes=4000), Options(policy="weight-stationary"))
    assert made.wall.total_us == pytest.approx(6 * 2.0 + 5 * 0.1)


def test_a_task_leaves_its_home_where_that_unit_is_busy_for_longer_than_its_weights_take():
    first = ROperator("first", 4, 1.0, (), frozenset(), (), "weights", 400, 0.25)
    long = ROperator("long", 1, 50.0, (0,))
    gate = ROperator("gate", 1, 0.5, (0,))
    again = replace(first, name="again", reads=(0, 2))
    facts = Facts((first, long, gate, again), CPU)
    made = schedule(facts, Options(policy="weight-stationary"))
    busy = next(b.unit for b in made.wall.bricks if b.call == "long")
    after = [b for b in made.wall.bricks if b.call == "again"]
    assert all(b.unit != busy for b in after)
    (moved,) = (w for w in made.placement.weighed if w.label == "home of again")
    assert moved.why.value == 2


def test_a_lopsided_share_is_evened_out_when_many_steps_follow():
    alone = ROperator("alone", 4, 1.0, (), frozenset(), (), "weights", 400, 0.5)
    busy = ROperator("busy", 1, 20.0)
    cells = [replace(alone, name=f"cell{n}", reads=(n + 1,)) for n in range(1, 30)]
    start = replace(alone, name="cell0", reads=())
    facts = Facts((busy, start, replace(alone, name="c", reads=(0, 1)), *cells), CPU)
    made = schedule(facts, Options(policy="weight-stationary"))
    last = homes(made, "cell29")
    assert {unit for *_, unit in last} == {0, 1}


def test_a_cache_forgets_what_was_read_longest_ago():
    kept = UnitCache(100)
    kept.read("a", 80, 4, 0, 2)  # 40 bytes
    kept.read("b", 50, 1, 0, 1)
    assert kept.hits("a", 4, 0, 4) == 2 and kept.hits("b", 1, 0, 1) == 1
    kept.read("c", 20, 1, 0, 1)
    assert kept.hits("a", 4, 0, 4) == 0 and kept.hits("b", 1, 0, 1) == 1


def test_a_cache_holds_parts_of_a_constant_however_it_is_cut():
    kept = UnitCache(100)
    kept.read("a", 80, 4, 0, 2)
    kept.read("a", 80, 4, 3, 4)
    assert kept.ranges("a", 8) == [(0, 4), (6, 8)]
    assert kept.hits("a", 8, 3, 7) == 2
    kept.read("a", 80, 8, 4, 6)
    assert kept.ranges("a", 1) == [(0, 1)] and kept.bytes == pytest.approx(80)


def test_more_of_a_constant_than_there_is_room_for_is_not_held():
    kept = UnitCache(100)
    kept.read("a", 400, 4, 0, 2)
    assert not kept.ranges("a", 4) and not kept.bytes
    kept.read("a", 400, 4, 2, 3)
    kept.read("a", 400, 4, 3, 4)
    assert kept.ranges("a", 4) == [(3, 4)]


def test_a_task_that_reads_what_the_same_task_wrote_waits_for_nobody():
    first = ROperator("c", 2, 1.0, ())
    second = ROperator("h", 2, 1.0, (0,), aligned=(0,))
    for policy in ("wavefront", "critical-path", "weight-stationary"):
        made = schedule(Facts((first, second), CPU), Options(policy=policy))
        assert made.wall.total_us == 2.0 and not made.wall.gaps
    apart = schedule(Facts((first, replace(second, aligned=())), CPU), Options())
    assert apart.wall.total_us == pytest.approx(2.1)
