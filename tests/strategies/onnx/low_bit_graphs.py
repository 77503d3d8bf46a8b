"""Random chains of low-bit operators, with what NumPy computes for them in float64.

Every value has a reach: how far float32 may take it from the exact one. A sum of `n` terms adds
`sqrt(n) + 8` roundings of the sum of its terms' magnitudes (Higham and Mary 2019, probabilistic
error analysis). A number that is rounded to an integer may become any that its reach allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

UNIT = 2.0**-24  # half a step of float32
KINDS = {
    "int2": (ml_dtypes.int2, -2, 1),
    "uint2": (ml_dtypes.uint2, 0, 3),
    "int4": (ml_dtypes.int4, -8, 7),
    "uint4": (ml_dtypes.uint4, 0, 15),
    "int8": (np.int8, -128, 127),
    "uint8": (np.uint8, 0, 255),
}
DYNAMIC = 255  # steps of DynamicQuantizeLinear


@dataclass(frozen=True)
class Value:
    """An exact value of the chain, how far an element may be from it, and its name."""

    name: str
    exact: np.ndarray
    reach: np.ndarray

    @property
    def depth(self) -> int:
        return int(self.exact.shape[-1])


@dataclass
class Graph:
    """A graph that grows at its end."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    opset: int = 21

    def array(self, array: np.ndarray, as_input: bool = False) -> str:
        """Enter a constant, or an input of the graph, and return its name."""
        name = f"a{len(self.arrays) + len(self.inputs)}"
        (self.inputs if as_input else self.arrays)[name] = array
        return name

    def node(self, op: str, inputs: list[str], results: int = 1, **attrs: object) -> list[str]:
        """Append a node and return the names of its results."""
        names = [f"{op.lower()}{len(self.nodes)}_{n}" for n in range(results)]
        domain = "com.microsoft" if op == "MatMulNBits" else ""
        made = helper.make_node(op, inputs, names, f"n{len(self.nodes)}", domain=domain, **attrs)
        self.nodes.append(made)
        return names

    def bias(self, columns: int) -> np.ndarray:
        return self.rng.standard_normal(columns).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and its exact output with the reach of each element."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    exact: np.ndarray
    reach: np.ndarray

    @property
    def operators(self) -> list[str]:
        return [n.op_type for n in self.model.graph.node]


