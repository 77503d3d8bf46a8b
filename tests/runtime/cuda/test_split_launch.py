"""A program as several launches makes what it makes as one."""

from __future__ import annotations

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.cuda.driver import SimulatedDriver
from explorer.runtime.cuda.gpu import StreamCalls
from explorer.runtime.cuda.program import DeviceProgram
from explorer.runtime.cuda.run import ProgramRun
from explorer.runtime.cuda.tables import AccessedBytes
from explorer.runtime.device_program import instructions as isa
from tests.runtime.cuda.test_program import UNITS, agree, compiled


def parts(program: DeviceProgram, launches: str) -> list[LaunchCode]:
    return [step for step in program.split(launches) if isinstance(step, LaunchCode)]


def operators(code: LaunchCode) -> set[str]:
    return {run.operator.name for own in code.runs for run in own.values()}


@pytest.mark.few(1)
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("launches", ["operator", "wave"])
def test_launches_make_what_one_makes(launches: str, graph: bool) -> None:
    """And every task runs once: nobody waits in any of them."""
    c = compiled("zoo:small_lstm")
    program, inputs = c.device_program(units=UNITS), c.random_inputs()
    want = compiled("zoo:small_lstm", "cpu").run(inputs)
    run = ProgramRun(program, SimulatedDriver(UNITS), launches, graph)
    agree(run.run(inputs), want)
    agree(run.run(inputs), want)
    wall, whole = run.wall(), ProgramRun(program, SimulatedDriver(UNITS))
    whole.run(inputs)

    def tasks(bricks: Any) -> set[tuple[str, int]]:
        return {(b.call, n) for b in bricks for n in range(b.first, b.last)}

    assert tasks(wall.bricks) == tasks(whole.wall().bricks)
    made = parts(program, launches)
    assert all({*rows[:, 0].tolist()} <= {isa.RUN, isa.END} for x in made for rows in x.rows)


def test_a_launch_has_one_operator_or_those_that_touch_nothing_of_each_other() -> None:
    program = compiled("zoo:small_lstm").device_program(units=UNITS)
    single, waves = (parts(program, n) for n in ("operator", "wave"))
    assert len(single) == len(program.blocks) and all(len(operators(x)) == 1 for x in single)
    assert len(waves) < len(single) and any(len(operators(x)) > 1 for x in waves)
    for x in waves:
        mine = [program.accessed_bytes(name) for name in operators(x)]
        assert not any(a.conflicts(b) for a in mine for b in mine if a is not b)
    assert program.split("program") == program.steps


def test_what_meets() -> None:
    x, y, far = (((a, b),) for a, b in ((0, 8), (4, 12), (8, 9)))
    assert AccessedBytes(x, far).conflicts(AccessedBytes(y, ())) and not AccessedBytes(
        x, ()
    ).conflicts(AccessedBytes(y, ()))
    assert AccessedBytes((), x).conflicts(AccessedBytes((), y)) and AccessedBytes(y, ()).conflicts(
        AccessedBytes((), x)
    )
    assert not AccessedBytes((), x).conflicts(AccessedBytes(far, far))


def test_what_several_launches_cannot_hold_is_told() -> None:
    program = compiled("zoo:small_looped_lstm").device_program(units=UNITS)
    with pytest.raises(BadOption, match="one launch a wave holds no control flow"):
        ProgramRun(program, SimulatedDriver(UNITS), "wave")
    with pytest.raises(BadOption, match="a launch has one of program, wave, operator"):
        compiled("zoo:small_lstm").on_gpu(lambda: SimulatedDriver(UNITS), "kernel").run(
            compiled("zoo:small_lstm").random_inputs()
        )


class Answer(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901


def test_a_graph_is_captured_once_and_asked_for_by_one_call() -> None:
    asked: list[tuple[Any, ...]] = []

    def answers(name: str, *more: Any, fails: bool = False) -> Any:
        code = Answer.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED if fails else Answer.CUDA_SUCCESS

        def answer(*given: Any) -> tuple[Any, ...]:
            asked.append((name, *given))
            return (code, *more)

        return answer

    driver = SimpleNamespace(
        CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2),
        cuStreamBeginCapture=answers("begin"),
        cuStreamEndCapture=answers("end", "graph"),
        cuGraphInstantiate=answers("instantiate", "made"),
        cuGraphLaunch=answers("launch"),
    )
    calls = StreamCalls.__new__(StreamCalls)
    calls.driver, calls.stream = driver, 7
    go = calls.capture(lambda: asked.append(("work",)))
    go()
    go()
    first = [("begin", 7, 2), ("work",), ("end", 7), ("instantiate", "graph", 0)]
    assert asked == [*first, ("launch", "made", 7), ("launch", "made", 7)]
    driver.cuStreamEndCapture = answers("end", None, fails=True)
    with pytest.raises(RuntimeError, match="CAPTURE_INVALIDATED"):
        calls.capture(lambda: None)

    def broken() -> None:
        raise np.linalg.LinAlgError("work failed")

    asked.clear()
    with pytest.raises(np.linalg.LinAlgError):
        calls.capture(broken)
    assert [x[0] for x in asked] == ["begin", "end"]
