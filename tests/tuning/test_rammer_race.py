"""Rammer raced: every policy beside the others, rows that can be read again, and means."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.rammer import POLICIES
from explorer.tuning.races.rammer_race import PAPER, main, summary
from explorer.tuning.races.rammer_row import BASELINE, Planned, RammerRow, rammer_row
from explorer.tuning.races.rows import named
from explorer.tuning.races.timed import Ratio, Timed

MODEL = "zoo:small_lstm"


def plan(policy: str, planned_us: float, wall_us: float, rank: float | None = 0.9) -> Planned:
    return Planned(policy, planned_us, wall_us, rank, 1, 12, 0.8, {"barrier": 3.0}, 0.1)


def made_row(model: str = "a", other: float = 2.0, wall_us: float = 110.0) -> RammerRow:
    """A row as a race leaves it: one other runtime, which takes `other` times as long."""
    times = [
        Timed("wavefront", 100.0, 99.0, 101.0, 50),
        Timed(BASELINE, 150.0, 149.0, 151.0, 50),
        Timed("onnxruntime", 100.0 * other, 199.0, 201.0, 50, "1.0 (LSTM operators)", 1e-6),
        Timed("torch", 9000.0, 8990.0, 9010.0, 8, "2.0 (fused)", 1e-6),
    ]
    even = Ratio(1.0, 1.0, 1.0, "not distinguishable")
    return RammerRow(
        model,
        2,
        "a machine",
        1.0,
        tuple(times),
        (plan("wavefront", 100.0, wall_us), plan(BASELINE, 150.0, 160.0, None)),
        {"wavefront": even, BASELINE: Ratio(1.5, 1.4, 1.6, "faster")},
        {"onnxruntime": Ratio(other, other, other, "faster"), "torch": Ratio(90, 90, 90, "faster")},
        {"jax": "it is not there"},
        40,
        0.5,
        1 << 30,
    )


def test_the_fastest_policy_is_held_against_the_fastest_other() -> None:
    row = made_row(other=2.0)
    assert (row.fastest, row.fastest_other) == ("wavefront", "onnxruntime")
    assert row.ratio == Ratio(2, 2, 2, "faster") and row.plan.policy == "wavefront"
    alone = replace(row, times=row.times[:2], against={})
    assert alone.fastest_other == "" and alone.ratio is None


def test_a_row_is_read_as_it_was_written() -> None:
    row = made_row()
    assert RammerRow.read(json.loads(json.dumps(asdict(row)))) == row


def test_the_error_of_a_plan_is_a_share_of_what_was_measured() -> None:
    assert plan("gang", 80.0, 100.0).error == pytest.approx(-0.2)


def test_means_are_geometric_and_name_who_is_behind_and_which_plans_foretold() -> None:
    found = summary([made_row("a", 2.0), made_row("b", 0.5, wall_us=400.0)])
    assert found["over_fastest_other"] == pytest.approx(1.0) and found["under_1"] == ["b"]
    assert found["over_op_by_op"] == pytest.approx(1.5) == found["greatest_over_op_by_op"]
    assert found["planned_within_20_percent"] == 0.5 and found["least_rank_correlation"] == 0.9
    assert summary([])["over_fastest_other"] is None


def test_the_paper_has_six_models_and_the_tutorial_one() -> None:
    assert len(named(",".join(PAPER))) == 7
    assert all(f"{zoo.SMALL}{n}" in zoo.names() for n in PAPER if n != "alexnet")


def test_a_small_model_is_raced_under_every_policy() -> None:
    pytest.importorskip("onnxruntime")
    said: list[str] = []
    row = rammer_row(MODEL, 2, 0.0, said.append, ("onnxruntime",))
    assert [t.name for t in row.times] == [*POLICIES, "onnxruntime"] and row.skipped == {}
    assert all(t.low_us <= t.median_us <= t.high_us and t.max_abs_error < 1e-4 for t in row.times)
    assert [p.policy for p in row.plans] == list(POLICIES) == list(row.policies)
    assert all(p.planned_us > 0 and p.wall_us > 0 and 0 < p.busy <= 1 for p in row.plans)
    assert all(1 <= p.launches <= row.calls for p in row.plans)
    assert row.policies[row.fastest].ratio == 1 and row.ratio is not None
    assert any("planning it, gang" in s for s in said)


def test_a_runtime_that_is_not_known_is_refused_before_the_model_is_read() -> None:
    said: list[str] = []
    with pytest.raises(BadOption, match="no runtime is known as 'foo'"):
        rammer_row("no such file.onnx", 1, 0.0, said.append, ("foo",))
    assert said == []


def test_a_model_that_is_not_there_is_a_bad_flag() -> None:
    assert main(["--models", "no_such_model"]) == 2
