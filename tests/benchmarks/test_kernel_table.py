"""The kernel table: which operators it races, that answers come first, and what it sums up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from explorer.errors import AnswerMismatch, BadOption
from tests.benchmarks import kernel_table
from tests.benchmarks.kernel_table import COLUMNS, chosen, kernel_row, main, summary
from tests.benchmarks.rows import Row, table_of
from tests.benchmarks.single_kernels.case import Case
from tests.benchmarks.single_kernels.operators import Operator, operators
from tests.benchmarks.single_kernels.peers import Runner, limited_threads, others, ours
from tests.benchmarks.single_kernels.roofs import Bandwidth, Roofs
from tests.measure.simulated import NoisyMachine

ROOFS = Roofs(
    1,
    100.0,
    (Bandwidth("near", 1 << 20, 100.0, 50.0), Bandwidth("far", None, 10.0, 5.0)),
)
WINDOW = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
X = np.linspace(-1, 1, 40, dtype=np.float32)


def relu(v: Sequence[np.ndarray], out: np.ndarray) -> object:
    return np.maximum(v[0], 0, out=out)


SMALL = (
    Operator("relu", "elementwise", "test", "Relu", ((5, 7),), numpy=relu, batches=(1, 2)),
    Operator(
        "conv", "conv", "test", "Conv", ((1, 16, 6, 5),), ((16, 16, 3, 3), (16,)), WINDOW, (), 64
    ),
    Operator("pool", "pooling", "test", "MaxPool", ((1, 16, 7, 6),), (), WINDOW),
    Operator("rows", "movement", "test", "Gather", ((6,),), ((11, 5),), choices=11),
    Operator("turn", "movement", "test", "Transpose", ((3, 4, 5),), attrs={"perm": [0, 2, 1]}),
)


def case_of(name: str, batch: int = 1) -> Case:
    return Case(next(o for o in SMALL if o.name == name), batch)


def runner(name: str, work: Callable[[], object], answer: np.ndarray = X) -> Runner:
    return Runner(name, work, lambda: answer)


def row_of(case: Case, times_us: Sequence[float], roofs: Roofs = ROOFS) -> Row:
    noisy = NoisyMachine(3)
    mine, *rest = (runner(f"runtime {n}", noisy.work(us)) for n, us in enumerate(times_us))
    return kernel_row(case, roofs, mine, rest, 0.2, noisy.clock)


def test_the_table_covers_every_class_with_more_than_forty_operators() -> None:
    found = operators()
    assert len(found) >= 40 and len({o.name for o in found}) == len(found)
    assert {o.kind for o in found} == {
        "matmul", "conv", "depthwise", "pooling", "reduction", "softmax", "layer norm",
        "elementwise", "movement",
    }  # fmt: skip
    sources = " ".join({o.source for o in found})
    assert all(name in sources for name in ("ResNet-50", "MobileNetV2", "BERT", "NASNet", "LSTM"))
    assert {batch for o in found for batch in o.batches} == {1, 8}


def test_a_convolution_counts_every_multiply_add_as_two() -> None:
    conv = next(o for o in operators() if o.name == "conv3x3_64_64_56")
    assert Case(conv, 8).operations == 2 * 8 * 64 * 64 * 9 * 56 * 56
    depthwise = next(o for o in operators() if o.name == "depthwise3x3s2_96_112")
    assert Case(depthwise, 1).operations == 2 * 96 * 9 * 56 * 56


@pytest.mark.parametrize("name", [o.name for o in SMALL])
def test_every_runtime_gives_our_answer_in_its_own_layout(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    with limited_threads(1):
        mine = ours(case, 1, tmp_path)
        mine.run()
        found = {r.name: r for r in others(case, 1, tmp_path)}
        for other in found.values():
            other.run()
            assert np.allclose(other.answer(), mine.answer(), atol=1e-5), other.name
    if "onnxruntime" in found and case.operator.is_image:
        assert "onnxruntime.nchwc" in found


def test_a_wrong_answer_is_refused_before_anything_is_timed() -> None:
    runs: list[str] = []
    mine = runner("ours", lambda: runs.append("ours"))
    liar = runner("liar", lambda: runs.append("liar"), X * 1.01)
    with pytest.raises(AnswerMismatch, match="ironworks and liar differ at relu at batch 2"):
        kernel_row(case_of("relu", 2), ROOFS, mine, [liar], 0.1, NoisyMachine(0).clock)
    assert not runs


def test_bytes_are_held_against_the_nearest_level_that_holds_them() -> None:
    near, far = ROOFS.levels
    assert ROOFS.level_of(1 << 20) is near and ROOFS.level_of((1 << 20) + 1) is far
    assert near.floor_us(3000, 1000) == pytest.approx(2000 / 50e3 + 2000 / 100e3)
    assert near.floor_us(1000, 3000) == pytest.approx(4000 / 50e3)


def test_a_row_says_how_near_the_longer_of_its_two_floors_it_is() -> None:
    conv = row_of(case_of("conv"), (10.0,))
    assert conv.details["bound"] == "near" and conv.ratio is None
    busy = row_of(case_of("conv"), (128.0,), Roofs(1, 1e-3, ROOFS.levels))
    assert busy.details["bound"] == "peak"
    us = 1e6 * busy.variants[busy.base].median
    assert busy.details["percent_of_roof"] == pytest.approx(100 * 64 / us)


def test_a_gather_is_not_charged_for_the_rows_that_it_leaves_out() -> None:
    case = case_of("rows")
    answer = np.zeros((6, 5), np.float32)
    noisy = NoisyMachine(1)
    mine = runner("ours", noisy.work(9.0), answer)
    found = kernel_row(case, ROOFS, mine, [], 0.0, noisy.clock).details
    assert found["read_bytes"] == 6 * 8 + answer.nbytes and found["written_bytes"] == answer.nbytes


def test_the_summary_names_who_is_far_behind() -> None:
    rows = row_of(case_of("relu"), (100.0, 50.0)), row_of(case_of("pool"), (100.0, 200.0))
    found = summary(rows)
    assert found["over_fastest_peer"] == pytest.approx(1.0, rel=0.1)
    assert found["under_0.7"] == ["relu batch 1, 1 threads"]
    assert found["by_class"] == pytest.approx({"elementwise": 0.5, "pooling": 2.0}, rel=0.1)
    assert "near" in table_of(rows, COLUMNS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_table, "operators", lambda: SMALL)
    monkeypatch.setattr(kernel_table, "roofs", lambda device, threads: ROOFS)

    def quick(case: Case, roofs: Roofs, mine: Runner, peers: Sequence[Runner], _: float) -> Row:
        noisy = NoisyMachine(5)
        slow = [Runner(p.name, noisy.work(30.0), p.answer) for p in peers]
        fast = Runner(mine.name, noisy.work(20.0), mine.answer)
        return kernel_row(case, roofs, fast, slow, 0.0, noisy.clock)

    monkeypatch.setattr(kernel_table, "kernel_row", quick)


@pytest.mark.usefixtures("own_cache")  # it measures this machine, which later processes would see
@pytest.mark.exhaustive
@pytest.mark.usefixtures("small")
def test_the_command_prints_rows_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--threads", "1", "--only", "relu", "turn"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [(r["details"]["operator"], r["details"]["batch"]) for r in found["rows"]] == [
        ("relu", 1), ("relu", 2), ("turn", 1), ("turn", 8),
    ]  # fmt: skip
    first = found["rows"][0]
    assert first["peers"].keys() >= {"numpy"} and first["details"]["shapes"] == [[5, 7]]
    assert found["roofs"][0]["peak_gflops"] == 100.0 and found["by_threads"].keys() == {"1"}
    assert "relu batch 1, 1 threads: ironworks" in printed.err


@pytest.mark.usefixtures("small")
def test_an_unknown_operator_is_refused_with_the_classes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(BadOption, match="nothing"):
        chosen(["nothing"])
    assert main(["--only", "nothing"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
