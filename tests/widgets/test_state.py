"""Saved states: restored byte for byte, with their times, or refused in a sentence when damaged."""

from __future__ import annotations

import json
import random
import resource
import string
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import IronworksError, SnapshotError
from explorer.ir.stage import Stage
from explorer.measure.machine import machine
from tests.examples import examples
from tests.widgets import made_by_hand as hand
from widgets.rooms import gallery
from widgets.session import state
from widgets.session.session import Session
from widgets.session.state import (
    CHOICES,
    LONGEST_FILE,
    LONGEST_SOURCE,
    LONGEST_TEXT,
    State,
    checked_state,
    fragment,
    from_fragment,
    parse_state,
    serialise_state,
)

FULL = State(
    "a41f",
    "conv",
    "ROLLED",
    "planned",
    "llvm",
    "s",
    "fusion",
    "kernels",
    True,
    True,
    {"threads": "1"},
    "heap",
    (("t", "DRAM"),),
    (("fc", 0, 4, 1, 0, ("conv", 8)), ("conv", 0, 8, 0, 0, None)),
    (("relu_out", "a1", "def kernel(first, last, args):\n    pass\n"),),
)


def test_a_state_survives_a_link_and_a_file() -> None:
    assert from_fragment(fragment(FULL)) == FULL
    assert parse_state(serialise_state(FULL, "0.1.0")) == FULL


def test_edits_that_are_too_long_for_a_link_are_in_a_file() -> None:
    long = replace(FULL, edits=(("relu_out", "a1", "x = 1\n" * 9_000),))
    assert parse_state(serialise_state(long)) == long
    assert from_fragment(fragment(long)) == replace(FULL, edits=())


def test_an_unknown_version_is_refused_by_name() -> None:
    with pytest.raises(SnapshotError, match="of version 2, this tool reads version 1"):
        parse_state(json.dumps({"ironworks": 2}))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"ironworks": 1, "stage": "COOKED"}', '{"ironworks": 1, "op": 5}',
     '{"ironworks": 1, "diff": "yes"}', '{"ironworks": 1, "knobs": {"threads": 2}}',
     '{"ironworks": 1, "moves": [["fc", 0, 4, 1, 0]]}', '{"ironworks": 1, "connect": ["ab", 1]}',
     '{"ironworks": 1, "moves": [["fc", 0, 4, true, 0, null]]}', '{"ironworks": 1, "moves": "fc"}',
     '{"ironworks": 1, "moves": [["fc", 0, 4, 1, 0, ["a"]]]}',
     json.dumps({"ironworks": 1, "connect": [["a", "L1"]] * 300}),
     '{"ironworks": 1, "knobs": []}', "[" * 50000, " " * (LONGEST_FILE + 1),
     '{"ironworks": 1, "edits": [["fc", "a"]]}', '{"ironworks": 1, "edits": {"fc": "x"}}',
     '{"ironworks": 1, "edits": [["fc", "a", 1]]}',
     json.dumps({"ironworks": 1, "edits": [["", "", ""]] * 17}),
     json.dumps({"ironworks": 1, "edits": [["a", "b", "x" * (LONGEST_SOURCE + 1)]]})],
)  # fmt: skip
def test_a_damaged_state_is_refused(text: str) -> None:
    with pytest.raises(SnapshotError):
        parse_state(text)


@pytest.mark.parametrize("text", ["=", "a b", "é", "x" * (LONGEST_TEXT + 1), "____", "QQ"])
def test_a_damaged_link_is_refused(text: str) -> None:
    with pytest.raises(SnapshotError):
        from_fragment(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_whatever_is_in_a_file_it_is_read_or_refused(value: object) -> None:
    try:
        state = parse_state(
            json.dumps({"ironworks": 1, **(value if isinstance(value, dict) else {"op": value})})
        )
    except SnapshotError:
        return
    assert isinstance(state, State)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(SnapshotError, match="longer than"):
        checked_state({"op": "x" * 1000})


def test_every_picture_under_a_stage_can_be_kept_and_no_other() -> None:
    shown = [p["name"] for p in gallery.page_parts()["pictures"] if p["stage"]]
    assert len(shown) > 15
    for name in shown:
        assert checked_state({"stage": "WELDED", "room": name}).room == name
    for name in ("codegen", "nothing", "Brick wall"):
        with pytest.raises(SnapshotError, match="room"):
            checked_state({"room": name})


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


THERE = "Another CPU, 64 cores, L1 32 KiB"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> str:
    """The link of a session that was measured on another machine."""
    there = Session(hand.HandMade(), compare=hand.compare)
    there.measure()
    monkeypatch.setattr(state, "machine", lambda: replace(machine(), cpu="Another CPU", cores=64))
    text: str = there.link()["text"]
    monkeypatch.undo()
    return text


def test_both_times_stand_side_by_side_each_with_its_machine(sent: str) -> None:
    here = Session(hand.HandMade(), compare=hand.compare)
    assert here.verdict()["brought"] == ""
    here.restore(sent)
    words = here.verdict()["brought"]
    assert words.startswith("saved: 70.0 µs on Another CPU, 64 cores")
    assert here.verdict()["big"] == "not measured yet" and here.steps.now.time is None
    here.measure()
    assert here.verdict()["brought"] == words and "per run" in here.verdict()["big"]
    assert all("Another" not in str(row) for row in here.history())


def test_it_is_of_one_setting_and_goes_on_until_something_is_measured_here(sent: str) -> None:
    here = Session(hand.HandMade(), compare=hand.compare)
    here.restore(sent)
    assert state.from_fragment(here.link()["text"]).time == state.from_fragment(sent).time
    here.answer("turn", {"knob": "threads", "index": 0})
    assert here.verdict()["brought"] == "" and here.state().time == ()
    here.answer("undo", {})
    assert "Another CPU" in here.verdict()["brought"]
    here.measure()
    assert here.state().time[0] == machine().line
    other = json.loads(here.save()["text"])
    assert other["time"][0] == machine().line and len(other["time"]) == 5


@pytest.mark.parametrize(
    "time",
    [
        [THERE],
        [THERE, 1.0, 1.0, 1.0, 0],
        [THERE, -1.0, 1.0, 1.0, 3],
        [THERE, 1e13, 1.0, 1.0, 3],
        [THERE, "1", 1.0, 1.0, 3],
        [THERE, 1.0, 1.0, 1.0, True],
        ["two\nlines", 1.0, 1.0, 1.0, 3],
        ["x" * 401, 1.0, 1.0, 1.0, 3],
        {"machine": THERE},
    ],
)
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(SnapshotError, match="time must be a machine"):
        state.checked_state({"time": time})
