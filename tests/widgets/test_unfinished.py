"""The house of a compilation that has no code: an early stage, a data sheet, an error."""

from dataclasses import replace
from typing import Any

import pytest

import explorer
import widgets
from explorer.compiler.pipeline import device_of
from explorer.errors import BadModelFile, InternalFault, IronworksError
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.process.counters import counters
from widgets.page.report import document
from widgets.rooms import gallery
from widgets.session.compiling import compile_for_display
from widgets.session.session import Session

BERT = "tests/data/tiny_bert.onnx"


def drawn(session: Session) -> set[str]:
    """The pictures that are drawn; of the others each is refused with a sentence."""
    found = set()
    for picture in gallery.PICTURES:
        try:
            session.answer("picture", {"room": picture.name, "op": 3})
        except InternalFault:
            raise
        except IronworksError as problem:
            assert problem.sentence
        else:
            found.add(picture.name)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("stage", [Stage.IMPORTED, Stage.TYPED, Stage.WELDED, Stage.PLANNED])
def test_every_stage_opens_with_what_there_is(stage: Stage) -> None:
    c = explorer.compile(BERT, until=stage)
    session = widgets.explore(c).session
    assert session.answer("imported", {})["lines"]
    assert [n.kind for n in session.house.graph("operators").nodes].count("operator") > 50
    assert ("rammer" in drawn(session)) == (stage >= Stage.PLANNED)
    told = session.parts()["verdict"]
    assert told["runs"] is False and stage.name in told["big"] + told["small"]
    assert {"stages", "program"} <= drawn(session)


@pytest.mark.exhaustive
def test_a_data_sheet_opens_and_everything_is_a_prediction() -> None:
    house = widgets.explore(BERT, target="v100")
    told = house.session.parts()["verdict"]
    assert told["big"].endswith("on v100") and "prediction" in told["small"]
    for room in ("rammer", "memory", "roller"):
        assert house.session.answer("picture", {"room": room, "op": 3})["svg"]
    assert widgets.data(house.session.now.compiled, "rammer")[1] is None  # nothing ran
    knob = next(k for k in house.session.knobs() if k.name == "fusion")
    said = house.session.answer("turn", {"knob": "fusion", "index": (knob.now + 1) % 3})
    assert said["measure"] is False and "predicted" in said["said"]
    with pytest.raises(IronworksError, match="no code of it runs"):
        house.session.answer("measure", {})
    assert house.session.answer("pin", {})
    bundle: Any = house._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/png"] and data["image/svg+xml"]


def test_a_model_that_fails_opens_as_far_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> Program:
        raise KeyError("planted")

    monkeypatch.setattr("explorer.compiler.pipeline.Legalize", lambda *_: broken)
    c, ended = compile_for_display(BERT)
    assert ended is not None and isinstance(ended.problem, InternalFault)
    assert (ended.step, ended.stage) == ("legalise to kernels", Stage.LEGALIZED)
    assert c.program.stage < Stage.LEGALIZED
    session = Session(c, failed=ended)
    told = session.parts()["verdict"]
    assert told["small"] == ended.problem.sentence and told["failed"]["stage"] == "LEGALIZED"
    assert "relax" in drawn(session)
    assert document(session)["answers"]["imported"]["data"]["lines"]


def test_a_model_opens_with_its_plan_and_its_code_comes_with_the_measurement() -> None:
    with counters.delta() as did:
        house = widgets.explore(BERT)
    session = house.session
    assert did.kernel_compiles == 0 and session.now.compiled.program.stage is Stage.PLANNED
    assert session.walls.planned and session.walls.measured is None and session.runs
    assert house.verdict["big"] == "not measured yet" and "runs" not in house.verdict
    bundle: Any = house._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/png"] and "PLANNED" in data["text/plain"]
    job = session.answer("begin_measure", {})["job"]
    assert session.bench.jobs.wait(job, 120)["error"] is None
    session.answer("measure", {})
    assert session.now.compiled.program.stage is Stage.EMITTED and session.walls.measured
    assert session.verdict()["n"] >= 20 and session.answer("kernel", {"call": 0})["lines"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", [True, False])
def test_a_knob_is_compared_with_the_model_as_it_opened(first: bool) -> None:
    session = widgets.explore(BERT).session
    if first:
        session.answer("measure", {})
    knob = next(k for k in session.knobs() if k.name == "fusion")
    session.answer("turn", {"knob": "fusion", "index": knob.labels.index("off")})
    session.answer("measure", {})
    assert "the baseline" in session.verdict()["small"]
    session.answer("undo", {})
    session.answer("measure", {})
    assert "baseline" not in session.verdict()["small"] and session.history()[0]["base"]


def test_a_model_for_wider_vectors_than_there_are_opens_as_a_prediction() -> None:
    wide = replace(device_of("this-cpu"), name="wide", lanes=64)
    told = widgets.explore(BERT, target=wide).session.parts()["verdict"]
    assert told["runs"] is False and "prediction" in told["small"]


def test_what_is_no_model_is_refused_as_before() -> None:
    with pytest.raises(BadModelFile):
        widgets.explore("nothing.onnx")
