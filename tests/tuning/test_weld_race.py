"""Welding raced: rows that can be read again, and means."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import sqrt
from pathlib import Path

import pytest

from explorer.errors import BadOption
from explorer.tuning.peers import runtimes as peers
from explorer.tuning.races.rows import named
from explorer.tuning.races.timed import Ratio, Timed
from explorer.tuning.races.weld_race import PAPER, WELD_RACE, main, summary
from explorer.tuning.races.weld_row import Made, WeldRow, weld_row

MODEL = "zoo:small_nerf"


def made_row(model: str = "a", ratio: float = 2.0, welding: float = 1.5) -> WeldRow:
    """A row as a race leaves it: one other runtime, which takes `ratio` times as long."""
    times = [
        Timed("welded", 100.0, 99.0, 101.0, 50),
        Timed("unwelded", 100.0 * welding, 149.0, 151.0, 50),
        Timed("onnxruntime", 100.0 * ratio, 199.0, 201.0, 50, "1.0", 1e-6),
        Timed("torch", 900.0, 899.0, 901.0, 8, "2.0 (fused)", 1e-6),
    ]
    ratios = {
        "onnxruntime": Ratio(ratio, ratio, ratio, "faster"),
        "torch": Ratio(9, 9, 9, "faster"),
    }
    return WeldRow(
        model,
        2,
        "a machine",
        1.0,
        tuple(times),
        Made(3, 100, 0.5),
        Made(9, 400, 0.2),
        Ratio(welding, 1.4, 1.6, "faster"),
        ratios,
        {"torch.compile": "it is not there"},
        1 << 30,
    )


def silent(text: str) -> None:
    pass


def test_the_fastest_other_is_the_one_that_counts() -> None:
    row = made_row(ratio=2.0)
    assert row.fastest_other == "onnxruntime" and row.ratio == Ratio(2, 2, 2, "faster")
    alone = replace(row, times=row.times[:2], against={})
    assert alone.fastest_other == "" and alone.ratio is None


def test_a_row_is_read_as_it_was_written() -> None:
    row = made_row()
    assert WeldRow.read(json.loads(json.dumps(asdict(row)))) == row


def test_means_are_geometric_and_name_who_is_behind() -> None:
    found = summary([made_row("a", 2.0, 1.5), made_row("b", 0.5, 6.0)])
    assert found["over_fastest_other"] == pytest.approx(1.0)
    assert found["welded_over_unwelded"] == pytest.approx(3.0)
    assert found["greatest_welding"] == 6.0 and found["under_1"] == ["b"]
    assert found["dram_bytes_unwelded_over_welded"] == pytest.approx(4.0)
    assert summary([])["over_fastest_other"] is None
    assert summary([made_row("a", 2.0), made_row("b", 4.0)])["over_fastest_other"] == pytest.approx(
        sqrt(8)
    )


def test_the_paper_has_ten_models() -> None:
    assert len(named(",".join(PAPER))) == 10


def test_a_small_model_is_raced_welded_and_unwelded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(peers.PEERS, "absent", ("no_such_package", None))
    said: list[str] = []
    row = weld_row(MODEL, 1, 0.0, said.append, ("onnxruntime", "absent"))
    assert [t.name for t in row.times] == ["welded", "unwelded", "onnxruntime"]
    assert all(t.low_us <= t.median_us <= t.high_us and t.max_abs_error < 1e-4 for t in row.times)
    assert row.welded.kernels < row.unwelded.kernels
    assert 0 < row.welded.dram_bytes < row.unwelded.dram_bytes
    assert row.skipped == {"absent": "no_such_package is not installed"}
    assert row.ratio is not None and row.peak_bytes > 0
    assert any("compiling it unwelded" in s for s in said)


def test_a_runtime_that_is_not_known_is_refused_before_the_model_is_read() -> None:
    said: list[str] = []
    with pytest.raises(BadOption, match="no runtime is known as 'foo'; there are onnxruntime,"):
        weld_row("no such file.onnx", 1, 0.0, said.append, ("onnxruntime", "foo"))
    assert said == []


@pytest.mark.exhaustive
def test_a_model_is_raced_in_a_process_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    partial = tmp_path / "rows.jsonl"
    (row,) = WELD_RACE.rows((MODEL,), 1, 0.0, silent, ("onnxruntime",), partial)
    assert row.model == "small_nerf" and row.threads == 1
    assert len(partial.read_text().splitlines()) == 1
    assert not list(WELD_RACE.rows(("no such file.onnx",), 1, 0.0, silent, ()))
    kept = ["--threads", "1", "--seconds", "0", "--against", "onnxruntime"]
    assert main(["--models", MODEL, "--partial", str(partial), *kept]) == 0
