"""Pictures without content: those that would draw nothing are absent, and no others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
import explorer.np as enp
from explorer.errors import IronworksError
from explorer.frontends.model import Model
from tests.widgets import made_by_hand as hand
from widgets.model.picture import Picture
from widgets.page.shell import House
from widgets.roller.bank_map import BankRows
from widgets.rooms import content, gallery
from widgets.session.session import Session

DATA = Path(__file__).parents[1] / "data"
# These draw a program without what they are about: tasks, or a gradient.
TRIVIAL = {"policies", "accept", "layers", "rtasks", "kernels", "backward", "memory_time"}


@explorer.trace
def reshaped(x: explorer.tensor("float32", 8, 4)) -> Any:  # type: ignore[valid-type]
    return x.reshape(32)


@explorer.trace
def summed(x: explorer.tensor("float32", "n", 4)) -> Any:  # type: ignore[valid-type]
    total = x[0]
    while total.sum() < 100:
        total = total + enp.abs(x).sum(axis=0) + 1
    return total


def deep(w: Any, x: Any) -> Any:
    return (enp.tanh(enp.tanh(x @ w) @ w) ** 2).mean()


def trained() -> Model:
    w, x = explorer.tensor("float32", 8, 8), explorer.tensor("float32", 4, 8)
    return explorer.trace(explorer.value_and_grad(deep))(w, x)


MODELS: dict[str, tuple[Callable[[], Any], str, str | None]] = {
    "bert": (lambda: DATA / "tiny_bert.onnx", "cpu", None),
    "bert on a GPU": (lambda: DATA / "tiny_bert.onnx", "h100", None),
    "a GPU's plan": (lambda: DATA / "tiny_lstm.onnx", "v100", "planned"),
    "kernels without tiles": (lambda: DATA / "tiny_bert.onnx", "cpu", "legalized"),
    "types": (lambda: DATA / "tiny_while.onnx", "cpu", "typed"),
    "while": (lambda: DATA / "tiny_while.onnx", "cpu", None),
    "planned while": (lambda: DATA / "tiny_while.onnx", "cpu", "planned"),
    "lstm": (lambda: DATA / "tiny_lstm.onnx", "cpu", None),
    "loop over a size": (lambda: summed, "cpu", None),
    "no kernel": (lambda: reshaped, "cpu", None),
    "gradient": (trained, "cpu", None),
}


@pytest.fixture(scope="module", params=MODELS)
def session(request: pytest.FixtureRequest) -> Session:
    model, target, until = MODELS[request.param]
    c = explorer.compile(model(), target=target, **({"until": until} if until else {}))
    found = Session(c)
    if found.runs:
        found.run_once()
    return found


def shows_nothing(s: Session, picture: Picture) -> bool:
    """It draws no mark, and neither it nor its button can."""
    if picture.live in ("settings", "switches") or picture.every == "Step":
        return False  # these have controls of their own, and a step to choose
    clock = picture.clock
    try:
        if clock is not None and clock.about(s, "") is not None:
            return False
        rows, _, table = picture.draw(s, "")
    except IronworksError:
        return True
    return rows == () or not table.rows or (isinstance(rows, BankRows) and bool(rows.reason))


def test_a_picture_is_absent_if_it_would_show_nothing(session: Session) -> None:
    empty = {p.name for p in gallery.PICTURES if shows_nothing(session, p)}
    absent = set(content.absent(session))
    assert empty <= absent, "listed, and shows nothing"
    assert absent <= empty | TRIVIAL, "not listed, and shows something"


def test_what_is_absent_is_told_without_drawing_a_picture(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = content.absent(session)
    assert all(s.startswith("Appears ") and s.endswith(".") and len(s) < 90 for s in said.values())

    def draw(*_: object) -> None:
        raise AssertionError("a picture was drawn")

    undrawn = tuple(replace(p, draw=draw) for p in gallery.PICTURES)  # type: ignore[arg-type]
    monkeypatch.setattr(gallery, "PICTURES", undrawn)
    assert session.parts()["absent"] == said


def test_every_need_is_of_a_picture() -> None:
    assert content.NEEDS.keys() <= {p.name for p in gallery.PICTURES}


def test_training_pictures_appear_with_a_gradient_and_loops_after_a_run() -> None:
    graph = Session(explorer.compile(trained(), until="planned"))
    assert not {"backward", "memory_time"} & content.absent(graph).keys()
    loop = Session(explorer.compile(DATA / "tiny_while.onnx"))
    assert "iterations" not in content.absent(loop)  # a run may tell
    other = Session(explorer.compile(DATA / "tiny_lstm.onnx"))
    assert content.absent(other)["iterations"] == (
        "Appears for a program with a loop, after a run that goes round it."
    )


def test_the_page_is_told_when_a_setting_changes_what_is_absent() -> None:
    house = House(Session(hand.HandMade(), compare=hand.compare))
    assert house.absent == house.session.parts()["absent"]
    house.session.run_once()
    house._send_changes()
    assert "errors" not in house.absent
