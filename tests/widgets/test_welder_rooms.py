"""Welder's pictures: memory levels, curve, connections and groups as rows; their drawings in
bounds.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import explorer
import explorer.np as enp
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tile_graph import GroupPlan, LevelBytes
from explorer.ir.program import Program
from explorer.measure.compare import Comparison, Measurement
from explorer.welder.options import Options
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import ALL_SIZES, LOW, problems
from tests.widgets.of_family import of_family
from widgets.draw.slide import fold_columns
from widgets.draw.table import sentence_text, size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Move, Outcome, Totals, View
from widgets.page.report import document
from widgets.rooms import gallery
from widgets.session.answers import PictureContext
from widgets.session.jobs import Job
from widgets.session.move_editor import MoveEditor
from widgets.session.session import Session
from widgets.session.state import fragment, from_fragment
from widgets.welder import tile_curve
from widgets.welder import tile_curve as curve_picture
from widgets.welder import view as welder_view
from widgets.welder.pipeline import Operator, Outer, PipelineRows, Scene, Value, crossing
from widgets.welder.pipeline_picture import figure as pipeline_figure
from widgets.welder.pipeline_picture import see
from widgets.welder.tile_graph import columns_for, window
from widgets.welder.view import WeldedGroup, level_name

MIB = 1 << 20
LEVELS = ("register", "L1", "L2", "L3", "DRAM")
VALUES = ("mat_mul", "reduce_max", "sub", "exp", "reduce_sum")  # that kernels of `small` hand over


@explorer.trace
def scores(a: explorer.tensor("float32", 98304, 64), b: explorer.tensor("float32", 64, 128)):  # type: ignore[no-untyped-def,valid-type]
    x = enp.matmul(a, b)
    e = enp.exp(x - enp.max(x, axis=-1, keepdims=True))
    return e / enp.sum(e, axis=-1, keepdims=True)


@explorer.trace
def small(a: explorer.tensor("float32", "n", 17), b: explorer.tensor("float32", 17, 13)):  # type: ignore[no-untyped-def,valid-type]
    x = enp.matmul(a, b)
    e = enp.exp(x - enp.max(x, axis=-1, keepdims=True))
    return e / enp.sum(e, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def golden() -> Session:
    return Session(explorer.compile(explorer.load(scores), target="v100", until="planned"))


@pytest.fixture
def session() -> Session:
    """Everything is one kernel by hand: whether that pays depends on what this machine measures."""
    options = explorer.Options(welder=Options(connect=tuple((v, "L1") for v in VALUES)))
    c = explorer.compile(explorer.load(small), options=options)
    assert len(c.program.kernel_calls) == 1
    return Session(c, move_editor=MoveEditor(compiler=instead))


def instead(c: Compiled, moves: Sequence[Move], job: Job) -> Compiled:
    """The same compilation, whatever was moved."""
    return c


def seen(session: Session, device: str = "", rank: int = -1, op: str = "") -> WeldedGroup:
    found = welder_view.welded_group(PictureContext(session, View(device, rank)), op)
    assert found is not None
    return found


def rows_of(count: int, *, inputs: int = 1, far: int = 3) -> PipelineRows:
    """A chain of operators made by hand, each read by the next and some by one far away."""
    held = LevelBytes("L2", 1 << 16, 1 << 20, 1 << 22)
    levels = tuple(replace(held, level=level) for level in LEVELS)
    plan = GroupPlan("L2", (("i", 8),), 64, 32, levels, (), (), 1.0, 12.0)
    operators = tuple(
        Operator(f"t{n}", f"operator_{n}", "elementwise", (f"o{n}",)) for n in range(count)
    )
    values = tuple(
        Value(
            f"t{n}", f"operator_{n}", n,
            (n + 1, n + far) if n % 2 == 0 and n + far < count else (n + 1,),
            LEVELS[n % 3], (1, 8, 4), 128, (1, 1024, 4), 16384,
        )
        for n in range(count - 1)
    )  # fmt: skip
    outer = [
        Outer(f"w{n}_{i}", f"weight.of.operator.{n}.{i}", "weight", (n,), (8, 8), 256)
        for n in range(0, count, 3)
        for i in range(inputs)
    ]
    result = Outer("out", f"operator_{count - 1}", "output", (count - 1,), (8, 8), 256)
    return PipelineRows(
        "group", "this-cpu", True, LEVELS, operators, values, tuple(outer), (result,),
        (tuple(range(count)),), levels, 1 << 20, 1 << 22, "L2", ("off", "register", "L1", "L2"),
        plan, True,
    )  # fmt: skip


def pipeline_of(session: Session, cut: str = "", op: str = "", device: str = "") -> PipelineRows:
    found = gallery.find_picture("welder").draw(PictureContext(session, View(device, cut=cut)), op)[
        0
    ]
    assert isinstance(found, PipelineRows)
    return found


# The fused pipeline


def test_every_cut_level_is_a_plan_of_its_own(golden: Session) -> None:
    whole = pipeline_of(golden)
    assert whole.cuts[0] == "off" and whole.cut == whole.cuts[-1] != "off"
    frames = [pipeline_of(golden, cut) for cut in whole.cuts]
    for f in frames:
        assert sorted(o for k in f.kernels for o in k) == list(range(len(f.operators)))
        stored = sum(v.level == f.levels[-1] for v in f.values)
        assert (stored > 0) == (len(f.kernels) > 1)
    assert all(len(k) == 1 for k in frames[0].kernels)
    assert frames[0].traffic == whole.apart == sum(crossing(p) for p in seen(golden).apart)
    counts, moved = [len(f.kernels) for f in frames], [f.traffic for f in frames]
    assert counts == sorted(counts, reverse=True) and moved == sorted(moved, reverse=True)
    assert frames[-1].traffic == crossing(seen(golden).plan)
    with pytest.raises(BadOption, match="cannot be shown fused up to 'L7'"):
        pipeline_of(golden, "L7")


def test_a_value_is_handed_on_where_the_plan_says(golden: Session) -> None:
    plan, rows = seen(golden).plan, pipeline_of(golden)
    levels = {e.level for e in plan.edges}
    assert {v.level for v in rows.inner} - {"register"} == levels - {"register"}
    for v in rows.values:
        assert v.tile_bytes <= v.bytes and v.source < min(v.readers)


def test_the_scrubber_goes_through_the_cut_levels(golden: Session) -> None:
    found = golden.answer("picture", {"room": "welder"})
    (name, title, values, at, texts) = found["controls"]["more"][0]
    assert found["controls"]["play"] == name == "cut" and title == "fuse up to"
    assert at == len(values) - 1 and texts[:2] == ["off", "registers"]
    off = golden.answer("picture", {"room": "welder", "cut": "off"})
    assert off["svg"] != found["svg"] and off["see"][0][2][0] == "6 kernels"


def test_the_sentences_count_what_is_drawn(golden: Session) -> None:
    rows = pipeline_of(golden)
    said = [sentence_text(s) for s in see(rows)]
    assert said[0] == f"{len(rows.operators)} operators run as 1 kernel."
    assert said[1] == f"{len(rows.inner)} of {len(rows.values)} values never reach memory."
    assert said[2].startswith("Memory traffic: ") and " instead of " in said[2]
    text = pipeline_figure(rows, "", (1012, 600)).text()
    for sentence in see(rows):
        for mark in sentence:
            assert isinstance(mark, str) or lit(text, mark.lights)


def lit(text: str, lights: str) -> int:
    """How many marks of a drawing a number lights."""
    keys = [set((e.get("data-k") or "").split()) for e in ElementTree.fromstring(text).iter()]
    return sum(any(set(way.split()) <= k for way in lights.split("|")) for k in keys)


@pytest.mark.parametrize("size", ALL_SIZES)
@pytest.mark.parametrize("count", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("inputs", [1, 4])
def test_a_pipeline_can_be_read_however_long_it_is(
    count: int, inputs: int, size: tuple[int, int]
) -> None:
    rows = rows_of(count, inputs=inputs)
    for on in {0, count // 2, count - 1}:
        figure = pipeline_figure(rows, "", size, f"o{on}")
        assert (figure.width, figure.height) == size and problems(figure) == []
    apart = replace(
        rows,
        values=tuple(replace(v, level="DRAM") for v in rows.values),
        kernels=tuple((n,) for n in range(count)),
    )
    assert problems(pipeline_figure(apart, "", size)) == []
    assert problems(pipeline_figure(rows, "", size, handles=True)) == []


@pytest.mark.parametrize("shown", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("on", [0, 3, 20, 39])
def test_operators_that_have_no_room_are_folded_and_counted(shown: int, on: int) -> None:
    parts = fold_columns(40, shown, on)
    assert [n for p in parts for n in p] == list(range(40))
    assert len(parts) <= max(shown, 3) and ((on,) in parts)


# The curve


def test_the_curve_has_the_numbers_of_the_paper(golden: Session) -> None:
    rows = tile_curve.data(seen(golden))
    by_rows = {int(p.tile.split()[0].removeprefix("i=")): p for p in rows.points}
    traffic = {n: p.traffic / MIB for n, p in by_rows.items() if n in (4, 16, 32, 64)}
    assert traffic == {4: 840, 16: 264, 32: 168, 64: 120}
    assert (rows.level, rows.farther, rows.capacity) == ("shared", "DRAM", 48 << 10)
    assert all(p.fits == (p.footprint <= 48 << 10) for p in rows.points)


def test_the_cut_is_between_the_last_tile_that_has_room_and_the_next(golden: Session) -> None:
    rows = tile_curve.data(seen(golden))
    fit = [p.elements for p in rows.points if p.fits]
    larger = [p.elements for p in rows.points if not p.fits]
    assert max(fit) < rows.cut < min(larger)
    assert [p.fits for p in rows.frontier] == [True] * len(rows.frontier)
    assert tile_curve.cut_off([p for p in rows.points if p.fits]) == 0.0
    none = [replace(p, fits=False) for p in rows.points]
    assert 0 < tile_curve.cut_off(none) < min(p.elements for p in none)


def test_a_point_plans_the_group_again_at_its_tile(golden: Session) -> None:
    for rank, p in enumerate(seen(golden).points):
        found = seen(golden, rank=rank)
        assert dict(found.plan.tile) == dict(p.tile) and tile_curve.rank_of(found) == rank
        assert found.plan.at("shared").traffic == p.traffic
    assert seen(golden).in_use
    with pytest.raises(BadOption, match="has no tile number 100"):
        seen(golden, rank=99)


def test_every_point_stands_for_its_tile_and_says_what_it_is(golden: Session) -> None:
    rows = tile_curve.data(seen(golden))
    for size in (*ALL_SIZES, (650, 480), (252, 620)):
        figure = curve_picture.figure(rows, size)
        assert problems(figure) == []
        points = {
            int(e.get("data-rank", 0)): "".join(e.itertext())
            for e in ElementTree.fromstring(figure.text()).iter()
            if e.get("data-rank")
        }
        assert points == {n: tile_curve.point_words(rows, n) for n in range(len(rows.points))}


def test_bytes_of_a_level_apart_are_the_sum_of_the_kernels(golden: Session) -> None:
    found = seen(golden)
    rows = tile_curve.data(found)
    last = rows.moved[-1]
    assert len(found.apart) == len(found.group.members)
    assert last.before == sum(p.at("shared").traffic for p in found.apart)
    assert last.before is not None and last.before > last.after


# Devices, sizes, models


@pytest.mark.few(11)
@pytest.mark.parametrize("rows", [0, 1, 7, 10007])
@pytest.mark.parametrize("device", ["", "v100", "h100"])
def test_odd_sizes_are_drawn(rows: int, device: str) -> None:
    c = explorer.compile(explorer.load(small), until="planned")
    session = Session(c, sizes={"n": rows})
    for room in (*of_family("groups"), "groups"):
        figure, table = gallery.picture(room, PictureContext(session, View(device)))
        assert problems(figure) == [] and table.rows and len(figure.text()) < 120_000


def test_before_welder_has_run_a_room_says_so() -> None:
    class Early(hand.HandMade):
        @property
        def program(self) -> Program:
            return hand.LEGALIZED

        @property
        def snapshots(self) -> tuple[hand.Snapshot, ...]:
            return super().snapshots[:3]

    early = Session(Early(), compare=hand.compare)
    for name in of_family("groups"):
        figure, table = gallery.picture(name, early)
        assert "Welder has left no groups" in figure.text() and not table.rows
    assert "Welder has not run" in gallery.picture("groups", early)[0].text()


@pytest.mark.parametrize("size", ALL_SIZES)
def test_a_tile_graph_has_the_levels_of_its_edges(size: tuple[int, int]) -> None:
    c = explorer.compile("tests/data/tiny_bert.onnx", until="planned")
    graph = c.program.decisions.tile_graph
    assert graph is not None
    on_show = PictureContext(Session(c), View(width=size[0], height=size[1]))
    for group in (graph.groups[0], max(graph.groups, key=lambda g: len(g.members))):
        op = min(group.origin)
        rows, figure, table = gallery.find_picture("groups").draw(on_show, op)
        assert figure is not None and problems(figure) == [] and len(rows) == len(graph.groups)
        shown = window(on_show, op, columns_for(size[0]))
        assert op in shown.columns[shown.on].ops
        assert len(shown.columns) + shown.before + shown.after <= len(graph.groups)
        for v in shown.columns[shown.on].rows.inner:
            assert level_name(v.level) in figure.body or len(shown.columns[shown.on].ops) > 6
        text = figure.text()
        marks = [m for s in table.see for m in s if not isinstance(m, str)]
        assert size in LOW or all(lit(text, m.lights) for m in marks if m.lights != "cut")


def test_a_saved_page_holds_groups_and_tiles_and_one_data_sheet() -> None:
    answers = document(Session(hand.HandMade(), compare=hand.compare), code=False)["answers"]
    for name in of_family("groups"):
        assert f"picture|-1|{name}" in answers and f"picture|0|{name}" in answers
    for name in ("welder", "curve"):
        assert f"picture|v100|-1|{name}" in answers
    for name in of_family("tiles"):
        assert f"picture|-1|{name}" in answers and f"picture|v100|-1|{name}" in answers


# Connections moved by hand


def test_connections_are_the_kernels_before_welding(session: Session) -> None:
    figure, table = gallery.picture("connections", session)
    values = {row[0]: row for row in table.rows}
    assert values["mat_mul"][5] in LEVELS[:3] and values["mat_mul"][6] == "yes"
    handles = [e for e in ElementTree.fromstring(figure.text()).iter() if e.get("data-value")]
    assert {e.get("data-value") for e in handles} == set(values)
    for e in handles:
        assert e.get("tabindex") == "0" and e.get("role") == "slider" and e.get("aria-valuetext")


def test_a_move_is_predicted_drawn_and_undone(session: Session) -> None:
    before = gallery.picture("connections", session)[1].rows
    found = session.answer("move", {"value": "mat_mul", "level": "DRAM"})
    assert not found["refused"] and "predicted" in found["said"]
    rows = {row[0]: row for row in found["rows"]}
    assert rows["kernels"][3] == "+1" and rows["to and from memory"][3].startswith("+")
    after = gallery.picture("connections", session)[1].rows
    assert after != before and ("mat_mul", "memory") in {(r[0], r[5]) for r in after}
    session.answer("move", {"value": "exp", "level": "DRAM"})
    assert len(session.manual_moves.moves) == 2
    session.answer("unmove", {})
    session.answer("unmove", {"everything": True})
    assert gallery.picture("connections", session)[1].rows == before
    with pytest.raises(BadOption, match="nothing was moved"):
        session.answer("unmove", {})


def test_an_illegal_move_says_its_condition_and_what_would_flip_it(session: Session) -> None:
    found = session.answer("move", {"value": "reduce_max", "level": "register"})
    assert found["refused"] and found["flip"].startswith("connect it at ")
    assert not session.manual_moves.moves
    near = found["flip"].removeprefix("connect it at ")
    assert not session.answer("move", {"value": "reduce_max", "level": near})["refused"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"value": "mat_mul", "level": "L9"}, "no level 'L9'"),
        ({"value": "nothing", "level": "L1"}, "no kernel computes a value 'nothing'"),
        ({"value": "mat_mul", "level": 3}, "level is a text, not 3"),
        ({"value": "mat_mul"}, "malformed"),
        ({"value": "mat_mul", "level": "L1", "device": "z80"}, "no data sheet"),
    ],
)
def test_a_move_that_is_none_is_refused(session: Session, args: dict[str, Any], said: str) -> None:
    with pytest.raises((BadOption, explorer.errors.NoSuchDevice), match=said):
        session.answer("move", args)


def test_a_joined_value_goes_where_it_has_room(session: Session) -> None:
    session.answer("move", {"value": "mat_mul", "level": "DRAM"})
    found = session.answer("join", {"value": "mat_mul"})
    assert not found["refused"] and dict(session.manual_moves.moves)["mat_mul"] in LEVELS[:3]


def test_a_data_sheet_is_for_predictions_only(session: Session) -> None:
    found = session.answer("move", {"value": "mat_mul", "level": "DRAM", "device": "v100"})
    assert found["sheet"] and found["device"] == "v100"
    assert found["levels"] == ["register", "shared", "DRAM"]


def test_what_was_moved_is_timed_beside_and_taken(session: Session) -> None:
    def compare(first: Any, second: Any, inputs: Any, seconds: float) -> Comparison:
        for _ in range(30):
            assert first.runnable.run is not None and second.runnable.run is not None
        one, two = Measurement(10.0, 9.0, 11.0, 60), Measurement(12.0, 11.0, 13.0, 60)
        return Comparison(1.2, 1.15, 1.25, 60, "faster", one, two)

    session.comparing.compare = compare
    with pytest.raises(BadOption, match="nothing was moved"):
        session.answer("time_hand", {})
    session.answer("move", {"value": "mat_mul", "level": "DRAM"})
    began = session.answer("time_hand", {})
    told = session.bench.jobs.wait(began["job"])
    assert told["error"] is None and told["data"]["big"] == "0.83× the present fusion's time"
    assert told["data"]["predicted"].startswith("predicted ")
    kernels = len(session.now.compiled.program.kernel_calls)
    assert "mat_mul → DRAM" in session.answer("take_hand", {})["said"]
    assert len(session.now.compiled.program.kernel_calls) == kernels + 1
    assert not session.manual_moves.moves
    link, taken = session.link()["text"], session.now.compiled.options
    assert session.answer("undo", {})["said"].startswith("Undone: mat_mul")
    session.restore(link)  # a link takes it along
    assert session.now.compiled.options == taken
    session.answer("undo", {})
    broken = fragment(replace(from_fragment(link), connect=(("nothing", "DRAM"),)))
    with pytest.raises(BadOption, match="nothing"):
        session.restore(broken)
    assert session.now.compiled.options != taken


def test_the_fusion_knob_names_the_policies(session: Session) -> None:
    knob = next(k for k in session.knobs() if k.name == "fusion")
    assert knob.labels[:2] == ("off", "gain") and set(explorer_policies()) <= set(knob.labels)
    session.turn("fusion", 0)
    assert len(session.now.compiled.program.kernel_calls) == 6
    assert not session.now.compiled.options.welder.enabled


def explorer_policies() -> tuple[str, ...]:
    from explorer.welder import POLICIES

    return tuple(POLICIES)


@dataclass(frozen=True)
class Judged:
    """A judge that always says the same."""

    outcome: Outcome

    def __call__(
        self, c: Compiled, moves: Sequence[Move], device: Device, sizes: Mapping[str, int]
    ) -> Outcome:
        return self.outcome


def test_changes_are_said_in_numbers_and_no_room_is_marked() -> None:
    before = Totals(1, 1 << 20, "L2", 1 << 19, 1 << 20, 10.0)
    after = Totals(2, 3 << 20, "L2", 1 << 21, 1 << 20, 12.5)
    editor = MoveEditor(judge=Judged(Outcome(before, after)))
    session = Session(hand.HandMade(), compare=hand.compare, move_editor=editor)
    found = session.answer("move", {"value": "conv_out", "level": "DRAM"})
    assert [row[3] for row in found["rows"]] == ["+1", "+200.0%", "too large", "+25.0%"]
    assert found["rows"][2][4] and found["said"] == "conv_out in DRAM: predicted 12.5 µs, +25.0%"


def side(us: float) -> Totals:
    return Totals(1, 1 << 20, "L2", 1 << 19, 1 << 20, us)


def in_turn(
    c: Compiled, moves: Sequence[Move], device: Device, sizes: Mapping[str, int]
) -> Outcome:
    """A judge that knows three moves."""
    return {
        ("conv_out", "DRAM"): Outcome(side(10.0), side(12.0)),
        ("conv_out", "L2"): Outcome(side(10.0), side(6.0)),
        ("fc_out", "DRAM"): Outcome(side(20.0), side(21.0)),
    }[moves[-1]]


def test_a_value_that_was_moved_twice_counts_once() -> None:
    session = Session(hand.HandMade(), compare=hand.compare, move_editor=MoveEditor(judge=in_turn))
    session.answer("move", {"value": "conv_out", "level": "DRAM"})
    again = session.answer("move", {"value": "conv_out", "level": "L2"})
    assert "moves" not in again["said"]
    found = session.answer("move", {"value": "fc_out", "level": "DRAM"})
    assert found["said"].endswith(f"all 2 moves: {time_text(3.0)} less")


def test_moves_are_kept_by_device() -> None:
    session = Session(hand.HandMade(), compare=hand.compare, move_editor=MoveEditor(judge=in_turn))
    session.answer("move", {"value": "conv_out", "level": "DRAM"})
    assert session.answer("hand", {"device": "v100"})["moves"] == []
    session.answer("move", {"value": "fc_out", "level": "DRAM", "device": "v100"})
    assert session.answer("hand", {})["moves"] == [["conv_out", "DRAM"]]
    assert session.answer("hand", {"device": "v100"})["moves"] == [["fc_out", "DRAM"]]
    assert session.manual_moves.on("this-cpu").moves == (("conv_out", "DRAM"),)
    session.answer("unmove", {"device": "v100", "everything": True})
    assert session.answer("unmove", {})["moves"] == []
    assert not session.manual_moves.others
    session.answer("move", {"value": "conv_out", "level": "DRAM"})
    session.answer("hand", {"device": "v100"})
    session.turn("threads", 0)
    assert session.answer("hand", {})["moves"] == []


def test_a_tile_that_names_some_axes_counts_the_others_whole(golden: Session) -> None:
    found = seen(golden)
    cost = found.points[0]
    partly = replace(cost, tile=cost.tile[:1])
    rows = tile_curve.data(replace(found, points=(partly, *found.points[1:])))
    largest = max(p.elements for p in rows.points)
    sizes = dict(max((p.tile for p in found.points), key=lambda t: dict(t)[cost.tile[0][0]]))
    others = largest // sizes[cost.tile[0][0]]
    assert rows.points[0].elements == cost.tile[0][1] * others


def test_a_kernel_that_shares_columns_with_another_is_one_kernel() -> None:
    """A recurrent cell's products are made in two groups: by hand they cannot be grouped again."""
    c = explorer.compile("zoo:small_lstm", until="planned")
    graph, on_show = c.program.decisions.tile_graph, PictureContext(Session(c), View())
    assert graph is not None
    for group in graph.groups:
        w = welder_view.group_in_use(on_show, group)
        assert w is not None
        scene = Scene(w, welder_view.before_welding(c), on_show.house, {})
        rows = scene.frame(None)
        assert len(rows.kernels) == 1 and len(rows.inner) == len(rows.values)
        cuts = scene.cuts(rows)
        off = scene.frame(cuts[0], rows)
        assert len(cuts) == 1 or len(off.kernels) == len(off.operators)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_mobilenetv2"])
