"""Turning knobs, undoing, pinning and asking, without a page."""

import base64
import gzip
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import explorer
from explorer.errors import BadOption, SnapshotError
from explorer.measure.compare import Comparison
from explorer.process.cancellation import report_progress
from explorer.rammer import POLICIES, Options
from explorer.rammer.model import Facts, Placement
from tests.widgets import made_by_hand as hand
from widgets.draw.table import time_text
from widgets.model.knobs import turn_knob
from widgets.page import report
from widgets.page.report import document, page, question_key
from widgets.page.shell import House
from widgets.rammer.wall_table import off_text
from widgets.rooms import inspection
from widgets.session import compiling
from widgets.session.history import against
from widgets.session.jobs import Job
from widgets.session.session import Session
from widgets.welder import tile_graph


@pytest.fixture
def session() -> Session:
    return Session(hand.HandMade(), compare=hand.compare)


def knob(session: Session, name: str) -> tuple[int, tuple[str, ...]]:
    found = next(k for k in session.knobs() if k.name == name)
    return found.now, found.labels


def test_the_knobs_are_in_the_order_of_their_keys(session: Session) -> None:
    assert [k.name for k in session.knobs()] == [
        "threads",
        "tile",
        "fusion",
        "policy",
        "size batch",
    ]
    assert knob(session, "size batch")[1] == ("1", "2", "4", "8", "16", "32", "64")


def test_a_turn_plans_a_new_wall_and_can_be_undone(session: Session) -> None:
    assert session.turn("threads", 0)["measure"]
    assert session.walls.planned is not None and session.walls.planned.units == 1
    assert session.walls.measured is None
    session.undo()
    assert session.walls.planned.units == 2
    session.redo()
    assert knob(session, "threads")[0] == 0
    with pytest.raises(BadOption, match="nothing to redo"):
        session.redo()


def test_any_step_of_the_history_can_be_gone_to(session: Session) -> None:
    session.turn("threads", 0)
    session.turn("size batch", 0)
    wanted = [step["what"] for step in session.history()]
    assert session.answer("go", {"step": 0})["said"] == "Back at: as compiled"
    assert [step["on"] for step in session.history()] == [True, False, False]
    session.answer("go", {"step": 2})
    assert [step["what"] for step in session.history()] == wanted
    with pytest.raises(BadOption):
        session.answer("go", {"step": 3})


def test_a_turn_that_is_compiled_beside_is_taken_and_one_that_is_cancelled_changes_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def turn(now: Any, mine: Any, index: int) -> Any:
        made.append(index)
        while index:
            report_progress("tile (Roller)", 12, 31)
        return turn_knob(now, mine, index)

    monkeypatch.setattr(compiling, "turn_knob", turn)
    begun = session.answer("begin_turn", {"knob": "size batch", "index": 3})
    assert not begun["over"]
    now = session.answer("job", {"job": begun["job"]})
    assert (now["what"], now["n"], now["of"]) == ("tile (Roller)", 12, 31)
    session.answer("cancel", {"job": begun["job"]})
    assert session.bench.jobs.wait(begun["job"])["error"]["error"] == "Cancelled"
    assert len(session.history()) == 1
    assert session.answer("begin_turn", {"knob": "threads", "index": 0})["over"]
    session.answer("turn", {"knob": "threads", "index": 0})
    assert made == [3, 0] and knob(session, "threads")[0] == 0


def test_a_selection_reads_the_program_no_second_time(session: Session) -> None:
    before = session.parts()
    session.answer("focus", {"op": 1})
    after = session.parts()
    assert all(after[n] is before[n] for n in ("operators", "calls", "graph_kernels", "stages"))
    assert session.house.order is session.house.order


def test_a_refused_turn_leaves_everything_as_it_was(session: Session) -> None:
    parts = json.dumps(session.parts(), default=str)
    with pytest.raises(BadOption, match="threads has 2 values"):
        session.answer("turn", {"knob": "threads", "index": 9})
    with pytest.raises(BadOption, match="malformed"):
        session.answer("turn", {"knob": "threads"})
    with pytest.raises(BadOption, match="whole number"):
        session.answer("turn", {"knob": "threads", "index": "1; import os"})
    with pytest.raises(BadOption, match="no question"):
        session.answer("__init__", {})
    assert json.dumps(session.parts(), default=str) == parts


def test_a_tile_is_pinned_for_the_selected_operator(session: Session) -> None:
    assert knob(session, "tile")[1] == ("none selected",)
    session.focus_on(0)
    assert knob(session, "tile") == (0, ("n=1 h=1 6×16", "n=1 h=2 6×16"))
    session.turn("tile", 1)
    pinned = session.now.compiled.options.roller.pinned
    assert pinned[0][0] == "relu_out" and pinned[0][1].tile == (("n", 1), ("h", 2))


def test_sizes_change_without_compiling(session: Session) -> None:
    session.turn("size batch", 6)
    assert session.now.size("batch") == 64
    assert session.inputs["image"].shape == (64, 3, 8, 8)
    assert session.now.compiled is session.steps.pinned.setting.compiled


