"""3 x 3 convolutions with an epilogue, as kernels and as ONNX files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, save

from explorer.ir.affine import var
from explorer.ir.dims import Dim, evaluate_shape
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ops.interpreter.loop_nest import evaluate_kernel
from explorer.transforms.winograd import Algorithm


@dataclass(frozen=True)
class Shape:
    """An image, channels in and out of a group, zeros above, left, below and right, a batch, and
    groups; 0 where there is no axis of groups.
    """

    high: Dim
    wide: Dim
    channels: int = 8
    outputs: int = 16
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    batch: Dim = 1
    groups: int = 0

    @property
    def result(self) -> tuple[Dim, Dim]:
        top, left, bottom, right = self.pads
        return self.high + top + bottom - 2, self.wide + left + right - 2


def kernel_of(s: Shape) -> Kernel:
    """`y = max(conv(x, g) + b + r, 0)`, channels last."""
    (oh, ow), (top, left, _, _) = s.result, s.pads
    group = (Axis("j", s.groups),) if s.groups else ()
    many = max(1, s.groups)
    out = (s.batch, oh, ow, s.outputs * many)
    axes = (Axis("n", s.batch), Axis("h", oh), Axis("w", ow), *group, Axis("o", s.outputs))
    over = (Axis("kh", 3), Axis("kw", 3), Axis("c", s.channels))
    first = [var("j")] if group else []
    channel, column = (
        sum((j * n for j in first), v) for v, n in ((var("c"), s.channels), (var("o"), s.outputs))
    )
    at = (var("n"), var("h") + var("kh") - top, var("w") + var("kw") - left, channel)
    weight = Read("g", (column, var("c"), var("kh"), var("kw")))
    product = Apply("mul", (Read("x", at, 0.0), weight))
    store = (var("n"), var("h"), var("w"), column)
    point = tuple(var(a) for a in "nhwq")
    after = (*axes[:3], Axis("q", out[-1]))
    shifted = apply("add", Read("acc", point), Read("b", (var("q"),)))
    total = apply("max", apply("add", shifted, Read("r", point)), 0.0)
    tensors = (
        TensorSpec("x", (s.batch, s.high, s.wide, s.channels * many)),
        TensorSpec("g", (out[-1], s.channels, 3, 3)),
        TensorSpec("b", (out[-1],)),
        *(TensorSpec(n, out) for n in ("r", "acc", "y")),
    )
    summed = Compute("acc", axes, product, over, "sum", store if group else ())
    computes = (summed, Compute("y", after, total))
    return Kernel("conv", tensors, computes, ("x", "g", "b", "r"), ("y",), frozenset("gb"))


def values_of(kernel: Kernel, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs; weights as small as trained ones."""
    rng = np.random.default_rng(seed)
    shapes = {n: evaluate_shape(kernel.shape(n), sizes) for n in kernel.inputs}
    values = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    return values | {"g": values["g"] * np.float32(0.05)}


def direct(kernel: Kernel, values: dict[str, np.ndarray], sizes: dict[str, int]) -> np.ndarray:
    """What the reference interpreter makes of a kernel."""
    return evaluate_kernel(kernel, [values[n] for n in kernel.inputs], sizes)


def with_filters(
    kernel: Kernel, way: Algorithm, values: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The inputs and, under its name, the transformed weights."""
    found = way.find(kernel, kernel.computes[0])
    assert not isinstance(found, str), found
    computes = way.computes(kernel, found, way.by)
    return values | {computes.filters: computes.transform_weights(values[found.weight.tensor])}


SHAPES = st.builds(
    Shape,
    st.integers(2, 15),
    st.integers(2, 15),
    st.integers(1, 40),
    st.integers(8, 40),
    st.tuples(*[st.integers(1, 2)] * 2, *[st.integers(0, 2)] * 2),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 0, 1, 2, 3]),
)


def model(path: Path, s: Shape, groups: int = 1, batch: str | int = "n", **more: Any) -> str:
    """An ONNX file: `relu(conv(x) + b)`, with a batch that may be a symbol."""
    rng = np.random.default_rng(1)
    shape = (s.outputs, s.channels // groups, 3, 3)
    g = (rng.standard_normal(shape) * 0.05).astype(np.float32)
    b = rng.standard_normal(s.outputs).astype(np.float32)
    attributes: dict[str, Any] = {"pads": list(s.pads), "group": groups, **more}
    nodes = [
        helper.make_node("Conv", ["x", "g", "b"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    kind = TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", kind, (batch, s.channels, s.high, s.wide))
    y = helper.make_tensor_value_info("y", kind, None)
    held = [numpy_helper.from_array(a, n) for n, a in (("g", g), ("b", b))]
    graph = helper.make_graph(nodes, "conv", [x], [y], held)
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return str(path)


def chain(path: Path, high: str | int, wide: str | int, taps: tuple[int, int], count: int) -> str:
    """An ONNX file: `count` convolutions of 24 channels with a relu each, over an image whose size
    may be symbols.
    """
    rng, kind = np.random.default_rng(1), TensorProto.FLOAT
    pads = [(t - 1) // 2 for t in taps] * 2
    nodes, held, value = [], [], "x"
    for i in range(count):
        g = (rng.standard_normal((24, 24, *taps)) * 0.05).astype(np.float32)
        held.append(numpy_helper.from_array(g, f"g{i}"))
        result = "y" if i == count - 1 else f"y{i}"
        nodes.append(helper.make_node("Conv", [value, f"g{i}"], [f"c{i}"], pads=pads))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [result]))
        value = result
    x = helper.make_tensor_value_info("x", kind, ("n", 24, high, wide))
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "chain", [x], [y], held)
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return str(path)
