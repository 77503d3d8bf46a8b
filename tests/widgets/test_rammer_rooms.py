"""Rammer's rooms: policies side by side, the accept rule with its numbers, two layers on one axis,
rTasks with their clock; by hand, on data sheets, and where there is next to nothing.
"""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

import explorer
import explorer.np as enp
import widgets
from explorer.errors import BadOption, NoSuchDevice
from explorer.rammer import POLICIES
from explorer.rammer.manual_moves import PolicyWithMoves
from explorer.tuning.compare import compare_policies
from tests.widgets.drawn_geometry import ALL_SIZES, problems
from tests.widgets.of_family import of_family
from widgets.draw.table import sentence_text
from widgets.model.picture import View
from widgets.rammer import view as rammer_view
from widgets.rooms import gallery
from widgets.session.answers import PictureContext
from widgets.session.session import Session

UNITS = explorer.Options(rammer=explorer.rammer.Options(threads=2))


@explorer.trace
def wide(a: explorer.tensor("float32", 96, 64), b: explorer.tensor("float32", 64, 128)):  # type: ignore[no-untyped-def,valid-type]
    parts = [enp.matmul(a, b * float(n)) for n in range(1, 4)]
    return enp.exp(parts[0]) + parts[1] * enp.sum(parts[2], axis=0)


@explorer.trace
def small(a: explorer.tensor("float32", 8, 64)):  # type: ignore[no-untyped-def,valid-type]
    return enp.exp(a)


@explorer.trace
def nothing(a: explorer.tensor("float32", 4, 4)):  # type: ignore[no-untyped-def,valid-type]
    return enp.reshape(a, (16,))


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))


def seen(session: Session, **view: Any) -> PictureContext:
    return PictureContext(session, View(**view))


def both(session: Session, room: str, **view: Any) -> tuple[str, Any]:
    figure, table = gallery.picture(room, seen(session, **view))
    text = figure.text("light")
    ElementTree.fromstring(text)
    return text, table


def test_every_policy_has_a_row_and_the_chosen_one_is_named(session: Session) -> None:
    text, table = both(session, "policies", units=2)
    assert [row[0] for row in table.rows] == list(POLICIES)
    found = rammer_view.schedule_walls(seen(session, units=2))
    times = {s.policy: s.wall.total_us for s in found.by_policy}
    assert dict((r[0], r[1]) for r in table.rows) == {n: round(t, 2) for n, t in times.items()}
    assert table.caption.startswith("wavefront on 2 cores of this-cpu, predicted: ")
    assert all(f"policy:{name}" in text for name in POLICIES)


def test_a_wave_shows_both_sides_of_the_accept_rule(session: Session) -> None:
    text, table = both(session, "accept")
    weighed = rammer_view.schedule_walls(seen(session)).chosen.weighed
    assert len(table.rows) == len(weighed) > 0
    for row, c in zip(table.rows, weighed):
        terms = dict(c.terms)
        assert row[2] == f"time(P1) {terms['joined']:,.2f} µs"
        assert row[3] == f"time(cur) + time(P2) {terms['apart']:,.2f} µs"
        more = terms["joined"] - terms["apart"]
        assert row[1] == ("yes" if more <= 1e-9 * terms["apart"] else "no"), more
    assert "apart: time(cur) + time(P2)" in text and 'data-k="gain"' in text
    _, other = both(session, "accept", policy="op-by-op")
    assert other.rows


def test_two_layers_have_one_axis_and_areas_that_add_up(session: Session) -> None:
    _, table = both(session, "layers", policy="critical-path", units=2)
    found = rammer_view.schedule_walls(seen(session, policy="critical-path", units=2))
    assert found.chosen.policy == "critical-path" and found.baseline.policy == "op-by-op"
    for column, s in ((1, found.chosen), (2, found.baseline)):
        assert table.rows[-1][column] == pytest.approx(s.wall.units * s.wall.total_us, rel=0.01)
        assert f"{s.statistics.busy:.1%}" in table.caption


def test_each_rtask_has_its_time_and_where_it_is_from(session: Session) -> None:
    _, table = both(session, "rtasks")
    facts = rammer_view.schedule_walls(seen(session)).chosen.schedules[0].facts
    by_name = {row[0]: row for row in table.rows}
    for o in facts.operators:
        row = by_name[session.house.label(o.name)]
        assert row[2] == o.tasks
        assert row[3] == pytest.approx(o.task_us, abs=1e-3)
    assert {row[5] for row in table.rows} == {"predicted"}


