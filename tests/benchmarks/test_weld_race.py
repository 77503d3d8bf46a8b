"""Welder's models raced: rows of both variants, and what they are summed up to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.errors import BadOption
from explorer.tuning.peers import runtimes as peers
from tests.benchmarks.paper_models import named
from tests.benchmarks.rows import Row, row_of, series_of
from tests.benchmarks.weld_race import BENCH, PAPER, UNWELDED, WELDED, main, summary, weld_row

MODEL = "zoo:small_nerf"


def a_row(model: str, welding: float) -> Row:
    times = {WELDED: 1.0, UNWELDED: welding}
    row = row_of(model, {n: series_of([[t]] * 20) for n, t in times.items()}, base=WELDED)
    return replace(row, details={"dram_bytes": {WELDED: 100, UNWELDED: 400}})


def test_the_summary_has_the_gains_of_welding() -> None:
    found = summary([a_row("a", 1.5), a_row("b", 6.0)])
    assert found["over"] == {UNWELDED: pytest.approx(3.0)}
    assert found["greatest_welding"] == pytest.approx(6.0)
    assert found["dram_bytes_unwelded_over_welded"] == pytest.approx(4.0)
    assert summary([])["greatest_welding"] is None


def test_the_paper_has_ten_models() -> None:
    assert len(named(",".join(PAPER))) == 10


def test_a_small_model_is_raced_welded_and_unwelded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(peers.PEERS, "absent", ("no_such_package", None))
    row = weld_row(MODEL, 1, 0.0, ("onnxruntime", "absent"))
    assert (*row.variants, *row.peers) == (WELDED, UNWELDED, "onnxruntime")
    assert all(i.low <= i.median <= i.high for i in (*row.variants.values(), *row.peers.values()))
    details = row.details
    assert max(details["errors"].values()) < 1e-4 and details["peak_bytes"] > 0
    assert details["kernels"][WELDED] < details["kernels"][UNWELDED]
    assert 0 < details["dram_bytes"][WELDED] < details["dram_bytes"][UNWELDED]
    assert row.skipped == {"absent": "no_such_package is not installed"} and row.ratio is not None
    assert "compiling it unwelded" in capsys.readouterr().err


def test_a_runtime_that_is_not_known_is_refused_before_the_model_is_read() -> None:
    with pytest.raises(BadOption, match="no runtime is known as 'foo'; there are onnxruntime,"):
        weld_row("no such file.onnx", 1, 0.0, ("onnxruntime", "foo"))
    assert main(["--one", "no such file.onnx"]) == 2


@pytest.mark.exhaustive
def test_a_model_is_raced_in_a_process_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    partial = tmp_path / "rows.jsonl"
    (row,) = BENCH.rows((MODEL,), 1, 0.0, ("onnxruntime",), partial)
    assert row.case == "small_nerf" and row.details["threads"] == 1
    assert len(partial.read_text().splitlines()) == 1
    flags = ["--threads", "1", "--seconds", "0", "--against", "onnxruntime"]
    assert main(["--models", MODEL, "--partial", str(partial), *flags]) == 0
