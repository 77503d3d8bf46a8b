"""Knobs and switches whose compilation fails: the program up to the error can be inspected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import explorer
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile_until_error
from explorer.errors import BadOption, BadPass
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes import registry
from widgets.session.session import Session

MODEL = "zoo:tiny_bert"
SWITCH = "step fold layout copies"


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())


def bindings(program: Program) -> int:
    return sum(1 for _ in program.bindings())


def picky(most: int) -> Callable[[Program], Program]:
    """A pass of the user's own that does not expect copies: with them it fails."""

    def few(program: Program) -> Program:
        if bindings(program) > most:
            raise KeyError("a copy")
        return program

    return few


@pytest.fixture
def session() -> Session:
    plain = explorer.compile(MODEL, until="legalized")
    most = bindings(plain.snapshot("put channels last").after)
    options = Options(passes=(("put channels last", picky(most)),))
    return Session(explorer.compile(MODEL, options=options, until="planned"), coded=True)


def fail(session: Session) -> dict[str, object]:
    knob = next(k for k in session.knobs() if k.name == SWITCH)
    turn: dict[str, object] = {"knob": SWITCH, "index": knob.labels.index("off")}
    job = session.answer("begin_turn", turn)["job"]
    assert session.bench.jobs.wait(job)["over"]
    with pytest.raises(BadPass, match="a copy"):
        session.answer("turn", turn)
    return turn


def test_the_program_before_the_step_that_failed_is_looked_at_and_left_again(
    session: Session,
) -> None:
    before = session.now
    turn = fail(session)
    assert session.now is before and len(session.steps.past) == 1
    assert "few" in session.answer("as_far", turn)["said"]
    shown = session.now.compiled
    assert (
        shown.program.stage is Stage.LEGALIZED and shown.snapshots[-1].name == "put channels last"
    )
    assert bindings(shown.program) > bindings(before.compiled.snapshot("put channels last").after)  # type: ignore[attr-defined]
    told = session.parts()["verdict"]
    assert told["runs"] is False and told["failed"]["error"] == "BadPass"
    assert "a copy" in told["small"] and told["failed"]["stage"] == "LEGALIZED"
    cells = {c["stage"]: c for c in session.parts()["stages"]}
    assert "a copy" in cells["LEGALIZED"]["checked"] and not cells["WELDED"]["ran"]
    last = len(shown.snapshots) - 1
    assert session.answer("program", {"step": last})["lines"]
    board = {s["name"]: s for s in session.answer("board", {})["steps"]}
    assert not board["fold layout copies"]["on"]
    for name in ("few", "fuse (Welder)"):  # compiling did not come to them: they are not off
        assert board[name]["on"] and board[name]["in_a"] and not board[name]["ran"]
    with pytest.raises(BadOption, match="cannot be the baseline"):
        session.answer("pin", {})
    assert session.history()[-1]["what"].endswith("on → off: failed")
    assert session.answer("undo", {})["measure"] is True
    assert session.now == before and session.runs and session.walls.planned is not None
    assert "failed" not in session.parts()["verdict"]
    session.answer("redo", {})
    assert not session.runs and session.now.ended is not None


def test_a_turn_that_mends_it_is_planned_to_the_end(session: Session) -> None:
    session.answer("as_far", fail(session))
    knob = next(k for k in session.knobs() if k.name == SWITCH)
    assert knob.labels[knob.now] == "off"
    session.answer("turn", {"knob": SWITCH, "index": knob.labels.index("on")})
    assert session.now.ended is None and session.now.compiled.program.stage is Stage.PLANNED
    assert session.runs and session.walls.planned is not None


def test_a_link_leads_out_of_an_error(session: Session) -> None:
    text = session.link()["text"]
    session.answer("as_far", fail(session))
    told = session.answer("restore", {"text": text})
    assert told["measure"] is True and told["said"] == "The state of the link is restored."
    assert session.now.ended is None and "failed" not in session.verdict()


def test_what_failed_is_brought_back_but_for_what_fails(session: Session) -> None:
    session.answer("turn", {"knob": "threads", "index": 0})
    session.answer("as_far", fail(session))
    text = session.link()["text"]
    session.answer("go", {"step": 0})
    told = session.answer("restore", {"text": text})
    assert "restored, but for" in told["said"] and "a copy" in told["said"] and told["measure"]
    assert next(k for k in session.knobs() if k.name == "threads").now == 0
    assert session.now.ended is None and "failed" not in session.verdict()


def test_what_ends_in_no_error_and_what_is_refused_have_nothing_to_look_at(
    session: Session,
) -> None:
    before = session.now
    with pytest.raises(BadOption, match="there is no error to show"):
        session.answer("as_far", {"knob": "step remove dead code", "index": 0})
    with pytest.raises(BadOption, match="cannot be left out"):
        session.answer("as_far", {"knob": "step tile (Roller)", "index": 0})
    assert session.now is before


def test_a_model_is_compiled_as_far_as_the_step_that_raises() -> None:
    assert compile_until_error(MODEL) is None
    found = compile_until_error(MODEL, options=Options(passes=(("tile (Roller)", picky(0)),)))
    assert found is not None
    c, ended = found
    assert c.snapshots[-1].name == "tile (Roller)"
    assert (ended.step, ended.stage) == (
        "few",
        Stage.ROLLED,
    )
    assert isinstance(ended.problem, BadPass)
    again = c.with_options(until="planned", passes=())
    assert again.program.stage is Stage.PLANNED
