"""Saved states: restored byte for byte, and refused in a sentence when damaged."""

from __future__ import annotations

import random
import resource
import string
from time import perf_counter
from typing import Any

import pytest

from explorer.errors import IronworksError, SnapshotError
from explorer.ir.stage import Stage
from tests.examples import examples
from tests.widgets import made_by_hand as hand
from widgets.rooms import gallery
from widgets.session.session import Session
from widgets.session.state import (
    CHOICES,
    State,
    fragment,
    from_fragment,
    parse_state,
    serialise_state,
)

STATES, MUTATED, RESTORED = 1_000, 10_000, 100
SECONDS = 0.5  # that one text may take at most
LETTERS = string.ascii_letters + string.digits + " /._:-\"'\\<>&é漢🙂\n\t\0"
NASTY = (
    *("__import__('os').system('touch x')", "<script>alert(1)</script>", "1e999", "NaN", "null"),
    *("[" * 3000, "{" * 3000, "9" * 5000, '{"a":' * 500, "\\ud800", "-1", "true", "1" * 400),
)


def words(r: random.Random, most: int = 40) -> str:
    return "".join(r.choice(LETTERS) for _ in range(r.randint(0, most)))


def a_state(r: random.Random) -> State:
    number = lambda: r.randint(-(2**40), 2**40)  # noqa: E731
    after = lambda: None if r.random() < 0.5 else (words(r), number())  # noqa: E731
    return State(
        digest=words(r),
        op=words(r, 60),
        stage=r.choice([s.name for s in Stage]),
        **{name: r.choice(known) for name, known in CHOICES.items() if name != "stage"},
        diff=r.random() < 0.5,
        table=r.random() < 0.5,
        knobs={words(r, 60): words(r, 60) for _ in range(r.randint(0, 12))},
        room=r.choice(["", *gallery.choices()]),
        connect=tuple((words(r), words(r)) for _ in range(r.randint(0, 5))),
        moves=tuple(
            (words(r), number(), number(), number(), number(), after())
            for _ in range(r.randint(0, 5))
        ),
        edits=tuple((words(r), words(r), words(r, 400)) for _ in range(r.randint(0, 3))),
        time=r.choice(
            [(), ("AMD EPYC, 2 cores", r.random() * 1e5, 0.0, 1e12, r.randint(1, 10**9))]
        ),
    )


def mutated(r: random.Random, text: str) -> str:
    """The text with some of it changed, cut, doubled, or put elsewhere."""
    for _ in range(r.randint(1, 4)):
        a, b = sorted(r.randint(0, len(text)) for _ in range(2))
        match r.randint(0, 5):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:a] + r.choice(LETTERS) + text[a + 1 :]
            case 2:
                text = text[:b] + text[a:b] * r.randint(1, 20) + text[b:]
            case 3:
                text = text[:a] + r.choice(NASTY) + text[b:]
            case 4:
                text = text[:a] + text[a:b][::-1] + text[b:]
            case _:
                text = text[:a]
    return text


@pytest.mark.exhaustive
def test_a_thousand_states_come_back_byte_for_byte() -> None:
    r = random.Random(17)
    for _ in range(STATES):
        state = a_state(r)
        text, link = serialise_state(state, "0.1"), fragment(state, "0.1")
        assert parse_state(text) == state and serialise_state(parse_state(text), "0.1") == text
        assert from_fragment(link) == state and fragment(from_fragment(link), "0.1") == link


def test_damaged_states_are_refused_or_read_soon_and_in_little_memory() -> None:
    r, held = random.Random(18), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = {"read": 0, "refused": 0}
    count = examples(MUTATED, few=MUTATED // 8)
    for n in range(count):
        write, read = ((serialise_state, parse_state), (fragment, from_fragment))[n % 2]
        text, begin = mutated(r, write(a_state(r))), perf_counter()
        try:
            found: Any = read(text)
        except SnapshotError as problem:
            assert problem.sentence.strip() and len(problem.sentence) < 400
            outcome["refused"] += 1
        else:
            assert isinstance(found, State) and parse_state(serialise_state(found)) == found
            outcome["read"] += 1
        assert perf_counter() - begin < SECONDS
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    assert outcome["refused"] > count / 2 < 200 * outcome["read"] and grown < 200 * 1024


def test_a_damaged_link_leaves_the_house_as_it_was_or_in_a_state_that_can_be_kept() -> None:
    r, session = random.Random(19), Session(hand.HandMade(), compare=hand.compare)
    whole = session.answer("save", {})["text"]
    for n in range(RESTORED):
        text = mutated(r, whole if n % 2 else session.answer("link", {})["text"])
        before = session.answer("save", {})["text"]
        try:
            session.answer("restore", {"text": text})
        except IronworksError:
            assert session.answer("save", {})["text"] == before
        assert (
            parse_state(session.answer("save", {})["text"]).digest == hand.HandMade().model.digest
        )
