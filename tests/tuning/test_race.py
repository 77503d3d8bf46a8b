"""Races: who may take part, what is checked before, and what is said after."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compile_model
from explorer.devices.model import Device
from explorer.errors import AnswerMismatch, BadOption
from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.frontends.onnx.onnx_file import read_onnx
from explorer.measure.compare import Comparison, Measurement
from explorer.tuning.peers import runtimes as peers
from explorer.tuning.peers.peer import Peer, Skipped, onnx_source
from explorer.tuning.race import ALONE, RaceResult, Runner, race, threads_of
from tests.measure.simulated import Counted, NoisyMachine
from tests.tuning.models import mlp, written

Work = Callable[[], object]
X = {"x": np.random.default_rng(1).standard_normal((3, 24)).astype(np.float32)}
Y = {"y": np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)}
CPU = Device("two cores", "cpu", 2, 16, 32, 2.0, 3.0, ())


@dataclass(frozen=True)
class Made:
    """What a race reads of a compilation; its run takes simulated time."""

    work: Work = int
    device: Device = CPU
    options: Options = Options()
    model: Any = field(default_factory=lambda: SimpleNamespace(name="made"))

    def named(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.work()
        return Y

    def with_options(self, **groups: Any) -> Made:
        return replace(self, options=replace(self.options, **groups))


def runtime(work: Work, answers: Mapping[str, np.ndarray] = Y) -> tuple[str, peers.Prepare]:
    """A runtime that gives these answers, ready to be listed."""

    def run() -> Mapping[str, np.ndarray]:
        work()
        return answers

    return "numpy", lambda model, inputs, threads: Peer("", f"{threads} threads", run)


def raced(
    monkeypatch: pytest.MonkeyPatch, others: Mapping[str, Any], noisy: NoisyMachine, us: float
) -> RaceResult:
    named = {
        name: (package, lambda *a, n=name, r=ready: replace(r(*a), name=n))
        for name, (package, ready) in others.items()
    }
    monkeypatch.setattr("explorer.tuning.peers.runtimes.PEERS", named)
    ours: Any = Made(noisy.work(us))
    monkeypatch.setattr(
        "explorer.tuning.race.prepare_peers_apart", peers.prepare_peers
    )  # in simulated time
    names, watch = tuple(others), Counted(each=4)
    return race(ours, X, names, seconds=0.5, compilation=ours, clock=noisy.clock, watch=watch)


def test_the_table_says_how_disturbed_the_turns_were(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = NoisyMachine(7)
    found = raced(monkeypatch, {"other": runtime(noisy.work(1_500.0))}, noisy, 1_000.0)
    assert sum(r.disturbed * len(r.turns) for r in found.runners) == pytest.approx(
        sum(len(r.turns) for r in found.runners) // 4
    )
    assert all(r.waited_us > 0 for r in found.runners) and "of its turns disturbed" in str(found)
    told = json.loads(json.dumps(found.to_json()))["runtimes"]["other"]
    assert told["disturbed"] == found.runners[1].disturbed
    assert len(told["turns"]) == len(found.runners[1].turns) and "in_line" in told["turns"][0]


def test_a_wide_interval_is_called_wide_and_takes_more_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of(jitter: float) -> RaceResult:
        noisy = NoisyMachine(5)
        others = {"other": runtime(noisy.work(9_000.0, jitter))}
        return raced(monkeypatch, others, noisy, 9_000.0)

    calm, rough = of(0.01), of(0.5)
    assert calm.versus is not None and rough.versus is not None
    assert rough.versus.wide and not calm.versus.wide
    assert rough.to_json()["wide"] is True and ", wide" in str(rough)
    assert rough.versus.n > calm.versus.n


def test_the_fastest_other_is_told_by_neighbouring_turns() -> None:
    """Medians may be of minutes in which the machine was busy."""
    time = Measurement(50.0, 49.0, 51.0, 9)

    def other(name: str, median_us: float, ratio: float) -> Runner:
        theirs = replace(time, median_us=median_us)
        return Runner(
            name, "1", theirs, 0.0, Comparison(ratio, 1.1, 1.7, 9, "faster", time, theirs)
        )

    ours = Runner("ironworks", "1", time, 0.0)
    found = RaceResult("m", 1, "a machine", (ours, other("a", 83.0, 1.5), other("b", 84.0, 1.3)))
    assert found.fastest_other is not None and found.fastest_other.name == "b"
    assert found.ratio == 1.3


def test_the_fastest_other_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = NoisyMachine(7)
    others = {"slow": runtime(noisy.work(3_000.0)), "quick": runtime(noisy.work(1_500.0))}
    found = raced(monkeypatch, others, noisy, 1_000.0)
    assert found.fastest_other is not None and found.fastest_other.name == "quick"
    assert found.ratio == pytest.approx(1.5, rel=0.05) and found.verdict == "faster"
    assert [r.name for r in found.runners] == ["ironworks", "slow", "quick"]
    slow = found.runners[1].versus
    assert slow is not None and slow.ratio == pytest.approx(3.0, rel=0.05)
    assert slow.low <= slow.ratio <= slow.high


@pytest.mark.exhaustive
def test_three_runtimes_of_one_speed_are_not_distinguishable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = 0
    for seed in range(40):
        noisy = NoisyMachine(seed)
        others = {name: runtime(noisy.work(800.0)) for name in ("first", "second")}
        wrong += raced(monkeypatch, others, noisy, 800.0).verdict != "not distinguishable"
    assert wrong <= 2


def test_a_slower_run_of_ours_is_called_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = NoisyMachine(9)
    found = raced(monkeypatch, {"other": runtime(noisy.work(1_000.0))}, noisy, 1_200.0)
    assert found.verdict == "slower" and found.ratio == pytest.approx(1 / 1.2, rel=0.05)


def test_a_wrong_answer_stops_the_race_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    wrong = {"y": Y["y"] * 1.01}
    others = {"liar": runtime(lambda: runs.append("x"), wrong)}
    with pytest.raises(AnswerMismatch, match="ironworks and liar differ at the output 'y'"):
        raced(monkeypatch, others, NoisyMachine(0), 10.0)
    assert len(runs) == 1


def test_settings_of_a_runtime_are_undone_also_when_answers_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []
    liar = Peer("", "", lambda: {"y": Y["y"] + 1}, lambda: closed.append("liar"))
    others = {"liar": ("numpy", lambda *_: liar)}
    with pytest.raises(AnswerMismatch):
        raced(monkeypatch, others, NoisyMachine(0), 10.0)
    assert closed == ["liar"]


def test_a_runtime_that_is_missing_or_refuses_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: object) -> Peer:
        raise Skipped("it has no loops")

    def breaks(*_: object) -> Peer:
        raise RuntimeError("bad model\nat line 3")

    others = {
        "absent": ("no_such_package", breaks),
        "choosy": ("numpy", refuses),
        "broken": ("numpy", breaks),
    }
    found = raced(monkeypatch, others, NoisyMachine(0), 10.0)
    assert found.skipped == (
        ("absent", "no_such_package is not installed"),
        ("choosy", "it has no loops"),
        ("broken", "broken cannot run it: bad model"),
    )
    assert found.verdict == ALONE and found.ratio is None
    assert json.loads(json.dumps(found.to_json()))["skipped"]["choosy"] == "it has no loops"


def test_an_unknown_runtime_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadOption, match="no runtime is known as 'tensorflow'") as problem:
        race("no such file", X, ("onnxruntime", "tensorflow"))
    assert problem.value.expected == ", ".join(peers.PEERS)


def test_all_runtimes_get_our_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = NoisyMachine(0)
    work = noisy.work(2_000.0)
    monkeypatch.setattr("explorer.tuning.peers.runtimes.PEERS", {"torch": runtime(work)})
    monkeypatch.setattr("explorer.tuning.race.prepare_peers_apart", peers.prepare_peers)
    made: Any = Made(work)
    for asked, given in ((None, 2), (1, 1), (3, 3)):
        found = race(made, X, ("torch",), asked, 0.0, made, noisy.clock)
        assert found.threads == given
        assert found.runners[1].version == f"{given} threads"


# With real runtimes.


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return mlp(tmp_path_factory.mktemp("race"))


def test_a_race_against_onnxruntime_prints_what_the_shell_promises(model: Model) -> None:
    pytest.importorskip("onnxruntime")
    found = race(model, X, ("onnxruntime",), threads=1, seconds=0.05)
    fields = json.loads(json.dumps(found.to_json()))
    assert set(fields["runtimes"]) == {"ironworks", "onnxruntime"}
    for each in fields["runtimes"].values():
        assert 0 < each["low_us"] <= each["median_us"] <= each["high_us"] and each["n"] >= 20
        assert 0 <= each["max_abs_error"] < 1e-5
    assert fields["ratio_low"] <= fields["ratio"] <= fields["ratio_high"]
    assert fields["verdict"] in ("faster", "slower", "not distinguishable")
    assert fields["threads"] == 1 and fields["model"] == "small"
    assert "onnxruntime" in str(found)


def test_a_model_with_a_scalar_input_is_raced(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("Mul", ["x", "scale"], ["y"])]
    scaled = written(tmp_path, nodes, {"x": ["batch", 8], "scale": []}, ["y"])
    inputs = {"x": np.ones((2, 8), np.float32), "scale": np.array(3.0, np.float32)}
    found = race(scaled, inputs, ("onnxruntime",), threads=1, seconds=0.0)
    assert [r.name for r in found.runners] == ["ironworks", "onnxruntime"]


def test_a_compilation_races_without_being_compiled_again(model: Model) -> None:
    pytest.importorskip("onnxruntime")
    c = compile_model(model)
    found = race(c, X, ("onnxruntime",), seconds=0.0)
    assert found.threads == threads_of(c)


def test_other_runtimes_load_the_file_itself(model: Model) -> None:
    assert onnx_source(model) == model.path


def test_other_runtimes_load_the_zoos_weights_of_the_same_seed(tmp_path: Path) -> None:
    salted = zoo.load("squeezenet", seed=3)
    source = onnx_source(salted)
    assert isinstance(source, bytes)
    path = tmp_path / "salted.onnx"
    path.write_bytes(source)
    weights = read_onnx(path).initializers
    ours = salted.program.constants
    assert len(weights) > 50
    for name, array in weights.items():
        if name in ours:
            np.testing.assert_array_equal(array, ours[name].array)
