"""Small programs for the passes: written by hand, or imported from a graph made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from explorer.frontends.load import load
from explorer.ir.calls import KernelCall, View
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.passes.random_inputs import random_inputs
from explorer.passes.validate import difference
from explorer.relax import deduce, legalize

Shape = Sequence[int | str]
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def legalized(
    tmp_path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Shape],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    dtypes: dict[str, int] | None = None,
) -> Program:
    """An ONNX graph as kernels."""
    return legalize(typed(tmp_path, nodes, inputs, outputs, constants, dtypes))


def typed(
    tmp_path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Shape],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    dtypes: dict[str, int] | None = None,
) -> Program:
    """An ONNX graph as operators of known shapes."""
    kinds = dtypes or {}
    graph = helper.make_graph(
        list(nodes),
        "small",
        [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
            for n, s in inputs.items()
        ],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    return deduce(load(str(path)).program)


def keeps_values(run: Callable[[Program], Program], program: Program) -> Program:
    """The program after a pass, which must be well formed and compute the same."""
    after = run(program)
    verify(after)
    inputs = random_inputs(program)
    assert difference(evaluate(program, inputs), evaluate(after, inputs)) == ""
    return after


def kernels(program: Program) -> list[str]:
    """The names of the kernels that the main function calls, in order."""
    return [b.expr.kernel.name for b in program.main.body if isinstance(b.expr, KernelCall)]


def views(program: Program) -> int:
    """How many views the main function has."""
    return sum(isinstance(b.expr, View) for b in program.main.body)


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Random float32 weights."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
