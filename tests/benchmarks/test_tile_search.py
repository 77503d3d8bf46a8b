"""Rows of a search: kept in a file, and summed up."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.benchmarks import tile_search
from tests.benchmarks.tile_search import Contender, Rivalry, rivalries, summary

ROW = Rivalry(
    "matmul 127x383x509",
    64,
    9,
    (Contender("top-1", 0, 0.2, "whole", 100.0), Contender("random", 64, 16.0, "i=2", 95.0)),
    80.0,
    0.95,
    0.99,
)


@pytest.mark.usefixtures("own_cache")  # it measures this machine, which later processes would see
def test_a_row_is_kept_as_soon_as_it_is_made_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = tmp_path / "rows"
    monkeypatch.setattr(tile_search, "rivalry", lambda *_: ROW)
    assert rivalries(["127"], 64, 1, partial) == [ROW]
    assert json.loads(partial.read_text()) == json.loads(json.dumps(asdict(ROW)))
    monkeypatch.setattr(tile_search, "rivalry", lambda *_: pytest.fail("made again"))
    assert rivalries(["127"], 64, 1, partial) == [ROW]


def test_the_summary_tells_the_least_and_the_median() -> None:
    told = summary([ROW, ROW])
    assert told["least_time_ratio"] == 80.0 and told["median_top10_quality"] == 0.99
    assert summary([]) == {"operators": 0}
