"""The predicted effect of moving values by hand, and actions on a refused fusion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.operators import in_words
from explorer.errors import BadOption
from explorer.passes.random_inputs import random_inputs
from tests.tuning.models import mlp
from widgets.session.session import Session
from widgets.welder.judge_moves import HOLDING, NEVER, judge_moves


def test_a_move_is_judged_at_the_sizes_on_show(tmp_path: Path) -> None:
    c = explorer.compile(mlp(tmp_path), until="rolled")
    moves = [("h", "DRAM")]
    hinted, few = judge_moves(c, moves, c.device), judge_moves(c, moves, c.device, {"batch": 1})
    many = judge_moves(c, moves, c.device, {"batch": 2048})
    assert hinted == few and few.before and few.after and many.before and many.after
    assert many.before.traffic > 100 * few.before.traffic
    assert many.after.traffic > 100 * few.after.traffic


def offered(session: Session) -> dict[str, tuple[Any, dict[str, Any]]]:
    """For each condition of a refusal one step, and what is offered for it."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    names = session.house.values
    graph = session.now.compiled.program.decisions.tile_graph
    steps = {
        (in_words(s.label, names), in_words(s.refused, names)): s
        for g in graph.groups
        for s in g.steps
        if s.refused and s.why
    }
    for op in range(len(session.house.operators)):
        for row in session.answer("operator", {"op": op})["fusion"]["rows"]:
            step = steps.get(tuple(row["cells"]))
            if row["acts"] and step is not None:
                found.setdefault(step.why.condition, (step, row))
    return found


@pytest.fixture(params=["cpu", "v100"])
def session(request: pytest.FixtureRequest) -> Session:
    return Session(explorer.compile("zoo:tiny_bert", request.param, until="planned"))


@pytest.mark.exhaustive
def test_what_a_policy_refused_can_be_forced_and_undone(session: Session) -> None:
    found = offered(session)
    assert "repeats" in found and not set(NEVER) & set(found)
    before = session.now
    step, row = found["repeats"]
    assert row["acts"][0]["title"] == "Force it"
    value = row["acts"][0]["args"]["value"]
    said = session.answer("force", {"value": value})["said"]
    assert said.startswith(f"{value} joined by hand: predicted")
    graph = session.now.compiled.program.decisions.tile_graph
    assert any(value in g.members and len(g.members) > 1 for g in graph.groups)
    session.answer("undo", {})
    assert session.now == before and step.why.condition == "repeats"


@pytest.mark.exhaustive
def test_a_memory_that_held_a_value_does_not_when_it_is_flipped(session: Session) -> None:
    step, row = offered(session)["near"]
    assert step.why.condition in HOLDING
    act = row["acts"][1]
    assert act["kind"] == "set" and "capacity" in act["title"] and "What if" in act["says"]
    session.answer("turn", {"knob": act["args"]["knob"], "index": 1, "label": act["args"]["label"]})
    graph = session.now.compiled.program.decisions.tile_graph
    again = [s for g in graph.groups for s in g.steps if s.label == step.label and s.why]
    assert all(s.why.condition not in HOLDING for s in again)


def test_what_is_not_legal_says_why_and_changes_nothing(session: Session) -> None:
    graph = session.now.compiled.program.decisions.tile_graph
    step = next(s for g in graph.groups for s in g.steps if s.why and s.why.condition == "readers")
    before, value = session.now, step.label.split()[0]
    with pytest.raises(BadOption, match="must be stored"):
        session.answer("force", {"value": value})
    assert session.now is before


def test_what_was_forced_runs_and_is_right() -> None:
    session = Session(explorer.compile("zoo:tiny_bert"))
    c = session.now.compiled
    inputs = random_inputs(c.model.program, c.hint)
    value = offered(session)["repeats"][1]["acts"][0]["args"]["value"]
    session.answer("force", {"value": value})
    forced = session.now.compiled.with_options(until="emitted")
    for name, want in c.run(inputs).items():
        np.testing.assert_allclose(forced.run(inputs)[name], want, rtol=2e-4, atol=2e-5)


@pytest.mark.few(7)
@pytest.mark.parametrize("value", [3, ["x"], "nothing", None])
def test_values_that_there_are_not_are_told(session: Session, value: Any) -> None:
    with pytest.raises(BadOption):
        session.answer("force", {"value": value})
