"""The rows behind each picture, and what its drawing says of them."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.compiler import operators
from explorer.errors import BadOption
from explorer.ir.decisions.control import TaskTree
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison, Measurement
from explorer.tuning.race import RaceResult, Runner
from explorer.views.grinder import task_rows
from explorer.views.memory import memory_rows
from tests.widgets import made_by_hand as hand
from widgets import data
from widgets.draw.layered import layered
from widgets.draw.svg import fit, text_width
from widgets.draw.table import sentence_text
from widgets.grinder.task_tree import FOLD_ABOVE
from widgets.model import brick_wall, dataflow_graph, stage_strip
from widgets.program import dataflow_picture, program_diff, stages_picture
from widgets.program.generated_source import line_origins
from widgets.rammer import brick_wall_picture
from widgets.roller import tile_layout
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.timed import race_chart
from widgets.welder import tile_graph

C = hand.HandMade()


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(C)
    found.run_once()
    return found


@pytest.mark.parametrize("room", [p.name for p in gallery.PICTURES])
def test_every_room_has_rows_a_drawing_and_a_table(session: Session, room: str) -> None:
    figure, table = gallery.picture(room, session, "conv")
    for scheme in ("", "light", "dark"):
        ElementTree.fromstring(figure.text(scheme))
    assert "var(--" not in figure.text("light")
    assert figure.title
    assert table.rows and len(table.rows[0]) == len(table.columns)
    assert table.text().count("\n") >= 1 and "<td" in table.html()


def test_rows_are_had_without_jupyter() -> None:
    planned, measured = data(C, "rammer")
    assert planned.kind == "planned" and measured.kind == "measured"
    with pytest.raises(BadOption, match="no view 'cellar'"):
        data(C, "cellar")


def test_a_stage_that_only_decided_changed_no_line_and_says_so() -> None:
    cells = {c.stage: c for c in stage_strip.data(C)}
    assert cells["TYPED"].changes == 0
    assert cells["TASKED"].changes == 0 and cells["TASKED"].decided and not cells["TYPED"].decided
    rows = stages_picture.table(tuple(cells.values())).rows
    assert ("TASKED", "decided") in {(row[0], row[3]) for row in rows}
    assert cells["LEGALIZED"].changes == 5
    assert cells["WELDED"].from_cache and not cells["ROLLED"].from_cache
    assert "DIFFERENTIATED" not in cells
    took, did = map(sentence_text, stages_picture.see(tuple(cells.values())))
    most = max(cells.values(), key=lambda c: c.seconds)
    assert took.startswith(f"Compiling took {sum(c.seconds for c in cells.values()):.3f} s, ")
    assert most.stage in took
    some = sum(c.ran and bool(c.changes or c.decided) for c in cells.values())
    assert did.startswith(f"{some} of ")


def test_a_stage_that_was_not_reached_says_so() -> None:
    class Short(hand.HandMade):
        @property
        def snapshots(self) -> tuple[hand.Snapshot, ...]:
            return super().snapshots[:3]

        @property
        def program(self) -> hand.Program:
            return hand.LEGALIZED

    assert [c.ran for c in stage_strip.data(Short())] == [True] * 3 + [False] * 6


def test_an_operator_that_no_kernel_computes_is_joined_over() -> None:
    graph = dataflow_graph.data(C, folded=False)
    names = [n.name for n in graph.nodes]
    edges = {(names[a], names[b]) for a, b in graph.edges}
    assert "shape" not in names and "flatten" not in names
    assert ("relu", "fc") in edges
    assert ("input image", "conv") in edges and ("softmax", "output probabilities") in edges


def test_a_folded_graph_has_one_node_a_kernel() -> None:
    graph = dataflow_graph.data(C, folded=True)
    welded = next(n for n in graph.nodes if n.name == "relu_out")
    assert welded.label == "conv" and welded.ops == ("conv", "relu") and welded.note == "+1"


def test_every_operator_knows_its_calls_or_why_it_has_none() -> None:
    found = {o.name: o for o in operators.operators(C.model.program, C.program)}
    assert found["relu"].calls == ("relu_out",) and found["relu"].family == "elementwise"
    assert found["conv"].family == "conv"
    assert found["shape"].calls == () and found["shape"].dropped == "folded into the dims"


def test_layers_go_downwards_and_hold_every_node_once() -> None:
    rng = np.random.default_rng(1)
    edges = [(int(a), int(b)) for a, b in rng.integers(0, 60, (150, 2)) if a < b]
    found = layered(60, edges)
    layer = {node: i for i, row in enumerate(found.rows) for node in row}
    assert all(layer[a] < layer[b] for a, b in edges)
    assert sorted(v for row in found.rows for v in row if v < 60) == list(range(60))
    for at, bends in found.routes.items():
        a, b = edges[at]
        assert [layer[v] for v in (a, *bends, b)] == list(range(layer[a], layer[b] + 1))


def test_a_diff_holds_both_programs() -> None:
    rows = program_diff.data(hand.TASKED, hand.WELDED)
    before = program_diff.data(hand.TASKED, hand.TASKED)
    after = program_diff.data(hand.WELDED, hand.WELDED)
    assert [r.text for r in rows if r.mark != "+"] == [r.text for r in before]
    assert [r.text for r in rows if r.mark != "-"] == [r.text for r in after]
    assert any(r.mark == "+" and "2 operators in one" in r.text for r in rows)


WELDED_SOURCE = """def kernel(first, last, args):
    y = argument(args, 1)
    for task in range(first, last):
        for _i in range(0, rows, 14):
            contract0(x0, t3_rows + _i * 8, t3_seg, 1, 16, w1_packed, (t3_acc,))
            for i in range(8):
                _e1_0 = ld_float32(t3_acc, i)
                st_float32(y, i, at_least(_e1_0, F(0.0)))
