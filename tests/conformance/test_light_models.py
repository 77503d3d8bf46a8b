"""Real models, compiled to machine code and run, against onnxruntime.

The nine light models with random weights, and every tiny model: one compilation each, for all sizes
of its symbolic dims.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import explorer
from tests.conformance.answers import Oracle, agree, inputs
from tests.conformance.salt import salted

DATA = Path(__file__).parent.parent / "data"
TINY = sorted(p.stem for p in DATA.glob("tiny_*.onnx"))
SYMBOLIC = ("tiny_bert", "tiny_gpt2", "tiny_llama")
SIZES = [{"batch": b, "seq": s} for b in (1, 3, 8) for s in (2, 17, 64)]
LIGHT = [
    pytest.param("squeezenet"),
    pytest.param("shufflenet", marks=pytest.mark.exhaustive),  # its kernels: test_reference.py
    pytest.param("resnet50", marks=pytest.mark.exhaustive),  # tiny_resnet18's operators
    pytest.param("inception_v1", marks=pytest.mark.exhaustive),  # AlexNet's, SqueezeNet's Concat
    pytest.param("inception_v2", marks=pytest.mark.exhaustive),  # the operators of version 1
    pytest.param("densenet121", marks=pytest.mark.exhaustive),  # ResNet's, SqueezeNet's Concat
    pytest.param("zfnet512", marks=pytest.mark.exhaustive),  # AlexNet's operators
    pytest.param("bvlc_alexnet", marks=pytest.mark.exhaustive),  # LRN: node tests
    pytest.param("vgg19", marks=pytest.mark.exhaustive),  # AlexNet's operators, more often
]


@pytest.mark.parametrize("name", LIGHT)
def test_a_light_model_answers_like_onnxruntime(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(salted(name), path)
    compiled = explorer.compile(explorer.load(path))
    assert compiled.program.library_calls == ()
    feeds = inputs(compiled.model, {})
    agree(compiled.run(feeds), Oracle(path)(feeds))


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.exhaustive if n == "tiny_mobilenetv2" else ())
        for n in TINY
    ],
)
def test_a_tiny_model_answers_like_onnxruntime_for_all_sizes(name: str) -> None:
    path = DATA / f"{name}.onnx"
    compiled = explorer.compile(explorer.load(path))
    assert compiled.program.library_calls == ()
    oracle = Oracle(path)
    before = explorer.counters.kernel_compiles
    for sizes in SIZES if name in SYMBOLIC else [{}]:
        feeds = inputs(compiled.model, sizes)
        agree(compiled.run(feeds), oracle(feeds))
    assert explorer.counters.kernel_compiles == before
