"""What stands between two programs: side by side with the words that changed, and by structure."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer import Stage
from explorer.errors import BadOption
from explorer.ir.program import Program
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import ALL_SIZES, problems
from widgets import data
from widgets.draw.table import sentence_text
from widgets.program import changes_picture, program_diff, side_by_side
from widgets.program.program_diff import Between, align_lines, spans
from widgets.rooms import gallery
from widgets.session.session import Session

STEP = Between("fuse (Welder)", hand.TASKED, hand.WELDED)


def cut(text: str, where: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[a:b] for a, b in where]


def test_only_the_words_that_changed_are_marked() -> None:
    old = "  y = matmul(x, w)  # f32[batch, 16]"
    new = "  y = matmul(x, packed_w)  # f32[batch, 32]"
    first, second = spans(old, new)
    assert cut(old, first) == ["w", "16"] and cut(new, second) == ["packed_w", "32"]
    assert spans(old, old) == ((), ())
    longer = spans("a = f(x)", "a = f(x, y, z)")
    assert longer == ((), ((7, 13),))


def test_lines_that_define_the_same_value_are_one_line() -> None:
    old = ["  a = f(x)", "  b = g(a)", "  c = h(b)"]
    new = ["  b = g(x, a)", "  n = k(b)", "  c = h(n)"]
    assert align_lines(old, new) == [(1, 0), (2, 2)]
    assert align_lines(["  return a, b, c"], ["  return a, b, d"]) == [(0, 0)]
    assert align_lines(["# something"], ["  entirely(different, words)"]) == []


@pytest.mark.parametrize(
    "pair",
    [(hand.IMPORTED, hand.LEGALIZED), (hand.TASKED, hand.WELDED), (hand.WELDED, hand.WELDED)],
)
def test_each_side_is_its_program_and_unmarked_words_are_equal(
    pair: tuple[Program, Program],
) -> None:
    rows = side_by_side.data(Between("step", *pair))
    for side, program in (("before", pair[0]), ("after", pair[1])):
        lines = [getattr(x, side) for x in rows.lines if getattr(x, side) is not None]
        assert [x.text for x in lines] == [x.text for x in program_diff.data(program, program)]
        assert [x.number for x in lines] == list(range(1, len(lines) + 1))
    for x in rows.lines:
        if x.before is not None and x.after is not None:
            left, right = (unmarked(side) for side in (x.before, x.after))
            assert "".join(left.split()) == "".join(right.split())


def unmarked(line: program_diff.DiffLine) -> str:
    kept, last = [], 0
    for a, b in line.words:
        kept.append(line.text[last:a])
        last = b
    return " ".join([*kept, line.text[last:]])


def test_a_changed_line_in_a_real_program_stands_beside_its_other_self() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.WELDED)
    rows = data(c, "side_by_side", step="fold layout copies")
    pairs = [x for x in rows.lines if x.changed and x.before and x.after]
    assert pairs and all(x.before.words or x.after.words for x in pairs)
    assert data(c, "side_by_side").title == "legalise to kernels"
    with pytest.raises(BadOption, match="no step 'fold copies'"):
        data(c, "side_by_side", step="fold copies")


def test_what_changed_is_told_by_the_names_of_the_house() -> None:
    session = Session(hand.HandMade())
    rows = changes_picture.data(STEP, session.house)
    assert [(r.kind, r.what, r.name) for r in rows.rows] == [
        ("changed", "kernel", "conv"),
        ("moved", "loop", "z"),
        ("removed", "kernel", "relu"),
    ]
    assert rows.rows[2].words == "now part of conv" and rows.rows[2].ops == ("relu",)
    assert "max(y[" in rows.rows[1].loop
    assert changes_picture.caption(rows).startswith(
        "fuse (Welder): 1 removed, 1 changed, 1 moved; 3 bind"
    )


def test_two_compilations_are_compared_with_each_other() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.WELDED)
    apart = c.with_options(welder=replace(c.options.welder, enabled=False))
    rows = data(c, "changes", against=apart)
    assert rows.title == "A → tiny_bert"
    assert {r.what for r in rows.rows} >= {"kernel", "loop"}
    assert data(c, "changes", against=c).rows == ()


def test_the_pinned_setting_is_what_a_house_compares_with() -> None:
    session = Session(hand.HandMade())
    found = session.answer("picture", {"room": "changes", "against": "A"})
    assert "no difference" in found["table"]["caption"]
    (versus,) = found["controls"]["more"]
    assert versus[0] == "against" and versus[2][versus[3]] == "A"
    assert session.answer("versus", {})["lines"]
    with pytest.raises(BadOption, match="there is nothing named 'B'"):
        session.answer("picture", {"room": "changes", "against": "B"})


def test_each_step_can_be_chosen_and_those_that_did_nothing_say_so() -> None:
    session = Session(hand.HandMade())
    steps = session.now.compiled.snapshots
    for n, step in enumerate(steps):
        found = session.answer("picture", {"room": "changes", "step": n})
        name, _, values, now, texts = found["controls"]["more"][0]
        assert (name, values[now]) == ("step", n) and texts[n].startswith(f"{n + 1} {step.name}")
        same = step.before is step.after
        assert not same or texts[n].endswith("(did nothing)")
        assert found["table"]["caption"].startswith(step.name)
    with pytest.raises(BadOption, match="there is no step"):
        session.answer("picture", {"room": "changes", "step": len(steps)})


def test_drawings_hold_as_many_lines_as_can_be_read() -> None:
    line = program_diff.DiffLine("+", 1, "  y = f(x)")
    rows = side_by_side.SideRows("many", (side_by_side.LinePair(None, line),) * 500)
    assert side_by_side.figure(rows).height < 2200
    assert "380 lines more" in side_by_side.figure(rows).body
    row = changes_picture.ChangeRow("added", "kernel", "k", "", ())
    for size in ALL_SIZES:
        drawn = changes_picture.figure(changes_picture.ChangeRows("many", (row,) * 500, 0, 0), size)
        shown = drawn.body.count(">k</text>")
        assert problems(drawn) == [] and f"and {500 - shown} more" in drawn.body


def test_the_sentences_of_a_step_count_what_is_different() -> None:
    row = changes_picture.ChangeRow("added", "kernel", "k", "", ())
    some = changes_picture.ChangeRows("fuse (Welder)", (row, row, replace(row, what="loop")), 4, 1)
    assert [sentence_text(s) for s in changes_picture.see(some)] == [
        "fuse (Welder): 3 added; 4 bindings as before.",
        "By what they are: 2 kernels, 1 loop.",
        "1 binding only got another name.",
    ]
    none = changes_picture.ChangeRows("hoist", (), 4, 0)
    (said,) = map(sentence_text, changes_picture.see(none))
    assert said == "hoist changes nothing: 4 bindings as before."


def test_lines_side_by_side_are_counted_by_what_became_of_them() -> None:
    both = [side_by_side.LinePair(SAME, replace(SAME, mark="+")), side_by_side.LinePair(SAME, SAME)]
    rows = side_by_side.SideRows("fuse (Welder)", (*both, side_by_side.LinePair(None, SAME)))
    (said,) = map(sentence_text, side_by_side.see(rows))
    assert said == "fuse (Welder): of the lines 1 changed, 1 new; 1 as they were."
    assert [x.kind for x in rows.lines] == ["changed", "same", "new"]
    (none,) = map(sentence_text, side_by_side.see(side_by_side.SideRows("hoist", (both[1],))))
    assert none == "hoist changes none of 1 line."


SAME = program_diff.DiffLine(" ", 1, "  y = f(x)")


def test_pictures_of_steps_stand_under_every_stage() -> None:
    mine = {p.name for p in gallery.PICTURES if p.every}
    assert {"changes", "side_by_side"} <= mine <= set(gallery.choices())


def test_lines_that_many_define_are_paired_where_they_stand() -> None:
    old = [x for n in range(400) for x in (f"  v{n} = f(x)", "    y[i] = a[i] + b[i]")]
    new = [x for n in range(400) if n != 7 for x in (f"  v{n} = g(x)", "    y[i] = a[i] · b[i]")]
    found = align_lines(old, new)
    assert len(found) == len(new)
    assert all(old[i].split(" = ")[0] == new[j].split(" = ")[0] for i, j in found)
    assert found == sorted(found) and all((i - j) in (0, 2) for i, j in found)
