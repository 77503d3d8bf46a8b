"""Grinder's tree: lanes of levels, what is folded, the schedules that it plays, and the knob."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.ir.decisions.control import ControlDecision, ControlSchedule, TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.runtime.binding import recording
from explorer.views.grinder import task_rows
from tests.frontends.models import DATA
from tests.runtime.test_control_events import collatz
from tests.widgets.drawn_geometry import SIZES, problems
from tests.widgets.test_iterations import nested
from widgets.draw.table import Mark, sentence_text
from widgets.grinder import shown_tasks, task_tree, view
from widgets.grinder.shown_tasks import DEVICE, HOST, UNIT, TaskFacts, walk_tasks
from widgets.grinder.task_tree import TreeRows, schedule_text, table
from widgets.model.picture import View
from widgets.session.answers import PictureContext
from widgets.session.handlers import time_shown
from widgets.session.session import Session

LLAMA = "zoo:small_llama"  # a loop with a branch with a loop


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(DATA / "tiny_while.onnx"))


@pytest.fixture(scope="module")
def llama() -> Session:
    return Session(explorer.compile(LLAMA, until="planned"))


def drawn(
    session: Session, schedule: str = "", size: tuple[int, int] = SIZES[0], op: str = ""
) -> Any:
    view = View(policy=schedule, width=size[0], height=size[1])
    return task_tree.PICTURE.draw(PictureContext(session, view), op)


def ran(inputs: Mapping[str, Any], model: Any, **grinder: Any) -> Session:
    c = explorer.compile(model)
    session = Session(
        c.with_options(grinder=replace(c.options.grinder, **grinder)), inputs=dict(inputs)
    )
    time_shown(session, task_tree.PICTURE, "")
    return session


def leaf(name: str) -> TaskTree:
    return TaskTree("operator", name, "device", (), name, origin=frozenset({name}))


def test_a_loop_has_its_ways_the_one_taken_first(session: Session) -> None:
    rows = task_rows(session.now.compiled.program)
    (loop,) = (r for r in rows if r.kind == "loop")
    taken, *others = map(schedule_text, loop.schedules)
    assert taken.startswith("in the program")
    assert any(way.startswith("on the host ") for way in others)
    assert any(way.startswith("unrolled no: its data may end it") for way in others)
    assert not any(r.schedules for r in rows if r.kind == "operator")
    assert "on the host" in str(table(rows).rows)


def test_each_schedule_of_the_ladder_is_a_plan_of_its_own(llama: Session) -> None:
    controls = task_tree.PICTURE.family.controls(llama, "")  # type: ignore[union-attr]
    (name, title, values, now, texts) = controls["more"][0]
    assert (name, title, controls["play"]) == ("policy", "off the host", "policy")
    assert values == ["host", "innermost 1", "innermost 2", "device", ""] and now == 4
    assert texts == ["nothing", "innermost", "2 innermost", "all", "as compiled"]
    hosted = []
    for schedule in values[:-1]:
        rows, _, table = drawn(llama, schedule)
        control = [n for n in walk_tasks(rows.tree) if n.kind in view.CONTROL]
        hosted.append(sum(n.lane == HOST for n in control))
        assert len(control) == 3
        tree = view.plan_schedule(llama, schedule).program.decisions.tasks
        assert tree is not None and rows.tree.name == tree.name
        assert sentence_text(table.see[0]) == (
            f"2 loops and 1 branch, {hosted[-1] or 'none'} on the host."
        )
    assert hosted == [3, 2, 1, 0]
    with pytest.raises(BadOption, match="unknown control-flow schedule 'innermost 9'"):
        drawn(llama, "innermost 9")


def test_what_one_unit_does_alone_is_in_the_lane_of_one() -> None:
    loops = tuple(TaskTree("loop", n, "device", (leaf(f"in_{n}"),), n) for n in ("mine", "all"))
    ways = {n: ControlSchedule("device", 1, calls) for n, calls in (("mine", "alone"), ("all", ""))}
    decided = {n: ControlDecision(n, "loop", way, ()) for n, way in ways.items()}
    parts = (leaf("before"), *loops)
    tree = shown_tasks.build_tree(
        TaskTree("sequence", "x", "device", parts), TaskFacts(decided=decided)
    )
    lanes = {n.name: n.lane for n in walk_tasks(tree)}
    assert lanes == {
        "x": HOST, "before": DEVICE, "loop mine": UNIT, "in_mine": UNIT, "loop all": DEVICE,
        "in_all": DEVICE,
    }  # fmt: skip


RUNS = (
    (collatz, {"n": np.int64(27)}),
    (nested, {"x": np.ones((3, 4), np.float32), "k": np.array(5)}),
)


@pytest.mark.parametrize("schedule", ["eager", "host", "device"])
@pytest.mark.parametrize(("model", "inputs"), RUNS)
def test_launches_are_those_that_a_run_makes(
    model: Any, inputs: Mapping[str, Any], schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[int] = []
    plain = recording._Recorder.launch

    def counting(self: Any, step: Any) -> Any:
        deed = plain(self, step)
        return lambda run: (launched.append(1), deed(run))

    monkeypatch.setattr(recording._Recorder, "launch", counting)
    c = explorer.compile(model)
    grinder = replace(c.options.grinder, schedule=schedule, inline_branches=False)
    c = c.with_options(grinder=grinder)
    wall, tree = c.measured_wall(dict(inputs)), c.program.decisions.tasks
    assert tree is not None
    launched.clear()
    c.run(dict(inputs))
    known = {r.binding: r for r in wall.ran}
    assert view.launches(tree, known, apart=schedule == "eager") == len(launched)


def test_counts_of_a_run_stand_in_the_tree_and_in_the_sentences() -> None:
    session = ran({"n": np.int64(27)}, collatz, schedule="device", inline_branches=False)
    rows, figure, table = drawn(session)
    said = {n.kind: n.under for n in walk_tasks(rows.tree) if n.kind in ("loop", "branch")}
    assert said == {"loop": "×111 iterations", "branch": "then 70 of 111"}
    assert [*map(sentence_text, table.see)] == [
        "1 loop and 1 branch, none on the host.",
        "The loop makes 111 iterations.",
        "1 launch instead of 334.",
    ]
    assert "×111 iterations" in figure.body and "taken 41 of 111" in str(table.rows)


def test_before_a_run_sizes_tell_the_iterations_of_a_counted_loop() -> None:
    session = Session(explorer.compile("zoo:small_looped_lstm", until="planned"))
    rows, _, table = drawn(session, "host")
    assert [n.under for n in walk_tasks(rows.tree) if n.kind == "loop"] == ["×5 iterations"]
    assert sentence_text(table.see[2]) == "6 launches per run."
    inner = TaskTree("loop", "inner", "host", (), "inner")
    outer = TaskTree("loop", "outer", "host", (inner,), "outer")
    found = shown_tasks.static_profile(
        TaskTree("sequence", "", "host", (outer,)), {"inner": 3, "outer": 4}
    )
    assert found == {
        "outer": ControlFlowCounts("outer", "loop", 1, 4),
        "inner": ControlFlowCounts("inner", "loop", 4, 12),
    }


def test_a_sentence_lights_marks_that_are_drawn(llama: Session) -> None:
    for size in SIZES:
        _, figure, table = drawn(llama, size=size)
        lit = [set(keys.split()) for keys in re.findall(r'data-k="([^"]*)"', figure.body)]
        for mark in (part for s in table.see for part in s if isinstance(part, Mark)):
            if size[0] >= 640 or mark.lights != "lv0":
                assert any(set(mark.lights.split()) <= keys for keys in lit), mark.text


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_while"])
def test_what_is_launched_at_once_hangs_on_one_line(model: str) -> None:
    session = Session(explorer.compile(f"zoo:{model}"))
    svg = session.answer("picture", {"room": "grinder", "width": 1100, "height": 620})["svg"]
    heavy = re.findall(r'<path d="M[\d.]+ [\d.]+V[\d.]+H[\d.]+V[^"]*"[^>]*stroke-width="2"', svg)
    assert len(heavy) == 1


def big(layers: int) -> TaskTree:
    """A loop over layers, each a branch between two runs of operators."""
    parts: list[TaskTree] = []
    for n in range(layers):
        arms = tuple(
            TaskTree("sequence", arm, "device", (leaf(f"{arm}_{n}"), leaf(f"{arm}_b_{n}")))
            for arm in ("then", "else")
        )
        parts += [leaf(f"norm_{n}"), leaf(f"product_{n}")]
        parts.append(TaskTree("branch", f"cond.{n}", "device", arms, f"cond.{n}"))
    return TaskTree(
        "sequence", "big", "device", (TaskTree("loop", "loop", "device", tuple(parts)),)
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layers", [1, 4, 400])
def test_a_large_tree_is_folded_until_it_can_be_read(layers: int, size: tuple[int, int]) -> None:
    tree = shown_tasks.build_tree(big(layers), TaskFacts())
    rows = TreeRows(tree, (), (("host", "1 thread"), ("device", "2 cores"), ("core", "1 core")))
    figure = task_tree.figure(rows, size)
    assert problems(figure) == []
    assert "branch" in figure.body or layers > 1
    if layers > 1:
        assert f"×{layers}" in figure.body  # repeated layers are one


def test_the_selected_operator_is_not_folded() -> None:
    parts = tuple(leaf(f"op_{chr(97 + n % 26)}{n}") for n in range(60))
    loop = TaskTree("sequence", "", "device", (TaskTree("loop", "loop", "device", parts),))
    tree = shown_tasks.build_tree(loop, TaskFacts())
    rows = TreeRows(tree, (), (("host", ""), ("device", ""), ("core", "")))
    name = parts[30].name
    assert f'data-op="{name}"' in task_tree.figure(rows, SIZES[0], name).body
    assert f'data-op="{name}"' not in task_tree.figure(rows, SIZES[0]).body


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", [LLAMA, "zoo:tiny_bert", "zoo:small_recursive_autoencoder"])
def test_the_tree_is_drawn_for_the_pixels_of_its_page(model: str, size: tuple[int, int]) -> None:
    session = Session(explorer.compile(model, until="planned"))
    controls = task_tree.PICTURE.family.controls(session, "")  # type: ignore[union-attr]
    for schedule in controls["more"][0][2] if controls else ("",):
        _, figure, _ = drawn(session, schedule, size)
        assert (figure.width, figure.height) == size
        assert problems(figure) == [], schedule


def test_the_knob_runs_the_loop_from_python(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "control")
    assert knob.labels[knob.now] == "auto"
    session.turn("control", knob.labels.index("host"))
    rows = task_rows(session.now.compiled.program)
    assert [r.level for r in rows if r.kind == "loop"] == ["host"]
    session.undo()
    assert task_rows(session.now.compiled.program)[0].level == "device"


def test_a_model_without_control_flow_says_so_and_has_no_such_knob() -> None:
    session = Session(explorer.compile(DATA / "tiny_bert.onnx", until="planned"))
    assert "control" not in {k.name for k in session.knobs()}
    assert task_tree.PICTURE.family.controls(session, "") == {}  # type: ignore[union-attr]
    (said,) = drawn(session)[2].see
    kernels = len(session.now.compiled.program.kernel_calls)
    assert (
        sentence_text(said) == f"No loop, branch or call: all is one launch of {kernels} kernels."
    )
