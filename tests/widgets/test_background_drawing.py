"""Drawing in the background: progress, cancellation, and a display that may change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

import explorer
import widgets
from explorer.process.cancellation import report_progress
from widgets.rooms import gallery, own_picture
from widgets.session.session import Session
from widgets.timed import sizes

MODEL = "tests/data/tiny_skip.onnx"


@pytest.fixture(autouse=True)
def own_gallery(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gallery, "PICTURES", gallery.PICTURES)
    monkeypatch.setattr(own_picture, "_own", {})
    yield


@pytest.fixture
def go_on() -> Event:
    """Draws the picture "slow", which waits for it, and says which threads it was drawn for."""
    event = Event()

    @widgets.picture("slow", title="Slow", unit="cores")
    def slow(c: Any) -> Any:
        while not event.wait(0.01):
            pass
        return [("threads", c.options.rammer.threads)]

    return event


def drawing(session: Session) -> int:
    found = session.answer("begin_picture", {"room": "slow"})
    assert not found["over"] and found["data"] is None
    return int(found["job"])


def test_a_quick_picture_comes_with_the_answer() -> None:
    session = Session(explorer.compile(MODEL))
    for args in ({"room": "roller", "op": 0, "width": 700}, {"room": "stages"}):
        found, same = session.answer("begin_picture", args), session.answer("picture", args)
        assert found["over"] and found["data"]["table"] == same["table"]
        assert len(found["data"]["svg"]) == len(same["svg"])  # each has names of its own


def test_what_is_asked_wrongly_is_told_as_it_is_of_any_question() -> None:
    session = Session(explorer.compile(MODEL))
    for args, said in (({"room": "rolle"}, "no view"), ({"room": "roller", "op": 99}, "operator")):
        assert said in session.answer("begin_picture", args)["error"]["sentence"]


def test_a_knob_is_turned_while_a_picture_of_what_was_on_show_is_drawn(go_on: Event) -> None:
    session = Session(explorer.compile(MODEL))
    job, threads = drawing(session), session.now.compiled.options.rammer.threads
    session.turn_to("threads", 1)
    assert session.now.compiled.options.rammer.threads == 1 != threads
    assert session.answer("begin_picture", {"room": "stages"})["over"]  # others do not wait for it
    go_on.set()
    found = session.bench.jobs.wait(job)
    assert found["error"] is None and f">{threads}<" in found["data"]["svg"]


def test_it_is_cancelled_and_drawn_again(go_on: Event) -> None:
    session = Session(explorer.compile(MODEL))
    job, revision = drawing(session), session.revision
    session.answer("cancel", {"job": job, "newer": True})
    assert "stopped" in session.bench.jobs.wait(job)["error"]["sentence"]
    assert session.revision == revision and not session.bench.jobs.busy
    go_on.set()
    assert session.answer("begin_picture", {"room": "slow"})["over"]


def test_sizes_say_how_many_were_predicted_and_end_between_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = explorer.compile("zoo:tiny_bert", "v100")
    session, some, plan = Session(c), Event(), sizes._plan

    def planned(now: Any, symbol: str, size: int, known: Any) -> None:
        plan(now, symbol, size, known)
        if len(known) == 3:
            assert some.wait(60)

    monkeypatch.setattr(sizes, "_plan", planned)
    begun = session.answer("begin_picture", {"room": "sizes"})
    assert not begun["over"]
    session.answer("cancel", {"job": begun["job"], "newer": True})
    some.set()
    found = session.bench.jobs.wait(begun["job"])
    assert found["what"] == "predict sizes of seq" and found["n"] < 4 and found["of"] == 12
    assert "stopped" in found["error"]["sentence"]


def test_nobody_is_told_outside_of_a_job() -> None:
    report_progress("predict sizes", 1, 2)
