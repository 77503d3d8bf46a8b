import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import SnapshotError
from widgets.rooms import gallery
from widgets.session.state import (
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
