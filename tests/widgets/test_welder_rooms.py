"""Welder's pictures: memory levels, curve, connections and groups as rows; their drawings in
bounds.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
from tests.widgets.of_family import of_family
from tests.widgets.test_roller_rooms import outside
from widgets.charts import tile_curve as tile_curve_chart
from widgets.draw.table import time_text
from widgets.model.compiled import Compiled
from widgets.model.hand import Move, Outcome, Totals
from widgets.model.house import read
from widgets.model.on_show import View
from widgets.page.report import document
from widgets.rooms import gallery
from widgets.session.answers import Seen
from widgets.session.moves import Hands
from widgets.session.session import Session
from widgets.session.state import fragment, from_fragment
from widgets.session.timing.jobs import Job
from widgets.welder import tile_curve, tile_graph, tile_stream
from widgets.welder import tile_curve_picture as curve_picture
from widgets.welder import tile_graph_picture as graph_picture
from widgets.welder import tile_stream_picture as stream_picture
from widgets.welder import view as welder_view
from widgets.welder.stream_layout import bands_of
from widgets.welder.tile_stream import Operator, Rect, Reuse, Slot, StreamRows, nodes_of
from widgets.welder.welded import Welded

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
    return Session(c, hands=Hands(compiler=instead))


def instead(c: Compiled, moves: Sequence[Move], job: Job) -> Compiled:
    """The same compilation, whatever was moved."""
    return c


def seen(session: Session, device: str = "", rank: int = -1, op: str = "") -> Welded:
    found = welder_view.welded(Seen(session, View(device, rank)), op)
    assert found is not None
    return found


def rows_of(count: int, *, inputs: int = 1, seed: int = 3) -> StreamRows:
    """A chain of operators made by hand, each read by the next and some by one far away."""
    held = LevelBytes("L2", 1 << 16, 1 << 20, 1 << 22)
    levels = tuple(replace(held, level=level) for level in LEVELS)
    plan = GroupPlan("L2", (("i", 8),), 64, 32, levels, (), (), 1.0, 12.0)
    operators = tuple(Operator(f"t{n}", f"operator {n}", "elementwise", ()) for n in range(count))
    reuse = [Reuse(n, n + 1, f"t{n}", LEVELS[n % 3], (8, 4)) for n in range(count - 1)]
    reuse += [Reuse(n, n + seed, f"t{n}", LEVELS[n % 3], (8, 4)) for n in range(0, count - seed, 2)]
    slots = [
        Slot(n, f"w{n}_{i}", "load", (8, 8), tuple(Rect(at, (8, 4), 128) for at in ("DRAM", "L2")))
        for n in range(0, count, 3)
        for i in range(inputs)
    ]
    slots += [
        Slot(n, f"t{n}", "reuse", (8, 8), (Rect(LEVELS[n % 3], (8, 4), 128),)) for n in range(count)
    ]
    nodes = tuple(nodes_of(count, reuse, LEVELS, "L2"))
    return StreamRows(
        "group", "this-cpu", True, LEVELS, operators, tuple(slots), tuple(reuse), nodes, plan,
        True, (),
    )  # fmt: skip


# The streaming picture


def test_a_tensor_is_drawn_once_and_reaches_from_memory_to_its_operator(golden: Session) -> None:
    rows = tile_stream.data(seen(golden))
    assert [o.kind for o in rows.operators][:2] == ["contraction", "reduction, max"]
    names = [s.tensor for s in rows.slots]
    assert len(names) == len(set(names))
    order = {level: n for n, level in enumerate(rows.levels)}
    for s in rows.slots:
        at = [order[r.level] for r in s.rects]
        assert at == sorted(at, reverse=True) and at
        assert (s.rects[0].level == rows.levels[-1]) == (s.kind != "reuse")
        for r in s.rects:
            assert all(t <= n for t, n in zip(r.tile, s.full, strict=True))


def test_what_is_handed_on_has_no_tile_behind_its_level(golden: Session) -> None:
    rows = tile_stream.data(seen(golden))
    level = {r.tensor: r.level for r in rows.reuse}
    for s in rows.slots:
        if s.kind == "reuse":
            assert s.rects[0].level == level[s.tensor]


def test_virtual_nodes_are_inside_each_other(golden: Session) -> None:
    for rows in (tile_stream.data(seen(golden)), rows_of(12)):
        for a in rows.nodes:
            for b in rows.nodes:
                one, two = set(a.operators), set(b.operators)
                assert one <= two or two <= one or not one & two
        assert max((set(n.operators) for n in rows.nodes), key=len) == set(
            range(len(rows.operators))
        )


@pytest.mark.parametrize("count", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("inputs", [1, 2, 23])
def test_nothing_overlaps_however_many_operators_there_are(count: int, inputs: int) -> None:
    rows = rows_of(count, inputs=inputs)
    figure = stream_picture.figure(rows)
    assert outside(figure) == []
    boxes = solid(figure.text())
    assert len(boxes) >= count
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and x + w <= figure.width and y + h <= figure.height
        for a, b, c, d in boxes[i + 1 :]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y


def solid(text: str) -> list[tuple[float, float, float, float]]:
    """The boxes of operators and tiles."""
    found = []
    for e in ElementTree.fromstring(text).iter():
        if (
            e.tag.endswith("rect")
            and e.get("fill") == "var(--pane)"
            and float(e.get("width", 0)) > 20
        ):
            x, y, w, h = (float(e.get(k, 0)) for k in ("x", "y", "width", "height"))
            found.append((x, y, w, h))
    return found


@pytest.mark.parametrize("count", [2, 9, 40])
def test_two_reuse_tiles_never_share_a_stretch_of_a_track(count: int) -> None:
    rows = rows_of(count)
    for band in bands_of(rows, 0.0):
        left = {p.column.operator: p.x for p in band.columns if p.column.first}
        right = {p.column.operator: p.right for p in band.columns if p.column.last}
        spans: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for r, track in band.tracks.items():
            start, end = right.get(r.source, 0.0), left.get(r.target, 1e4)
            spans.setdefault((r.level, track), []).append((start, end))
        for mine in spans.values():
            mine.sort()
            assert all(a[1] <= b[0] for a, b in pairwise(mine))


def test_every_operator_and_every_column_has_a_place() -> None:
    rows = rows_of(40, inputs=23)
    bands = bands_of(rows, 0.0)
    shown = [p.column.operator for band in bands for p in band.columns]
    assert sorted(set(shown)) == list(range(40)) and shown == sorted(shown)
    slots = [s.tensor for band in bands for p in band.columns for s in p.column.slots]
    assert sorted(slots) == sorted(s.tensor for s in rows.slots)
    assert all(a.end < b.y for a, b in pairwise(bands))


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
    with pytest.raises(BadOption, match="none is number 100"):
        seen(golden, rank=99)


def test_every_point_stands_for_its_tile_and_says_what_it_is(golden: Session) -> None:
    rows = tile_curve.data(seen(golden))
    figure = tile_curve_chart.chart(rows, "", "page")
    places = [
        (take["rank"], words)
        for trace in figure.data
        if trace.meta and trace.name != "on show"
        for take, words in zip(trace.meta["take"], trace.customdata, strict=True)
    ]
    assert sorted(rank for rank, _ in places) == list(range(len(rows.points)))
    assert all(words == tile_curve.point_words(rows, rank) for rank, words in places)
    assert outside(curve_picture.figure(rows)) == []


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
        figure, table = gallery.picture(room, Seen(session, View(device)))
        assert outside(figure) == [] and table.rows and len(figure.text()) < 120_000


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


def test_all_groups_are_drawn_or_counted() -> None:
    house = read(hand.HandMade())
    (group, *_) = tile_graph.data(house.compiled.program)
    many = tuple(
        replace(group, name=f"g{n}", bytes_before=n + 8, ops=(f"o{n}",)) for n in range(900)
    )
    figure = graph_picture.figure(many, house, "o3")
    assert figure.text().count("data-op=") == 3 * graph_picture.MOST_GROUPS
    assert "the 400 that move most are drawn" in figure.title and "o3" in figure.text()
    assert outside(figure) == []
    assert graph_picture.figure(many[:1], house).height <= 140


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
    assert after != before and ("mat_mul", "DRAM") in {(r[0], r[5]) for r in after}
    session.answer("move", {"value": "exp", "level": "DRAM"})
    assert len(session.hand.moves) == 2
    session.answer("unmove", {})
    session.answer("unmove", {"everything": True})
    assert gallery.picture("connections", session)[1].rows == before
    with pytest.raises(BadOption, match="nothing was moved"):
        session.answer("unmove", {})


def test_an_illegal_move_says_its_condition_and_what_would_flip_it(session: Session) -> None:
    found = session.answer("move", {"value": "reduce_max", "level": "register"})
    assert found["refused"] and found["flip"].startswith("connect it at ")
    assert not session.hand.moves
    near = found["flip"].removeprefix("connect it at ")
    assert not session.answer("move", {"value": "reduce_max", "level": near})["refused"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"value": "mat_mul", "level": "L9"}, "no level 'L9'"),
        ({"value": "nothing", "level": "L1"}, "no kernel makes a value 'nothing'"),
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
    assert not found["refused"] and dict(session.hand.moves)["mat_mul"] in LEVELS[:3]


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
    assert told["error"] is None and told["data"]["big"] == "1.20× faster"
    assert told["data"]["predicted"].startswith("predicted ")
    kernels = len(session.now.compiled.program.kernel_calls)
    assert "mat_mul → DRAM" in session.answer("take_hand", {})["said"]
    assert len(session.now.compiled.program.kernel_calls) == kernels + 1
    assert not session.hand.moves
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
    hands = Hands(judge=Judged(Outcome(before, after)))
    session = Session(hand.HandMade(), compare=hand.compare, hands=hands)
    found = session.answer("move", {"value": "conv_out", "level": "DRAM"})
    assert [row[3] for row in found["rows"]] == ["+1", "+200.0%", "no room", "+25.0%"]
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
    session = Session(hand.HandMade(), compare=hand.compare, hands=Hands(judge=in_turn))
    session.answer("move", {"value": "conv_out", "level": "DRAM"})
    again = session.answer("move", {"value": "conv_out", "level": "L2"})
    assert "moves" not in again["said"]
    found = session.answer("move", {"value": "fc_out", "level": "DRAM"})
    assert found["said"].endswith(f"all 2 moves: {time_text(3.0)} less")


def test_moves_are_kept_by_device() -> None:
    session = Session(hand.HandMade(), compare=hand.compare, hands=Hands(judge=in_turn))
    session.answer("move", {"value": "conv_out", "level": "DRAM"})
    assert session.answer("hand", {"device": "v100"})["moves"] == []
    session.answer("move", {"value": "fc_out", "level": "DRAM", "device": "v100"})
    assert session.answer("hand", {})["moves"] == [["conv_out", "DRAM"]]
    assert session.answer("hand", {"device": "v100"})["moves"] == [["fc_out", "DRAM"]]
    assert session.hand.on("this-cpu").moves == (("conv_out", "DRAM"),)
    session.answer("unmove", {"device": "v100", "everything": True})
    assert session.answer("unmove", {})["moves"] == []
    assert not session.hand.others
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
