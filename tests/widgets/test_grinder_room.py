"""Grinder's room: the ways of a loop beside its uTask, and the knob that takes another."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import explorer
from tests.frontends.models import DATA
from tests.runtime.test_decided import collatz
from widgets.grinder import task_tree
from widgets.session.asked.clocks import time_shown
from widgets.session.session import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(DATA / "tiny_while.onnx"))


def test_a_loop_has_its_ways_the_one_taken_first(session: Session) -> None:
    rows = task_tree.data(session.now.compiled.program)
    (loop,) = (r for r in rows if r.kind == "loop")
    taken, *others = loop.ways
    assert taken.startswith("in the program")
    assert any(way.startswith("on the host ") for way in others)
    assert any(way.startswith("unrolled no: its data may end it") for way in others)
    assert not any(r.ways for r in rows if r.kind == "operator")
    assert "on the host" in str(task_tree.table(rows).rows)
    assert "on the host" in task_tree.figure(rows).text("light")


def test_what_is_said_of_neighbours_has_lines_of_its_own() -> None:
    said = "predicted for a trip: 3,874 ns on the host, 538 ns in the program, one unit, " * 3
    rows = tuple(
        task_tree.TaskRow(depth, "loop", f"loop{depth}", "device", 1, 2, said, (), (), ran)
        for depth, ran in ((0, ""), (1, ""), (2, "127 trips"))
    )
    svg = task_tree.figure(rows)
    words = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="">', svg.body)
    lines = [float(y) for x, y in words if float(x) >= task_tree.BESIDE]
    assert len(lines) > len(rows) * 2 and lines[-1] < svg.height
    assert all(b - a >= 12 for a, b in pairwise(lines))


def test_what_ran_is_told_in_the_tree_where_a_clock_ran() -> None:
    c = explorer.compile(collatz)
    grinder = replace(c.options.grinder, inline_branches=False)
    session = Session(c.with_options(grinder=grinder), inputs={"n": np.int64(27)})
    rows, figure, table = task_tree.PICTURE.draw(session, "")
    assert not any(r.ran for r in rows) and "measured" not in figure.text()
    time_shown(session, task_tree.PICTURE, "")
    rows, figure, table = task_tree.PICTURE.draw(session, "")
    told = {r.name.rsplit("/", 1)[-1]: r.ran for r in rows if r.ran}
    assert told == {
        "loop": "ran 111 trips",
        "cond": "then side 70 of 111",
        "then": "taken 70 of 111",
        "else": "taken 41 of 111",
    }
    assert "measured in a run" in figure.text() and "taken 41 of 111" in str(table.rows)


def test_the_knob_runs_the_loop_from_python(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "control")
    assert knob.labels[knob.now] == "auto"
    session.turn("control", knob.labels.index("host"))
    rows = task_tree.data(session.now.compiled.program)
    assert [r.level for r in rows if r.kind == "loop"] == ["host"]
    session.undo()
    assert task_tree.data(session.now.compiled.program)[0].level == "device"


@pytest.mark.exhaustive
def test_a_model_without_control_flow_has_no_such_knob() -> None:
    session = Session(explorer.compile(DATA / "tiny_vit.onnx"))
    assert "control" not in {k.name for k in session.knobs()}