def test_a_verdict_has_an_interval_or_is_not_distinguishable() -> None:
    one, two = hand.HandMade(), hand.HandMade(options=hand.Options(hand.Rammer(threads=1)))
    sure = against(hand.compare(one, two, {}))
    assert sure["big"] == "0.50× the baseline's time" and "0.49 to 0.51" in sure["small"]
    slower = against(hand.compare(two, one, {}))
    assert slower["big"] == "2.00× the baseline's time" and slower["ratio"] == 2.0
    assert slower["low"] < slower["ratio"] < slower["high"]
    assert against(hand.compare(one, one, {}))["big"] == "not distinguishable from the baseline"


def test_measuring_fills_verdict_and_history(session: Session) -> None:
    assert session.verdict()["big"] == "not measured yet"
    session.measure()
    assert session.verdict()["big"] == "70.0 µs per run"
    session.turn("threads", 0)
    session.measure()
    assert [row["base"] for row in session.history()] == [True, False]
    assert session.history()[0]["verdict"] == "baseline, 70.0 µs"
    row, told = session.history()[1], session.verdict()
    assert row["verdict"] in told["small"] and told["big"].endswith("per run")
    assert (row["about"], row["before"], row["value"]) == ("threads", "2", "1")
    session.turn("size batch", 0)
    session.measure()
    assert "the baseline has other sizes" in session.verdict()["small"]
    session.undo()
    session.pin()
    assert [row["base"] for row in session.history()] == [False, True, False]


def test_the_error_of_a_prediction_is_told_as_one_everywhere(session: Session) -> None:
    session.measure()
    compared = session.walls.compared
    assert compared is not None
    words = off_text(compared.error)
    captions = [
        session.answer("picture", {"room": r})["table"]["caption"] for r in ("rammer", "errors")
    ]
    heads = session.parts()["walls"]["wall_measured"]["compared"]
    assert all(words in said for said in (*captions, heads, session.verdict()["plan"]))


def test_a_link_restores_knobs_and_views(session: Session) -> None:
    session.look({"stage": "ROLLED", "op": "fc"})
    session.turn("threads", 0)
    text = session.link()["text"]
    other = Session(hand.HandMade())
    found = other.restore(text)
    assert found["state"]["stage"] == "ROLLED" and knob(other, "threads")[0] == 0
    with pytest.raises(SnapshotError):
        session.look({"stage": "elsewhere"})


def test_a_link_says_what_is_not_there(session: Session) -> None:
    """As of another device: what else it holds is restored."""
    kept = json.loads(base64.urlsafe_b64decode(session.link()["text"] + "==="))
    kept["knobs"]["threads"], kept["op"] = "99999", "fc"
    found = Session(hand.HandMade()).restore(json.dumps(kept))
    assert found["said"].startswith("The state of the link is restored, but for threads 99999 (")
    assert found["said"].endswith(" has no such value).") and found["state"]["op"] == "fc"


def test_a_link_about_another_model_is_refused(session: Session) -> None:
    other = Session(hand.HandMade(model=hand.Model(hand.IMPORTED, digest="other")))
    with pytest.raises(BadOption, match="another model"):
        session.restore(other.link()["text"])


@pytest.mark.exhaustive
def test_every_question_of_the_page_is_answered_as_json(session: Session) -> None:
    session.measure()
    content = document(session)
    json.dumps(content)
    for op in range(6):
        assert question_key("operator", {"op": op}) in content["answers"]
    for step in range(9):
        assert question_key("program", {"step": step}) in content["answers"]
    assert question_key("kernel", {"call": 0, "language": "llvm"}) in content["answers"]
    assert question_key("picture", {"room": "welder", "op": 3}) in content["answers"]


def test_an_operator_without_a_kernel_says_why(session: Session) -> None:
    found = session.answer("operator", {"op": 3})
    assert ("no kernel", "folded into the dims", False, "") in found["stations"]


def test_many_operators_of_a_report_share_the_picture_of_the_whole_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pictures() -> set[str]:
        answers = document(session, code=False)["answers"]
        keys = (question_key("picture", {"room": "backward", "op": n}) for n in range(3))
        return {json.dumps(answers[key]) for key in keys}

    assert len(pictures()) > 1
    monkeypatch.setattr(report, "MOST_AROUND", 2)
    assert len(pictures()) == 1


def test_every_operator_is_told_from_plans_that_are_read_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    for module, name in ((inspection, "memory_rows"), (tile_graph, "data")):
        count = partial(_counted, read, name, getattr(module, name))
        monkeypatch.setattr(module, name, count)
    for op in range(len(session.house.operators)):
        session.answer("operator", {"op": op})
    assert sorted(read) == ["data", "memory_rows"]


def _counted(read: list[str], name: str, asked: Any, *given: Any) -> Any:
    read.append(name)
    return asked(*given)


