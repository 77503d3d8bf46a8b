"""A step of an optimizer is one kernel for each parameter, and gives what the reference says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.ir.calls import KernelCall
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import Options as RammerOptions

DOMAIN = "ai.onnx.preview.training"
MOMENTS = {"Adagrad": 1, "Adam": 2, "Momentum": 1}
ATTRS: dict[str, list[dict[str, Any]]] = {
    "Adagrad": [{}, {"decay_factor": 0.1, "norm_coefficient": 0.01}],
    "Adam": [{}, {"alpha": 0.8, "norm_coefficient": 0.1, "norm_coefficient_post": 0.2}],
    "Momentum": [
        {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.01, "mode": mode}
        for mode in ("standard", "nesterov")
    ],
}
CASES = [(op, attrs) for op, kinds in ATTRS.items() for attrs in kinds]


def written(
    folder: Path, op: str, attrs: dict[str, Any], shapes: list[Any], kept: int | None = None
) -> Path:
    """A model of one step of some parameters, of which only the first values are results."""
    kinds = ["x", "g", *(f"m{n}" for n in range(MOMENTS[op]))]
    inputs = [
        helper.make_tensor_value_info("rate", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("time", TensorProto.INT64, []),
    ]
    inputs += [
        helper.make_tensor_value_info(f"{k}_{n}", TensorProto.FLOAT, shape)
        for k in kinds
        for n, shape in enumerate(shapes)
    ]
    made = [f"new_{k}_{n}" for k in kinds if k != "g" for n in range(len(shapes))]
    types = [shape for k in kinds if k != "g" for shape in shapes]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(made, types)][
        :kept
    ]
    node = helper.make_node(op, [i.name for i in inputs], made, domain=DOMAIN, **attrs)
    graph = helper.make_graph([node], "step", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    path = folder / "step.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def inputs_of(path: Path, sizes: dict[str, int], time: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(time)
    found: dict[str, np.ndarray] = {"rate": np.float32(0.1), "time": np.int64(time)}  # type: ignore[dict-item]
    for i in onnx.load(path).graph.input[2:]:
        dims = i.type.tensor_type.shape.dim
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        found[i.name] = rng.random(shape).astype(np.float32)
    return found


@pytest.mark.few(5)
@pytest.mark.parametrize("time", [0, 3])
@pytest.mark.parametrize(("op", "attrs"), CASES, ids=str)
def test_a_step_is_one_kernel_for_each_parameter(
    op: str, attrs: dict[str, Any], time: int, tmp_path: Path
) -> None:
    path = written(tmp_path, op, attrs, [["n", 3], [7], [1], [2, 0]])
    model = explorer.load(path)
    compiled = explorer.compile(model, check=True)
    calls = compiled.program.kernel_calls
    assert [len(b.vars) for b in calls] == [1 + MOMENTS[op]] * 4
    for n in (1, 37):
        values = inputs_of(path, {"n": n}, time)
        want = evaluate(model.program, values)
        found = compiled.run(values)
        for name, right in want.items():
            np.testing.assert_allclose(found[name], right, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("policy", ["arena", "storages"])
def test_steps_one_after_the_other_share_memory_soundly(
    policy: str, threads: int, tmp_path: Path
) -> None:
    """The results of a step are the arguments of the next; what is between lies in the arena."""
    names = ["x", "m0", "m1"]
    nodes, now = [], names
    attrs = {"domain": DOMAIN, "alpha": 0.5, "beta": 0.75}  # 1 - beta^t keeps its digits
    for step in range(3):
        after = [f"{n}_{step}" for n in names]
        nodes.append(
            helper.make_node("Adam", ["rate", "time", now[0], "g", *now[1:]], after, **attrs)
        )
        now = after
    shape = [1000, 37]
    inputs = [
        helper.make_tensor_value_info("rate", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("time", TensorProto.INT64, []),
        *(
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
            for n in ("x", "g", *names[1:])
        ),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in now]
    graph = helper.make_graph(nodes, "steps", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    path = tmp_path / "steps.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    model = explorer.load(path)
    memory = MemoryOptions(policy=policy, in_place=policy == "storages")
    options = explorer.Options(memory=memory, rammer=RammerOptions(threads=threads))
    compiled = explorer.compile(model, options=options)
    values = inputs_of(path, {}, 2)
    want = evaluate(model.program, values)
    found = compiled.run(values)
    for name, right in want.items():
        np.testing.assert_allclose(found[name], right, rtol=1e-5, atol=1e-6, err_msg=name)


def test_only_what_is_read_is_made(tmp_path: Path) -> None:
    compiled = explorer.compile(
        explorer.load(written(tmp_path, "Adam", {}, [[5], [6]], kept=3)), until="legalized"
    )
    kernels = [
        b.expr.kernel for b in compiled.program.kernel_calls if isinstance(b.expr, KernelCall)
    ]
    assert [k.outputs for k in kernels] == [("y0", "y1"), ("y0",)]


def test_a_step_takes_in_what_makes_its_gradient(tmp_path: Path) -> None:
    """A product of matrices whose one reader is the step is never stored; what reads the step's
    results stays apart, since those are stored for others too.
    """
    shape, shared = [96, 64], {"domain": DOMAIN, "alpha": 0.5, "beta": 0.75}
    kinds = {"rate": [], "a": shape, "w": [64, 64], "x": shape, "m0": shape, "m1": shape}
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["g"]),
        helper.make_node("Adam", ["rate", "time", "x", "g", "m0", "m1"], ["p", "q", "r"], **shared),
        helper.make_node("Tanh", ["q"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in kinds.items()]
    inputs.insert(1, helper.make_tensor_value_info("time", TensorProto.INT64, []))
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("p", "r", "y")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    path = tmp_path / "layer.onnx"
    graph = helper.make_graph(nodes, "layer", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    model = explorer.load(path)
    compiled = explorer.compile(model, check=True)
    assert [len(b.vars) for b in compiled.program.kernel_calls] == [3, 1]
    values = inputs_of(path, {}, 3)
    want = evaluate(model.program, values)
    found = compiled.run(values)
    for name, right in want.items():
        np.testing.assert_allclose(found[name], right, rtol=2e-5, atol=1e-5, err_msg=name)
