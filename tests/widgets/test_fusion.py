"""FuseOps as rows: kinds, post-dominators, phases and refusals."""

from dataclasses import replace

import pytest

from explorer.ir.decisions.decided import Decisions
from explorer.relax.fusion import plan
from tests.widgets import made_by_hand as hand
from widgets.relax import fusion, fusion_picture

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
    assert relu.group == conv.group > 0 and "goes no further" in relu.reason
    drawn = fusion_picture.figure(rows, "relu").body
    assert "g1 anchor" in drawn and "phase 0: OutEWiseFusable into relu_out" in drawn


def test_every_node_has_a_reason_and_its_evidence(rows: fusion.FusionRows) -> None:
    assert all(n.reason and n.evidence for n in rows.nodes)
    body = fusion_picture.figure(rows).body
    for node in rows.nodes:
        assert f"<title>{node.kind}: " in body
    refused = [r for r in fusion_picture.table(rows).rows if r[6] == "refused"]
    assert len(refused) == sum(n.phase < 0 for n in rows.nodes) and all(r[7] for r in refused)


def test_what_did_not_run_is_called_a_baseline(rows: fusion.FusionRows) -> None:
    assert not rows.ran and "baseline" in fusion_picture.figure(rows).title

    class Ran(hand.HandMade):
        @property
        def program(self) -> hand.Program:
            done = Decisions(fusion=(plan(hand.LEGALIZED, hand.LEGALIZED.main),))
            return replace(super().program, decisions=done)

    assert (
        fusion.data(Ran()).ran and "baseline" not in fusion_picture.figure(fusion.data(Ran())).title
    )


def test_a_node_stands_for_its_own_operators_not_for_its_groups(rows: fusion.FusionRows) -> None:
    assert [n.ops for n in rows.nodes[:2]] == [("conv",), ("relu",)]


def test_an_arc_leaves_the_picture_where_the_post_dominator_is_below() -> None:
    node = fusion.data(C).nodes[0]
    many = tuple(
        replace(node, name=f"v{i}", parent=39 if i < 39 else -1, ops=()) for i in range(40)
    )
    picture = fusion_picture.figure(fusion.FusionRows(many, 1, False))
    assert "and 18 more nodes" in picture.body
    assert picture.body.count('d="M66 ') == fusion_picture.SHOWN
    assert "l-6 -3v6z" not in picture.body  # no arrow head within the picture
