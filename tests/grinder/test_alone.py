"""A loop or branch beside which nothing stands, on one unit and on all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer import tensor
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.rammer import Options as Rammer
from explorer.rammer.wavefront import wavefront
from explorer.runtime.device_program import instructions as isa

WAYS = ("auto", "all", "one")
SMALL, LARGE = 64, 1 << 16


def counted(x: tensor("float32", "n"), k: tensor("int64")) -> Any:
    a = x
    for _ in range(k):
        a = xp.tanh(a[::-1] * 0.5 + x)
    return a


def guarded(x: tensor("float32", "n"), k: tensor("int64")) -> Any:
    a, steps = x + k, xp.zeros((), "int64")
    while a.max() > 1.0:
        a = a[::-1] * 0.5
        steps = steps + 1
    return a, steps


def nested(x: tensor("float32", "n"), k: tensor("int64")) -> Any:
    a = x
    for i in range(k):
        for _ in range(i):
            a = xp.tanh(a[::-1]) + x
        if a.sum() > 0:
            a = a - 0.25
    return a


def branched(x: tensor("float32", "n"), k: tensor("int64")) -> Any:
    a = x[::-1] * 2
    if k > 2:
        a = xp.exp(-a)
        a = a[::-1] + x
    else:
        a = a - 1
    return a


def compiled(
    function: Any, alone: str, turn: int = 1, threads: int = 2, n: int = SMALL
) -> Compilation:
    schedule = "unrolled" if turn > 1 else "device"
    grinder = Grinder(schedule, turn, alone=alone, inline_branches=False)
    model = explorer.load(explorer.trace(function))
    bound = explorer.bind_symbols(model.program, {"n": n})
    c = explorer.compile(replace(model, program=bound, head=b""))
    return c.with_options(grinder=grinder, rammer=Rammer(threads=threads))


def inputs(k: int, n: int = SMALL) -> dict[str, np.ndarray]:
    x = np.random.default_rng(k).normal(0, 0.5, n).astype(np.float32)
    return {"x": x, "k": np.array(k, np.int64)}


@pytest.mark.few(4)
@pytest.mark.parametrize("alone", WAYS)
@pytest.mark.parametrize("function", [counted, guarded, nested, branched])
@pytest.mark.parametrize("n", [1, SMALL, 4099])
def test_one_unit_and_all_give_what_python_gives(function: Any, alone: str, n: int) -> None:
    c = compiled(function, alone, n=n)
    for k in (0, 1, 2, 5):
        wanted = function(**inputs(k, n))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for found, value in zip(c.run(inputs(k, n)).values(), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 7])
def test_what_is_left_of_turns_is_done_by_the_same_unit(k: int) -> None:
    found = compiled(counted, "one", turn=3)
    np.testing.assert_allclose(
        next(iter(found.run(inputs(k)).values())), counted(**inputs(k)), rtol=1e-4, atol=1e-5
    )
    assert {b.unit for b in found.measured_wall(inputs(k)).bricks if "/" in b.call} <= {0}


def barriers(c: Compilation, n: int = SMALL) -> int:
    """Of one unit's rows from the first loop's top on to where the last one goes back."""
    (step,) = c.executable._bound(inputs(3, n), {}).steps
    found = []
    for rows in step.rows:
        does = list(rows[:, 0])
        if isa.LOOP in does:
            last = len(does) - does[::-1].index(isa.JUMP)
            found.append(does[does.index(isa.LOOP) : last].count(isa.BARRIER))
    return max(found)


def test_one_unit_meets_nobody_from_trip_to_trip() -> None:
    assert barriers(compiled(nested, "one")) == 0
    assert barriers(compiled(nested, "all", n=LARGE), LARGE) > 3


def test_one_unit_is_all_that_a_run_of_one_loop_wakes_up() -> None:
    (step,) = compiled(counted, "one").executable._bound(inputs(3), {}).steps
    assert step.units == (0,)


def decision(c: Compilation) -> ControlDecision:
    """The only one of its binding."""
    (found,) = c.program.decisions.control
    return found


def test_the_loop_itself_tells_on_which_units_it_could_run() -> None:
    small, large = (decision(compiled(counted, "auto", n=n)) for n in (SMALL, LARGE))
    assert (small.kind, large.kind) == ("loop", "loop")
    assert (small.chosen.calls, large.chosen.calls) == ("alone", "")
    for found, own, other in ((small, "one unit", "all units"), (large, "program", "one unit")):
        first, *others = found.candidates
        assert first.value == found.chosen and first.label.endswith(own)
        (loser,) = (c for c in others if c.label.endswith(other))
        assert loser.cost_us > first.cost_us and not loser.refused


def test_a_branch_tells_so_too() -> None:
    found = decision(compiled(branched, "one"))
    assert found.kind == "branch" and found.chosen.calls == "alone"
    refused = decision(compiled(branched, "all")).candidates[-1]
    assert refused.refused == "grinder.alone is all"


def test_the_tree_has_no_barriers_where_one_unit_does_all() -> None:
    def loops(tree: TaskTree) -> list[TaskTree]:
        inner = [t for part in tree.parts for t in loops(part)]
        return [tree, *inner] if tree.kind in ("loop", "branch") else inner

    for alone, some in (("one", False), ("all", True)):
        tree = compiled(nested, alone).program.decisions.tasks
        assert tree is not None
        assert [t.barriers_per_trip > 0 for t in loops(tree)] == [some] * 3
        assert all(("on one unit" in t.reason) != some for t in loops(tree))


def test_with_one_thread_there_is_no_choice() -> None:
    found = decision(compiled(counted, "auto", threads=1))
    assert [c.label for c in found.candidates] == ["in the program", "on the host"]


def test_ones_own_wall_is_laid_on_all_units_unless_one_is_asked_for() -> None:
    def mine(facts: Any) -> Any:
        return wavefront(facts)

    c = compiled(counted, "auto").with_options(rammer=Rammer(policy=mine, threads=2))
    plan = c.executable.plan({})
    (way,) = plan.groups.values()
    assert not plan.unit_assignments and way.candidates[-1].refused.startswith(
        "rammer.policy is a function"
    )
    np.testing.assert_allclose(c.run(inputs(3))["output"], counted(**inputs(3)), rtol=1e-4)


def test_another_word_is_refused() -> None:
    with pytest.raises(BadOption, match="alone"):
        Grinder(alone="some")
