"""Products of 16-bit floats read what was converted as it was, where hardware multiplies it so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.codegen.cuda.simulated import simulate
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
X, W = [3, 48], (48, 32)


def model(
    nodes: list[Any], given: dict[str, np.ndarray], x: list[int], path: Path, dtype: int = HALF
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, x)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(v, n) for n, v in given.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(proto, path / "m.onnx")
    return path / "m.onnx"


def weights(shape: tuple[int, ...], dtype: str = "float16") -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) / 8).astype(dtype)


def product(path: Path) -> Path:
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights(W)}, X, path)


def factors(p: Program) -> list[tuple[str, ...]]:
    """The types of what products read."""
    kernels = (b.kernel_call.kernel for b in p.kernel_calls)
    return [tuple(k.dtype(n) for n in k.inputs[:2]) for k in kernels if k.computes[0].reduce]


def legalised(path: Path, target: str = "a100") -> Program:
    return explorer.compile(path, target=target, until="legalized").program


def test_a_product_reads_what_was_converted(tmp_path: Path) -> None:
    assert factors(legalised(product(tmp_path))) == [("float16", "float16")]
    assert len(legalised(product(tmp_path)).kernel_calls) == 2  # it, and the end's conversion


@pytest.mark.parametrize("target", ["v100", "cpu-avx2"])
def test_hardware_without_such_units_multiplies_float32(target: str, tmp_path: Path) -> None:
    assert factors(legalised(product(tmp_path), target)) == [("float32", "float16")]


def test_filters_are_narrow_again(tmp_path: Path) -> None:
    """They were made float32 when the model was read."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    found = legalised(model([node], {"w": weights((8, 4, 3, 3))}, [1, 4, 9, 9], tmp_path))
    assert factors(found) == [("float16", "float16")]


def test_what_narrower_types_cannot_hold_stays(tmp_path: Path) -> None:
    """A float32 that was nothing else before."""
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=SINGLE),
        helper.make_node("MatMul", ["wide", "w"], ["y"]),
    ]
    some = weights(W, "float32")
    assert factors(legalised(model(nodes, {"w": some}, X, tmp_path))) == [("float32", "float32")]
    some = some.astype(np.float16).astype(np.float32)
    assert factors(legalised(model(nodes, {"w": some}, X, tmp_path))) == [("float16", "float16")]


def test_float32_stays_float32(tmp_path: Path) -> None:
    """However few bits its weights need: the other factor has all."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    some = weights(W).astype(np.float32)
    found = legalised(model([node], {"w": some}, X, tmp_path, SINGLE))
    assert factors(found) == [("float32", "float32")]


def test_what_a_kernel_reads_twice_stays(tmp_path: Path) -> None:
    """`x @ x`: one tensor, in both places."""
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    path = model([node], {}, [16, 16], tmp_path)
    for target in ("a100", "v100"):
        p = legalised(path, target)
        x = weights((16, 16))
        (got,), (want,) = (evaluate(q, {"x": x}).values() for q in (p, explorer.load(path).program))
        np.testing.assert_array_equal(got, want)


CASES: dict[str, tuple[list[Any], dict[str, np.ndarray], list[int]]] = {
    "layers": (
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Add", ["h", "b"], ["i"]),
            helper.make_node("Relu", ["i"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["y"]),
        ],
        {"w": weights((70, 64)), "b": weights((64,)), "v": weights((64, 40))},
        [96, 70],
    ),
    "convolution": (
        [
            helper.make_node("Conv", ["x", "w", "b"], ["h"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        {"w": weights((32, 16, 3, 3)), "b": weights((32,))},
        [1, 16, 16, 16],
    ),
    "attention": (
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x", "t"], ["s"]),
            helper.make_node("Softmax", ["s"], ["p"]),
            helper.make_node("MatMul", ["p", "x"], ["y"]),
        ],
        {},
        [2, 48, 32],
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_planned_blocks_make_what_the_model_says(name: str, tmp_path: Path) -> None:
    nodes, given, shape = CASES[name]
    path = model(nodes, given, shape, tmp_path)
    c = explorer.compile(path, target="cuda-sim", until="planned")
    sources = [b.code.source for b in c.blocks if b.code is not None]
    x = weights(tuple(shape))
    found, run = simulate(c.program, {"x": x}, c.device, chosen=lambda _: c.chosen_blocks())
    (got,), (want,) = found.values(), evaluate(c.model.program, {"x": x}).values()
    assert run.launches and not run.refused and got.dtype == np.float16
    assert any("= mma_float16" in s for s in sources) == (name != "attention")  # in one block
    np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), 4e-3, 4e-3)
