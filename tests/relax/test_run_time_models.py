"""Small models around values of the run: what is compiled, what is left to a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import TensorProto, helper

import explorer
from explorer.ir.calls import LibraryCall
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.examples import examples
from tests.ops.one_operator import agree, oracle
from tests.strategies.onnx.run_time_chains import Chain, chains

Array = np.ndarray
Inputs = Mapping[str, tuple[Sequence[Any], Array]]  # declared shape, and what is given


@dataclass(frozen=True)
class Case:
    name: str
    nodes: Sequence[onnx.NodeProto]
    inputs: Inputs
    library: tuple[str, ...] = ()
    opset: int = 18


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attrs)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


x = np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6)
matrix = (["n", "m"], x)
other = (["k", "l"], np.ascontiguousarray(x.T))
CASES = (
    Case(
        "a rank that the length of the shape tells",
        [node("Reshape", "x s", "r"), node("Relu", "r", "y")],
        {"x": matrix, "s": (["k"], ints(2, 3, 4))},
        ("Reshape", "Relu"),
    ),
    Case(
        "as many starts as a run says",
        [node("Slice", "x s e", "y")],
        {"x": matrix, "s": (["k"], ints(1)), "e": (["k"], ints(3))},
    ),
    Case(
        "any number of axes, kept",
        [node("ReduceSum", "x s", "y")],
        {"x": matrix, "s": (["k"], ints(0, 1))},
    ),
    Case(
        "a symbolic dim that must be 1",
        [node("Squeeze", "x", "y", axes=[0])],
        {"x": (["n", "m"], x[:1])},
        opset=11,
    ),
    Case(
        "a start of either sign, counted by shapes alone",
        [
            node("Shape", "x", "h", start=0, end=1),
            node("Constant", "", "five", value_ints=[5]),
            node("Constant", "", "big", value_ints=[99]),
            node("Sub", "h five", "s"),
            node("Slice", "x s big", "y"),
        ],
        {"x": matrix},
    ),
    Case(
        "kernels behind NonZero",
        [
            node("NonZero", "x", "i"),
            node("Transpose", "i", "t"),
            node("GatherND", "x t", "v"),
            node("ReduceSum", "v", "y", keepdims=0),
        ],
        {"x": matrix},
        ("NonZero",),
    ),
    Case(
        "extents that must agree in a join",
        [node("Concat", "x z", "y", axis=0)],
        {"x": matrix, "z": (["k", "l"], x)},
    ),
    Case("the depth of a product", [node("Gemm", "x z", "y")], {"x": matrix, "z": other}),
    Case(
        "the depth and the batch of a product",
        [node("MatMul", "x z", "y")],
        {"x": (["b", "n", "m"], x[None]), "z": (["c", "k", "l"], np.stack([x.T, x.T]))},
    ),
    Case(
        "the channels of a convolution",
        [node("Conv", "x w", "y")],
        {
            "x": (["b", "c", 5, 5], x.repeat(5)[:50].reshape(1, 2, 5, 5)),
            "w": ([3, 2, 2, 2], x.reshape(3, 2, 2, 2)),
        },
    ),
)


@pytest.mark.few(4)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_model_is_compiled_as_far_as_its_ranks_are_known(case: Case, tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), list(shape))
        for n, (shape, a) in case.inputs.items()
    ]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(list(case.nodes), "small", inputs, results)
    opset = helper.make_opsetid("", case.opset)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    onnx.save(model, tmp_path / "small.onnx")
    compiled = explorer.compile(tmp_path / "small.onnx")
    feeds = {n: a for n, (_, a) in case.inputs.items()}
    agree(np.asarray(compiled.run(feeds)["y"]), oracle(model, feeds)[0], 1e-5, case.name)
    calls = (b.expr for b in compiled.program.library_calls)
    assert tuple(c.function for c in calls if isinstance(c, LibraryCall)) == case.library


def test_rows_by_a_mask_that_is_known_are_no_binding_beside_their_constant() -> None:
    mask = np.array([True, False, True, True])
    for f in (lambda x: x[mask] * 2, explorer.grad(lambda x: (x[mask] * 2).sum())):
        model = explorer.trace(f)(explorer.tensor("float32", 4, 3))
        c = explorer.compile(model, check=True)
        assert all(s.checked in (None, True) for s in c.snapshots)
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.testing.assert_allclose(next(iter(c.run(x).values())), np.asarray(f(x)))


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def loaded(chain: Chain, folder: str) -> tuple[onnx.ModelProto, explorer.Model]:
    model, path = chain.model(), Path(folder) / "chain.onnx"
    onnx.save(model, path)
    return model, explorer.load(path, {"n0": (0, None)})


@settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
@given(chains())
def test_every_stage_means_the_same(chain: Chain) -> None:
    with TemporaryDirectory() as folder:
        model, source = loaded(chain, folder)
        wanted = oracle(model, chain.feeds)
        for step in explorer.compile(source, until="rolled").snapshots:
            verify(step.after)
            found = evaluate(step.after, chain.feeds)
            for mine, right in zip(found.values(), wanted, strict=True):
                agree(np.asarray(mine), right, 1e-5, step.name)


@settings(max_examples=examples(12, few=5), deadline=None, suppress_health_check=SLOW)
@given(chains())
def test_compiled_programs_mean_the_same(chain: Chain) -> None:
    with TemporaryDirectory() as folder:
        model, source = loaded(chain, folder)
        found = explorer.compile(source).run(chain.feeds)
        for mine, right in zip(found.values(), oracle(model, chain.feeds), strict=True):
            agree(np.asarray(mine), right, 1e-5, "run")
