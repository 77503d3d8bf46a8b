"""Cancellation of an endless pass, policy or operator, by Ctrl-C or by the caller; nothing of it
stays.
"""

from __future__ import annotations

import _thread
import subprocess
import sys
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.options import Options
from explorer.errors import Cancelled
from explorer.ir.program import Program
from explorer.ops import user_operators
from explorer.process import sandbox
from explorer.process.cancellation import cancellable, cancelling_user_code, reporting_to
from explorer.rammer import Options as RammerOptions
from explorer.roller import Options as RollerOptions
from explorer.welder import Options as WelderOptions
from tests.ops.test_user_operators import rules, traced

BEGUN = Event()
X = np.ones((3, 8), np.float32)


@pytest.fixture(autouse=True)
def no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a process cannot fork: a pass runs in this one at once, and nothing ends it."""
    monkeypatch.setattr(sandbox, "CAN_FORK", False)


def endless(*_: Any) -> Any:
    """Never give anything, and hold on to life."""
    BEGUN.set()
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def stubborn(program: Program) -> Program:
    """End only when it is told to the third time."""
    BEGUN.set()
    for _ in range(2):
        try:
            while True:
                pass
        except BaseException:
            continue
    while True:
        pass


def endless_yield(*_: Any) -> Any:
    """Give no tile, one after another."""
    yield from iter(endless, None)


OPTIONS: dict[str, Options] = {
    "pass": Options(passes=(("legalise to kernels", endless),)),
    "stubborn pass": Options(passes=(("legalise to kernels", stubborn),)),
    "welder's policy": Options(welder=WelderOptions(policy=endless)),
    "roller's policy": Options(roller=RollerOptions(policy=endless_yield)),
}


@pytest.fixture
def model() -> Any:
    BEGUN.clear()

    @explorer.trace
    def small(x: explorer.tensor("float32", "n", 8)):  # type: ignore[valid-type]
        return x * 2 + 1

    return small


def interrupted(work: Callable[[], object]) -> None:
    """Ctrl-C once the work has begun."""

    def press() -> None:
        BEGUN.wait()
        _thread.interrupt_main()

    thread = Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    thread.join()


def right(model: Any) -> None:
    c = explorer.compile(model)
    np.testing.assert_array_equal(next(iter(c.run({"x": X}).values())), X * 2 + 1)


@pytest.mark.parametrize("name", [n for n in OPTIONS if n != "stubborn pass"])
def test_ctrl_c_ends_what_never_ends(model: Any, name: str) -> None:
    interrupted(lambda: explorer.compile(model, options=OPTIONS[name]))
    right(model)


def test_ctrl_c_ends_a_policy_that_lays_a_wall(model: Any) -> None:
    c = explorer.compile(model)
    endless_wall = c.with_options(rammer=RammerOptions(policy=endless))
    BEGUN.clear()
    interrupted(endless_wall.planned_wall)
    right(model)


@pytest.mark.parametrize("name", OPTIONS)
def test_who_asks_for_work_beside_ends_what_never_ends(model: Any, name: str) -> None:
    found: list[BaseException] = []
    wanted = Event()
    wanted.set()

    def work() -> None:
        try:
            explorer.compile(model, options=OPTIONS[name], cancelled=lambda: not wanted.is_set())
        except BaseException as problem:
            found.append(problem)

    thread = Thread(target=work)
    thread.start()
    assert BEGUN.wait(60)
    wanted.clear()
    thread.join(60)
    assert not thread.is_alive()
    (problem,) = found
    assert isinstance(problem, Cancelled) and "was stopped" in problem.sentence
    right(model)


def test_an_endless_operator_is_ended() -> None:
    BEGUN.clear()
    try:
        model = traced(explorer.operator(rules(lower=endless)))
        with pytest.raises(Cancelled, match="the operator 'Squareplus' was stopped"):
            explorer.compile(model, cancelled=BEGUN.is_set)
    finally:
        user_operators.forget("Squareplus")


def test_what_is_compiled_with_other_options_inside_of_work_tells_and_ends_with_it() -> None:
    compiled = explorer.compile("tests/data/tiny_skip.onnx", until="rolled")
    heard: list[str] = []
    with reporting_to(lambda step, done, of: heard.append(step)):
        compiled.with_options(roller=RollerOptions(top_k=7))
    assert "tile (Roller)" in heard
    with cancellable(lambda: True), pytest.raises(Cancelled):
        compiled.with_options(roller=RollerOptions(top_k=6))


def test_work_that_ends_by_itself_is_left_alone() -> None:
    for n in range(200):
        with cancellable(lambda: False), cancelling_user_code("counting"):
            n += 1
    stop = Event()
    with cancellable(stop.is_set):
        for _ in range(200):  # asked to stop between two pieces of work: neither is hurt
            with cancelling_user_code("counting"):
                sum(range(100))
            stop.set()
            sum(range(100))
            stop.clear()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_profiler_runs_where_code_was_ended_before(wanted: bool) -> None:
    """The interpreter is left as it was: what was raised has come, and nothing was taken back."""
    script = f"""
import sys
from explorer.errors import Cancelled
from explorer.process.cancellation import cancellable, cancelling_user_code
try:
    with cancellable(lambda: {not wanted}), cancelling_user_code("a loop"):
        while {not wanted}:
            pass
except Cancelled:
    pass
calls = []
sys.setprofile(lambda frame, event, _: calls.append(event))
def called(): return 1
called()
sys.setprofile(None)
print(calls.count("call"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"
