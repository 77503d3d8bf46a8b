"""Whatever helper of a pass is edited, the result is that of a process that never ran it before."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from explorer.cache import Memory
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes.snapshots import Step, run_steps
from tests.examples import examples
from tests.transforms.programs import legalized, weights

# Helpers that call each other in any way: each kind has a number that may be edited.
KINDS = {
    "a number in the code": "def f{n}(seen):\n    return {value} + sum({calls})",
    "a default": "def f{n}(seen, x={value}):\n    return x + sum({calls})",
    "a global": "g{n} = {value}\ndef f{n}(seen):\n    return g{n} + sum({calls})",
    "a dict": "g{n} = dict(x=[{value}])\ndef f{n}(seen):\n    return g{n}['x'][0] + sum({calls})",
    "a class": "class G{n}:\n    x = {value}\ndef f{n}(seen):\n    return G{n}.x + sum({calls})",
    "a method": "class G{n}:\n    def x(self): return {value}\n"
    "def f{n}(seen):\n    return G{n}().x() + sum({calls})",
    "an object": "class G{n}:\n    pass\ng{n} = G{n}()\ng{n}.x = {value}\n"
    "def f{n}(seen):\n    return g{n}.x + sum({calls})",
    "a closure": "def make{n}(x):\n    def f{n}(seen):\n"
    "        return x + sum({calls})\n    return f{n}\nf{n} = make{n}({value})",
    "a partial": "def h{n}(x, seen):\n    return x + sum({calls})\n"
    "f{n} = functools.partial(h{n}, {value})",
    "a lambda": "f{n} = lambda seen: {value} + sum({calls})",
    "an array": "g{n} = np.array([{value}])\ndef f{n}(seen):\n"
    "    return int(g{n}[0]) + sum({calls})",
    "a nested function": "def f{n}(seen):\n    def x():\n        return {value}\n"
    "    return x() + sum({calls})",
    "a callable object": "class G{n}:\n    def __call__(self, seen):\n"
    "        return {value} + sum({calls})\nf{n} = G{n}()",
    "a decorated function": "@functools.lru_cache\ndef f{n}(seen):\n"
    "    return {value} + sum({calls})",
}
CALL = "f{n}(seen | {{{n}}}) if {n} not in seen else 0"


@st.composite
def helpers(draw: st.DrawFn) -> tuple[list[tuple[str, int, tuple[int, ...]]], int, int]:
    """Helpers by kind, number and whom they call; one that is edited, and its new number."""
    count = draw(st.integers(1, 5))
    made = []
    for n in range(count):
        others = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=3))
        calls = sorted({*others, n + 1} & set(range(count)))  # the first reaches all
        made.append((draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, 9)), tuple(calls)))
    return made, draw(st.integers(0, count - 1)), draw(st.integers(10, 19))


def source(n: int, kind: str, value: int, calls: tuple[int, ...]) -> str:
    asked = ", ".join(CALL.format(n=c) for c in calls)
    return KINDS[kind].format(n=n, value=value, calls=f"[{asked}]")


def written(text: str, into: dict[str, Any]) -> None:
    exec(compile(text, "<cell>", "exec"), into)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    folder = tmp_path_factory.mktemp("content")
    return legalized(folder, nodes, {"x": ("n", 4)}, ["y"], {"w": weights(4, 5)})


MEMO: Memory = Memory()


@settings(max_examples=examples(150), deadline=None)
@given(helpers())
def test_an_edited_helper_changes_the_result_every_time(
    program: Program, drawn: tuple[list[tuple[str, int, tuple[int, ...]]], int, int]
) -> None:
    made, edited, value = drawn
    cell: dict[str, Any] = {"__name__": "__main__", "functools": functools, "np": np}
    cell["replace"], name = replace, "f0(frozenset({0}))"
    for n, (kind, old, calls) in enumerate(made):
        written(source(n, kind, old, calls), cell)
    written(f"def rename(program):\n    return replace(program, name=str({name}))", cell)
    steps = [Step("rename", Stage.LEGALIZED, cell["rename"])]

    def result(memo: Memory) -> str:
        return run_steps(program, steps, memo=memo)[0].name

    first = result(MEMO)
    assert first == result(Memory()) == result(MEMO)
    kind, old, calls = made[edited]
    written(source(edited, kind, value, calls), cell)
    for other in cell.values():  # what a helper remembers itself is none of ours
        if isinstance(other, functools._lru_cache_wrapper):
            other.cache_clear()
    assert result(MEMO) == result(Memory()) != first


def test_a_step_that_changes_what_it_refers_to_is_not_remembered(program: Program) -> None:
    seen: list[int] = []

    def counted(p: Program) -> Program:
        seen.append(1)
        return replace(p, name=str(len(seen)))

    memo: Memory = Memory()
    steps = [Step("count", Stage.LEGALIZED, counted)]
    assert [run_steps(program, steps, memo=memo)[0].name for _ in range(3)] == ["1", "2", "3"]


def test_steps_behind_one_that_nobody_can_tell_are_found_by_content(program: Program) -> None:
    def same(p: Program) -> Program:
        return replace(p, name=f"{round(time.time() * 0)}")

    def last(p: Program) -> Program:
        return replace(p, name=p.name + "!")

    steps = [Step("same", Stage.LEGALIZED, same), Step("last", Stage.LEGALIZED, last)]
    memo: Memory = Memory()
    run_steps(program, steps, memo=memo)
    _, snapshots = run_steps(program, steps, memo=memo)
    assert [s.cached for s in snapshots] == [False, True]
