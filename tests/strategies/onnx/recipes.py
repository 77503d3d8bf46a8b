"""Elementwise operators, comparisons, sums and norms, with odd operands."""

from __future__ import annotations

import numpy as np

from tests.strategies.choices import Refused
from tests.strategies.onnx.graph import FLOATS, WHOLE, Graph, Value, code

SMOOTH = (
    "Abs", "Neg", "Sigmoid", "Tanh", "Relu", "Erf", "Softplus", "Softsign", "HardSwish",
    "HardSigmoid", "Elu", "Selu", "Celu", "LeakyRelu", "Mish", "Gelu", "Sin", "Cos", "Atan",
    "Asinh", "Floor", "Ceil", "Round", "Sign", "Exp", "ThresholdedRelu", "Shrink", "Reciprocal",
    "Sqrt", "Log", "Sinh", "Cosh", "Identity",
)  # fmt: skip
PAIRS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mod", "Mean", "Sum")
COMPARED = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
REDUCED = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip
NORMALISED = (
    "LayerNormalization", "InstanceNormalization", "GroupNormalization", "BatchNormalization",
    "LpNormalization", "LRN", "RMSNormalization",
)  # fmt: skip


def random_array(g: Graph, dtype: str, shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
    """Values that make hard cases: normal ones, small whole ones with ties, zeros of both signs."""
    rng = g.rng
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        if g.chance(0.25):
            found = rng.integers(-3, 4, shape) * scale * rng.choice([-1.0, 1.0], shape)
        else:
            found = rng.standard_normal(shape) * scale
        return np.asarray(found, dtype)
    low = 0 if dtype.startswith("u") else -9
    return np.asarray(rng.integers(low, 10, shape), dtype)


def broadcast_shape(g: Graph, value: Value) -> tuple[int, ...]:
    """A shape that broadcasts to the value's without changing it."""
    shape = [1 if isinstance(n, str) or g.chance(0.3) else n for n in value.shape]
    return tuple(shape[g.number(0, len(shape)) :] if g.chance(0.5) else shape)


def other(g: Graph, value: Value, scale: float = 1.0) -> Value:
    """A second operand: the value itself, another one of its shape, or a constant."""
    same = [v for v in g.values if v.dtype == value.dtype and _broadcasts(v, value)]
    if same and g.chance(0.5):
        found: Value = g.one(same)
        return found
    shape = broadcast_shape(g, value)
    if g.chance(0.08) and value.static and 1 in value.shape:  # the constant is the larger one
        shape = tuple(3 if n == 1 else n for n in value.extents)
    return g.constant(random_array(g, value.dtype, shape, scale))


def _broadcasts(a: Value, b: Value) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape))
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


def clipped(g: Graph, value: Value, *limits: int) -> Value:
    return g.add("Clip", value, *(g.constant(n, value.dtype) for n in limits))


def unary(g: Graph) -> None:
    op = g.one(SMOOTH)
    value = g.pick()
    if op in ("Sqrt", "Log") and g.chance(0.8):
        value = g.add("Add", g.add("Abs", value), g.constant(0.5, value.dtype))
    if op in ("Exp", "Sinh", "Cosh") and g.chance(0.7):
        value = clipped(g, value, -6, 4)
    g.add(op, value)


def binary(g: Graph) -> None:
    op = g.one(PAIRS)
    value = g.pick(FLOATS if op in ("PRelu", "Mean", "Sum") else (*FLOATS, "int64", "int32"))
    whole = value.dtype in WHOLE
    if op in ("Div", "Mod"):
        right = g.constant(_divisor(g, value.dtype, broadcast_shape(g, value)))
        g.add(op, value, right, **({"fmod": 1} if op == "Mod" and not whole else {}))
    elif op == "Pow":
        if whole:
            raise Refused
        exponent = g.one([2.0, 3.0, 1.0, 0.0, 0.5, -1.0])
        base = value if float(exponent).is_integer() else g.add("Abs", value)
        g.add(op, base, g.constant(exponent, value.dtype))
    elif op == "PRelu":
        g.add(op, value, g.constant(random_array(g, value.dtype, broadcast_shape(g, value))))
    elif op in ("Mean", "Sum", "Max", "Min"):
        g.add(op, *[value, other(g, value), other(g, value)][: g.number(1, 3)])
    else:
        pair = [value, other(g, value)]
        g.add(op, *(pair if g.chance(0.5) else pair[::-1]))


