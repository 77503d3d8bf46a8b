"""An explorer's traits, as ipywidgets takes them, without a page."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ipywidgets
import pytest
import traitlets

import explorer as explorer_package
import widgets
from explorer.errors import BadOption, Cancelled
from tests.widgets import made_by_hand as hand
from widgets.model.knob import trait_name
from widgets.page import shell
from widgets.page.shell import House
from widgets.session.jobs import Job
from widgets.session.session import Session


@pytest.fixture
def explorer() -> House:
    session = Session(hand.HandMade(), compare=hand.compare)
    session.run_once = lambda: None  # type: ignore[method-assign]
    return House(session)


def told(explorer: House, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the page is told beside its traits."""
    sent: list[Any] = []
    monkeypatch.setattr(explorer, "send", lambda content, buffers=None: sent.append(content))
    return sent


def test_each_knob_is_a_trait_of_its_value(explorer: House) -> None:
    assert (explorer.threads, explorer.batch, explorer.fusion) == (2, 2, "gain")
    assert explorer.policy in {"wavefront", "critical-path", "op-by-op"}
    assert {"threads", "batch", "fusion", "policy", "tile"} <= set(explorer.keys)


def test_a_trait_turns_its_knob_and_a_turn_of_the_page_sets_the_trait(
    explorer: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = told(explorer, monkeypatch)
    explorer.threads = 1
    begun, turned = sent
    assert begun == {"said": "threads 2 → 1: planning"}
    assert turned["measure"]  # by the page, where there is one
    assert explorer.session.walls.planned is not None
    assert explorer.session.walls.planned.units == 1
    assert explorer.history[-1]["what"] == "threads 2 → 1"
    explorer._answer_message(explorer, {"kind": "undo", "args": {}}, ())
    assert explorer.threads == 2


def test_a_size_between_the_stops_of_the_slider_is_set_and_restored(explorer: House) -> None:
    explorer.batch = 11
    assert explorer.session.now.size("batch") == 11 and "11" in explorer.knobs[-1]["labels"]
    link = explorer.session.link()["text"]
    explorer.batch = 12.0  # of a FloatSlider
    assert explorer.batch == 12 and isinstance(explorer.batch, int)
    explorer.session.answer("restore", {"text": link})
    explorer._send_changes()
    assert explorer.batch == 11


@pytest.mark.parametrize(
    ("trait", "value", "sentence"),
    [
        ("batch", 65, r"batch is 1 to 64, not 65"),
        ("batch", 2.5, r"batch is 1 to 64, not 2.5"),
        ("batch", None, r"batch is 1 to 64, not None"),
        ("threads", "two", r"threads has no value 'two'"),
        ("policy", "fastest", r"policy has no value 'fastest'"),
        ("selected", "conv9", r"there is no operator 'conv9'"),
        ("view", "tv", r"there is no view 'tv'"),
    ],
)
def test_a_bad_value_raises_a_sentence_and_changes_nothing(
    explorer: House, monkeypatch: pytest.MonkeyPatch, trait: str, value: Any, sentence: str
) -> None:
    sent, before, steps = told(explorer, monkeypatch), getattr(explorer, trait), explorer.history
    with pytest.raises(BadOption, match=sentence):
        setattr(explorer, trait, value)
    assert getattr(explorer, trait) == before and explorer.history == steps
    explorer.set_state({trait: value})  # as a page sends it: nobody is there to catch
    assert getattr(explorer, trait) == before and explorer.history == steps
    assert [m["said"] for m in sent if "said" in m] == [sent[0]["said"]] * 2


def test_a_turn_that_fails_leaves_the_trait_as_it_was(
    explorer: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise BadOption("two threads do not fit")

    monkeypatch.setattr(explorer.session.turning, "take", failing)
    seen = list[int]()
    explorer.observe(lambda change: seen.append(change["new"]), "threads")
    with pytest.raises(BadOption, match="do not fit"):
        explorer.threads = 1
    assert explorer.threads == 2 and not explorer.session.steps.future


def test_results_are_read_only_and_set_together(explorer: House) -> None:
    assert explorer.predicted_us == explorer.session.walls.planned.total_us  # type: ignore[union-attr]
    seen = []
    explorer.observe(lambda _: seen.append((explorer.threads, explorer.time_us)), "predicted_us")
    explorer.threads = 1
    assert seen == [(1, None)]
    explorer.session.answer("measure", {})
    explorer._send_changes()
    assert explorer.time_us == explorer.session.steps.now.time.median_us  # type: ignore[union-attr]
    for name in ("time_us", "predicted_us"):
        before = getattr(explorer, name)
        with pytest.raises(traitlets.TraitError, match="read-only"):
            setattr(explorer, name, 1.0)
        explorer.set_state({name: 1.0})
        assert getattr(explorer, name) == before


def test_the_selection_and_the_view_are_those_of_the_page(explorer: House) -> None:
    assert (explorer.selected, explorer.view) == ("", "rammer")
    explorer.selected = "conv"
    explorer.view = "roller"
    assert explorer.state["op"] == "conv" and explorer.session.focus == "conv"
    assert (explorer.state["room"], explorer.state["stage"]) == ("roller", "ROLLED")
    assert "conv" in next(k["label"] for k in explorer.knobs if k["name"] == "tile")
    explorer.set_state({"state": {**explorer.state, "op": "fc", "room": "rammer"}})
    assert (explorer.selected, explorer.view) == ("fc", "rammer")
    explorer.set_state({"selected": "relu", "view": "roller"})
    assert (explorer.session.saved.op, explorer.session.saved.room) == ("relu", "roller")


def test_two_explorers_share_a_selection_and_a_slider_moves_a_size(explorer: House) -> None:
    other = House(explorer.session)
    link = ipywidgets.link((explorer, "selected"), (other, "selected"))
    other.set_state({"selected": "softmax"})
    assert explorer.selected == "softmax"
    link.unlink()
    slider = ipywidgets.IntSlider(2, 1, 64)
    ipywidgets.link((slider, "value"), (explorer, "batch"))
    slider.value = 16
    assert explorer.session.now.size("batch") == 16
    explorer.batch = 32
    assert slider.value == 32


def test_interact_jslink_boxes_and_outputs_take_an_explorer(explorer: House) -> None:
    ipywidgets.jslink((ipywidgets.IntSlider(), "value"), (explorer, "batch"))
    assert ipywidgets.VBox([explorer]).children == (explorer,)

    def show(batch: int) -> None:
        explorer.batch = batch

    control = ipywidgets.interactive(show, batch=(1, 64))
    control.children[0].value = 5
    control.update()
    assert explorer.batch == 5


def test_a_fault_of_an_observer_does_not_leave_the_page_without_an_answer(
    explorer: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = told(explorer, monkeypatch)
    explorer.observe(lambda _: 1 / 0, "threads")
    with pytest.raises(ZeroDivisionError):
        explorer._answer_message(
            explorer, {"id": 7, "kind": "turn", "args": {"knob": "threads", "index": 0}}, ()
        )
    assert [m["id"] for m in sent] == [7]


def test_a_newer_change_ends_the_turn_that_the_page_began(explorer: House) -> None:
    session, page = explorer.session, {"knob": "threads", "index": 0}
    session.answer("begin_turn", page)
    explorer.policy = "op-by-op"
    with pytest.raises(Cancelled, match="a newer change came first"):
        session.answer("turn", page)
    assert (explorer.threads, explorer.policy) == (2, "op-by-op")
    session.answer("turn", page)  # asked anew
    assert session.walls.planned is not None and session.walls.planned.units == 1


def test_a_change_ends_the_timing_under_way(explorer: House) -> None:
    def work(job: Job) -> None:
        while True:
            job.report(0)

    jobs = explorer.session.bench.jobs
    number = jobs.start(1, work)
    explorer.threads = 1
    assert jobs.progress(number)["error"]["error"] == "Cancelled"


@explorer_package.trace
def doubled(x: explorer_package.tensor("float32", "state", "rows")) -> Any:  # type: ignore[valid-type]
    return x + x


def test_a_symbol_named_like_an_attribute_has_its_knob_s_name() -> None:
    found = widgets.explore(explorer_package.compile(doubled, until="planned"))
    found.size_state, found.rows = 6, 5
    assert found.session.now.sizes == (("rows", 5), ("state", 6))
    assert isinstance(found.state, dict)


@pytest.mark.parametrize(
    ("knob", "taken", "name"),
    [
        ("size seq", (), "seq"),
        ("size seq", ("seq",), "size_seq"),
        ("size in", (), "size_in"),
        ("size 2x", (), "size_2x"),
        ("size a.b", (), "a_b"),
        ("pass my pass.rounds", (), "pass_my_pass_rounds"),
    ],
)
def test_a_knob_s_attribute_is_its_symbol_where_that_is_free(
    knob: str, taken: tuple[str, ...], name: str
) -> None:
    assert trait_name(knob, taken) == name


def test_colab_is_told_which_widget_manager_shows_an_explorer(
    explorer: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    colab, shown = ModuleType("google.colab.output"), []
    manager = SimpleNamespace(_installed_url="https://manager")
    vars(colab).update(_widgets=manager, enable_custom_widget_manager=lambda: None)
    monkeypatch.setitem(sys.modules, "google.colab.output", colab)
    monkeypatch.setattr(shell, "display", lambda data, **told: shown.append((data, told)))
    explorer._ipython_display_()
    data, told = shown[-1]
    (kind,) = told["metadata"]
    assert data[kind]["model_id"] == explorer.model_id
    assert told["metadata"][kind]["colab"]["custom_widget_manager"] == {"url": "https://manager"}
