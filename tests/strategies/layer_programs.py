"""Random small programs: elementwise operators, reductions, products, convolutions and pools, each
of values made before.
"""

from __future__ import annotations

from math import prod

import numpy as np

from explorer.ir.calls import Attrs, OpCall, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.types import Tensor
from tests.strategies.choices import Choices, generator

UNARY = ("Relu", "Exp", "Tanh", "Neg", "Sigmoid", "Sqrt")
BINARY = ("Add", "Mul", "Sub", "Max")
REDUCED = ("ReduceSum", "ReduceMean", "ReduceMax")

Shape = tuple[int, ...]


class Sketch:
    """A program under construction, with the shape of every value."""

    def __init__(self, shape: Shape, symbolic: bool = False) -> None:
        first: tuple[Dim, ...] = (symbol("n"), *shape[1:]) if symbolic else shape
        self.params = [Var("x", Tensor(first, "float32"))]
        self.shapes: dict[Var, Shape] = {self.params[0]: shape}
        self.env = ShapeEnv((SymbolBound("n", 1, None, shape[0]),) if symbolic else ())
        self.symbolic = symbolic
        self.bindings: list[Binding] = []
        self.constants: dict[str, Constant] = {}

    def op(self, op: str, *args: Var, shape: Shape, attrs: Attrs = ()) -> Var:
        """The value of one more operator."""
        number = len(self.bindings)
        out, name = Var(f"v{number}", Tensor()), f"{op}_{number}"
        self.bindings.append(Binding((out,), OpCall(op, args, attrs), frozenset((name,))))
        self.shapes[out] = shape
        return out

    def constant(self, value: np.ndarray) -> Var:
        """Weights."""
        name = f"w{len(self.constants)}"
        self.constants[name] = Constant(value)
        return Var(name, self.constants[name].type)

    def weights(self, *shape: int) -> Var:
        """Small random weights, so that no chain of products overflows."""
        values = np.random.default_rng(len(self.constants)).standard_normal(shape)
        return self.constant((values / max(1.0, prod(shape[1:]) ** 0.5)).astype(np.float32))

    def program(self, outputs: tuple[Var, ...]) -> Program:
        """All of it."""
        names = tuple(f"y{i}" for i in range(len(outputs)))
        main = Function("main", tuple(self.params), tuple(self.bindings), outputs, names)
        sources = tuple(SourceOp(next(iter(b.origin)), b.expr.op) for b in self.bindings)  # type: ignore[union-attr]
        return Program((main,), self.constants, self.env, sources)


@generator
def programs(c: Choices, most: int = 7) -> Program:
    """A program of a few operators over one input; every value that nothing reads is an output."""
    image = c.chance()
    side = c.one((1, 3, 5, 8))
    wide = c.one((1, 2, 8, 16))
    shape: Shape = (1, wide, side, side) if image else (c.one((1, 3, 7)), side, wide)
    sketch = Sketch(shape, symbolic=not image and c.chance())
    for _ in range(c.number(2, most)):
        _grow(c, sketch)
    read = {a for b in sketch.bindings for a in b.reads}
    last = [b.var for b in sketch.bindings if b.var not in read]
    inner = [b.var for b in sketch.bindings if b.var in read]
    shown = c.some(inner, 0, 1) if inner else []
    return sketch.program((*last, *shown))


def _grow(c: Choices, sketch: Sketch) -> None:
    values = list(sketch.shapes)[-4:]
    x = c.one(values)
    shape = sketch.shapes[x]
    kind = c.one(("unary", "binary", "scale", "reduce", "softmax", "sums", "pool"))
    if kind == "binary":
        same = [v for v in values if sketch.shapes[v] == shape]
        sketch.op(c.one(BINARY), x, c.one(same), shape=shape)
    elif kind == "scale":
        over = c.one((shape[-1:], (1,) * (len(shape) - 1) + shape[-1:]))
        sketch.op(c.one(BINARY), x, sketch.weights(*over), shape=shape)
    elif kind == "reduce":
        attrs = (("axes", (-1,)), ("keepdims", 1))
        op = c.one(REDUCED[1:])
        mean = sketch.op(op, x, shape=(*shape[:-1], 1), attrs=attrs)
        sketch.op("Sub", x, mean, shape=shape)
    elif kind == "softmax":
        sketch.op("Softmax", x, shape=shape, attrs=(("axis", -1),))
    elif kind == "sums":
        _sums(c, sketch, x, shape)
    elif kind == "pool" and len(shape) == 4:
        attrs = (("kernel_shape", (3, 3)), ("pads", (1, 1, 1, 1)), ("strides", (1, 1)))
        op = c.one(("MaxPool", "AveragePool"))
        sketch.op(op, x, shape=shape, attrs=attrs)
    else:
        sketch.op(c.one(UNARY[:5]), x, shape=shape)


def _sums(c: Choices, sketch: Sketch, x: Var, shape: Shape) -> None:
    """A convolution of an image, plain or depthwise; else a product with weights."""
    if len(shape) < 4:
        wide = c.one((1, 5, 16))
        sketch.op("MatMul", x, sketch.weights(shape[-1], wide), shape=(*shape[:-1], wide))
        return
    kernel, stride = c.one(((1, 1), (3, 1), (3, 2)))
    groups = c.one((1, shape[1]))
    wide = shape[1] if groups > 1 else c.one((3, 8, 16))
    pad = kernel // 2
    size = tuple((n + 2 * pad - kernel) // stride + 1 for n in shape[2:])
    attrs = (
        ("group", groups), ("kernel_shape", (kernel, kernel)), ("pads", (pad,) * 4),
        ("strides", (stride, stride)),
    )  # fmt: skip
    weight = sketch.weights(wide, shape[1] // groups, kernel, kernel)
    sketch.op("Conv", x, weight, shape=(1, wide, *size), attrs=attrs)
