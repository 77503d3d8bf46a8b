"""Every option and every figure of the device as a control: set, undone, kept in links, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.compiler.options import Options
from explorer.devices.costs import Fit
from explorer.devices.hardware import figures as figures_of
from explorer.errors import BadOption
from explorer.measure.turns import Disturbance
from explorer.passes.ranges import Rows, legal
from tests.widgets import made_by_hand as hand
from widgets.draw.table import time_text
from widgets.model import settings
from widgets.model.settings import KNOBS
from widgets.rooms import gallery
from widgets.session import state as states
from widgets.session.handlers import time_shown
from widgets.session.measurements import Fitting
from widgets.session.session import Session

MODEL = "zoo:tiny_bert"
HOW = ("compiled anew", "same program")


@pytest.fixture
def session() -> Session:
    return Session(explorer.compile(MODEL, until="planned"))


def controls(session: Session, room: str) -> dict[str, dict[str, object]]:
    return {c["name"]: c for c in session.answer("settings", {"room": room})["controls"]}


def turned(session: Session, name: str, text: str) -> str:
    said: str = session.answer("turn", {"knob": f"set {name}", "index": 1, "label": text})["said"]
    return said


def test_every_option_with_a_range_has_a_control(session: Session) -> None:
    found = controls(session, "options")
    for group in ("recurrent", "relax", "grinder", "welder", "softmax", "convolution", "roller"):
        for name, allowed in legal(getattr(Options(), group)).items():
            assert (f"{group}.{name}" in found) is not isinstance(allowed, Rows)
    assert len(found) > 30
    assert all(c["legal"] and c["says"] and c["now"] == c["default"] for c in found.values())


def test_every_figure_of_the_device_has_a_control(session: Session) -> None:
    found = controls(session, "hardware")
    known = {f"hardware.{f.name}" for f in figures_of(explorer.device("cpu"))}
    assert set(found) == known
    assert found["hardware.L1 capacity"]["now"].endswith("KiB")  # type: ignore[attr-defined]


@pytest.mark.exhaustive
def test_a_figure_is_set_seen_undone_and_kept_in_a_link(session: Session) -> None:
    before = session.shown.planned_us
    assert turned(session, "hardware.clock_ghz", "1").startswith("clock_ghz")
    assert session.shown.planned_us > before
    assert session.now.compiled.device.name == "this-cpu, changed"
    now = controls(session, "hardware")["hardware.clock_ghz"]
    assert now["now"] == "1" and now["a"] == now["default"] != "1"
    turned(session, "roller.top_k", "3")
    turned(session, "softmax.enabled", "off")
    link = session.answer("link", {})["text"]
    other = Session(explorer.compile(MODEL, until="planned"))
    other.answer("restore", {"text": link})
    assert other.now.compiled.options == session.now.compiled.options
    assert other.steps.now.what.endswith("and 1 setting more")
    assert other.answer("link", {})["text"] == link
    for _ in range(3):
        session.answer("undo", {})
    assert session.shown.planned_us == before and session.now.compiled.device.base is None


@pytest.mark.exhaustive
def test_what_is_set_back_is_as_it_was(session: Session) -> None:
    first = session.now
    turned(session, "hardware.units", "7")
    turned(
        session, "hardware.units", str(controls(session, "hardware")["hardware.units"]["default"])
    )
    assert session.now.compiled.options == first.compiled.options
    assert not settings.changes(session.now.compiled)


def test_what_a_knob_of_the_row_turns_is_kept_by_the_knob(session: Session) -> None:
    turned(session, "rammer.policy", "op-by-op")
    kept = session.state().knobs
    assert kept["policy"] == "op-by-op" and not any(name.startswith("set ") for name in kept)
    found = controls(session, "options")
    assert all(name in found for name in KNOBS)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("roller.top_k", "0", "roller.top_k is a whole number from 1 to 10000"),
        ("roller.top_k", "many", "roller.top_k is a whole number from 1 to 10000, found 'many'"),
        ("roller.policy", "./mine.py:policy", "roller.policy is one of"),
        ("rammer.policy", "os:system", "rammer.policy is one of"),
        ("softmax.enabled", "true", "softmax.enabled is one of off, on, found 'true'"),
        ("hardware.units", "0", "units of this-cpu is a whole number from 1 to 1,024, found 0"),
        ("hardware.units", "1.5", "found 1.5"),
        ("hardware.warp", "3", "there is no setting 'hardware.warp'"),
        ("roller.pinned", "x", "there is no setting 'roller.pinned'"),
        ("relax.dispatch", "blas", "there is no setting 'relax.dispatch'"),
    ],
)
def test_what_may_not_be_is_refused_and_nothing_changes(
    session: Session, name: str, text: str, said: str
) -> None:
    before = session.now
    with pytest.raises(BadOption, match=said.replace(".", r"\.")):
        turned(session, name, text)
    assert session.now is before


def test_a_link_cannot_name_a_file_or_a_plug_in(session: Session) -> None:
    state = session.state()
    for text in ("./mine.py:policy", "os:system"):
        kept = dict(state.knobs) | {"set roller.policy": text}
        other = Session(explorer.compile(MODEL, until="planned"))
        link = states.fragment(replace(state, knobs=kept))
        with pytest.raises(BadOption, match=r"roller\.policy is one of"):
            other.answer("restore", {"text": link})


@pytest.mark.exhaustive
def test_a_data_sheet_is_changed_too() -> None:
    session = Session(explorer.compile(MODEL, "v100", until="planned"))
    before = session.shown.planned_us
    said = turned(session, "hardware.units", "8")
    assert said.startswith("units 80 → 8: predicted") and session.shown.planned_us > before
    assert session.verdict()["big"].endswith("on v100, changed")


def test_other_hardware_has_a_prediction_for_its_headline_and_is_not_measured() -> None:
    session = Session(explorer.compile("zoo:tiny_skip"))
    session.answer("measure", {})
    before = session.shown.planned_us
    turned(session, "hardware.units", "80")
    told, times = session.verdict(), session.shown.planned_us / before
    assert told["big"] == f"{time_text(session.shown.planned_us)} predicted on this-cpu, changed"
    assert f"{times:.2f}× the baseline's prediction" in told["small"] and told["runs"] is False
    assert session.answer("begin_measure", {}) == {}
    with pytest.raises(BadOption, match="nothing is measured here"):
        session.answer("measure", {})
    assert session.walls.measured is None and "wall_measured" not in session.parts()["walls"]
    with pytest.raises(BadOption, match="no code yet: this-cpu, changed is not here"):
        session.answer("kernel", {"call": 0})


def test_a_baseline_on_other_hardware_is_not_timed() -> None:
    session = Session(explorer.compile("zoo:tiny_skip"))
    turned(session, "hardware.units", "80")
    session.answer("pin", {})
    session.answer("undo", {})
    session.answer("measure", {})
    assert session.verdict()["big"].endswith("per run")
    assert session.verdict()["small"].endswith("; the baseline is predicted, on this-cpu, changed")


@pytest.mark.exhaustive
def test_each_figure_is_halved_and_doubled_and_told_by_its_effect() -> None:
    session = Session(explorer.compile("zoo:tiny_skip", "v100", until="planned"))
    picture = gallery.find_picture("hardware")
    assert gallery.picture("hardware", session)[1].columns[-1] == "from"
    time_shown(session, picture, "")
    rows, svg, words = picture.draw(session, "")
    assert svg is None and words.columns[-1] == "why not"
    effects = [rows.effect(name) for name in rows.names]
    assert effects == sorted(effects, reverse=True) and effects[0] > 0
    now, launch = session.now.compiled, rows.of("launch_us", 2.0)
    gaps = now.planned_wall(dict(session.now.sizes)).gaps
    launches = {g.start_us for g in gaps if g.cause == "launch"}
    assert len(launches) == 2  # of what comes before the branch, and of its way
    assert launch.same_us == pytest.approx(rows.us + len(launches) * now.device.launch_us)
    chart = gallery.chart(picture, session, "", "light")
    assert {bar.name for bar in chart.data} == {
        f"{what} of it, {how}"
        for what in ("half", "twice")
        for how in ("compiled anew", "same program")
    }


def test_what_was_compiled_elsewhere_has_no_controls() -> None:
    session = Session(hand.HandMade(), compare=hand.compare)
    assert session.answer("settings", {"room": "options"})["controls"] == []
    assert "it was compiled elsewhere" in gallery.picture("hardware", session)[1].text()
    with pytest.raises(BadOption, match="there are no settings in 'switchboard'"):
        session.answer("settings", {"room": "switchboard"})


def test_this_machine_is_measured_beside_and_planned_with() -> None:
    device = explorer.device("cpu")
    slow = replace(
        device,
        clock_ghz=device.clock_ghz / 2,
        figures="measured",
        costs=replace(device.costs, fits=(Fit("a probe", 2.0, 2.2),)),
    )
    session = Session(explorer.compile("zoo:tiny_skip", until="planned"))
    session.fitting = Fitting(lambda: (slow, Disturbance(0.0, True, 0, 0.0)))
    actions = session.answer("picture", {"room": "hardware"})["controls"]["actions"]
    assert actions[0][:2] == ["fit", "Fit to this machine"]
    before = session.shown.planned_us
    job = session.answer("begin_fit", {})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    said = session.answer("fit", {})["said"]
    assert said.startswith("fitted to this machine, median error of 1 probes 10%: predicted")
    assert session.shown.planned_us > before
    assert session.now.compiled.device.clock_ghz == slow.clock_ghz
    with pytest.raises(BadOption, match="was not measured for the current plan"):
        session.answer("fit", {})
    other = Session(explorer.compile("zoo:tiny_skip", "v100", until="planned"))
    with pytest.raises(BadOption, match="v100 is not this machine"):
        other.answer("begin_fit", {})
