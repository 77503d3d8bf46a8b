"""Every single match of a step's rules, with the rule's source."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer import Stage
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.ir.calls import Expr, OpCall
from explorer.ir.program import Binding, Program
from explorer.transforms.rewrite import is_recorded, recording
from explorer.views.differences import Change, difference
from explorer.views.matches import matches, rule_of, step_of

ROOT = Path(__file__).parents[2]
MODELS = ("zoo:tiny_bert", "zoo:small_lstm", "zoo:small_mobilevit")


def compiled(model: str) -> Compilation:
    return explorer.compile(model, until=Stage.WELDED)


@pytest.fixture(scope="module", params=MODELS)
def c(request: pytest.FixtureRequest) -> Compilation:
    return compiled(request.param)


@pytest.mark.exhaustive
def test_a_step_does_the_same_while_somebody_listens(c: Compilation) -> None:
    assert not is_recorded()
    for snapshot in c.snapshots:
        with recording():
            assert is_recorded()
            again = step_of(c, snapshot.name).run(snapshot.before)
        assert not difference(snapshot.after, again)


@pytest.mark.few(1)
def test_every_binding_that_went_or_came_is_in_a_match(c: Compilation) -> None:
    for snapshot in c.snapshots:
        found = matches(c, snapshot.name)
        before = {b.name for m in found for b in m.before}
        after = {b.name for m in found for b in m.after}
        rows = [x for x in difference(snapshot.before, snapshot.after).changes if x.what != "loop"]
        gone = {x.before.name for x in rows if x.before and x.kind != "moved" and not reads(x)}
        assert gone <= before | after, snapshot.name
        came = {x.after.name for x in rows if x.after and x.kind == "added"}
        assert came <= after, snapshot.name
        assert bool(rows) <= bool(found)


def reads(change: Change) -> bool:
    """Whether it only reads what another one made."""
    return change.kind == "changed" and all(w.startswith("reads ") for w in change.words)


def test_each_operator_is_one_match_of_its_own_rule() -> None:
    c = compiled("zoo:small_mobilevit")
    found = matches(c, "legalise to kernels")
    before = c.snapshots[[s.name for s in c.snapshots].index("legalise to kernels")].before
    operators = [b for _, b in before.bindings() if isinstance(b.expr, OpCall)]
    assert [m.before for m in found] == [(b,) for b in operators]
    assert all(m.traced for m in found)
    convolutions = {m.rule for m in found if m.title == "Conv"}
    (rule,) = convolutions
    assert rule.file == "explorer/ops/images/conv.py"
    line = (ROOT / rule.file).read_text("utf-8").split("\n")[rule.line - 1]
    assert "def _lower_conv" in line and rule.source.startswith(line)


def test_merges_of_welder_are_gone_through_one_by_one() -> None:
    c = compiled("zoo:tiny_bert")
    found = matches(c, "fuse (Welder)")
    graph = c.program.decisions.tile_graph
    assert graph is not None
    taken = sum(len(g.members) - 1 for g in graph.groups)
    merges = [m for m in found if m.title == "fuse two kernels"]
    assert len(merges) == taken and all(m.traced for m in found)
    for m in merges:
        loops = [len(b.kernel_call.kernel.computes) for b in (*m.before, *m.after)]
        assert len(loops) == 3 and m.after[0].origin == m.before[0].origin | m.before[1].origin


def test_a_chain_of_copies_is_folded_match_by_match() -> None:
    found = matches(compiled("zoo:tiny_bert"), "fold layout copies")
    assert {m.rule.title for m in found} >= {"read through", "store through"}
    assert all(m.rule.file.startswith("explorer/transforms/copies/") for m in found)


def test_a_rule_of_ones_own_tells_its_matches_and_its_source() -> None:
    @explorer.rewrite("twice is a sum", after="fold constants")
    def rule(binding: Binding, program: Program) -> Expr | None:
        """What is multiplied by two is added to itself."""
        match binding.expr:
            case OpCall("Mul", (a, b)) if a == b:
                return OpCall("Add", (a, b))
        return None

    try:
        model = explorer.trace(lambda x: (x * x) * (x * x))(explorer.tensor("float32", 4))
        c = explorer.compile(model, until=Stage.TYPED)
        found = matches(c, "twice is a sum")
        assert len(found) >= 1 and all(m.traced for m in found)
        assert found[0].rule.says == "What is multiplied by two is added to itself."
        assert found[0].rule.file == "tests/views/test_matches.py"
        assert 'case OpCall("Mul", (a, b)) if a == b:' in found[0].rule.source
    finally:
        explorer.forget_pass("twice is a sum")


def test_what_did_nothing_has_no_match_and_what_is_not_there_is_refused() -> None:
    c = compiled("zoo:tiny_bert")
    assert matches(c, "inline calls") == ()
    with pytest.raises(BadOption, match="there is no step 'welding'"):
        matches(c, "welding")
    with pytest.raises(BadOption, match="was not run"):
        matches(c, "tile (Roller)")


def test_a_rule_is_found_however_it_is_wrapped() -> None:
    from functools import partial

    from explorer.relax import deduce

    found = rule_of(deduce)
    assert found.name == "deduce" and found.place.endswith(f"deduction.py:{found.line}")
    assert rule_of(partial(deduce)) == found
    assert rule_of(len).source == "" and rule_of(len).place == ""
