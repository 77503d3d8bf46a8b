"""What the control flow of a run decided, as it was noted: whichever way a loop or branch goes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.ir.decisions.wall import ControlFlowCounts, Wall
from explorer.runtime.workers.workers import teams

tensor = explorer.tensor
SCHEDULES = ("auto", "device", "host", "eager", "unrolled")


@explorer.trace
def collatz(n: tensor("int64")) -> Any:
    steps, odd = 0, xp.zeros(4, "float32")
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
            odd = xp.tanh(odd + 1)
        steps += 1
    return steps, odd


@explorer.trace
def nested(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
    a = x[0]
    for row in x:
        for _ in range(k):
            a = xp.tanh(a) + row
    return a


@explorer.function(result=tensor("float32", 4))
def encoded(
    leaves: tensor("float32", "words", 4),
    left: tensor("int64", "nodes"),
    right: tensor("int64", "nodes"),
    node: tensor("int64"),
) -> Any:
    if left[node] < 0:
        code = leaves[right[node]]
    else:
        below = encoded(leaves, left, right, left[node])
        code = xp.tanh(below + encoded(leaves, left, right, right[node]))
    return code


@explorer.trace
def tree(
    leaves: tensor("float32", "words", 4),
    left: tensor("int64", "nodes"),
    right: tensor("int64", "nodes"),
) -> Any:
    return encoded(leaves, left, right, left.shape[0] - 1)


def sentence(words: int) -> dict[str, np.ndarray]:
    """A list: each word joins all before it, so calls nest as deep as there are words."""
    left, right, last = [-1] * words, list(range(words)), 0
    for word in range(1, words):
        left.append(last)
        right.append(word)
        last = len(left) - 1
    leaves = np.ones((words, 4), np.float32)
    return {"leaves": leaves, "left": np.array(left), "right": np.array(right)}


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compilation]:
    models = {"collatz": collatz, "nested": nested, "tree": tree}
    return {name: explorer.compile(model) for name, model in models.items()}


def run(c: Compilation, schedule: str, inputs: dict[str, Any]) -> Wall:
    grinder = replace(c.options.grinder, schedule=schedule, inline_branches=False)
    return c.with_options(grinder=grinder).measured_wall(inputs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_side_of_a_branch_is_counted_and_both_sum_to_the_trips(
    compiled: dict[str, Compilation], schedule: str
) -> None:
    wall = run(compiled["collatz"], schedule, {"n": np.int64(27)})
    loop, branch = sorted(wall.ran, key=lambda r: r.kind, reverse=True)
    assert (loop.kind, loop.times, loop.trips) == ("loop", 1, 111)
    assert (branch.kind, branch.times, branch.then) == ("branch", 111, 70)
    assert loop.words == "ran 111 iterations" and branch.words == "then arm 70 of 111"
    assert sum(t.count for t in wall.trips) == 111


def test_a_loop_that_ends_at_once_was_entered(compiled: dict[str, Compilation]) -> None:
    for schedule in SCHEDULES:
        (loop,) = run(compiled["collatz"], schedule, {"n": np.int64(1)}).ran
        assert (loop.times, loop.trips, loop.words) == (1, 0, "ran 0 iterations")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trips_of_inner_loops_add_up_over_their_entries(
    compiled: dict[str, Compilation], schedule: str
) -> None:
    given = {"x": np.ones((7, 4), np.float32), "k": np.int64(11)}
    found = {(r.times, r.trips) for r in run(compiled["nested"], schedule, given).ran}
    assert found == {(1, 7), (7, 77)}


@pytest.mark.parametrize("schedule", ("device", "host"))
@pytest.mark.parametrize("words", [1, 2, 9])
def test_a_recursion_has_its_calls_and_how_deep_they_nest(
    compiled: dict[str, Compilation], schedule: str, words: int
) -> None:
    calls, branch = run(compiled["tree"], schedule, sentence(words)).ran
    assert (calls.kind, calls.times, calls.trips) == ("call", 1, 2 * words - 1)
    assert calls.depth == words
    assert (branch.times, branch.then) == (2 * words - 1, words)


def test_trips_stand_behind_each_other_and_hold_the_bricks(
    compiled: dict[str, Compilation],
) -> None:
    wall = run(compiled["collatz"], "device", {"n": np.int64(27)})
    assert all(a.end_us <= b.begin_us <= b.end_us for a, b in pairwise(wall.trips))
    inside = [
        b for b in wall.bricks if wall.trips[0].begin_us <= b.start_us < wall.trips[-1].end_us
    ]
    bodies = {b.call for b in inside}
    per_call = {c: sum(b.call == c for b in inside) for c in bodies}
    assert bodies and set(per_call.values()) <= {111, 41, 70}


def test_a_run_without_stamps_notes_nothing(compiled: dict[str, Compilation]) -> None:
    c = compiled["collatz"]
    c.run({"n": np.int64(27)})
    executable = c.executable
    bound = next(iter(executable._bounds.values()))
    arena = bound.take()
    launches = [*arena.launches.values()]
    arena.point([np.array(27), *bound.outputs.new_arrays()])
    before = [launch.noted for launch in launches]
    bound.replay(arena, teams())
    assert [launch.noted for launch in launches] == before == [0] * len(launches)


def test_what_is_more_than_there_is_room_for_is_not_counted(
    compiled: dict[str, Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.runtime.workers.launch.MOST_NOTES", 100)
    monkeypatch.setattr("explorer.runtime.binding.recording.MOST_NOTES", 100)
    wall = run(compiled["collatz"], "device", {"n": np.int64(27)})
    assert wall.ran == () and 0 < len(wall.trips) < 111


def test_what_ran_is_told_in_words() -> None:
    assert ControlFlowCounts("x", "loop", 3, 1).words == "ran 1 iteration, entered 3 times"
    assert ControlFlowCounts("x", "call", 1, 1200, 0, 13).words == "1,200 calls, depth 13"
