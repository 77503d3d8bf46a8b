"""FuseOps as rows: kinds, post-dominators, phases and refusals."""

from dataclasses import replace
from html import escape

import pytest

import explorer
from explorer.ir.decisions.decided import Decisions
from explorer.relax.fusion import plan
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import ALL_SIZES, SIZES, problems
from widgets.draw.table import Mark
from widgets.model.house import read
from widgets.relax import fusion

C = hand.HandMade()


@pytest.fixture(scope="module")
def rows() -> fusion.FusionRows:
    return fusion.data(C)


def test_rows_are_what_the_plan_says(rows: fusion.FusionRows) -> None:
    wanted = plan(hand.LEGALIZED, hand.LEGALIZED.main)
    nodes = {n.name: n for n in rows.nodes}
    assert list(nodes) == [n.name for n in wanted.graph.nodes]
    for row, node in zip(rows.nodes, wanted.graph.nodes, strict=True):
        assert row.kind == node.kind.word and row.evidence == node.why
        parent = wanted.graph.parent(node.number)
        assert row.parent == (-1 if parent is None else parent.number)
    for group in wanted.groups:
        together = {nodes[m].group for m in group.members}
        assert len(together) == 1 and (0 in together) == (len(group.members) == 1)
    for step in wanted.refusals:
        assert nodes[step.node].phase < 0 and step.reason in nodes[step.node].reason


def test_an_anchor_and_what_it_takes_are_marked(rows: fusion.FusionRows) -> None:
    conv, relu = rows.nodes[0], rows.nodes[1]
    assert conv.kind == "OutEWiseFusable" and conv.anchor and conv.phase == 0
    assert relu.group == conv.group > 0 and "the group ends here" in relu.reason
    first, *_ = fusion.rows_of(rows)
    assert first.nodes[:2] == (conv, relu) and first.last == relu
    drawn = fusion.figure(rows, SIZES[0], "relu").body
    assert "node anchor" in drawn and "not into " in drawn


def test_every_node_has_a_reason_and_its_evidence(rows: fusion.FusionRows) -> None:
    assert all(n.reason and n.evidence for n in rows.nodes)
    body = fusion.figure(rows, SIZES[0]).body
    for node in rows.nodes:
        assert f"{node.kind}: {escape(node.evidence)}" in body
    refused = [r for r in fusion.table(rows).rows if r[6] == "refused"]
    assert len(refused) == sum(n.phase < 0 for n in rows.nodes) and all(r[7] for r in refused)


def test_what_did_not_run_is_called_a_baseline(rows: fusion.FusionRows) -> None:
    assert not rows.ran and "baseline" in fusion.figure(rows, SIZES[0]).title

    class Ran(hand.HandMade):
        @property
        def program(self) -> hand.Program:
            done = Decisions(fusion=(plan(hand.LEGALIZED, hand.LEGALIZED.main),))
            return replace(super().program, decisions=done)

    ran = fusion.data(Ran())
    assert ran.ran and "baseline" not in fusion.figure(ran, SIZES[0]).title


def test_a_node_stands_for_its_own_operators_not_for_its_groups(rows: fusion.FusionRows) -> None:
    assert [n.ops for n in rows.nodes[:2]] == [("conv",), ("relu",)]


@pytest.mark.parametrize("size", ALL_SIZES)
@pytest.mark.parametrize("together", [1, 2, 3, 9, 40])
def test_many_nodes_are_folded_or_counted(size: tuple[int, int], together: int) -> None:
    node = fusion.data(C).nodes[0]
    many = tuple(
        replace(
            node, name=f"v{i}", display_name=f"v{i}", parent=i + 1 if i < 79 else -1,
            ops=(f"o{i}",),
            group=0 if together == 1 else i // together + 1, phase=0 if (i + 1) % together else -1,
            last=(i + 1) % together == 0, reason="an edge is Opaque, beyond Injective: v3, a sum",
        )
        for i in range(80)
    )  # fmt: skip
    rows = fusion.FusionRows(many, 80 // together, False)
    for on in (0, 41, 79):
        picture = fusion.figure(rows, size, f"o{on}")
        assert problems(picture) == [] and f">v{on}<" in picture.body
    assert "below" in fusion.figure(rows, size).body or together > 8


def test_a_reason_names_operators_as_the_reader_knows_them() -> None:
    c = explorer.compile("tests/data/tiny_bert.onnx", until="planned")
    rows = fusion.data(c, read(c).operators)
    assert all("val_" not in n.reason for n in rows.nodes)
    seen = [m for s in fusion.see(rows) for m in s if isinstance(m, Mark)]
    assert [m.text for m in seen] == ["54 of 63 nodes", "16 groups", "25 edges"]
    body = fusion.figure(rows, SIZES[0]).body
    assert all(f'data-k="{m.lights}' in body for m in seen)
