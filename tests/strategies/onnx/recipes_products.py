"""Products, and chains after them; attention; recurrent layers; quantised operators."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tests.strategies.choices import Refused
from tests.strategies.onnx.graph import Graph, Value
from tests.strategies.onnx.recipes import binary, other, random_array, reduced, softmax, unary

WIDTHS = (1, 1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65)


def _weights(g: Graph, dtype: str, shape: tuple[int, ...]) -> Value:
    return g.constant(random_array(g, dtype, shape, 0.5))


def matmul(g: Graph) -> None:
    value = g.pick(ranks=(1, 2, 3, 4, 5))
    depth, width = value.extent(-1), g.one(WIDTHS)
    batch = tuple(1 if isinstance(n, str) or g.chance(0.5) else n for n in value.shape[:-2])
    kind = g.number(0, 4)
    if kind == 0 and value.rank >= 2:  # with itself turned
        perm = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
        turned = g.add("Transpose", value, perm=perm)
        g.add("MatMul", *((value, turned) if g.chance(0.5) else (turned, value)))
    elif kind == 1 and value.rank >= 2:  # on the right
        rows = value.extent(-2)
        g.add("MatMul", _weights(g, value.dtype, (*batch, width, rows)), value)
    elif kind == 2 and g.chance(0.4):
        g.add("MatMul", value, _weights(g, value.dtype, (depth,)))
    else:
        shape = (depth, width) if g.chance(0.6) else (*batch, depth, width)
        g.add("MatMul", value, _weights(g, value.dtype, shape))


def gemm(g: Graph) -> None:
    value = g.pick(ranks=(2,))
    turned, turned_b = g.number(0, 1), g.number(0, 1)
    depth = value.extent(-2 if turned else -1)
    width = g.one(WIDTHS)
    weights = _weights(g, value.dtype, (width, depth) if turned_b else (depth, width))
    bias = None
    if g.chance(0.7):
        rows = value.shape[1 if turned else 0]
        shapes: list[tuple[int, ...]] = [(width,), (1, width), (), (1, 1)]
        if isinstance(rows, int):
            shapes += [(rows, 1), (rows, width)]
        bias = _weights(g, value.dtype, g.one(shapes))
    more: dict[str, Any] = {"alpha": 0.5, "beta": -2.0} if g.chance(0.4) else {}
    g.add("Gemm", value, weights, bias, transA=turned, transB=turned_b, **more)


def chain(g: Graph) -> None:
    """A product, and what welders like to put behind it."""
    (matmul if g.chance(0.7) else gemm)(g)
    for _ in range(g.number(1, 3)):
        g.one((unary, binary, softmax, reduced))(g)


def attention(g: Graph) -> None:
    value = g.pick(ranks=(2, 3, 4))
    depth = value.extent(-1)
    if not depth:
        raise Refused
    perm = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    scores = g.add("MatMul", value, g.add("Transpose", value, perm=perm))
    scaled = g.add("Mul", scores, g.constant(depth**-0.5, value.dtype))
    if g.chance(0.4):
        scaled = g.add("Add", scaled, other(g, scaled))
    shares = g.add("Softmax", scaled, axis=-1)
    g.add("MatMul", shares, value)


def einsum(g: Graph) -> None:
    value = g.pick(ranks=(2, 3))
    n, m = value.extent(-1), g.one(WIDTHS)
    if value.rank == 2:
        rules = [("ij,jk->ik", (n, m)), ("ij,kj->ki", (m, n)), ("ij,j->i", (n,)), ("ij->ji", ()),
                 ("ij,j->ij", (n,)), ("ij,jk->k", (n, m))]  # fmt: skip
    else:
        rules = [("bij,jk->bik", (n, m)), ("bij,kj->bki", (m, n)), ("bij->bj", ()),
                 ("bij,bij->bi", None), ("bij,jk->ikb", (n, m))]  # fmt: skip
    rule, shape = g.one(rules)
    if shape is None:
        g.add("Einsum", value, value, equation=rule)
    elif shape == ():
        g.add("Einsum", value, equation=rule)
    else:
        g.add("Einsum", value, _weights(g, value.dtype, shape), equation=rule)


def recurrent(g: Graph) -> None:
    op = g.one(("LSTM", "GRU", "RNN"))
    value = g.pick(("float32", "float32", "float64"), (3,))
    _, _, width = value.shape
    if isinstance(width, str) or not width:
        raise Refused
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    hidden = g.one((1, 3, 5, 8))
    direction = g.one(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    w = _weights(g, value.dtype, (ways, gates * hidden, width))
    r = _weights(g, value.dtype, (ways, gates * hidden, hidden))
    b = _weights(g, value.dtype, (ways, 2 * gates * hidden)) if g.chance(0.6) else None
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = g.number(0, 1)
    g.add_all(op, value, w, r, b, results=3 if op == "LSTM" else 2, **attributes)


def quantised(g: Graph) -> None:
    value = g.pick(("float32",))
    dtype = g.one(("uint8", "int8"))
    zero = g.constant(g.number(0, 5), dtype)
    scale = g.constant(g.one((0.05, 0.1, 0.031)), "float32")
    small = g.add("QuantizeLinear", value, scale, zero)
    kind = g.number(0, 3)
    if kind == 0 and value.rank >= 2:
        depth, width = value.extent(-1), g.one(WIDTHS)
        weights = g.constant(g.rng.integers(0, 9, (depth, width)), g.one(("uint8", "int8")))
        if g.chance(0.5):
            found = g.add("MatMulInteger", small, weights, zero)
            g.add("Cast", found, to=TensorProto.FLOAT)
        else:
            right = g.constant(0.1, "float32"), g.constant(1, weights.dtype)
            found = g.add("QLinearMatMul", small, scale, zero, weights, *right, scale, zero)
            g.add("DequantizeLinear", found, scale, zero)
    elif kind == 1 and value.rank in (3, 4) and value.static and min(value.extents[2:]) > 1:
        made = g.one((1, 3, 8))
        window = [2] * (value.rank - 2)
        shape = (made, value.extent(1), *window)
        weights = g.constant(g.rng.integers(0, 9, shape), dtype)
        found = g.add("ConvInteger", small, weights, zero)
        g.add("Cast", found, to=TensorProto.FLOAT)
    else:
        g.add("DequantizeLinear", small, scale, zero)
