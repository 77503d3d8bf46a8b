"""Rammer's models raced: a row of every policy, and what the rows are summed up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.rammer import POLICIES
from tests.benchmarks.paper_models import named
from tests.benchmarks.rammer_race import BASELINE, PAPER, main, rammer_row, summary
from tests.benchmarks.rows import Row, row_of, series_of

MODEL = "zoo:small_lstm"


def a_row(model: str, error: float, rank: float | None = 0.9) -> Row:
    times = {"wavefront": 1.0, BASELINE: 1.5}
    row = row_of(model, {n: series_of([[t]] * 20) for n, t in times.items()})
    return replace(row, details={"error": error, "rank_correlation": rank})


def test_the_summary_has_the_gains_over_op_by_op_and_how_near_the_plans_were() -> None:
    found = summary([a_row("a", -0.1), a_row("b", 0.75, None)])
    assert found["over_op_by_op"] == pytest.approx(1.5)
    assert found["greatest_over_op_by_op"] == pytest.approx(1.5)
    assert found["planned_within_20_percent"] == 0.5 and found["least_rank_correlation"] == 0.9
    assert summary([])["over_op_by_op"] is None


def test_the_paper_has_six_models_and_the_tutorial_one() -> None:
    assert len(named(",".join(PAPER))) == 7
    assert all(f"{zoo.SMALL}{n}" in zoo.names() for n in PAPER if n != "alexnet")


@pytest.mark.exhaustive
def test_a_small_model_is_raced_under_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    row = rammer_row(MODEL, 2, 0.0, ("onnxruntime",))
    assert list(row.variants) == list(POLICIES) and list(row.peers) == ["onnxruntime"]
    assert row.skipped == {} and row.ratio is not None
    assert all(i.low <= i.median <= i.high for i in (*row.variants.values(), *row.peers.values()))
    details = row.details
    assert max(details["errors"].values()) < 1e-4 and list(details["plans"]) == list(POLICIES)
    for plan in details["plans"].values():
        assert plan["planned_us"] > 0 and plan["wall_us"] > 0 and 0 < plan["busy"] <= 1
        assert plan["error"] == pytest.approx(plan["planned_us"] / plan["wall_us"] - 1)
        assert 1 <= plan["launches"] <= details["calls"]
    assert details["wall_us"] == details["plans"][row.base]["wall_us"]
    assert "planning it, gang" in capsys.readouterr().err


def test_a_runtime_that_is_not_known_is_refused_before_the_model_is_read() -> None:
    with pytest.raises(BadOption, match="no runtime is known as 'foo'"):
        rammer_row("no such file.onnx", 1, 0.0, ("foo",))


def test_a_model_that_is_not_there_is_a_bad_flag() -> None:
    assert main(["--models", "no_such_model"]) == 2
