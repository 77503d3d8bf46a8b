"""One direction of a recurrent layer: its weights, and the kernels that its steps are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, apply
from explorer.ir.shapes.dims import Dim, product
from explorer.ops.arithmetic.activations import Activation, of_expressions
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Lowering, Nest, shape_of

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def usual(op: str) -> tuple[str, ...]:
    """The activations of one direction where none are named."""
    return {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}.get(op, ("Tanh",))


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer being lowered: its sizes, and for each direction whether it runs from the end."""

    low: Lowering
    steps: Dim
    batch: Dim
    hidden: int
    ways: tuple[bool, ...]
    functions: tuple[Activation, ...]

    @property
    def by_batch(self) -> bool:
        """Whether the batch is the outermost dim."""
        return bool(self.low.site.integer("layout"))

    @property
    def lengths(self) -> Var | None:
        """The lengths of the batch's sequences, where they are given."""
        return self.low.site.arg(4) if self.low.site.has(4) else None


@dataclass(frozen=True, slots=True)
class Step:
    """A step: what names of its values end with, and its number, or the value that holds that."""

    tag: str
    number: int | Var

    def index(self, nest: Nest) -> Expr:
        """Its number, of int32."""
        if isinstance(self.number, int):
            return Const(self.number, "int32")
        return call("cast_int32", nest.load(self.number, "step", ()))


@dataclass(frozen=True, slots=True)
class State:
    """What a step hands on; None is zero. Only an LSTM has a cell."""

    h: Var | None = None
    c: Var | None = None

    @property
    def values(self) -> tuple[Var, ...]:
        """Those that there are."""
        return tuple(v for v in (self.h, self.c) if v is not None)