def test_a_report_of_many_kernels_has_assembly_of_the_heaviest(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MOST_KERNELS", 1)
    answers = document(session)["answers"]
    held = [key.split("|")[-1] for key in answers if key.startswith("kernel|")]
    assert held.count("numba") > 1
    assert held.count("llvm") == held.count("assembly") == 1
    layouts = sum(key.startswith("picture|") and key.endswith("|layout") for key in answers)
    assert 1 < layouts < 1 + len(session.house.operators)


@pytest.mark.exhaustive
def test_a_report_asks_for_nothing_outside_of_itself(session: Session) -> None:
    text = page(session)
    assert (
        "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    )
    assert text.count("<script") == 2 and "src=" not in text


@pytest.mark.exhaustive
def test_what_the_model_is_called_cannot_break_out_of_a_report() -> None:
    name = "</script><img src=x onerror=alert(1)>"
    text = page(Session(hand.HandMade(model=hand.Model(hand.IMPORTED, name=name))))
    assert name not in text


@pytest.mark.exhaustive
def test_what_is_in_a_report_cannot_open_a_comment_or_end_its_script() -> None:
    name = "x<!--<script></script>"
    session = Session(hand.HandMade(model=hand.Model(hand.IMPORTED, name=name)))
    text = page(session, code=False)
    begin = text.index(">", text.index('<script id="content"')) + 1
    inside = text[begin : text.index("</script>", begin)]
    assert re.fullmatch(r"[A-Za-z0-9+/=]+\n", inside)
    found, whole = (
        json.loads(gzip.decompress(base64.b64decode(inside))),
        document(session, code=False),
    )
    assert found["parts"] == json.loads(json.dumps(whole["parts"]))
    assert found["answers"].keys() == whole["answers"].keys()
    assert found["parts"]["bar"]["name"] == name


def test_what_a_refused_command_had_changed_is_taken_back_and_not_told() -> None:
    session = Session(hand.HandMade(), compare=hand.compare)
    house = House(session)
    before, sent = house.knobs, []

    def restore(text: str) -> None:
        session.turn("threads", 0)
        raise BadOption("the rest of the link does not fit")

    session.restore = restore  # type: ignore[assignment,method-assign]
    house.send = lambda content, buffers=None: sent.append((content, house.knobs))  # type: ignore[method-assign]
    house._answer_message(house, {"id": 1, "kind": "restore", "args": {"text": ""}}, [])
    ((content, knobs),) = sent
    assert content["error"]["sentence"] == "the rest of the link does not fit"
    assert knobs == before == session.parts()["knobs"]


class Mine:
    """A policy with no name of its own."""

    def __call__(self, facts: Facts) -> Placement:
        return POLICIES["wavefront"](facts)


def test_a_policy_without_a_name_has_that_of_its_type() -> None:
    policy = Mine()
    assert Options(policy=policy).policy_name == "Mine"
    rammer: Any = replace(hand.Options().rammer, policy=policy)  # type: ignore[arg-type]
    session = Session(hand.HandMade(hand.Options(rammer)), compare=hand.compare)
    at, labels = knob(session, "policy")
    assert labels[at] == "Mine"


def test_a_comparison_goes_on_beside_and_tells_how_far_it_is() -> None:
    told: list[int] = []

    def turns(first: Any, second: Any, inputs: object, seconds: float = 1.0) -> Comparison:
        for _ in range(25):
            first.runnable.run({})
            second.runnable.run({})
            told.append(session.bench.jobs.progress(1)["n"])
        return hand.compare(first, second, inputs, seconds)

    class Running(hand.HandMade):
        @property
        def runnable(self) -> "Running":
            return self

        def run(self, inputs: object) -> None:
            pass

    session = Session(Running(), compare=turns)
    assert session.begin_measure() == {}  # A itself
    session.measure()
    session.turn("threads", 0)
    begun = session.answer("begin_measure", {})
    assert begun["of"] >= 20
    assert session.bench.jobs.wait(begun["job"])["error"] is None
    assert told == sorted(told) and told[0] == 0 and told[-1] > 20
    timed = len(told)
    session.measure()
    assert len(told) == timed and "× the baseline's time" in session.verdict()["small"]


def test_the_step_under_way_is_never_one_more_than_there_are() -> None:
    job = Job(1)
    job.compiling("clean up", 0, 29)
    assert job.what == "Compiling: clean up, 1 of 29"
    job.compiling("plan memory", 29, 29)
    assert job.what == "Compiling: plan memory, 29 of 29"


def test_a_timed_setting_is_timed_again_where_that_is_asked() -> None:
    session = Session(explorer.compile("tests/data/tiny_skip.onnx"))
    session.answer("measure", {})
    first = session.steps.now.time
    assert session.answer("begin_measure", {}) == {}
    session.answer("measure", {})
    assert session.steps.now.time is first
    session.answer("measure", {"again": True})
    assert session.steps.now.time is not first
    assert session.steps.pinned.time is session.steps.now.time  # it is the baseline as well
    session.turn_to("threads", 1)
    session.answer("measure", {})
    versus = session.steps.now.versus
    assert versus is not None and "baseline" in session.verdict()["small"]
    assert f"{time_text(versus.second.median_us)} in turns" in session.verdict()["small"]
    begun = session.answer("begin_measure", {"again": True})
    assert session.bench.jobs.wait(begun["job"])["error"] is None
    session.answer("measure", {"again": True})
    assert session.steps.now.versus is not versus
