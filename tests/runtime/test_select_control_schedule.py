"""The way of each loop and branch: what was weighed, what was taken, and that it is what runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.errors import BadPolicy
from explorer.grinder import LoopTask
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.measure.task_times import task_profile
from explorer.rammer import Options as Rammer
from explorer.runtime.planning.control_decisions import MOST_TIME_SHARE
from explorer.runtime.planning.unit_assignment import UNCOUNTED_TRIPS

tensor = explorer.tensor


@explorer.trace
def nested(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
    a = x[0]
    for row in x:
        for _ in range(k):
            a = xp.tanh(a) + row
        while a.sum() > 100:
            a = a * 0.5
    return a


MODEL = explorer.load(nested)
SCHEDULES = ("auto", "device", "host", "unrolled", "eager")


def compiled(schedule: Any = "auto", **options: Any) -> Compilation:
    grinder = Grinder(schedule, **options)
    return explorer.compile(MODEL, options=explorer.Options(grinder=grinder))


def decisions(c: Compilation) -> tuple[ControlDecision, ...]:
    found = c.program.decisions.control
    assert len({d.binding for d in found}) == len(found) == 3
    return found


def test_the_way_taken_stands_first_and_no_other_is_predicted_to_be_much_faster() -> None:
    for decision in decisions(compiled()):
        first, *others = decision.candidates
        assert first.value == decision.chosen and not first.refused and first.cost_us > 0
        assert all(c.cost_us >= first.cost_us * MOST_TIME_SHARE for c in others)
        assert [c.cost_us for c in others] == sorted(c.cost_us for c in others)


def test_a_branch_outside_of_loops_takes_what_costs_least() -> None:
    @explorer.trace
    def sided(x: tensor("float32", 64, 64), c: tensor("bool")) -> Any:
        return xp.sin(x) if c else xp.cos(x)

    options = explorer.Options(grinder=Grinder(inline_branches=False))
    c = explorer.compile(sided, options=options, until="planned")
    (decision,) = c.program.decisions.control
    legal = [w for w in decision.candidates if not w.refused]
    assert {w.value.level for w in legal} == {"host", "device"}
    assert decision.chosen == min(legal, key=lambda w: w.cost_us).value


def test_losers_have_a_cost_or_a_reason() -> None:
    for schedule in SCHEDULES:
        for decision in decisions(compiled(schedule)):
            levels = {c.value.level for c in decision.candidates}
            assert {"host", "device"} <= levels and decision.reason
            assert all(bool(c.refused) != bool(c.terms) for c in decision.candidates)


def test_a_loop_that_data_end_keeps_its_guard_and_says_so() -> None:
    ways = [c for d in decisions(compiled()) for c in d.candidates if c.label == "unrolled"]
    assert sorted(c.refused.split(",")[0].split(":")[0] for c in ways) == [
        "a loop is inside of it",
        "its data may end it before any iteration",
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_was_decided_is_what_the_tree_says_and_what_runs(schedule: str) -> None:
    c = compiled(schedule, unroll=4)
    chosen = {d.binding: d.chosen for d in decisions(c)}

    def check(tree: TaskTree) -> None:
        if tree.kind == "loop":
            assert tree.level == chosen[tree.binding].level
        for part in tree.parts:
            check(part)

    tree = c.program.decisions.tasks
    assert tree is not None
    check(tree)
    loops = [p for p in c.executable.tasks.parts if isinstance(p, LoopTask)]
    assert {p.level for p in loops} == {"host" if schedule in ("host", "eager") else "device"}
    turns = {p.turn for outer in loops for p in outer.body if isinstance(p, LoopTask)}
    assert (max(turns) > 1) == (schedule in ("auto", "unrolled"))


def test_no_part_of_what_is_in_the_program_goes_back_to_python() -> None:
    def check(tree: TaskTree, inside: bool) -> None:
        assert not (inside and tree.level == "host")
        for part in tree.parts:
            check(part, inside or (tree.kind in ("loop", "branch") and tree.level == "device"))

    for schedule in SCHEDULES:
        tree = compiled(schedule).program.decisions.tasks
        assert tree is not None
        check(tree, False)


def test_python_reads_and_launches_in_each_trip_or_once_for_all() -> None:
    given = {"x": np.zeros((5, 4), np.float32), "k": np.int64(3)}

    def reads(schedule: str) -> tuple[int, int]:
        c = compiled(schedule)
        c.run(given)
        with explorer.counters.delta() as did:
            c.run(given)
        return did.host_reads, len(c.executable.traced(given)[0].launches)

    assert {s: reads(s) for s in ("auto", "device", "unrolled")} == dict.fromkeys(
        ("auto", "device", "unrolled"), (0, 1)
    )
    host, launches = reads("host")
    assert host >= 5 and launches >= 5 * 3


def test_another_schedule_compiles_no_kernel() -> None:
    c = compiled("device")
    with explorer.counters.delta() as did:
        for schedule in ("host", "unrolled"):
            c.with_options(grinder=Grinder(schedule))
    assert did.kernel_compiles == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_ones_own_policy_is_asked_and_named_where_it_is_wrong(threads: int) -> None:
    def mine(body: Any) -> tuple[str, str]:
        return "host", "mine"

    c = compiled(mine).with_options(rammer=Rammer(threads=threads))
    assert c.program.decisions.control == ()
    tree = c.program.decisions.tasks
    assert tree is not None and {t.level for t in tree.parts if t.kind == "loop"} == {"host"}
    given = {"x": np.ones((3, 4), np.float32), "k": np.int64(2)}
    np.testing.assert_allclose(c.run(given)["output"], nested(**given), rtol=1e-5)
    with pytest.raises(BadPolicy, match="Grinder's policy"):
        compiled(lambda body: "device")


def test_a_device_that_is_not_here_has_predictions_too() -> None:
    c = explorer.compile(MODEL, target="v100")
    for decision in decisions(c):
        assert any(w.cost_us > 0 and not w.refused for w in decision.candidates)


@explorer.function(result=tensor("float32", 4))
def swaying(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    if k > 0:
        for i in range(k):
            x = swaying(x * 0.5 + i, k - 1) - 0.25 * x
    return x


@explorer.trace
def recursive(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    for _ in range(k):
        x = swaying(x, k) * 0.5
    return x


GIVEN = {"x": np.ones(4, np.float32), "k": np.int64(3)}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_recursion_is_weighed_by_its_calls_and_so_is_what_is_in_it(schedule: str) -> None:
    options = explorer.Options(grinder=Grinder(schedule))
    c = explorer.compile(recursive, options=options)
    found = {d.kind: d for d in c.program.decisions.control[:-1]}
    *_, around = c.program.decisions.control
    assert list(found) == ["loop", "branch", "call"] and around.kind == "loop"
    level = "host" if schedule in ("host", "eager") else "device"
    for decision in (*found.values(), around):
        assert decision.chosen.level == level and decision.chosen.unroll == 1
        costs = {w.value.level: w.cost_us for w in decision.candidates if not w.refused}
        assert 0 < costs["device"] < costs["host"]
    call, trip = (
        next(w.cost_us for w in d.candidates if w.value.level == "device")
        for d in (found["call"], around)
    )
    assert trip > UNCOUNTED_TRIPS * call
    if schedule == "auto":
        assert found["call"].reason.endswith(f"; {UNCOUNTED_TRIPS} calls assumed")
        whys = [w.refused for w in found["loop"].candidates if w.label == "unrolled"]
        assert len(whys) == 1 and "recursion" in whys[0]
    tree = c.program.decisions.tasks
    assert tree is not None and tree.level == level
    if level == "device":
        (loop,) = (t for t in tree.parts if t.kind == "loop")
        assert loop.parts[0].kind == "call" and loop.parts[0].reason == found["call"].reason


def test_calls_that_were_seen_are_those_that_are_counted() -> None:
    c = explorer.compile(recursive, options=explorer.Options(rammer=Rammer(threads=1)))
    profile = task_profile(c.executable, GIVEN, runs=5, fresh=True)
    known = c.with_options(rammer=Rammer(threads=1, profile=profile))
    calls = 1 + 3 * (1 + 2 * (1 + 1))  # of one trip
    (found,) = (d for d in known.program.decisions.control if d.kind == "call")
    assert found.reason.endswith(f"; {calls:,} calls seen, 4 deep")
    np.testing.assert_allclose(known.run(GIVEN)["output"], recursive(**GIVEN), rtol=1e-5)
