"""A picture of one's own, from a cell: it is shown, asked for and replaced like any other."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

import explorer
import widgets
from explorer.errors import BadOption
from widgets.rooms import gallery, own_picture
from widgets.session.session import Session

MODEL = "tests/data/tiny_skip.onnx"


@pytest.fixture(autouse=True)
def own_gallery(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gallery, "PICTURES", gallery.PICTURES)
    monkeypatch.setattr(own_picture, "_own", own_picture._own.copy())
    yield


def test_it_has_its_tab_its_rows_and_its_table_and_a_second_run_replaces_it() -> None:
    for factor in (1, 2):

        @widgets.picture("origins", title="Operators of a kernel", unit="operators")
        def origins(c: Any, factor: int = factor) -> Any:
            return [(k.name, factor * len(k.origin)) for k in c.program.kernel_calls]

        c = explorer.compile(MODEL)
        rows = widgets.data(c, "origins")
        assert dict(rows)["sum_1"] == factor
        assert [p.name for p in gallery.PICTURES].count("origins") == 1
        assert "origins" in gallery.choices()
        found = Session(c).answer("picture", {"room": "origins", "op": -1})
        assert "sum_1" in found["svg"] and "operators, from 0 to" in found["svg"]
        assert found["table"]["caption"] == "Operators of a kernel, in operators"
    widgets.forget_picture("origins")
    assert "origins" not in gallery.choices()


def test_what_it_raises_is_told_with_its_line() -> None:
    @widgets.picture("broken", title="Broken", unit="us")
    def broken(c: Any) -> Any:
        return 1 / 0

    said = r"the picture 'broken' failed: ZeroDivisionError: .* of test_own_picture.py \(`return"
    with pytest.raises(BadOption, match=said):
        widgets.data(explorer.compile(MODEL), "broken")


def test_nothing_and_long_and_odd_rows_are_drawn() -> None:
    @widgets.picture("many", title="Many", unit="us")
    def many(c: Any) -> Any:
        return [(f"<{n}>", -n) for n in range(count)]

    c = explorer.compile(MODEL)
    for count in (0, 1, 300):
        svg = Session(c).answer("picture", {"room": "many", "op": -1})["svg"]
        assert "<0>" not in svg and ("&lt;0&gt;" in svg) == (count > 0)


@pytest.mark.parametrize("name", ["", "a b", "rammer", 3])
def test_a_name_that_is_none_or_taken_is_refused(name: Any) -> None:
    with pytest.raises(BadOption, match="name"):
        widgets.picture(name, title="A", unit="us")
    with pytest.raises(BadOption, match="no picture of your own"):
        widgets.forget_picture("rammer")


def registered(rows: Any, **named: Any) -> Any:
    widgets.picture("own", **{"title": "Own", "unit": "us", **named})(rows)
    return explorer.compile(MODEL)


def bars(svg: str) -> list[tuple[float, float]]:
    """Return the left end and the width of each bar."""
    found = re.findall(r'<rect x="([-\d.]+)" y="[-\d.]+" width="([-\d.]+)"', svg)
    return [(float(x), float(width)) for x, width in found]


def test_bars_of_negative_numbers_end_at_zero_and_begin_left_of_it() -> None:
    c = registered(lambda c: [("a", -5), ("b", 2)])
    svg = Session(c).answer("picture", {"room": "own", "op": -1})["svg"]
    (left, wide), (zero, narrow) = bars(svg)
    assert abs(left + wide - zero) < 0.2 and abs(wide / narrow - 2.5) < 0.01
    assert "us, from -5 to 2" in svg


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_have_no_bar(number: float) -> None:
    c = registered(lambda c: [("a", number), ("b", 2)])
    answer = Session(c).answer("picture", {"room": "own", "op": -1})
    assert len(bars(answer["svg"])) == 1 and '"nan' not in answer["svg"]
    assert "NaN" not in json.dumps(answer) and "Infinity" not in json.dumps(answer)
    assert f"{number:g}" in answer["svg"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned None, and must return pairs of a name and a number"),
        (7, "returned 7, and must return pairs"),
        ("text", "returned 'text', and must return pairs"),
        ({"a": 1}, r"returned a dict, and must return pairs.*try: \.items\(\) of it"),
        ([("a", 1), ("b", 2, 3)], r"returned \('b', 2, 3\) as row 2, and must return pairs"),
        ([("a", 1), 5], "returned 5 as row 2, and must return pairs"),
        (["ab"], "returned 'ab' as row 1, and must return pairs"),
        ([("a", "x")], r"returned \('a', 'x'\) as row 1, and 'x' is no number"),
        ([("a", 1j)], r"returned \('a', 1j\) as row 1, and 1j is no number"),
    ],
)
def test_rows_that_are_none_are_refused_with_the_row_and_the_line(answer: Any, said: str) -> None:
    c = registered(lambda c: answer)
    with pytest.raises(BadOption, match=f"the picture 'own' {said}") as refused:
        widgets.data(c, "own")
    assert "test_own_picture.py" in str(refused.value) and "there are" not in str(refused.value)


def test_bytes_of_symbolic_sizes_are_numbers_under_the_hints() -> None:
    def sizes(c: Any) -> Any:
        calls = c.program.kernel_calls
        return [(k.name, c.program.env.hint(k.vars[0].tensor.bytes)) for k in calls]

    widgets.picture("own", title="Own", unit="bytes")(sizes)
    c = explorer.compile("zoo:tiny_bert")
    assert all(number > 0 for _, number in widgets.data(c, "own"))
    widgets.picture("own", title="Own", unit="bytes")(
        lambda c: [(k.name, k.vars[0].tensor.bytes) for k in c.program.kernel_calls]
    )
    with pytest.raises(BadOption, match=r"has symbols.*c.program.env.hint\(number\)"):
        widgets.data(c, "own")


@pytest.mark.parametrize("field", ["title", "unit", "words"])
@pytest.mark.parametrize("text", [5, "a\nb", "x" * 2000])
def test_texts_that_are_none_are_refused(field: str, text: Any) -> None:
    with pytest.raises(BadOption, match=f"the {field} of the picture 'own' is .* one line of text"):
        registered(lambda c: [], **{field: text})


@pytest.mark.parametrize(("field", "text"), [("title", ""), ("unit", None), ("title", " ")])
def test_a_title_and_a_unit_are_needed(field: str, text: Any) -> None:
    with pytest.raises(BadOption, match=f"the {field} of the picture 'own'"):
        registered(lambda c: [], **{field: text})


def test_a_picture_is_a_function() -> None:
    with pytest.raises(BadOption, match=r"the picture 'own' is \[\], and must be a function"):
        registered([])


def test_the_docstring_describes_it_unless_words_do() -> None:
    def own(c: Any) -> Any:
        """How many there are.

        And more.
        """
        return []

    registered(own)
    assert gallery.find_picture("own").words == "How many there are."
    registered(own, words="Other words.")
    assert gallery.find_picture("own").words == "Other words."


def test_nothing_and_names_of_two_lines_keep_the_table_whole() -> None:
    assert str(widgets.show(registered(lambda c: []), "own")) == "Own: nothing to show"
    text = str(widgets.show(registered(lambda c: [("a\nb", 1), ("c", 2)]), "own"))
    assert len(text.splitlines()) == 4 and "a b" in text


def test_it_has_a_chart_for_plotly() -> None:
    c = registered(lambda c: [("a", 1), ("b", math.nan)])
    figure = widgets.figure(c, "own")
    assert list(figure.data[0].y) == ["a", "b"] and list(figure.data[0].x) == [1.0, None]
    with pytest.raises(BadOption, match="no chart 'own' to draw"):
        widgets.figure(registered(lambda c: []), "own")