def test_units_bricks_and_rkernels_are_knobs(session: Session) -> None:
    one = rammer_view.schedule_walls(seen(session, units=1)).chosen
    assert one.wall.units == 1 and one.barriers == 0
    many = rammer_view.schedule_walls(seen(session, units=256)).chosen
    assert many.wall.units == 256
    fine = rammer_view.schedule_walls(seen(session, bricks=32)).chosen
    coarse = rammer_view.schedule_walls(seen(session, bricks=1)).chosen
    assert fine.statistics.bricks >= coarse.statistics.bricks
    kind = rammer_view.schedule_walls(seen(session, kernels="efficient"))
    assert kind.chosen.policy == "wavefront, efficient rKernels"
    told = rammer_view.WALLS.controls(seen(session, kernels="efficient"), "")["more"]
    assert [name for name, *_ in told] == ["policy", "units", "kernels", "bricks"]
    for name, _, options, at in told:
        assert options[at] == {"policy": "wavefront", "units": 2, "kernels": "efficient"}.get(
            name, 8
        )


def test_a_data_sheet_is_simulated_and_says_so() -> None:
    session = Session(explorer.compile(explorer.load(small), options=UNITS, until="PLANNED"))
    _, table = both(session, "layers", device="v100")
    assert "v100" in table.caption and "predicted from a data sheet" in table.caption
    told = session.answer("picture", {"room": "policies", "device": "v100"})["controls"]
    assert told["note"] == "a data sheet: predicted" and told["action"] == []
    assert "80 SMs" in table.caption


def test_policies_open_on_a_machine_where_they_differ() -> None:
    c = explorer.compile("tests/data/tiny_bert.onnx", options=UNITS, until="planned")
    session = Session(c)
    here = rammer_view.schedule_walls(seen(session))
    assert here.chosen.wall.units == 2 and here.spread < rammer_view.TELLING
    for room in ("policies", "layers"):
        found = gallery.find_picture(room).draw(seen(session), "")
        assert found[0].chosen.wall.units > 2 and found[0].spread >= rammer_view.TELLING
        assert "On 2 cores of this machine policies hardly differ" in said(found[2])
        controls = session.answer("picture", {"room": room})["controls"]["more"]
        name, title, values, at = controls[1]
        assert (name, title, values[at]) == ("units", "cores", found[0].chosen.wall.units)
        asked = gallery.find_picture(room).draw(seen(session, units=2), "")
        assert asked[0].chosen.wall.units == 2
        assert "On 2 cores the policies hardly differ: try more cores" in said(asked[2])


def test_a_long_program_is_not_laid_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rammer_view, "MOST_SEARCHED", 3)
    session = Session(explorer.compile("tests/data/tiny_bert.onnx", options=UNITS, until="planned"))
    assert rammer_view.schedule_differing_walls(seen(session)).chosen.wall.units == 2


def said(table: Any) -> str:
    return " ".join(map(sentence_text, table.see))


@pytest.mark.parametrize("size", ALL_SIZES)
@pytest.mark.parametrize("room", ["policies", "layers", "accept"])
def test_walls_and_rules_can_be_read(session: Session, room: str, size: tuple[int, int]) -> None:
    for units in (2, 64):
        view = seen(session, units=units, width=size[0], height=size[1])
        _, figure, table = gallery.find_picture(room).draw(view, "")
        assert figure is not None and (figure.width, figure.height) == size
        assert problems(figure) == [] and table.see


def test_what_there_is_not_is_refused(session: Session) -> None:
    for view in ({"policy": "best"}, {"kernels": "slow"}, {"units": -1}, {"bricks": "8"}):
        with pytest.raises(BadOption):
            session.answer("picture", {"room": "policies", **view})
    with pytest.raises(NoSuchDevice):
        session.answer("picture", {"room": "policies", "device": "v1000"})


def test_a_wall_moved_by_hand_stands_beside_the_policies() -> None:
    session = Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))
    rows = session.walls.planned
    assert rows is not None
    mine = {
        "call": int(rows.call[0]), "first": int(rows.first[0]), "last": int(rows.last[0]),
        "launch": int(rows.launch[0]),
    }  # fmt: skip
    told = session.answer("move_brick", {**mine, "unit": 1 - int(rows.unit[0])})
    assert told["measure"] is False and "predicted" in told["said"]
    found = rammer_view.schedule_walls(seen(session))
    assert found.policy == found.chosen.policy == "wavefront, 1 by hand"
    assert [s.policy for s in found.by_policy] == ["wavefront, 1 by hand", *POLICIES]
    assert isinstance(session.now.compiled.options.rammer.policy, PolicyWithMoves)
    _, table = both(session, "accept")
    assert table.rows[-1][0].startswith(rows.calls[mine["call"]].name)
    other = Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))
    other.restore(session.link()["text"])  # a link takes it along
    assert other.walls.planned is not None and session.walls.planned is not None
    assert other.walls.planned.unit.tolist() == session.walls.planned.unit.tolist()
    assert other.now.compiled.options == session.now.compiled.options
    session.undo()
    assert session.now.compiled.options.rammer.policy == "wavefront"