def case(seed: int) -> Case:
    """The chain of a seed: one to four stages, low-bit ones among them."""
    rng = np.random.default_rng(seed)
    graph = Graph(rng)
    lead = [(int(rng.choice([1, 2, 5, 9])),), (2, 3)][int(rng.random() < 0.2)]
    x = rng.standard_normal((*lead, int(rng.integers(1, 200)))).astype(np.float32)
    value = Value("x", x.astype(np.float64), np.zeros(x.shape))
    for _ in range(int(rng.integers(1, 5))):
        value = LOW_BIT[int(rng.integers(len(LOW_BIT)))](graph, value)
        if rng.random() < 0.6:
            value = elementwise(graph, value)
    rows: list[int | str] = ["rows"] if len(lead) == 1 and rng.random() < 0.4 else list(lead)
    graph.inputs = {"x": x, **graph.inputs}
    shapes = {n: list(a.shape) for n, a in graph.inputs.items()} | {"x": [*rows, x.shape[-1]]}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), shapes[n])
        for n, a in graph.inputs.items()
    ]
    output = helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [*rows, value.depth])
    arrays = [numpy_helper.from_array(a, n) for n, a in graph.arrays.items()]
    made = helper.make_graph(graph.nodes, f"low_bit_{seed}", inputs, [output], arrays)
    opsets = [helper.make_opsetid("", graph.opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=10 if graph.opset < 24 else 12)
    return Case(model, graph.inputs, value.exact, value.reach + UNIT * np.abs(value.exact))


def product(
    value: Value, name: str, weights: np.ndarray, sizes: np.ndarray, bias: np.ndarray | None = None
) -> Value:
    """A product with weights; `sizes` are the magnitudes of the terms that make an element up."""
    added = 0.0 if bias is None else bias.astype(np.float64)
    exact = value.exact @ weights + added
    terms = np.abs(value.exact) @ sizes + np.abs(added)
    rounding = UNIT * (np.sqrt(len(weights)) + 8) * terms
    return Value(name, exact, value.reach @ np.abs(weights) + rounding)


# Weights of a few bits.


def low_bits(graph: Graph, value: Value) -> Value:
    """MatMulNBits: bits, blocks, zero points and bias of any kind."""
    rng, depth = graph.rng, value.depth
    bits, block = int(rng.choice([2, 4, 4, 8])), int(rng.choice([16, 32, 64, 128]))
    columns, blocks, most = int(rng.integers(1, 64)), -(-depth // block), (1 << bits) - 1
    codes = rng.integers(0, most, (columns, blocks, block), endpoint=True)
    scales = _scales(rng, (columns, blocks), most, depth)
    points: np.ndarray = np.full((columns, blocks), 1 << (bits - 1), np.float64)
    arrays = {"codes": _packed(codes, bits), "scales": scales}
    form = str(rng.choice(["none", "packed", "float"]))
    if form == "packed":
        whole = rng.integers(0, most, (columns, blocks), endpoint=True)
        arrays["zeros"], points = _packed(whole, bits), whole.astype(np.float64)
    elif form == "float":
        arrays["zeros"] = rng.uniform(0, most, (columns, blocks)).astype(np.float32)
        points = arrays["zeros"].astype(np.float64)
    if rng.random() < 0.3:  # older files have them flat
        arrays = {n: a if n == "codes" else a.reshape(-1) for n, a in arrays.items()}
    as_inputs = rng.random() < 0.1
    names = [graph.array(a, as_inputs) for a in arrays.values()]
    bias = graph.bias(columns) if rng.random() < 0.4 else None
    if bias is not None:
        names += [""] * (4 - len(names)) + [graph.array(bias)]
    sizes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    (name,) = graph.node("MatMulNBits", [value.name, *names], **sizes)
    scale, middle = scales.astype(np.float64)[..., None], 1 << (bits - 1)
    weights = (codes - points[..., None]) * scale
    terms = np.abs(codes - middle) * scale + np.abs(points - middle)[..., None] * scale
    flat = [a.reshape(columns, -1)[:, :depth].T for a in (weights, terms)]
    return product(value, name, *flat, bias)


def blocked(graph: Graph, value: Value) -> Value:
    """DequantizeLinear in blocks on an axis of a matrix, and its product in one of four forms."""
    rng, depth = graph.rng, value.depth
    kind, columns = str(rng.choice(list(KINDS))), int(rng.integers(1, 64))
    form = str(rng.choice(["MatMul", "Transpose", "Gemm", "Gemm transB", "batch"]))
    if form.startswith("Gemm") and value.exact.ndim > 2:
        form = "MatMul"
    shape = (columns, depth) if form in ("Transpose", "Gemm transB") else (depth, columns)
    shape = (1, *shape) if form == "batch" else shape
    name, weights, sizes = _dequantized(graph, kind, shape, depth)
    if form in ("Transpose", "Gemm transB"):
        weights, sizes = weights.T, sizes.T
    if form == "Transpose":
        (name,) = graph.node("Transpose", [name], perm=[1, 0])
    if form.startswith("Gemm"):
        bias = graph.bias(columns) if rng.random() < 0.6 else None
        names = [value.name, name, *([] if bias is None else [graph.array(bias)])]
        (name,) = graph.node("Gemm", names, transB=int(form == "Gemm transB"))
        return product(value, name, weights, sizes, bias)
    (name,) = graph.node("MatMul", [value.name, name])
    if form == "batch":  # [1, K, N] lifts the rank of rows to 3
        weights, sizes = weights[0], sizes[0]
        if value.exact.ndim == 2:
            axes = graph.array(np.array([0], np.int64))
            (name,) = graph.node("Squeeze", [name, axes])
    return product(value, name, weights, sizes)


def by_column(graph: Graph, value: Value) -> Value:
    """DequantizeLinear with a scale for each column or for all, of a weight that may be turned."""
    rng, depth, columns = graph.rng, value.depth, int(graph.rng.integers(1, 64))
    dtype, low, high = KINDS[str(rng.choice(["int8", "uint8", "int4"]))]
    is_turned, is_one = rng.random() < 0.5, rng.random() < 0.3
    q = rng.integers(low, high, (depth, columns), endpoint=True)
    extent = () if is_one else (columns,)
    scale, zero = _scales(rng, extent, high - low, depth), np.zeros(extent, np.int64)
    names = [graph.array((q.T.copy() if is_turned else q).astype(dtype)), graph.array(scale)]
    if rng.random() < 0.5:
        zero = rng.integers(low, high, extent, endpoint=True)
        names.append(graph.array(np.asarray(zero).astype(dtype)))
    (name,) = graph.node("DequantizeLinear", names, axis=0 if is_turned else 1)
    if is_turned:
        (name,) = graph.node("Transpose", [name], perm=[1, 0])
    (name,) = graph.node("MatMul", [value.name, name])
    weights = (q - zero) * scale.astype(np.float64)
    return product(value, name, weights, (np.abs(q) + np.abs(zero)) * scale.astype(np.float64))


def _dequantized(
    graph: Graph, kind: str, shape: tuple[int, ...], depth: int
) -> tuple[str, np.ndarray, np.ndarray]:
    """Dequantize random integers in blocks on a random axis: name, numbers, magnitudes."""
    rng, (dtype, low, high) = graph.rng, KINDS[kind]
    axis = int(rng.integers(-len(shape), len(shape)))
    block = int(rng.choice([8, 16, 24, 32, 64]))
    q = rng.integers(low, high, shape, endpoint=True)
    extents = list(shape)
    extents[axis] = -(-extents[axis] // block)
    scale, zero = _scales(rng, tuple(extents), high - low, depth), np.zeros(extents, np.int64)
    as_input = kind.endswith("8") and rng.random() < 0.1
    names = [graph.array(q.astype(dtype), as_input), graph.array(scale)]
    if rng.random() < 0.5:
        zero = rng.integers(low, high, extents, endpoint=True)
        names.append(graph.array(zero.astype(dtype)))
    if kind.endswith("2"):
        graph.opset = 25
    (name,) = graph.node("DequantizeLinear", names, axis=axis, block_size=block)
    cut = [slice(n) for n in shape]
    scale64, zeros = (np.repeat(a, block, axis)[tuple(cut)] for a in (scale.astype("f8"), zero))
    middle = 0 if kind.startswith("int") else (high + 1) // 2
    sizes = (np.abs(q - middle) + np.abs(zeros - middle)) * scale64
    return name, (q - zeros) * scale64, sizes


def _scales(rng: np.random.Generator, shape: tuple[int, ...], steps: int, depth: int) -> np.ndarray:
    """Scales that take rows of unit size to such rows."""
    scales = rng.uniform(1, 4, shape) / (steps * np.sqrt(depth))
    return np.asarray(scales, np.float32)


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes along the last axis as bytes, the first in the lowest bits."""
    each = 8 // bits
    padded = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % each)])
    parts = padded.reshape(*codes.shape[:-1], -1, each).astype(np.uint32)
    return (parts << np.arange(0, 8, bits, dtype=np.uint32)).sum(-1).astype(np.uint8)


# Activations of eight bits.


def _steps(u: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers rounded to integers, and how many integers further their reach may take them."""
    k = np.rint(u)
    return k, np.maximum(np.rint(u + reach) - k, k - np.rint(u - reach))


def dynamic(graph: Graph, value: Value) -> Value:
    """DynamicQuantizeLinear, MatMulInteger, and the product of the scales."""
    rng, depth, columns = graph.rng, value.depth, int(graph.rng.integers(1, 64))
    dtype, low, high = KINDS[str(rng.choice(["int8", "uint8"]))]
    w = rng.integers(low, high, (depth, columns), endpoint=True)
    q, scale, zero = graph.node("DynamicQuantizeLinear", [value.name], 3)
    names, offset = [q, graph.array(w.astype(dtype)), zero], np.zeros((), np.int64)
    if rng.random() < 0.6:
        extent = (columns,) if rng.random() < 0.3 else ()
        offset = np.asarray(rng.integers(low, high, extent, endpoint=True))
        names.append(graph.array(offset.astype(dtype)))
    own = _scales(rng, (columns,) if rng.random() < 0.5 else (), high - low, depth)
    (sums,) = graph.node("MatMulInteger", names)
    (floats,) = graph.node("Cast", [sums], to=TensorProto.FLOAT)
    (both,) = graph.node("Mul", [scale, graph.array(own)])
    (name,) = graph.node("Mul", [floats, both])
    d = _dynamic_values(value)
    weights = (w - offset) * own.astype(np.float64)
    exact = d.exact @ weights
    return Value(name, exact, d.reach @ np.abs(weights) + 4 * UNIT * np.abs(exact))


def _dynamic_values(value: Value) -> Value:
    """The numbers that DynamicQuantizeLinear's integers stand for."""
    v, reach = value.exact, value.reach
    low, high = min(v.min(), 0.0), max(v.max(), 0.0)
    scale = (high - low) / DYNAMIC
    if scale == 0:  # zeros alone, exactly: times any scale they are zeros
        return Value("", 0 * v, reach)
    slack = 2 * reach.max() / DYNAMIC / scale + 4 * UNIT  # of the scale, relative
    zero, zero_more = _steps(np.asarray(-low / scale), np.asarray(-low / scale * slack))
    k, more = _steps(v / scale, reach / scale + np.abs(v / scale) * slack)
    cut = np.clip(k + zero, 0, DYNAMIC) - zero
    at_end = (k + zero <= zero_more) | (k + zero >= DYNAMIC - zero_more - more)
    more = more + at_end * zero_more
    return Value("", cut * scale, more * scale * (1 + slack) + np.abs(cut) * scale * slack)


def linear(graph: Graph, value: Value) -> Value:
    """QuantizeLinear, QLinearMatMul and DequantizeLinear."""
    rng, depth, columns = graph.rng, value.depth, int(graph.rng.integers(1, 64))
    dtype, low, high = KINDS[str(rng.choice(["int8", "uint8"]))]
    w = rng.integers(low, high, (depth, columns), endpoint=True)
    own = _scales(rng, (), high - low, depth)
    offset = int(rng.integers(low, high, endpoint=True))
    scales = [np.float32(rng.uniform(0.01, 0.05)) for _ in range(2)]
    zeros = [int(rng.integers(low // 2, high // 2 + 1)) for _ in range(2)]
    (s_x, s_y), (z_x, z_y) = (
        [graph.array(np.asarray(a, np.float32)) for a in scales],
        [graph.array(np.asarray(z, dtype)) for z in zeros],
    )
    (q,) = graph.node("QuantizeLinear", [value.name, s_x, z_x])
    right = [graph.array(a) for a in (w.astype(dtype), own, np.asarray(offset, dtype))]
    (y,) = graph.node("QLinearMatMul", [q, s_x, z_x, *right, s_y, z_y])
    (name,) = graph.node("DequantizeLinear", [y, s_y, z_y])
    d = _quantized(value, float(scales[0]), zeros[0], low, high)
    weights = (w - offset) * float(own)
    exact = d.exact @ weights
    sums = Value("", exact, d.reach @ np.abs(weights) + 8 * UNIT * np.abs(exact))
    result = _quantized(sums, float(scales[1]), zeros[1], low, high)
    return Value(name, result.exact, result.reach + UNIT * np.abs(result.exact))


def _quantized(value: Value, scale: float, zero: int, low: int, high: int) -> Value:
    """Numbers rounded to integers that saturate, as the numbers that these stand for."""
    u = value.exact / scale
    k, more = _steps(u, value.reach / scale + 2 * UNIT * np.abs(u))
    ends = [np.clip(k + n * more + zero, low, high) - zero for n in (-1, 0, 1)]
    reach = np.maximum(ends[2] - ends[1], ends[1] - ends[0])
    return Value("", ends[1] * scale, reach * scale)


# Elementwise operators between.


def elementwise(graph: Graph, value: Value) -> Value:
    """A function of one element, a constant added or multiplied, or dequantized blocks added."""
    rng, v, reach = graph.rng, value.exact, value.reach
    op = str(rng.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Add", "Mul", "blocks"]))
    if op in ("Add", "Mul"):
        c = rng.uniform(0.5, 1.5, v.shape[-1:]).astype(np.float32)
        (name,) = graph.node(op, [value.name, graph.array(c)])
        exact = v + c if op == "Add" else v * c
        return Value(name, exact, reach * (1 if op == "Add" else c) + UNIT * np.abs(exact))
    if op == "blocks":
        shape = v.shape[-1:] if rng.random() < 0.5 else (1, v.shape[-1])
        addend, numbers, sizes = _dequantized(graph, str(rng.choice(list(KINDS))), shape, 1)
        (name,) = graph.node("Add", [value.name, addend])
        exact = v + numbers.reshape(-1)
        return Value(name, exact, reach + UNIT * (np.abs(exact) + 4 * sizes.reshape(-1)))
    exact = ONE[op](v)
    (name,) = graph.node(op, [value.name])
    return Value(name, exact, reach + 8 * UNIT * np.abs(exact) * (op in ("Tanh", "Sigmoid")))


ONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Relu": lambda v: np.maximum(v, 0),
    "Tanh": np.tanh,
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "Neg": np.negative,
    "Abs": np.abs,
}
LOW_BIT = (low_bits, low_bits, low_bits, blocked, blocked, blocked, by_column, dynamic, linear)
