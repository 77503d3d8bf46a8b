"""What a picture is to see: sentences of its own, else the clauses of its caption."""

from __future__ import annotations

import pytest

import explorer
from explorer.errors import BadOption
from widgets.draw.see import Mark, of_caption, see_part, sentence_text
from widgets.rooms import gallery
from widgets.session.session import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(explorer.compile("zoo:tiny_bert", until="planned"))


def test_clauses_of_a_caption_are_three_sentences_at_most() -> None:
    found = of_caption("packed 256 KiB, no sharing 705 KiB; two; three; four")
    assert [sentence_text(s) for s in found] == [
        "Packed 256 KiB, no sharing 705 KiB.",
        "Two.",
        "Three.",
    ]
    assert of_caption("") == ()


def test_a_mark_keeps_what_it_lights() -> None:
    assert see_part([(Mark("8 cores", "core"), " are busy.")]) == [
        [["8 cores", "core"], [" are busy.", ""]]
    ]


@pytest.mark.parametrize("name", [p.name for p in gallery.PICTURES])
def test_every_picture_has_sentences_and_what_they_light_is_drawn(
    name: str, session: Session
) -> None:
    picture = gallery.named(name)
    try:
        drawn = picture.draw(session, "")
    except BadOption:
        return  # it says why itself
    found = gallery.for_page(picture, drawn)
    assert len(found["see"]) <= 3 and (found["see"] or not drawn[2].caption)
    lights = [lit for sentence in found["see"] for _, lit in sentence if lit]
    keys = {w for part in found["svg"].split('data-k="')[1:] for w in part.split('"')[0].split()}
    for words in lights:
        ways = [set(way.split()) for way in words.split("|")]
        assert any(way <= keys for way in ways), f"{words} lights nothing"