def _divisor(g: Graph, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype in FLOATS:
        return np.asarray(g.rng.uniform(0.5, 3, shape) * g.rng.choice([-1, 1], shape), dtype)
    return np.asarray(g.rng.integers(1, 7, shape), dtype)


def compared(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    found = g.add(g.one(COMPARED), value, other(g, value))
    if g.chance(0.3):
        found = g.add("Not", found)
    if g.chance(0.7):
        g.add("Where", found, value, other(g, value))


def logical(g: Graph) -> None:
    value = g.pick(("bool",), (0, 1, 2, 3, 4, 5))
    g.add(g.one(("And", "Or", "Xor")), value, other(g, value))


def cast(g: Graph) -> None:
    value = g.pick((*FLOATS, *WHOLE, "bool"))
    if value.dtype in FLOATS and g.chance(0.5):
        g.add("Cast", value, to=code(g.one(FLOATS)))
    elif value.dtype in FLOATS:
        g.add("Cast", clipped(g, value, 0, 100), to=code(g.one((*WHOLE, "bool"))))
    else:
        g.add("Cast", value, to=code(g.one((*FLOATS, "int64", "int32", "bool"))))


def clip(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    low, high = (g.constant(n, value.dtype) for n in (-1, 2))
    g.add("Clip", value, low if g.chance(0.6) else None, high if g.chance(0.6) else None)


def axes_of(g: Graph, value: Value, most: int = 5) -> list[int]:
    """Some axes, from either end, in any order."""
    if not value.rank:
        raise Refused
    count = g.number(1, min(value.rank, most))
    chosen = g.choices.permutation(value.rank)[:count]
    return [a - (value.rank if g.chance(0.4) else 0) for a in chosen]


def reduced(g: Graph) -> None:
    op = g.one(REDUCED)
    value = g.pick((*FLOATS, "int64", "int32") if op in REDUCED[:4] else FLOATS)
    if op == "ReduceLogSum":
        value = g.add("Add", g.add("Abs", value), g.constant(0.5, value.dtype))
    axes = None if g.chance(0.15) else g.whole(*axes_of(g, value))
    g.add(op, value, axes, keepdims=g.number(0, 1))


def picked_out(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    op, axis, keep, last = (
        g.one(("ArgMax", "ArgMin")),
        g.axis(value),
        g.number(0, 1),
        g.number(0, 1),
    )
    g.add(op, value, axis=axis, keepdims=keep, select_last_index=last)


def softmax(g: Graph) -> None:
    value = g.pick()
    g.add(g.one(("Softmax", "LogSoftmax", "Softmax", "Hardmax")), value, axis=g.axis(value))


def running(g: Graph) -> None:
    value = g.pick((*FLOATS, "int64", "int32"))
    axis = g.constant(g.axis(value), g.one(("int64", "int32")))
    g.add("CumSum", value, axis, exclusive=g.number(0, 1), reverse=g.number(0, 1))


def normalised(g: Graph) -> None:
    op = g.one(NORMALISED)
    if op in ("LayerNormalization", "RMSNormalization", "LpNormalization"):
        value = g.pick(ranks=(2, 3, 4))
        axis = g.axis(value)
        if op == "LpNormalization":
            g.add(op, value, axis=axis, p=g.number(1, 2))
            return
        shape = tuple(value.extent(a) for a in range(axis % value.rank, value.rank))
        scale = g.constant(random_array(g, value.dtype, shape))
        bias = g.constant(random_array(g, value.dtype, shape))
        extra = () if op == "RMSNormalization" or g.chance(0.3) else (bias,)
        g.add(op, value, scale, *extra, axis=axis, epsilon=g.one((1e-5, 1e-2)))
        return
    value = g.pick(ranks=(3, 4, 5), where=lambda v: isinstance(v.shape[1], int))
    channels = value.extent(1)
    if not channels:
        raise Refused
    if op == "LRN":
        g.add(op, value, size=g.one((1, 3, 5)), alpha=0.01, beta=0.75, bias=1.0)
        return
    rows = [g.constant(random_array(g, value.dtype, (channels,))) for _ in range(3)]
    if op == "GroupNormalization":
        groups = g.one([n for n in (1, 2, 3, channels) if channels % n == 0 and n] or [1])
        if g.opset < 21:  # scale and bias were by group
            rows = [g.constant(random_array(g, value.dtype, (groups,))) for _ in range(2)]
        g.add(op, value, *rows[:2], num_groups=groups)
    elif op == "BatchNormalization":
        spread = g.constant(g.rng.uniform(0.2, 2, (channels,)), value.dtype)
        g.add(op, value, *rows, spread)
    else:
        g.add(op, value, *rows[:2])
