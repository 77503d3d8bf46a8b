"""Small programs of kernels, written by hand: each value is a matrix or a vector over n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from explorer.frontends.model import Model
from explorer.ir.affine import Affine, var
from explorer.ir.calls import Expr, KernelCall, LibraryCall, MatchCast, ShapeOf, Var, View
from explorer.ir.dims import Dim, Shape, ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import (
    Axis,
    Compute,
    Const,
    IndexValue,
    Kernel,
    Read,
    TensorSpec,
    apply,
    at,
    axes,
)
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, ShapeType, Tensor

n = symbol("n")
ENV = ShapeEnv((SymbolBound("n", 0, None, 4), SymbolBound("m", 0, None, 3)))


def tensor(*dims: Dim) -> Tensor:
    return Tensor(tuple(dims), "float32")


@dataclass
class Body:
    """The bindings of a function while it is written; every method binds one more value."""

    bindings: list[Binding] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    env: ShapeEnv = ENV

    def bind(self, expr: Expr, type: Annotation, name: str = "") -> Var:
        made = Var(name or f"v{len(self.bindings)}", type)
        self.bindings.append(Binding((made,), expr, frozenset({f"op_{made.name}"})))
        return made

    def constant(self, array: np.ndarray, name: str = "") -> Var:
        made = Constant(array)
        name = name or f"c{len(self.constants)}"
        self.constants[name] = made
        return Var(name, made.type)

    def kernel(
        self, word: str, args: Sequence[Var], shape: Shape, *computes: Compute, **inner: Shape
    ) -> Var:
        """Inputs are a, b, ...; the last compute writes y."""
        names = "abcdef"[: len(args)]
        specs = [TensorSpec(x, v.type.dims) for x, v in zip(names, args, strict=True)]
        specs += [TensorSpec(t, s) for t, s in inner.items()]
        constants = {x for x, v in zip(names, args, strict=True) if v.name in self.constants}
        made = tuple(replace(c, origin=frozenset({f"op_v{len(self.bindings)}"})) for c in computes)
        kernel = Kernel(
            word, (*specs, TensorSpec("y", shape)), made, tuple(names), ("y",), frozenset(constants)
        )
        return self.bind(KernelCall(kernel, tuple(args)), tensor(*shape))

    def map(self, op: str, a: Var) -> Var:
        over = axes("i", a.type.dims)
        return self.kernel(op, [a], a.type.dims, Compute("y", over, apply(op, at("a", over))))

    def zip(self, op: str, a: Var, b: Var) -> Var:
        """`b` is broadcast along the leading dims of `a`."""
        over = axes("i", a.type.dims)
        last = over[len(over) - len(b.type.dims) :]
        expr = apply(op, at("a", over), at("b", last))
        return self.kernel(op, [a, b], a.type.dims, Compute("y", over, expr))

    def transpose(self, a: Var) -> Var:
        rows, columns = a.type.dims
        i, j = Axis("i", columns), Axis("j", rows)
        load = Read("a", (var("j"), var("i")))
        return self.kernel("transpose", [a], (columns, rows), Compute("y", (i, j), load))

    def expand(self, a: Var, rows: Dim) -> Var:
        over = axes("i", (rows, *a.type.dims))
        return self.kernel(
            "expand", [a], (rows, *a.type.dims), Compute("y", over, at("a", over[1:]))
        )

    def total(self, a: Var, combiner: str = "sum") -> Var:
        *lead, last = axes("i", a.type.dims)
        load = at("a", (*lead, last))
        made = Compute("y", tuple(lead), load, (last,), combiner)
        return self.kernel(combiner, [a], a.type.dims[:-1], made)

    def matmul(self, a: Var, b: Var) -> Var:
        (rows, depth), columns = a.type.dims, b.type.dims[1]
        i, j, k = Axis("i", rows), Axis("j", columns), Axis("k", depth)
        expr = apply("mul", at("a", (i, k)), at("b", (k, j)))
        return self.kernel(
            "matmul", [a, b], (rows, columns), Compute("y", (i, j), expr, (k,), "sum")
        )

    def softmax(self, a: Var) -> Var:
        (i, j), lead = axes("i", a.type.dims), a.type.dims[:1]
        x = at("a", (i, j))
        return self.kernel(
            "softmax",
            [a],
            a.type.dims,
            Compute("top", (i,), x, (j,), "max"),
            Compute("e", (i, j), apply("exp", apply("sub", x, at("top", (i,))))),
            Compute("total", (i,), at("e", (i, j)), (j,), "sum"),
            Compute("y", (i, j), apply("div", at("e", (i, j)), at("total", (i,)))),
            top=lead,
            e=a.type.dims,
            total=lead,
        )

    def pad(self, a: Var) -> Var:
        """One row of zeros before, one after."""
        rows, columns = a.type.dims
        over = axes("i", (rows + 2, columns))
        load = Read("a", (var("i0") + -1, var("i1")), 0.0)
        return self.kernel("pad", [a], (rows + 2, columns), Compute("y", over, load))

    def full(self, *shape: Dim, value: float = 1.0) -> Var:
        return self.kernel("full", [], shape, Compute("y", axes("i", shape), Const(value)))

    def triu(self, a: Var) -> Var:
        i, j = over = axes("i", a.type.dims)
        below = apply("gt", IndexValue(var(i.name)), IndexValue(var(j.name)))
        expr = apply("where", below, 0.0, at("a", over))
        return self.kernel("triu", [a], a.type.dims, Compute("y", over, expr))

    def broadcast(self, a: Var) -> Var:
        """Two dims of extent 1 in front."""
        rows, columns = a.type.dims
        over = axes("i", (1, 1, rows, columns))
        made = Compute("y", over, at("a", over[2:]))
        return self.kernel("broadcast", [a], (1, 1, rows, columns), made)

    def mean(self, a: Var) -> Var:
        """Of each column: a sum, then what is made of it."""
        rows, columns = a.type.dims
        i, j = Axis("i", columns), Axis("j", rows)
        total = Compute("total", (i,), at("a", (j, i)), (j,), "sum")
        share = Compute("y", (i,), apply("mul", at("total", (i,)), 0.25))
        return self.kernel("mean", [a], (columns,), total, share, total=(columns,))

    def put(self, a: Var, b: Var) -> Var:
        """The first row of `b` in the memory of `a`."""
        over = axes("i", (1, a.type.dims[1]))
        kernel = Kernel(
            "put",
            (*(TensorSpec(t, a.type.dims) for t in "aby"),),
            (Compute("y", over, at("b", over), store=(Affine(), var("i1"))),),
            ("a", "b"),
            ("y",),
            updates=(("y", "a"),),
        )
        return self.bind(KernelCall(kernel, (a, b)), a.type)

    def view(self, a: Var, *dims: Dim) -> Var:
        return self.bind(View(a), tensor(*dims))

    def library(self, a: Var, function: str = "Tanh") -> Var:
        return self.bind(LibraryCall("onnx", function, (a,), (("opset", 17),)), a.type)

    def match_cast(self, a: Var, type: Annotation) -> Var:
        return self.bind(MatchCast(a), type)

    def shape(self, *dims: Dim) -> Var:
        return self.bind(ShapeOf(tuple(dims)), ShapeType(tuple(dims)))

    def program(self, params: Sequence[Var], *outputs: Var) -> Program:
        names = tuple(v.name for v in outputs)
        main = Function("main", tuple(params), tuple(self.bindings), tuple(outputs), names)
        return Program((main,), self.constants, self.env, stage=Stage.LEGALIZED)


def model(program: Program) -> Model:
    """A program as if a frontend had given it."""
    return Model("by_hand", "", program, repr(program.functions).encode())