"""


def test_a_line_of_source_belongs_to_what_it_writes_next() -> None:
    from explorer.ir.kernels.canonical import canonical

    kernel = hand.conv_kernel(with_relu=True)
    inner = canonical(kernel)[0].computes[0].out
    source = WELDED_SOURCE.replace("t3", inner)
    found = [sorted(ops) for ops in line_origins(source, kernel)]
    assert found == [[], [], [], ["conv"], ["conv"], ["relu"], ["relu"], ["relu"]]


def test_shares_of_a_wall_add_up_to_all() -> None:
    calls: list[brick_wall.WallCall] = []
    for kind, slack in (("planned", 1.0), ("measured", 1.07)):
        rows = brick_wall.data(hand.wall(kind, 2, slack), calls)
        assert sum(rows.shares().values()) == pytest.approx(1, abs=1e-9)
        assert all(0 <= b <= 1 for b in rows.busy_by_unit())


def test_a_png_is_a_png() -> None:
    rows = brick_wall.data(hand.wall("planned", 2), [])
    assert brick_wall_picture.wall_png(rows).startswith(b"\x89PNG\r\n\x1a\n")


def test_live_bytes_never_exceed_the_plan() -> None:
    rows = memory_rows(C.memory({}), {})
    assert max(rows.live) <= rows.planned_bytes <= rows.naive_bytes
    assert [b.name for b in rows.aliases] == ["flat"]


def test_handovers_of_a_group_have_their_bytes_at_the_sizes() -> None:
    groups = tile_graph.data(C.program, {"batch": 4})
    first = tile_graph.of_operator(groups, "relu")
    assert first is not None and first.members == ("conv_out", "relu_out")
    assert first.handovers[0].bytes == 4 * 2304 and first.handovers[0].level == "register"


def test_tiles_cover_the_output() -> None:
    rows = {r.kernel: r for r in tile_layout.data(C.program, {"batch": 3})}
    conv = rows["relu_out"]
    assert conv.tasks == 3 * 6 and conv.tile_bytes == 16 * 6 * 4
    first, second, third = map(sentence_text, tile_layout.see(conv))
    assert "is 18 tasks of" in first and first.endswith(", 384 B.")
    assert second.startswith("A task is ") and "register tile" in second
    refused = sum(bool(c.refused) for c in conv.candidates)
    assert third.startswith(f"{len(conv.candidates)} tile") and f"{refused} refused" in third
    assert conv.chosen == "n=1 h=1" and conv.depth == 27
    assert rows["probabilities"].micro is None


def test_a_run_of_plain_tasks_is_one_row() -> None:
    parts = tuple(TaskTree("operator", f"t{i}", "device") for i in range(9))
    loop = TaskTree("loop", "while", "device", parts, barriers_per_trip=9)
    tasked = replace(hand.TASKED, decisions=replace(hand.TASKED.decisions, tasks=loop))
    rows = task_rows(tasked, fold_above=FOLD_ABOVE)
    assert [(r.kind, r.count) for r in rows] == [("loop", 1), ("operator", 9)]
    assert task_rows(hand.IMPORTED) == ()


def test_the_fastest_runner_stands_first_and_the_verdict_has_its_interval() -> None:
    ours = Runner("ironworks", "0.1", Measurement(70, 66, 75, 60), 0.0)
    versus = Comparison(1.14, 1.1, 1.2, 30, "faster", ours.time, Measurement(80, 78, 90, 50))
    theirs = Runner("onnxruntime", "1.22", versus.second, 1e-6, versus)
    missing = (("torch", "it is not installed"),)
    result = RaceResult("hand", 2, "this-cpu", (theirs, ours), missing)
    table = race_chart.table(result)
    assert [row[0] for row in table.rows] == ["ironworks", "onnxruntime", "torch"]
    assert "torch did not run: it is not installed" in table.caption


def test_a_race_alone_says_so() -> None:
    ours = Runner("ironworks", "0.1", Measurement(70, 66, 75, 60), 0.0)
    words = race_chart.caption(RaceResult("hand", 2, "this-cpu", (ours,)))
    assert words.startswith("hand: no other runtime ran")


def test_hostile_names_stay_text() -> None:
    name = 'a b"><script>alert(1)</script>&<'
    sources = tuple(replace(s, name=name) if s.name == "conv" else s for s in hand.SOURCES)
    node = dataflow_graph.GraphNode(name, name, "operator", "conv", (name,))
    graph = dataflow_graph.Graph((node,), (), len(sources), False)
    tree = ElementTree.fromstring(dataflow_picture.figure(graph, (1012, 600), name).text("light"))
    marked = [e.get("data-op") for e in tree.iter() if e.get("data-op")]
    assert {*marked} == {name.replace(" ", "%20")}
    assert "<script" not in dataflow_picture.table(graph).html()


def test_a_kernel_of_one_number_has_a_layout() -> None:
    (rows,) = tile_layout.data(
        explorer.compile(explorer.trace(lambda x: x + 1.0)(explorer.tensor("float32"))).program
    )
    first, *_ = map(sentence_text, tile_layout.see(rows))
    assert first == "The scalar output of add is 1 task of scalar, 4 B."


def test_a_graph_too_high_for_its_page_is_drawn_around_the_selection_and_whole_in_small() -> None:
    node = dataflow_graph.GraphNode("", "", "operator", "conv")
    nodes = tuple(replace(node, name=f"n{i}", label=f"n{i}", ops=(f"n{i}",)) for i in range(2000))
    edges = tuple((i, i + 1) for i in range(1999))
    graph = dataflow_graph.Graph(nodes, edges, 2000, False)
    body = dataflow_picture.figure(graph, (1012, 600), "n900").body
    assert ">n900<" in body and ">n0<" not in body and len(body) < 200_000
    assert "1,989 rows more" in body and body.count('fill="var(--f-conv)"') == 2
    first, families = map(sentence_text, dataflow_picture.see(graph))
    assert first == "2,000 operators in a chain of 2,000 rows."
    assert families == "2,000 conv."


def test_a_label_is_cut_in_its_middle() -> None:
    cut = fit("/encoder/layer.0/attention/MatMul_3", 100)
    assert "…" in cut and text_width(cut) <= 100 and cut.endswith("_3")
    assert fit("short", 100) == "short"


def test_stages_before_legalisation_have_no_tiles() -> None:
    assert tile_layout.data(hand.LEGALIZED) == () and hand.LEGALIZED.stage == Stage.LEGALIZED
    assert tile_graph.data(hand.LEGALIZED) == ()
