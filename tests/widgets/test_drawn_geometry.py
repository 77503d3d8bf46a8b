"""What the geometry check finds in a drawing, and what it lets pass."""

from __future__ import annotations

import pytest

import explorer
from tests.widgets.drawn_geometry import crossed, outside, overlapping, problems, small
from widgets.draw.svg import Svg, label, path, rect, step_group
from widgets.rooms import gallery
from widgets.session.session import Session


def drawing(body: str, px: int = 13) -> Svg:
    return Svg(200, 100, body, "a drawing", px=px)


def test_words_that_stand_apart_are_no_problem() -> None:
    both = label(8, 20, "one") + label(8, 40, "two", "w") + label(192, 20, "end", anchor="end")
    assert problems(drawing(both + path("M8 26H192"))) == []


def test_words_that_leave_the_drawing_are_found() -> None:
    assert len(outside(drawing(label(150, 20, "far too wide for it")))) == 1
    assert len(outside(drawing(label(8, 99, "too low")))) == 1
    moved = f'<g transform="translate(190 0)">{label(0, 20, "moved")}</g>'
    assert len(outside(drawing(moved))) == 1


def test_words_on_each_other_are_found() -> None:
    assert overlapping(drawing(label(8, 20, "one") + label(20, 24, "two"))) == ["'one' on 'two'"]
    hidden = '<g visibility="hidden">' + label(8, 20, "later") + "</g>"
    assert overlapping(drawing(label(8, 20, "one") + step_group(hidden, 1))) == []


def test_a_line_through_words_is_found_unless_a_box_lies_between() -> None:
    word, line = label(50, 20, "word"), path("M40 16H120")
    assert crossed(drawing(word + line)) and crossed(drawing(line + word))
    assert crossed(drawing(path("M40 0L110 40") + word))
    ground = rect(46, 6, 40, 20, "var(--pane)")
    assert crossed(drawing(line + ground + word)) == []


def test_small_type_is_found() -> None:
    assert small(drawing("", px=11)) and not small(drawing(label(8, 20, "one")))
    assert small(drawing('<text x="8" y="20" style="font-size:10px">one</text>'))


STILL = ("widgets.program", "widgets.timed", "widgets.memory", "widgets.rammer")
DRAWN = [p.name for p in gallery.PICTURES if p.draw.__module__.startswith(STILL)]


@pytest.fixture(scope="module")
def sessions() -> tuple[Session, ...]:
    loop = Session(explorer.compile("tests/data/tiny_while.onnx"))
    loop.run_once()
    return loop, Session(explorer.compile("tests/data/tiny_lstm.onnx", target="v100"))


@pytest.mark.parametrize("name", DRAWN)
def test_no_word_is_crossed_by_a_line_or_lies_on_another(
    sessions: tuple[Session, ...], name: str
) -> None:
    for session in sessions:
        _, figure, _ = gallery.find_picture(name).draw(session, "")
        if figure is not None:
            assert not crossed(figure) and not overlapping(figure)
