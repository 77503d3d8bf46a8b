"""What the zoo builds answers alike: compiled, in plain NumPy, in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.frontends import zoo
from explorer.frontends.zoo.entries import WELDER
from explorer.process.counters import counters
from tests.conformance.answers import Oracle, agree, inputs

BUILT = [n for n, e in zoo.ENTRIES.items() if isinstance(e.source, zoo.Built)]
REDUCED = [n for n in BUILT if n.startswith(zoo.SMALL)]
FULL = [e.name for e in WELDER if e.name not in REDUCED]
EXHAUSTIVE = {  # their reduced forms are held every time
    "bert",
    "restormer",
    "bsrn",
    "swin",
    "conformer",
    "mobilenetv2",
    "mobilevit",
    "nafnet",
    "nerf",
    "vit",
}
HEAVY = {"small_nasnet", "small_restormer", "small_bsrn", "small_swin"}  # the longest to compile
LONG = [  # many steps; a race compares our answers
    "deepspeech2",
    pytest.param("lstm_tc", marks=pytest.mark.exhaustive),
    pytest.param("seq2seq", marks=pytest.mark.exhaustive),
]
BATCHES = (1, 3, 2)


@pytest.fixture
def oracle(name: str, tmp_path: Path) -> Oracle:
    path = tmp_path / f"{name}.onnx"
    onnx.save(zoo.proto(name), path)
    return Oracle(path)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n in HEAVY else ()) for n in REDUCED],
)
def test_a_reduced_model_answers_like_numpy_and_onnxruntime(name: str, oracle: Oracle) -> None:
    compiled = explorer.compile(zoo.load(name))
    assert compiled.program.library_calls == ()
    with counters.delta() as did:
        for batch in BATCHES if symbols(compiled.model) else (1,):
            feeds = inputs(compiled.model, {"batch": batch}, seed=batch)
            reference = zoo.reference(name, feeds)
            agree(oracle(feeds), reference)
            agree(compiled.run(feeds), reference)
    assert did.kernel_compiles == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n in EXHAUSTIVE else ()) for n in FULL],
)
def test_a_full_model_answers_like_numpy_and_onnxruntime(name: str, oracle: Oracle) -> None:
    compiled = explorer.compile(zoo.load(name))
    assert compiled.program.library_calls == ()
    feeds = inputs(compiled.model, {"batch": 1})
    reference = zoo.reference(name, feeds)
    agree(oracle(feeds), reference)
    agree(compiled.run(feeds), reference)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_model_answers_in_onnxruntime_as_in_numpy(name: str, oracle: Oracle) -> None:
    feeds = inputs(zoo.load(name), {"batch": 1})
    agree(oracle(feeds), zoo.reference(name, feeds))


@pytest.mark.parametrize("name", REDUCED)
def test_the_interpreter_answers_like_numpy(name: str) -> None:
    model = zoo.load(name, seed=5)
    feeds = inputs(model, {"batch": 2})
    agree(explorer.evaluate(model.program, feeds), zoo.reference(name, feeds, seed=5))


@pytest.mark.parametrize("name", REDUCED)
def test_answers_are_of_ordinary_size_and_differ(name: str) -> None:
    model = zoo.load(name)
    for answer in zoo.reference(name, inputs(model, {"batch": 1})).values():
        assert np.isfinite(answer).all()
        assert 0.05 < answer.std() < 20 and np.unique(answer).size > answer.size // 2


def symbols(model: explorer.Model) -> tuple[str, ...]:
    return tuple(s.name for s in model.program.env.symbols)