def test_a_brick_before_what_it_reads_bounces_with_both_ends(session: Session) -> None:
    rows = session.walls.planned
    assert rows is not None
    (schedule,) = session.now.compiled.schedules({})
    reads = {
        o.name: {schedule.facts.operators[r].name for r in o.reads}
        for o in schedule.facts.operators
    }
    lane = range(int(rows.rows[0]), int(rows.rows[1]))  # of unit 0
    here = {rows.calls[rows.call[n]].name for n in lane}
    i = next(n for n in lane if reads[rows.calls[rows.call[n]].name] & here)
    drop = {
        "call": int(rows.call[i]), "first": int(rows.first[i]), "last": int(rows.last[i]),
        "launch": int(rows.launch[i]), "unit": 0, "after": None,
    }  # fmt: skip
    told = session.answer("move_brick", drop)
    assert " reads " in told["refused"]
    assert rows.calls[told["reader"]].name and rows.calls[told["writer"]].name
    assert len(session.steps.past) == 1
    with pytest.raises(BadOption, match="no launch number 99"):
        session.answer("move_brick", {**drop, "launch": 99})


def test_a_program_without_kernels_has_rooms_too() -> None:
    session = Session(explorer.compile(explorer.load(nothing), options=UNITS, until="PLANNED"))
    for room in of_family("walls"):
        _, table = both(session, room)
        assert table.rows
    head = replace(session.shown.views).packed[0]["wall_planned"]
    assert head["bricks"] == 0


def test_the_room_of_a_data_sheet_shows_the_simulated_wall_and_runs_nothing() -> None:
    widgets.show(explorer.compile("zoo:small_lstm", target="v100"), "rammer")


def test_task_times_are_measured_beside_and_then_planned_with() -> None:
    session = Session(explorer.compile(explorer.load(wide), options=UNITS))
    job = session.answer("begin_profile", {})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    told = session.answer("profile", {})
    assert "task times measured" in told["said"]
    facts = session.now.compiled.task_facts()
    assert {f.source for f in facts.values()} == {"measured"}


def test_task_times_of_another_setting_are_refused() -> None:
    session = Session(explorer.compile(explorer.load(wide), options=UNITS))
    job = session.answer("begin_profile", {})["job"]
    assert session.bench.jobs.wait(job)["error"] is None
    other = replace(session.steps.now, setting=replace(session.now, sizes=(("n", 2),)))
    session.steps = session.steps.with_now(other)
    with pytest.raises(BadOption, match="changed since its tasks were measured"):
        session.answer("profile", {})
    assert len(session.steps.past) == 1
    assert session.profiling.profile is None


@pytest.mark.exhaustive
def test_only_another_device_or_count_lays_the_walls_anew(monkeypatch: Any) -> None:
    session = Session(explorer.compile(explorer.load(wide), options=UNITS, until="PLANNED"))
    laid: list[str] = []

    def counted(c: Any, **more: Any) -> Any:
        laid.append(c.device.name)
        return compare_policies(c, **more)

    monkeypatch.setattr(rammer_view, "compare_policies", counted)
    first = rammer_view.schedule_walls(seen(session, device="v100", units=4))
    other = rammer_view.schedule_walls(
        seen(session, device="v100", units=4, policy="critical-path")
    )
    assert (first.chosen.policy, other.chosen.policy) == ("wavefront", "critical-path")
    assert len(laid) == 1 and other.baseline is first.baseline
    more = rammer_view.schedule_walls(seen(session, device="v100", units=8))
    assert len(laid) == 2
    assert (first.chosen.wall.units, more.chosen.wall.units) == (4, 8)


def test_measuring_task_times_can_be_cancelled(session: Session, monkeypatch: Any) -> None:
    begun, ended = Event(), Event()

    def endless(inputs: Any, *, progress: Any) -> Any:
        try:
            while True:
                progress("measure tasks", 1, 9)
                begun.set()
        finally:
            ended.set()

    monkeypatch.setattr(
        type(session.now.compiled), "profiled", lambda c, i, **told: endless(i, **told)
    )
    before, job = session.now, session.answer("begin_profile", {})["job"]
    assert begun.wait(60)
    session.answer("cancel", {"job": job})
    assert "cancelled" in session.bench.jobs.wait(job)["error"]["sentence"]
    assert ended.is_set() and session.now is before
