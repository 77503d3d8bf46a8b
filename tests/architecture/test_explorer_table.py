"""Every feature that docs/explorer.md says is done has a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (Y|part|no) \| ?(.*?) ?\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_row_that_is_done_names_a_test_and_every_test_is_there() -> None:
    text = (ROOT / "docs" / "explorer.md").read_text("utf-8")
    features, ideas = (ROW.findall(part) for part in text.split("## Ideas"))
    assert [int(row[0]) for row in features] == list(range(1, 69))
    assert [int(row[0]) for row in ideas] == list(range(1, 16))
    missing = []
    for _, what, done, shown in (*features, *ideas):
        tests = TEST.findall(shown)
        assert tests or done != "Y", f"{what} is done, and no test shows it"
        for path, name in tests:
            file = ROOT / path
            if not file.is_file() or f"\ndef {name}(" not in file.read_text("utf-8"):
                missing.append(f"{path}::{name}")
    assert missing == []