def test_the_inspector_and_the_pipeline_tell_of_one_group_alike(model: str) -> None:
    session = Session(explorer.compile(f"zoo:{model}"))
    seen = 0
    for op in [o.name for o in session.house.operators[:40]]:
        drawn = welder_view.welded_group(PictureContext(session, View()), op)
        if drawn is None or op not in drawn.ops or len(drawn.group.members) < 2:
            continue
        before = welder_view.before_welding(session.now.compiled)
        rows = Scene(drawn, before, session.house, dict(session.now.sizes)).frame(None)
        at = session.house.order[op]
        told = [r["cells"] for r in session.answer("operator", {"op": at})["fusion"]["rows"]]
        for value in rows.inner:
            (words,) = (b for a, b in told if a.startswith(f"{value.label} → "))
            assert words.startswith(f"stays in {level_name(value.level)}, ")
            if 0 < value.tile_bytes < value.bytes:
                assert f"{size_text(value.tile_bytes)} of {size_text(value.bytes)}" in words
            seen += 1
    assert seen


def test_what_a_group_reads_is_a_mark_of_its_operator_and_says_why_it_is_outside() -> None:
    session = Session(explorer.compile("zoo:tiny_bert"))
    boxes = set[str]()
    for op in range(len(session.house.operators)):
        svg = session.answer("picture", {"room": "welder", "op": op})["svg"]
        boxes |= set(re.findall(r'<rect[^>]*data-op="([^"]+)"[^>]*><title>read from memory', svg))
        boxes |= {m for m in re.findall(r"not fused: ([^<;]+)", svg)}
    known = {o.name for o in session.house.operators}
    assert any(known & set(box.split(" ")) for box in boxes)
    assert any("between two products" in box for box in boxes)
    assert not any(re.search(r"\d{5,} bytes", box) for box in boxes)
