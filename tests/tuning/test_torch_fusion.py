"""What an exporter took apart is one call of PyTorch again, with the same values."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall
from explorer.ir.program import Program
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.peers.model_forms import specialise
from explorer.tuning.peers.torch_fusion import fuse
from tests.tuning.models import written

torch: Any = pytest.importorskip("torch")

DATA = Path(__file__).parent.parent / "data"
ROWS, WIDTH = 6, 8


class Graph:
    """Nodes written one after the other; `y` names the last result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}

    def __call__(self, op: str, *args: str | float | np.ndarray, **attrs: Any) -> str:
        names = [a if isinstance(a, str) else self.constant(a) for a in args]
        self.nodes.append(helper.make_node(op, names, [f"v{len(self.nodes)}"], **attrs))
        return f"v{len(self.nodes) - 1}"

    def constant(self, value: float | np.ndarray) -> str:
        array = np.asarray(value, np.asarray(value).dtype if np.ndim(value) else np.float32)
        self.weights[f"w{len(self.weights)}"] = array
        return f"w{len(self.weights) - 1}"

    def model(self, folder: Path, **inputs: Any) -> Model:
        return written(folder, self.nodes, inputs, [self.nodes[-1].output[0]], self.weights)


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def axes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def gelu(g: Graph) -> None:
    bell = g("Add", g("Erf", g("Div", "x", sqrt(2))), 1.0)
    g("Mul", g("Mul", "x", 0.5), bell)


def gelu_with_tanh(g: Graph) -> None:
    inner = g("Add", "x", g("Mul", g("Pow", "x", 3.0), 0.044715))
    bell = g("Add", 1.0, g("Tanh", g("Mul", inner, sqrt(2 / pi))))
    g("Mul", "x", g("Mul", 0.5, bell))


def silu(g: Graph) -> None:
    g("Mul", g("Sigmoid", "x"), "x")


def layer_norm(g: Graph) -> None:
    centred = g("Sub", "x", g("ReduceMean", "x", axes(-1)))
    root = g("Sqrt", g("Add", g("ReduceMean", g("Mul", centred, centred), axes(-1)), 1e-5))
    g("Add", g("Mul", g("Div", centred, root), weight(WIDTH)), weight(WIDTH))


def rms_norm(g: Graph) -> None:
    mean = g("ReduceMean", g("Pow", "x", 2.0), axes(-1))
    turned = g("Reciprocal", g("Sqrt", g("Add", mean, 1e-6)))
    g("Mul", weight(WIDTH), g("Mul", "x", turned))


def linear(g: Graph) -> None:
    g("Add", weight(5), g("MatMul", "x", weight(WIDTH, 5)))


CASES: list[tuple[Callable[[Graph], None], str]] = [
    (gelu, "Gelu"),
    (gelu_with_tanh, "Gelu"),
    (silu, "torch.silu"),
    (layer_norm, "LayerNormalization"),
    (rms_norm, "torch.rms_norm"),
    (linear, "torch.linear"),
]


def operators(program: Program) -> list[str]:
    return [b.expr.op for b in program.main.body if isinstance(b.expr, OpCall)]


def agree(model: Model, sizes: dict[str, int], changed: Program) -> None:
    from explorer.tuning.peers.torch_peer import torch_plan

    inputs = random_inputs(model.program, {**model.program.env.hints, **sizes})
    given = [torch.from_numpy(inputs[n]) for n in model.inputs]
    for found, wanted in zip(torch_plan(changed)(*given), torch_plan(model.program)(*given)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(("write", "call"), CASES, ids=[w.__name__ for w, _ in CASES])
def test_what_is_written_out_becomes_one_call(
    write: Callable[[Graph], None], call: str, tmp_path: Path
) -> None:
    g = Graph()
    write(g)
    model = g.model(tmp_path, x=[2, ROWS, WIDTH])
    found = fuse(specialise(model.program, {}))
    assert operators(found) == [call]
    agree(model, {}, found)


def causal() -> np.ndarray:
    return np.triu(np.full((ROWS, ROWS), -np.inf, np.float32), 1)[None, None]


MASKS = [
    (None, False, False),
    (np.zeros((1, 1, ROWS, ROWS), np.float32), False, False),
    (causal(), False, True),
    (weight(1, 3, ROWS, ROWS), True, False),
]


@pytest.mark.parametrize(("mask", "kept", "is_causal"), MASKS, ids=["no", "zero", "causal", "bias"])
@pytest.mark.parametrize("late", [True, False])
def test_attention_becomes_one_call_with_the_mask_that_it_needs(
    mask: np.ndarray | None, kept: bool, is_causal: bool, late: bool, tmp_path: Path
) -> None:
    g = Graph()
    q = "q" if late else g("Mul", "q", 0.4)
    scores = g("MatMul", q, g("Transpose", "k", perm=[0, 1, 3, 2]))
    scores = g("Mul", scores, 0.4) if late else scores
    scores = scores if mask is None else g("Add", scores, mask)
    g("MatMul", g("Softmax", scores, axis=-1), "v")
    model = g.model(tmp_path, **{n: [2, 3, ROWS, WIDTH] for n in "qkv"})
    found = fuse(specialise(model.program, {}))
    (call,) = [b.expr for b in found.main.body if b.expr.op == "torch.attention"]  # type: ignore[union-attr]
    assert operators(found).count("MatMul") == 0
    assert (call.args[3] is not None) == kept  # type: ignore[union-attr]
    assert call.attr("causal") == int(is_causal)  # type: ignore[union-attr]
    assert call.attr("scale") == pytest.approx(0.4)  # type: ignore[union-attr]
    agree(model, {}, found)


def test_what_something_else_reads_stays_apart(tmp_path: Path) -> None:
    g = Graph()
    product = g("MatMul", "x", weight(WIDTH, 5))
    g("Mul", g("Add", product, weight(5)), product)
    model = g.model(tmp_path, x=[ROWS, WIDTH])
    found = fuse(specialise(model.program, {}))
    assert operators(found) == ["MatMul", "Add", "Mul"]


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_gpt2", "tiny_llama", "tiny_vit"])
def test_an_exported_transformer_has_its_attention_back(name: str) -> None:
    model = load(DATA / f"{name}.onnx")
    sizes = {k: v for k, v in (("batch", 2), ("seq", 17)) if k in model.program.env.hints}
    found = fuse(specialise(model.program, sizes))
    assert operators(found).count("torch.attention") == 2
    assert "Softmax" not in operators(found) and "Shape" not in operators(found)
    agree(model, sizes, found)


def test_forms_of_an_image_model_are_both_memory_formats() -> None:
    from explorer.tuning.peers.torch_peer import eager_forms

    model = load(DATA / "tiny_mobilenetv2.onnx")
    forms = list(eager_forms(model, random_inputs(model.program, {})))
    assert [f.name for f in forms] == ["as exported", "as exported, channels last"]
    first, last = (f.run()[0] for f in forms)
    np.testing.assert_allclose(first, last, rtol=1e-4, atol=1e-5)
