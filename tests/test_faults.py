"""A fault of ours is told as one, in one sentence; what the user gave is blamed for itself only."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, InternalFault, IronworksError, ShapeError, TooLarge, fault
from explorer.ir.program import Program
from tests.widgets import made_by_hand as hand
from widgets.page.report import document
from widgets.session.jobs import Jobs
from widgets.session.session import Session


def relu(rows: int = 3) -> Any:
    from explorer import np as xnp

    @explorer.trace
    def model(x: explorer.tensor("float32", rows)) -> Any:  # type: ignore[valid-type]
        return xnp.maximum(x, 0)

    return model


def broken(program: Program) -> Program:
    """A step of ours with a fault."""
    raise KeyError("a name of ours")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.compiler.pipeline.Legalize", lambda *_: broken)


def test_a_fault_in_a_step_names_the_step_and_keeps_what_was_raised(planted: None) -> None:
    with pytest.raises(InternalFault, match="fault of Ironworks in the step 'legalise") as caught:
        explorer.compile(relu())
    assert "not of your input" in str(caught.value) and "IRONWORKS_DEBUG=1" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.exhaustive
@pytest.mark.parametrize("debug", ["", "0", "1"])
def test_the_shell_tells_a_fault_in_a_line_and_where_it_lies_if_asked(
    planted: None,
    debug: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from explorer.cli import main

    monkeypatch.setenv("IRONWORKS_DEBUG", debug)
    code = main(["compile", "zoo:alexnet"])
    err = capsys.readouterr().err
    told = [line for line in err.splitlines() if "a fault of Ironworks in the step" in line]
    assert code == 70 and told
    assert ("Traceback" in err) == (debug == "1") == ("in broken" in err)
    assert told[-1].startswith("ironworks compile: ")


@pytest.mark.exhaustive
def test_bad_input_in_the_shell_is_blamed_on_the_input() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "explorer", "compile", "nothing.onnx"],
        capture_output=True,
        text=True,
        env={"IRONWORKS_DEBUG": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=120,
    )
    assert said.returncode == 2 and said.stderr.count("\n") == 1
    assert "nothing.onnx" in said.stderr and "fault" not in said.stderr


def test_a_lack_of_memory_is_no_fault_of_ours() -> None:
    assert isinstance(fault(MemoryError(), "the step 'weld'"), TooLarge)
    refused = BadOption("no")
    assert fault(refused, "the step 'weld'") is refused


@pytest.fixture
def session() -> Session:
    return Session(hand.HandMade(), compare=hand.compare)


@pytest.mark.parametrize("kind", ["operator", "link"])
def test_a_fault_in_an_answer_of_the_house_is_ours(
    session: Session, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        return {}["a name of ours"]

    monkeypatch.setattr("widgets.rooms.inspection.data", broken)
    monkeypatch.setattr("widgets.session.state.fragment", broken)
    with pytest.raises(InternalFault, match=f"in the question '{kind}'") as caught:
        session.answer(kind, {"op": 0} if kind == "operator" else {})
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.exhaustive
def test_a_saved_page_tells_a_fault_of_ours_where_its_answer_would_be(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        return {}["a name of ours"]

    monkeypatch.setattr("widgets.rooms.inspection.data", broken)
    answers = document(session, code=False)["answers"]
    found = {key: a for key, a in answers.items() if key.startswith("operator|")}
    assert found and all("a fault of Ironworks" in a["error"]["sentence"] for a in found.values())
    assert all("data" in a for key, a in answers.items() if key not in found)


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("operator", {"op": 99}),
        ("operator", {"op": -1}),
        ("operator", {"op": "0"}),
        ("operator", {"op": True}),
        ("operator", {}),
        ("operator", {"op": 0, "more": 1}),
        ("program", {"step": 1 << 70}),
        ("kernel", {"call": None}),
        ("kernel", {"call": 0, "language": []}),
        ("focus", {"op": 99}),
        ("turn", {"knob": [], "index": 0}),
        ("picture", {"room": "walls", "colour": "red"}),
        ("picture", {"room": "walls", "op": 99}),
        ("wall", {"wall": "planned", "start_us": 0.0}),
        ("wall", {"wall": "planned", "start_us": "x", "end_us": 1.0}),
        ("wall", {"wall": "planned", "start_us": 0.0, "end_us": 1.0, "lit": 3}),
        ("move_brick", {"call": 0}),
        ("move_brick", {"call": 99, "first": 0, "last": 0, "unit": 0, "launch": 0}),
        ("job", {"job": []}),
        ("restore", {"text": 3}),
        ("judge", {"op": 0, "fields": []}),
    ],
)
def test_a_bad_question_is_blamed_on_the_question(
    session: Session, kind: str, args: dict[str, Any]
) -> None:
    with pytest.raises(IronworksError) as caught:
        session.answer(kind, args)
    assert not isinstance(caught.value, InternalFault), caught.value


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_house_shows_where_a_fault_lies_if_asked(
    debug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: Any) -> Any:
        return np.zeros(2)[3]

    monkeypatch.setenv("IRONWORKS_DEBUG", debug)
    jobs = Jobs()
    error = jobs.wait(jobs.start(1, broken))["error"]
    assert error["sentence"].startswith("a fault of Ironworks in a background job")
    assert ("traceback" in error) == bool(debug)
    assert "in broken" in error.get("traceback", "in broken")


RAISED = [KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, AssertionError]


@pytest.mark.parametrize("raised", RAISED)
def test_what_a_rule_raises_besides_our_errors_is_a_fault_of_ours(
    raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was laid to the model's shapes, where it was no KeyError."""
    from dataclasses import replace

    from explorer.ops import RECORDS

    def broken(site: Any) -> Any:
        raise raised("a slip of ours")

    model = explorer.load(
        relu(70 + RAISED.index(raised))
    )  # no other test's: what steps made of it is not remembered
    op = next(b.expr.op for _, b in model.program.bindings())  # type: ignore[union-attr]
    for part, step in (("deduce", "infer shapes"), ("lower", "legalise to kernels")):
        with monkeypatch.context() as m:
            changed = replace(RECORDS[op], **{part: broken})  # type: ignore[arg-type]
            m.setitem(RECORDS._loaded, op, changed)  # type: ignore[attr-defined]
            with pytest.raises(
                InternalFault, match=f"in the step '{step}', in the rule of {op} at"
            ):
                explorer.compile(model, until="legalized")


@pytest.mark.parametrize("raised", [KeyError, IndexError, ValueError, ArithmeticError])
def test_a_fault_of_a_rule_while_tracing_is_ours_and_bad_arguments_are_not(
    raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from explorer import np as xnp
    from explorer.ops import RECORDS

    def product(x: explorer.tensor("float32", 2, 3)) -> Any:  # type: ignore[valid-type]
        return xnp.matmul(x, x)

    with pytest.raises(ShapeError) as refused:
        explorer.load(explorer.trace(product))
    assert "of Ironworks" not in str(refused.value)

    def broken(site: Any) -> Any:
        raise raised("a slip of ours")

    changed = replace(RECORDS["MatMul"], deduce=broken)
    monkeypatch.setitem(RECORDS._loaded, "MatMul", changed)  # type: ignore[attr-defined]
    with pytest.raises(InternalFault, match="in tracing, in the rule of MatMul at"):
        explorer.load(explorer.trace(product))
