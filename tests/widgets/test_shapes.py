"""Symbols, and all that speaks of them: rows, marks and the rules that light them."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from explorer.ir.calls import FunctionCall, MatchCast, OpCall, Var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Object, ShapeType, Tensor, TupleType
from tests.widgets import made_by_hand as hand
from widgets.draw.svg import (
    MOST_RULES,
    Svg,
    attribute_word,
    label,
    symbol_label,
    symbol_rules,
    symbol_spans,
    symbols_in_text,
)
from widgets.draw.table import sentence_text
from widgets.page.report import document
from widgets.relax import shapes
from widgets.relax.shape_words import annotation_text
from widgets.session.session import Session

n, k = symbol("n"), symbol("k found")
SIZE = (1012, 600)


def f32(*dims: object) -> Tensor:
    return Tensor(tuple(dims), "float32")


def found() -> Program:
    """Values that are all known, found by the run, of known rank only, and not known at all; and a
    function that is called.
    """
    x, r = Var("x", f32(n, 4)), Var("r.found", Tensor(None, "float32", 1))
    y, o = Var("y", f32(k)), Var("o", Object())
    z, p = Var("z", f32(k)), Var("p", f32(n))
    body = (
        Binding((r,), OpCall("NonZero", (x,)), frozenset({"nonzero"})),
        Binding((y,), MatchCast(r), frozenset({"nonzero"})),
        Binding((o,), OpCall("SequenceEmpty", ()), frozenset({"empty"})),
        Binding((z,), FunctionCall("twice", (y,)), frozenset({"twice"})),
    )
    twice = Function("twice", (p,), (), (p,))
    env = ShapeEnv((SymbolBound("n", 1, 64, 2), SymbolBound("k found", 0, None, 8)))
    main = Function("main", (x,), body, (z,))
    return Program((main, twice), env=env, stage=Stage.TYPED)


class Found(hand.HandMade):
    @property
    def program(self) -> Program:
        return found()

    @property
    def snapshots(self) -> tuple[hand.Snapshot, ...]:
        return (hand.Snapshot("deduce", Stage.TYPED, found(), found(), 0.1),)


def test_a_value_says_how_far_it_is_known_in_every_function() -> None:
    rows = shapes.data(Found(), {"n": 3})
    assert {v.name: (v.annotation, v.status) for v in rows.values} == {
        "x": ("f32[n, 4]", "proved"),
        "r.found": ("f32[1 dims]", "rank only"),
        "y": ("f32[k found]", "checked at run time"),
        "o": ("Object", "nothing"),
        "z": ("f32[k found]", "proved"),
        "twice.p": ("f32[n]", "proved"),
    }
    assert "there are no loops yet" in shapes.figure(rows, SIZE).body


def test_a_symbol_says_where_it_is_defined_and_whether_its_value_is_assumed() -> None:
    first, second = shapes.data(Found(), {"n": 3}).symbols
    assert (first.defined, first.bounds, first.now) == ("parameter x, dim 0", "1 to 64", 3)
    assert not first.assumed and first.dims == 2
    assert (second.defined, second.now, second.assumed) == ("match_cast y, dim 0", 8, True)
    assert "8 assumed" in shapes.figure(shapes.data(Found(), {"n": 3}), SIZE).body


def test_loops_and_buffers_of_a_symbol_are_counted_and_shown() -> None:
    c = hand.HandMade()
    rows = shapes.data(c, {"batch": 2}, c.memory({"batch": 2}))
    (batch,) = rows.symbols
    assert [u.name for u in rows.loops] == ["relu_out", "fc_out", "probabilities"]
    assert rows.loops[1].text == "for n < batch, o < 10, k < 576"
    assert [(u.name, u.text) for u in rows.buffers] == [
        ("relu_out", "2304*batch"),
        ("fc_out", "40*batch"),
    ]
    assert (batch.loops, batch.buffers) == (3, 2)


def test_of_many_values_those_around_the_operator_are_drawn_and_the_rest_is_counted() -> None:
    rows = shapes.data(Found(), {"n": 3})
    values = tuple(replace(rows.values[0], label=f"value_{i}", ops=(f"op_{i}",)) for i in range(60))
    for size in (SIZE, (1900, 1000), (380, 300)):
        body = shapes.figure(replace(rows, values=values), size, "op_41").body
        drawn = re.findall(r">(value_\d+)<", body)
        assert 2 < len(drawn) < 60 and "value_41" in drawn
        assert f"and {60 - len(drawn)} more" in body
    assert len(shapes.table(replace(rows, values=values)).rows) > 60


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Tensor(None, "int64", 3), "i64[3 dims]"),
        (Tensor(), "?[?]"),
        (ShapeType((n, 2)), "Shape(n, 2)"),
        (ShapeType(None, 2), "Shape(2 dims)"),
        (TupleType((f32(n), Object())), "(f32[n], Object)"),
    ],
)
def test_every_annotation_has_words(annotation: object, text: str) -> None:
    assert annotation_text(annotation) == text  # type: ignore[arg-type]


def test_every_mark_of_a_symbol_is_lit_by_one_rule() -> None:
    body = label(0, 0, "4*n + nn", symbols=("n",)) + symbol_label(0, 9, "n", "n: 1 to 64")
    text = Svg(9, 9, body, "two marks").text("light")
    tree = ElementTree.fromstring(text)
    marks = [e for e in tree.iter() if e.get("data-sym") == "n"]
    assert [e.text for e in marks if not len(e)] == ["n"] and len(marks) == 2
    assert text.count(":has([data-sym~") == 2  # one for words, one for shapes
    assert any(e.get("tabindex") == "0" and e.get("aria-label") for e in marks)


def test_a_hostile_symbol_stays_a_word() -> None:
    name = 'a "]{}</style><script>'
    assert not set(attribute_word(name)) & set(' "<>{}]')
    text = Svg(9, 9, label(0, 0, f"{name} + 1", symbols=(name,)), "t").text("light")
    assert "<script" not in text
    ElementTree.fromstring(text)


def test_the_selection_is_lit_by_a_rule_whatever_it_is_called() -> None:
    name = 'a "]{}</style><script>\\'
    body = label(0, 9, "v", ops=(name,))
    text = Svg(9, 9, body, "t", name).text("light")
    assert "<script" not in text and Svg(9, 9, body, "t").text("light").count("<style>") == 1
    tree = ElementTree.fromstring(text)
    rule = next(e.text or "" for e in tree.iter() if (e.text or "").startswith(".pic."))
    word_ = next(e.get("data-op") for e in tree.iter() if e.get("data-op"))
    quoted = re.search(r'data-op~="([^"]*)"', rule)
    assert quoted is not None
    meant = re.sub(r"\\([0-9a-f]+) ", lambda m: chr(int(m[1], 16)), quoted[1])
    assert meant == word_


@pytest.mark.exhaustive
def test_neighbours_have_one_picture_in_a_saved_page() -> None:
    session = Session(hand.HandMade())
    answers = document(session)["answers"]
    found = {answers[f"picture|{op}|levels"]["data"]["svg"] for op in (0, 1, 4)}
    assert len(found) == 1 and 'data-op="conv"' in found.pop()


def test_a_drawing_has_at_most_so_many_rules_and_none_without_symbols() -> None:
    many = "".join(symbol_spans(f"s{i}", (f"s{i}",)) for i in range(MOST_RULES + 9))
    assert symbol_rules(many).count(" :is(text,tspan)") == MOST_RULES
    assert symbol_rules("<text>n</text>") == ""


def test_a_text_that_was_cut_still_speaks_of_its_symbols() -> None:
    mark = label(0, 0, "f32[ba…q]", symbols=("batch", "seq", "n"), title="f32[batch, seq]")
    assert 'data-sym="batch seq"' in mark and "<title>f32[batch, seq]</title>" in mark
    assert "data-sym" not in label(0, 0, "f32[4]", symbols=("n",))


def test_a_symbol_is_found_as_a_whole_word() -> None:
    assert symbols_in_text("4*n*seq + seq_1", {"n", "seq", "e"}) == ("n", "seq")
    assert symbol_spans("n.found", ("n",)) == "n.found"


def test_the_sentences_count_symbols_what_is_known_and_what_depends_on_one() -> None:
    rows = shapes.data(Found(), {"n": 3})
    first, known, uses = map(sentence_text, shapes.see(rows))
    assert first == "2 symbols: n is 3, k found assumed to be 8."
    assert known == (
        "Of 6 shapes 3 are proved, 1 is checked at run time, 1 is known by rank only, "
        "1 is not known."
    )
    assert uses == "2 values depend on n."
    numbers = replace(rows, symbols=(), values=rows.values[:1])
    assert [sentence_text(s) for s in shapes.see(numbers)] == [
        "Every extent of this model is a number.",
        "Of 1 shape 1 is proved.",
    ]
