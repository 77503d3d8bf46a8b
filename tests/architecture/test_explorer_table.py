"""Every feature and property that a table of docs/ says is done has a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (Y|part|no) \| ?(.*?) ?\|$", re.MULTILINE)
PROPERTY = re.compile(r"^\| (\d+) \| ([^|]+) \| (.+?) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_row_that_is_done_names_a_test_and_every_test_is_there() -> None:
    text = (ROOT / "docs" / "explorer.md").read_text("utf-8")
    features, ideas = (ROW.findall(part) for part in text.split("## Ideas"))
    assert [int(row[0]) for row in features] == list(range(1, 69))
    assert [int(row[0]) for row in ideas] == list(range(1, 18))
    for _, what, done, shown in (*features, *ideas):
        assert TEST.search(shown) or done != "Y", f"{what} is done, and no test shows it"
    assert missing(text) == []


def test_every_property_of_training_names_its_tests() -> None:
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    rows = PROPERTY.findall(text)
    assert [int(row[0]) for row in rows] == list(range(1, 16))
    assert all(TEST.search(shown) for *_, shown in rows)
    assert missing(text) == []


def missing(text: str) -> list[str]:
    """Tests that a text names and that are not there."""
    return [
        f"{path}::{name}"
        for path, name in TEST.findall(text)
        if not (ROOT / path).is_file() or f"\ndef {name}(" not in (ROOT / path).read_text("utf-8")
    ]
