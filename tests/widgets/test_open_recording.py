"""A recording opened in the house, under the plan of the same program and never called measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
import widgets
from explorer.errors import BadOption, SnapshotError
from explorer.measure.recorded_run import shipped, write
from widgets.rammer.wall_table import caption
from widgets.session.session import Session
from widgets.session.shown import open_recording

MODEL = "zoo:small_bert"
SAID = "recorded on NVIDIA H200, 2026-11-28"


@pytest.fixture(scope="module")
def session() -> Session:
    return widgets.explore(MODEL, target="h200").session


def test_what_ships_stands_under_the_plan_of_the_program_that_ran(session: Session) -> None:
    walls = session.walls
    planned, recorded, beside = walls.planned, walls.recorded, walls.recorded_compared
    assert planned is not None and recorded is not None and beside is not None
    assert walls.measured is None and recorded.title == SAID
    assert recorded.units == planned.units == 132 and recorded.bricks == planned.bricks
    assert not beside.missing and all(b.planned >= 0 for b in beside.bricks)
    assert f"{SAID}: 46.5 µs (predicted {-beside.error:.0%} too short" in caption(
        planned, *walls.ran
    )
    assert f"a prediction; {SAID}: 46.5 µs" == session.verdict()["small"]
    assert session.history()[0]["what"] == "as recorded"


def test_it_is_never_called_measured(session: Session) -> None:
    for room in ("rammer", "errors"):
        drawn = session.answer("picture", {"room": room, "op": 3})
        text = json.dumps(drawn, ensure_ascii=False)
        assert "recorded" in text and "measured" not in text.lower()
    op = session.house.order[session.walls.planned.calls[0].ops[0]]  # type: ignore[union-attr]
    text = json.dumps(session.answer("operator", {"op": op}), ensure_ascii=False)
    assert f"predicted and {SAID}" in text and "predicted and measured" not in text
    heads = session.parts()["walls"]
    assert set(heads) == {"wall_planned", "wall_recorded"}
    assert heads["wall_recorded"]["said"] == SAID and heads["wall_recorded"]["kind"] == "recorded"
    held = session.buffers()  # which a saved page has, too
    assert held["wall_recorded"] and not held["wall_measured"]


def test_other_sizes_have_no_recording(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "size batch")
    session.answer("turn", {"knob": "size batch", "index": (knob.now + 1) % len(knob.labels)})
    assert session.walls.planned is not None and session.walls.recorded is None
    session.answer("undo", {})
    assert session.walls.recorded is not None


def test_another_program_or_another_device_finds_none_by_itself() -> None:
    for other in ("a100", "h100"):
        c = explorer.compile(MODEL, target=other, until="planned")
        assert open_recording(c, None, None) == (c, None)
    apart = explorer.Options(welder=explorer.welder.Options(enabled=False))
    c = explorer.compile(MODEL, target="h200", options=apart, until="planned")
    assert open_recording(c, None, None) == (c, None)
    run = open_recording(c, "h200", None)[1]
    assert run is not None and run.title == SAID  # but where it is asked for


def test_a_recording_of_another_device_is_named_so_and_not_compared() -> None:
    session = widgets.explore(MODEL, target="h100", recorded="h200").session
    planned, recorded = session.walls.planned, session.walls.recorded
    assert planned is not None and recorded is not None and session.walls.recorded_compared is None
    assert recorded.title == f"{SAID}, another device"
    assert f"{SAID}, another device: 46.5 µs: busy" in caption(planned, *session.walls.ran)
    assert "another device" in session.answer("picture", {"room": "errors"})["table"]["caption"]
    assert "compared" not in session.parts()["walls"]["wall_recorded"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    c = explorer.compile(MODEL)
    path = tmp_path_factory.mktemp("runs") / "here.run.json"
    c.record(path, c.random_inputs({"batch": 2}), runs=1)
    return path


def test_a_run_of_ones_own_stands_beside_what_is_measured_here(file: Path) -> None:
    session = widgets.explore(explorer.compile(MODEL), recorded=file).session
    walls = session.walls
    assert dict(session.now.sizes) == {"batch": 2}
    assert walls.measured is not None and walls.recorded is not None
    assert walls.measured.title == "measured" and walls.recorded.title.startswith("recorded on ")
    assert walls.ran[0] is walls.measured
    assert set(session.shown.views.sources) >= {"wall_measured", "wall_recorded"}


def test_more_units_than_the_plan_has_share_its_lanes(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    write(explorer.compile(MODEL, until="planned").recorded("h200"), path)
    session = widgets.explore(MODEL, recorded=path).session
    planned, heads = session.walls.planned, session.parts()["walls"]
    assert planned is not None and planned.units < 132
    assert heads["wall_recorded"]["slice"]["lanes"] <= planned.units
    window = {"start_us": 0.0, "end_us": 50.0, "lanes": 160}
    found = session.answer("wall", {"wall": "wall_recorded", **window}).data
    assert found["lanes"] <= planned.units and found["group"] >= 132 // planned.units


def test_what_does_not_fit_is_refused_with_a_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="of another model than this one: of small_bert"):
        widgets.explore("zoo:small_lstm", recorded=file)
    with pytest.raises(BadOption, match="a run with batch = 2, not with batch = 3"):
        widgets.explore(MODEL, recorded=file, sizes={"batch": 3})
    with pytest.raises(BadOption, match="beside a plan, and small_bert is compiled until TYPED"):
        widgets.explore(explorer.compile(MODEL, until="typed"), recorded=file)
    with pytest.raises(SnapshotError, match="no recording of a run"):
        widgets.explore(MODEL, recorded=tmp_path / "absent.json")


def test_a_run_without_a_day_is_named_without_one(tmp_path: Path) -> None:
    c = explorer.compile(MODEL, until="planned")
    write(replace(c.recorded(shipped("small_bert")["h200"]), day=""), tmp_path / "old.json")
    assert c.recorded(tmp_path / "old.json").title == "recorded on NVIDIA H200"
