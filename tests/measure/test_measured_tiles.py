"""The fastest measured of Roller's best candidates is taken; what was measured is known again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer import Options
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption, Cancelled
from explorer.frontends import zoo
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.measure import measured_tiles
from explorer.measure.measured_tiles import MeasureTiles, Question
from explorer.measure.this_cpu import this_cpu
from explorer.passes.snapshots import Step, run_steps
from explorer.roller import Options as RollerOptions

NAME = "small_nerf"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONWORKS_CACHE", str(tmp_path))


def rolled(measure: int = 0) -> Compilation:
    options = Options(roller=RollerOptions(measure=measure))
    return explorer.compile(zoo.load(NAME), options=options, until="rolled")


def third_is_fastest(asked: Question, tilings: Sequence[Tiling]) -> list[float]:
    """A clock by which the third best by the model is the fastest."""
    return [1.0 if n == 2 else 10.0 + n for n in range(len(tilings))]


def test_the_fastest_measured_is_taken_and_every_time_is_told() -> None:
    before = rolled().program
    after = MeasureTiles(this_cpu(), 4, third_is_fastest)(before)
    measured = [t for t in after.decisions.tilings if len(t.measured) == 4]
    assert measured
    was = {t.binding: t for t in before.decisions.tilings}
    calls = {b.var.name: b.expr for b in after.kernel_calls}
    seen_first = [t for t in measured if t.measured[0].measured_us == 1.0]
    assert seen_first
    for t in seen_first:
        third = was[t.binding].candidates[2]
        call = calls[t.binding]
        assert t.chosen == third.value == t.candidates[0].value
        assert isinstance(call, KernelCall) and call.tiling == t.chosen
        assert t.measured[0].rank == 3 and t.measured[0].predicted_us == third.cost_us
        assert [m.tiling for m in t.measured] == [c.value for c in t.candidates[:4]]
        assert set(t.candidates) == set(was[t.binding].candidates)


def test_what_clocks_cannot_tell_apart_stays_the_first_of_the_model() -> None:
    before = rolled().program
    after = MeasureTiles(this_cpu(), 3, lambda _, ts: [10.0, 9.8, 9.9][: len(ts)])(before)
    measured = [t for t in after.decisions.tilings if t.measured]
    assert measured and all(t.measured[0].rank == 1 for t in measured)
    assert [t.chosen for t in after.decisions.tilings] == [
        t.chosen for t in before.decisions.tilings
    ]


def test_what_was_measured_is_known_again() -> None:
    program, device = rolled().program, this_cpu()
    with explorer.counters.delta() as first:
        once = MeasureTiles(device, 3, lambda asked, ts: [float(len(repr(t))) for t in ts])(program)
    with explorer.counters.delta() as second:
        again = MeasureTiles(device, 3, lambda asked, ts: [0.0] * len(ts))(program)
    assert first.tilings_measured > 0 and second.tilings_measured == 0
    assert once.decisions.tilings == again.decisions.tilings


def test_without_the_option_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(asked: Question, tilings: Sequence[Tiling]) -> list[float]:
        raise AssertionError("measured")

    monkeypatch.setattr(measured_tiles, "time_here", never)
    with explorer.counters.delta() as did:
        c = rolled()
    assert did.tilings_measured == 0
    assert not any(t.measured for t in c.program.decisions.tilings)
    assert "measure tiles" not in [s.name for s in c.snapshots]


def test_measured_here_answers_are_those_of_the_model_alone() -> None:
    model = zoo.load(NAME)
    measured = explorer.compile(model, options=Options(roller=RollerOptions(measure=2)))
    assert any(t.measured for t in measured.program.decisions.tilings)
    plain = explorer.compile(model)
    inputs = plain.random_inputs()
    for a, b in zip(plain.run(inputs).values(), measured.run(inputs).values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_device_that_cannot_run_here_is_refused() -> None:
    options = Options(roller=RollerOptions(measure=2))
    with pytest.raises(BadOption, match="cannot run v100"):
        explorer.compile(zoo.load(NAME), "v100", options)


@pytest.mark.parametrize("count", [-1, 101, True, 1.5])
def test_the_count_is_a_whole_number(count: object) -> None:
    with pytest.raises(BadOption, match=r"roller\.measure is a whole number from 0 to 100"):
        RollerOptions(measure=count)  # type: ignore[arg-type]


def test_it_tells_how_far_it_is_and_can_be_cancelled() -> None:
    program, asked = rolled().program, []
    stub = MeasureTiles(this_cpu(), 3, lambda asked, ts: [1.0] * len(ts))
    steps = [Step("measure tiles", program.stage, stub)]
    told: list[str] = []

    def unwanted() -> bool:
        asked.append(1)
        return len(asked) > 2  # before the step, and before its first kernel

    with pytest.raises(Cancelled):
        run_steps(program, steps, progress=lambda n, d, t: told.append(n), cancelled=unwanted)
    assert any(n.startswith("measure tiles: ") for n in told)


@pytest.mark.parametrize("constant", [True, False])
def test_integers_that_come_with_a_run_leave_a_kernel_to_the_model(
    constant: bool, tmp_path: Path
) -> None:
    """Which rows it reads is not known before, and no array of chance says it."""
    table = helper.make_tensor_value_info("table", TensorProto.FLOAT, [2, 96])
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 96])
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    known = numpy_helper.from_array(np.arange(64, dtype=np.int64) % 2, "ids")
    graph = helper.make_graph(
        [node], "g", [table] if constant else [table, ids], [y], [known] if constant else []
    )
    path = tmp_path / "gather.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    model = explorer.load(path)
    program = explorer.compile(model, until="rolled").program
    with explorer.counters.delta() as did:
        after = MeasureTiles(this_cpu(), 3)(program)
    assert any(t.measured for t in after.decisions.tilings) == constant
    assert (did.tilings_measured > 0) == constant


def test_a_pinned_tiling_stays() -> None:
    first = rolled().program.decisions.tilings[0]
    pinned = ((first.binding, first.chosen),)
    options = Options(roller=RollerOptions(pinned=pinned))
    program = explorer.compile(zoo.load(NAME), options=options, until="rolled").program
    after = MeasureTiles(this_cpu(), 3, third_is_fastest)(program)
    assert after.decisions.tilings[0] == program.decisions.tilings[0]
    assert any(t.measured for t in after.decisions.tilings)


def test_an_explanation_tells_what_was_timed() -> None:
    compiled = rolled(2)
    decision = next(t for t in compiled.program.decisions.tilings if len(t.measured) == 2)
    lines = str(compiled.explain(decision.binding)).splitlines()
    for m, line in zip(decision.measured, lines[1:3], strict=True):
        assert f"{m.measured_us:.1f} us timed alone, number {m.rank} by the model" in line
    assert not any("timed alone" in line for line in lines[3:])
