"""Random chains of operators whose integers only a run knows, with inputs that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.strategies.choices import Choices, generator

Draw = Callable[..., int]


@dataclass
class Chain:
    """A model that grows by one operator at a time, and the arrays that it is run on."""

    shape: list[int]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    last: str = "x"
    outputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(prod(self.shape))
        self.feeds["x"] = rng.standard_normal(self.shape).astype(np.float32)
        free = [f"n{d}" for d in range(len(self.shape))]
        self.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, free))

    def integers(self, *values: int) -> str:
        """A new input of integers."""
        name = f"i{len(self.inputs)}"
        self.feeds[name] = np.array(values, np.int64)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, [len(values)]))
        return name

    def known(self, *values: int) -> str:
        """A new constant of integers."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op: str, *args: str, **attrs: Any) -> str:
        """A node with one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(args), [name], name=name, **attrs))
        return name

    def model(self) -> onnx.ModelProto:
        """The chain so far; its last value is an output."""
        names = [*dict.fromkeys([*self.outputs, self.last])]
        results = [onnx.ValueInfoProto(name=n) for n in names if n != "x"]
        graph = helper.make_graph(self.nodes, "chain", self.inputs, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _relu(c: Chain, draw: Draw) -> None:
    c.last = c.node(("Relu", "Abs", "Neg")[draw(0, 2)], c.last)


def _transpose(c: Chain, draw: Draw) -> None:
    order = list(range(len(c.shape)))
    by = draw(0, max(0, len(order) - 1))
    order = order[by:] + order[:by]
    c.last, c.shape = c.node("Transpose", c.last, perm=order), [c.shape[d] for d in order]


def _reshape(c: Chain, draw: Draw) -> None:
    flat, d = prod(c.shape), draw(0, max(0, len(c.shape) - 1))
    new = [prod(c.shape[:d]), prod(c.shape[d:])] if draw(0, 1) else [flat, 1][:: draw(0, 1) * 2 - 1]
    if draw(0, 1) and flat:
        new[draw(0, 1)] = -1
    given = c.integers(*new)
    c.last = c.node("Reshape", c.last, given, allowzero=int(-1 not in new))
    rest = prod(n for n in new if n != -1)
    c.shape = [flat // rest if n == -1 else n for n in new]


def _slice(c: Chain, draw: Draw) -> None:
    d = draw(0, len(c.shape) - 1)
    start, end, step = draw(-9, 9), draw(-9, 9), (1, -1, 2, -3)[draw(0, 3)]
    axes = c.integers(d) if draw(0, 1) else c.known(d)
    steps = c.integers(step) if draw(0, 1) else c.known(step)
    c.last = c.node("Slice", c.last, c.integers(start), c.integers(end), axes, steps)
    n = c.shape[d]
    first = min(max(start + n if start < 0 else start, 0), n if step > 0 else n - 1)
    low, high = (0, n) if step > 0 else (-1, n - 1)
    last = min(max(end + n if end < 0 else end, low), high)
    c.shape[d] = len(range(first, last, step)) if n else 0


def _reduce(c: Chain, draw: Draw) -> None:
    d, keep = draw(0, len(c.shape) - 1), draw(0, 1)
    op = ("ReduceSum", "ReduceL1")[draw(0, 1)]
    c.last = c.node(op, c.last, c.integers(d), keepdims=keep)
    c.shape[d : d + 1] = [1] if keep else []


def _unsqueeze(c: Chain, draw: Draw) -> None:
    d = draw(0, len(c.shape))
    c.last = c.node("Unsqueeze", c.last, c.integers(d) if draw(0, 1) else c.known(d))
    c.shape.insert(d, 1)


def _pad(c: Chain, draw: Draw) -> None:
    pads = [draw(0, 3) for _ in range(2 * len(c.shape))]
    c.last = c.node("Pad", c.last, c.integers(*pads))
    c.shape = [n + a + b for n, a, b in zip(c.shape, pads, pads[len(c.shape) :], strict=False)]


def _tile(c: Chain, draw: Draw) -> None:
    by = [draw(1, 2) for _ in c.shape]
    c.last = c.node("Tile", c.last, c.integers(*by))
    c.shape = [n * r for n, r in zip(c.shape, by, strict=True)]


def _join(c: Chain, draw: Draw) -> None:
    d, other = draw(0, len(c.shape) - 1), c.node("Exp", c.node("Neg", c.node("Abs", c.last)))
    c.last = c.node("Concat", c.last, other, axis=d)
    c.shape[d] *= 2


def _double(c: Chain, draw: Draw) -> None:
    c.last = c.node("Add", c.last, c.node("Relu", c.last))


def _broadcast(c: Chain, draw: Draw) -> None:
    """A sum along an axis that only a run knows, put beside what was summed."""
    total = c.node(
        "ReduceMax" if all(c.shape) else "ReduceSum", c.last, c.integers(draw(0, len(c.shape) - 1))
    )
    c.last = c.node("Sub", c.last, total)


def _output(c: Chain, draw: Draw) -> None:
    if c.last != "x":
        c.outputs.append(c.last)


STEPS = (
    _relu, _transpose, _reshape, _slice, _reduce, _unsqueeze, _pad, _tile, _join, _double,
    _broadcast, _output,
)  # fmt: skip


@generator
def chains(c: Choices, most: int = 7) -> Chain:
    """A chain of up to `most` operators on a matrix of odd sizes."""
    chain = Chain([c.number(0, 6), c.number(1, 6)])
    for _ in range(c.number(1, most)):
        step = c.one(STEPS)
        if chain.shape or step in (_relu, _unsqueeze, _double, _output):
            step(chain, c.number)
        if len(chain.shape) > 4 or prod(chain.shape) > 5000:
            break
    if chain.last == "x":
        _relu(chain, c.number)
    return chain
