"""Real models at every stage up to kernels, in the reference interpreter, against onnxruntime."""

from pathlib import Path

import onnx
import pytest

from explorer.frontends.load import load
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.conformance.answers import Oracle, agree, inputs
from tests.conformance.salt import salted

DATA = Path(__file__).parent.parent / "data"
TINY = sorted(p.stem for p in DATA.glob("tiny_*.onnx"))
SYMBOLIC = ("tiny_bert", "tiny_gpt2", "tiny_llama")
SIZES = [{"batch": b, "seq": s} for b in (1, 3, 8) for s in (2, 17, 64)]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_model_answers_like_onnxruntime_at_every_stage(name: str) -> None:
    path = DATA / f"{name}.onnx"
    model, oracle = load(path), Oracle(path)
    typed = deduce(model.program)
    programs = (model.program, typed, legalize(typed))
    for program in programs:
        verify(program)
    for sizes in SIZES if name in SYMBOLIC else [{}]:
        feeds = inputs(model, sizes)
        right = oracle(feeds)
        for program in programs:
            agree(evaluate(program, feeds), right)


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_model_needs_no_library_call(name: str) -> None:
    program = legalize(deduce(load(DATA / f"{name}.onnx").program))
    assert program.library_calls == ()
    assert program.kernel_calls


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_salted_model_answers_like_onnxruntime_as_kernels(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(salted(name), path)
    model = load(path)
    program = legalize(deduce(model.program))
    verify(program)
    assert program.library_calls == ()
    feeds = inputs(model, {})
    agree(evaluate(program, feeds), Oracle(path)(feeds))


DEEP = [
    pytest.param("densenet121", marks=pytest.mark.exhaustive),  # ResNet's, Inception's Concat
    pytest.param("inception_v1", marks=pytest.mark.exhaustive),  # those of version 2
    "inception_v2",
    "resnet50",
]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_a_deep_salted_model_answers_like_onnxruntime_at_every_stage(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(salted(name), path)
    model = load(path)
    feeds = inputs(model, {})
    right = Oracle(path)(feeds)
    typed = deduce(model.program)
    for program in (model.program, typed, legalize(typed)):
        verify(program)
        agree(evaluate(program, feeds), right)


def test_salt_makes_another_answer_for_another_input(tmp_path: Path) -> None:
    path = tmp_path / "squeezenet.onnx"
    onnx.save(salted("squeezenet"), path)
    model, oracle = load(path), Oracle(path)
    (one,), (other,) = (oracle(inputs(model, {}, seed)).values() for seed in (0, 1))
    assert abs(one - other).max() > 0.01 * abs(one).max()  # a hundred times what may differ
    assert one.std() > 0.1 * abs(one).max()
