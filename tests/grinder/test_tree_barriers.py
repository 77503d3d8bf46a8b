"""Barriers in the tree of uTasks: of a trip, a decision or a call, and none under the host."""

from __future__ import annotations

from typing import Any

import pytest

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.compiler.compilation import Compilation
from explorer.ir.decisions.control import TaskTree
from explorer.views.grinder import tasks
from widgets.grinder import task_tree
from widgets.grinder.shown_tasks import TaskFacts
from widgets.grinder.task_tree import tree_rows

VECTOR, COUNT = tensor("float32", 5), tensor("int64")


@explorer.function(result=VECTOR)
def halved(x: VECTOR, depth: COUNT) -> Any:
    if depth > 0:
        return halved(x * 0.5, depth - 1)
    return x


@explorer.trace
def all_kinds(x: VECTOR, depth: COUNT) -> Any:
    for _ in range(depth):
        if x.sum() > 0:
            x = xp.tanh(x) - 1
    return halved(x, depth)


@pytest.fixture(scope="module")
def compiled() -> Compilation:
    return explorer.compile(
        all_kinds,
        options=explorer.Options(grinder=explorer.grinder.Options("device", inline_branches=False)),
    )


def kinds(tree: TaskTree) -> set[str]:
    return {tree.kind}.union(*map(kinds, tree.parts))


def test_barriers_are_of_a_trip_a_decision_or_a_call(compiled: Compilation) -> None:
    tree = compiled.program.decisions.tasks
    assert tree is not None and kinds(tree) >= {"loop", "branch", "call", "sequence"}
    text = tasks(compiled, None).text.split("\n\n")[0]
    rows = tree_rows(compiled.program, compiled.device, TaskFacts())
    assert rows is not None
    shown = task_tree.figure(rows, (2400, 1400)).text("light")
    for said in (text, shown):
        assert "barriers per iteration" in said and "barriers per call" in said
        assert "1 barrier per decision" in said
    for line in text.splitlines():
        unit = {"loop": " per iteration", "branch": " per decision", "call": " per call"}.get(
            line.split()[0]
        )
        if "in the next frame" in line:
            unit = None
        assert ("barrier" in line) == (unit is not None), line
        assert unit is None or unit in line


def test_units_do_not_meet_where_the_host_decides() -> None:
    c = explorer.compile(
        all_kinds,
        options=explorer.Options(grinder=explorer.grinder.Options("host", inline_branches=False)),
    )

    def hosted(tree: TaskTree) -> list[TaskTree]:
        mine = [tree] if tree.kind in ("loop", "branch") and tree.level == "host" else []
        return mine + [t for part in tree.parts for t in hosted(part)]

    tree = c.program.decisions.tasks
    assert tree is not None
    found = hosted(tree)
    assert {t.kind for t in found} == {"loop", "branch"}
    assert not any(t.barriers_per_trip for t in found)
