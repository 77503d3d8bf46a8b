"""Grinder's room: the ways of a loop beside its uTask, and the knob that takes another."""

from __future__ import annotations

import pytest

import explorer
from tests.frontends.models import DATA
from widgets.grinder import task_tree
from widgets.session.session import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(DATA / "tiny_while.onnx"))


def test_a_loop_has_its_ways_the_one_taken_first(session: Session) -> None:
    rows = task_tree.data(session.now.compiled.program)
    (loop,) = (r for r in rows if r.kind == "loop")
    taken, host, unrolled = loop.ways
    assert taken.startswith("in the program ") and host.startswith("on the host ")
    assert unrolled.startswith("unrolled no: its data may end it")
    assert not any(r.ways for r in rows if r.kind == "operator")
    assert "on the host" in str(task_tree.table(rows).rows)
    assert "on the host" in task_tree.figure(rows).text("light")


def test_the_knob_runs_the_loop_from_python(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "control")
    assert knob.labels[knob.now] == "auto"
    session.turn("control", knob.labels.index("host"))
    rows = task_tree.data(session.now.compiled.program)
    assert [r.level for r in rows if r.kind == "loop"] == ["host"]
    session.undo()
    assert task_tree.data(session.now.compiled.program)[0].level == "device"


def test_a_model_without_control_flow_has_no_such_knob() -> None:
    session = Session(explorer.compile(DATA / "tiny_vit.onnx"))
    assert "control" not in {k.name for k in session.knobs()}