class Direction:
    """One direction of one layer: its weights, and the bindings of its steps."""

    def __init__(self, layer: Layer, way: int) -> None:
        self.layer, self.low, self.site, self.way = layer, layer.low, layer.low.site, way
        self.batch, self.hidden = layer.batch, layer.hidden
        self.gates, self.dtype = GATES[self.site.op], self.site.dtype()
        self.tag = f"d{way}." if len(layer.ways) > 1 else ""
        each = len(usual(self.site.op))
        self.functions = layer.functions[way * each : (way + 1) * each]
        self.clip = self.site.number("clip", 0.0) if "clip" in self.site.attrs else None

    @property
    def from_end(self) -> bool:
        """Whether steps run backwards; those of sequences with lengths are read in reverse."""
        return self.layer.ways[self.way] and self.layer.lengths is None

    @property
    def axes(self) -> list[Axis]:
        """The axes of a state."""
        return [Axis("b", self.batch), Axis("j", self.hidden)]

    def temporary(self, hint: str, *shape: Dim) -> Var:
        """A new value."""
        return self.low.temporary(f"{self.tag}{hint}", shape, self.dtype)

    def state(self, hint: str) -> Var:
        """A new state."""
        return self.temporary(hint, self.batch, self.hidden)

    def act(self, which: int, x: Expr) -> Expr:
        """A gate's activation, of a value within the limits of `clip`."""
        if self.clip is not None:
            x = call(
                "max", call("min", x, self.clip, dtype=self.dtype), -self.clip, dtype=self.dtype
            )
        return self.plain(which, x)

    def plain(self, which: int, x: Expr) -> Expr:
        """An activation."""
        found: Expr = self.functions[which](of_expressions(self.dtype), x)
        return found

    # Inputs: x[t] @ W + b, for all steps at once.

    def inputs(self) -> Var:
        """What the inputs give to all gates; GRU keeps its recurrent bias apart."""
        site, width = self.site, self.gates * self.hidden
        nest = self.low.nest(f"{site.op.lower()}_inputs")
        t, b, j = Axis("t", self.layer.steps), Axis("b", self.batch), Axis("j", width)
        k = Axis("k", site.shape(0)[2])
        step = self.read_step(nest)
        index = (var("b"), step, var("k")) if self.layer.by_batch else (step, var("b"), var("k"))
        x = Read(nest.tensor(site.arg(0), "x"), index)
        w = Read(nest.tensor(site.arg(1), "w"), (Affine((), self.way), var("j"), var("k")))
        out = self.temporary("inputs", self.layer.steps, self.batch, width)
        biased = site.has(3)
        shape = shape_of(out)
        nest.compute(
            "acc" if biased else "y", shape, self.dtype, [t, b, j], apply("mul", x, w), [k], "sum"
        )
        if biased:
            total: Expr = Read("acc", (var("t"), var("b"), var("j")))
            for bias in self.biases(nest):
                total = call("add", total, bias)
            nest.compute("y", shape, self.dtype, [t, b, j], total)
        return nest.into(out)

    def read_step(self, nest: Nest) -> Affine | Expr:
        """Which input a step reads: of sequences with lengths, the last first in reverse."""
        if self.layer.lengths is None or not self.layer.ways[self.way]:
            return var("t")
        length = nest.load(self.layer.lengths, "length", (var("b"),))
        step = call("cast_int32", IndexValue(var("t")))
        back = call("sub", call("sub", length, Const(1, "int32")), step)
        return call("where", call("lt", step, length), back, step)

    def biases(self, nest: Nest) -> list[Expr]:
        """What is added to the inputs of gate j: both biases, or their sum where it is known."""
        width, known = self.gates * self.hidden, self.low.array(self.site.arg(3))
        both = self.site.op != "GRU"
        if known is not None and both:
            row = known[self.way]
            total = self.low.constant(row[:width] + row[width:], f"{self.tag}bias")
            return [nest.load(total, "bias", (var("j"),))]
        name = nest.tensor(self.site.arg(3), "bias")
        starts = (0, width) if both else (0,)
        return [Read(name, (Affine((), self.way), var("j") + s)) for s in starts]

    # States.

    def start(self, position: int, name: str) -> Var | None:
        """The initial state, None where it is zero."""
        if not self.site.has(position):
            return None
        given = self.site.arg(position)
        known = self.low.array(given)
        if known is not None and not np.any(known):
            return None
        out = self.state(name)
        if not self.layer.by_batch or len(self.layer.ways) == 1:
            return self.low.view(out, given, product((self.way, self.batch, self.hidden)))
        nest = self.low.nest("start")
        place = (var("b"), Affine((), self.way), var("j"))
        return self.emit(nest, out, Read(nest.tensor(given, "x"), place))

    def zeros(self, name: str) -> Var:
        """A state of zeros."""
        return self.emit(self.low.nest("zeros"), self.state(name), Const(0.0, self.dtype))

    def begin(self) -> State:
        """The state before the first step, zeros where none is given."""
        h = self.start(5, "h") or self.zeros("h")
        return State(h, (self.start(6, "c") or self.zeros("c")) if self.site.op == "LSTM" else None)

    def begin_unrolled(self) -> State:
        """The same, but no h where it is zero and R is finite: 0 @ R would add nothing."""
        h = self.start(5, "h")
        if h is None and not self._finite(self.low.array(self.site.arg(2))):
            h = self.zeros("h")
        return State(h, self.start(6, "c") if self.site.op == "LSTM" else None)

    @staticmethod
    def _finite(known: np.ndarray | None) -> bool:
        return known is not None and bool(np.isfinite(known).all())

    def kept(self, nest: Nest, new: Expr, before: Var | None, step: Step) -> Expr:
        """A state after a step: as it was where the sequence has ended."""
        if self.layer.lengths is None:
            return new
        length = nest.load(self.layer.lengths, "length", (var("b"),))
        going = call("gt", length, step.index(nest))
        old = Const(0.0, self.dtype) if before is None else self.element(nest, before, "before")
        return call("where", going, new, old)

    # Gates.

    def recurrent(
        self,
        h: Var,
        add: Var | None,
        step: Step,
        first: int = 0,
        count: int = 0,
        hint: str = "gates",
    ) -> Var:
        """h @ R for `count` gates from `first` on, plus the inputs of the step or the bias."""
        low, site = self.low, self.site
        width, skip = (count or self.gates) * self.hidden, first * self.hidden
        nest = low.nest(f"{site.op.lower()}_{hint}")
        b, j, k = Axis("b", self.batch), Axis("j", width), Axis("k", self.hidden)
        left = Read(nest.tensor(h, "h"), (var("b"), var("k")))
        right = Read(
            nest.tensor(site.arg(2), "r"), (Affine((), self.way), var("j") + skip, var("k"))
        )
        out = self.temporary(f"{hint}{step.tag}", self.batch, width)
        more: Expr | None = None
        if add is not None:
            more = Read(nest.tensor(add, "inputs"), (var("b"), var("j") + skip))
        elif site.has(3):
            name = nest.tensor(site.arg(3), "bias")
            whole = self.gates * self.hidden
            more = Read(name, (Affine((), self.way), var("j") + (whole + skip)))
        product_ = apply("mul", left, right)
        acc = "y" if more is None else "acc"
        nest.compute(acc, shape_of(out), self.dtype, [b, j], product_, [k], "sum")
        if more is not None:
            total = call("add", Read("acc", (var("b"), var("j"))), more)
            nest.compute("y", shape_of(out), self.dtype, [b, j], total)
        return nest.into(out)

    def gate(self, nest: Nest, value: Var, name: str, which: int) -> Expr:
        """One gate of the values of all gates."""
        return Read(nest.tensor(value, name), (var("b"), var("j") + which * self.hidden))

    def element(self, nest: Nest, value: Var, name: str) -> Expr:
        """An element of a state."""
        return Read(nest.tensor(value, name), (var("b"), var("j")))

    def peephole(self, nest: Nest, x: Expr, c: Expr, which: int) -> Expr:
        """A gate's value with what the cell state adds to it."""
        if not self.site.has(7):
            return x
        place = (Affine((), self.way), var("j") + which * self.hidden)
        weight = nest.load(self.site.arg(7), "peephole", place)
        return call("add", x, call("mul", weight, c))

    def emit(self, nest: Nest, out: Var, expr: Expr) -> Var:
        """Bind a state."""
        nest.compute("y", shape_of(out), self.dtype, self.axes, expr)
        return nest.into(out)
