"""`explorer.load` takes a file, a name of the zoo, an export of PyTorch's, or a Python function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import BadModelFile, BadOption, BoundError, TraceError
from explorer.frontends.torch.export import _narrow_bounds
from tests.frontends.models import DATA

tensor = explorer.tensor
W = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@explorer.trace
def layer(x: tensor("float32", "batch", 4), scale: Any = 2.0) -> Any:
    """A small model."""
    hidden = xp.tanh(x @ W)
    return {"hidden": hidden, "scores": xp.softmax(hidden * scale)}


def test_a_path_and_its_text_are_an_onnx_file() -> None:
    path = DATA / "tiny_skip.onnx"
    assert explorer.load(path).digest == explorer.load(str(path)).digest
    with pytest.raises(BadModelFile):
        explorer.load(Path("nowhere.onnx"))


def test_a_traced_function_is_a_model_with_names_lines_and_constants() -> None:
    model = explorer.load(layer, bounds={"batch": (1, 64)})
    assert model.name == "layer"
    assert model.outputs == ("hidden", "scores")
    assert {n: str(t) for n, t in model.inputs.items()} == {"x": "float32[batch, 4]"}
    assert model.program.env.of("batch").high == 64
    matmul = model.program.main.body[0]
    (origin,) = matmul.origin
    assert origin.startswith("test_load.py:")
    assert origin.endswith(" matmul")
    source = model.program.sources[0]
    assert (source.op, source.detail) == ("matmul", "hidden = xp.tanh(x @ W)")
    assert any(np.array_equal(c.array, W) for c in model.program.constants.values())


def test_a_captured_array_is_copied() -> None:
    table = np.ones(3, np.float32)
    model = explorer.load(explorer.trace(lambda x: x + table), inputs={"x": tensor("float32", 3)})
    table[:] = 7
    found = explorer.evaluate(model.program, {"x": np.zeros(3, np.float32)})["output"]
    assert found.tolist() == [1, 1, 1]


def test_a_traced_function_runs_eagerly_and_is_compiled_as_it_is() -> None:
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    eager = layer(x)
    assert isinstance(eager["scores"], np.ndarray)
    found = explorer.compile(layer).run({"x": x})
    np.testing.assert_allclose(found["scores"], eager["scores"], rtol=1e-5, atol=1e-6)
    assert explorer.check(layer).supported


def test_annotations_in_place_of_arguments_give_the_model() -> None:
    model = explorer.trace(lambda x, y: (x + y, x))(tensor("float32", "n"), y=tensor("float32"))
    assert list(model.inputs) == ["x", "y"]
    assert model.outputs == ("output_0", "output_1")
    nested = explorer.trace(lambda p: {"a": [p["w"], p["b"] + 1]})
    model = nested({"w": tensor("float32", "n"), "b": tensor("int64")})
    assert list(model.inputs) == ["p.w", "p.b"]
    assert model.outputs == ("a.0", "a.1")


def test_equal_texts_have_one_digest_and_other_ones_another() -> None:
    assert explorer.load(layer).digest == explorer.load(layer).digest
    other = explorer.load(layer, bounds={"batch": (1, 8)})
    assert other.digest != explorer.load(layer).digest


def test_a_parameter_with_a_default_keeps_it() -> None:
    two, three = (layer(x=tensor("float32", 2, 4), scale=s) for s in (2.0, 3.0))
    assert two.digest != three.digest
    assert list(three.inputs) == ["x"]


def test_a_traced_function_without_annotations_says_what_to_write() -> None:
    with pytest.raises(TraceError, match="'x' of <lambda> has no annotation") as caught:
        explorer.load(explorer.trace(lambda x: x))
    assert "explorer.tensor" in caught.value.try_
    with pytest.raises(TraceError, match="'x' of <lambda> is declared without its dims"):
        explorer.load(explorer.trace(lambda x: x), inputs={"x": tensor("float32", ndim=2)})
    with pytest.raises(TraceError, match=r"takes \*args"):
        explorer.load(explorer.trace(lambda *args: args))
    with pytest.raises(BoundError, match="no dim called 'seq'"):
        explorer.load(layer, bounds={"seq": 3})


def test_functions_and_methods_are_traced_and_nothing_else() -> None:
    class Net:
        def forward(self, x: tensor("float32", "n")) -> Any:
            return x * 2

    assert explorer.load(explorer.trace(Net().forward)).name == "forward"
    with pytest.raises(BadOption, match="not Net"):
        explorer.trace(Net())


def test_a_model_is_taken_as_it_is() -> None:
    model = explorer.load(layer)
    assert explorer.load(model) is model
    with pytest.raises(BadOption, match="loaded first"):
        explorer.load(model, bounds={"batch": 3})


@pytest.mark.parametrize("source", [3, None, [], b"model", len, np.zeros(3)])
def test_what_holds_no_model_is_refused_in_one_sentence(source: Any) -> None:
    with pytest.raises(BadOption, match="a model is the path of an ONNX file") as caught:
        explorer.load(source)
    assert type(source).__name__ in str(caught.value)
    assert caught.value.try_


def test_inputs_are_of_traced_functions_alone() -> None:
    with pytest.raises(BadOption, match="traced function only"):
        explorer.load("zoo:squeezenet", inputs={"x": tensor("float32", 3)})


def test_loading_a_file_imports_neither_torch_nor_the_tracer() -> None:
    script = (
        "import sys, explorer; explorer.load(sys.argv[1]);"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('explorer.frontends.py')])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(DATA / "tiny_skip.onnx")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


def test_bounds_only_narrow_those_of_an_export() -> None:
    exported = {"batch": (1, 8)}
    assert _narrow_bounds(exported, {"batch": (2, 4)}) == {"batch": (2, 4)}
    for wider in ((0, 8), (1, 9), (1, None)):
        with pytest.raises(BoundError, match=r"was exported for 1 \.\. 8"):
            _narrow_bounds(exported, {"batch": wider})
