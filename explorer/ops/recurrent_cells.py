"""One direction of a recurrent layer: activations, weights, and the kernels of its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, product
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read, apply
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.types import DType
from explorer.ops.elementwise import ACTIVATIONS, F, call, of_expressions
from explorer.ops.lowering import Lowering, Nest, shape_of


def of_arrays(dtype: DType) -> F:
    """Return scalar functions of arrays; numbers are of `dtype`."""
    return lambda op, *args: SCALAR_FUNCTIONS[op].numpy(
        *(np.asarray(a, dtype) if isinstance(a, (int, float)) else a for a in args)
    )


@dataclass(frozen=True, slots=True)
class Activation:
    """A function by ONNX's name, with its parameters."""

    name: str
    alpha: float
    beta: float

    def __call__(self, f: F, x: Any) -> Any:
        """Apply the function to x."""
        return ACTIVATIONS[self.name].function(f, x, self.alpha, self.beta)


def activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> tuple[Activation, ...]:
    """Return the functions; those with a parameter take the next one of the list.

    Raises KeyError for an unknown name.
    """
    alphas, betas, result = list(alphas), list(betas), []
    for name in names:
        plain = name.lower()
        rule = ACTIVATIONS[plain]
        alpha = alphas.pop(0) if rule.alpha is not None and alphas else rule.alpha or 0.0
        beta = betas.pop(0) if rule.beta is not None and betas else rule.beta or 0.0
        result.append(Activation(plain, float(alpha), float(beta)))
    return tuple(result)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LENGTHS = 4  # the position of the lengths of the batch's sequences


def default_activations(op: str) -> tuple[str, ...]:
    """Return the default activations of one direction."""
    return {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}.get(op, ("Tanh",))


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer being lowered: its sizes, and for each direction whether it runs backwards."""

    low: Lowering
    steps: Dim
    batch: Dim
    hidden: int
    backwards: tuple[bool, ...]
    functions: tuple[Activation, ...]

    @property
    def axes(self) -> list[Axis]:
        """The axes of a state."""
        return [Axis("b", self.batch), Axis("j", self.hidden)]

    @property
    def by_batch(self) -> bool:
        """Return True if the batch is the outermost dim."""
        return bool(self.low.site.integer("layout"))

    @property
    def lengths(self) -> Var | None:
        """The lengths of the batch's sequences, or None."""
        return self.low.site.arg(LENGTHS) if self.low.site.has(LENGTHS) else None


@dataclass(frozen=True, slots=True)
class DirectionStep:
    """A step: the suffix of its values' names, and its number, or the value that holds that."""

    tag: str
    number: int | Var

    def index(self, nest: Nest) -> Expr:
        """Return its number, as int32."""
        if isinstance(self.number, int):
            return Const(self.number, "int32")
        return call("cast_int32", nest.load(self.number, "step", ()))


@dataclass(frozen=True, slots=True)
class State:
    """The state after a step; None is zero. Only an LSTM has a cell."""

    h: Var | None = None
    c: Var | None = None

    @property
    def values(self) -> tuple[Var, ...]:
        """The values that are not None."""
        return tuple(v for v in (self.h, self.c) if v is not None)


class Direction:
    """One direction of one layer: its weights, and the bindings of its steps."""

    def __init__(self, layer: Layer, number: int) -> None:
        """Read the sizes, gates and activations of direction number `number`."""
        self.layer, self.low, self.site, self.number = layer, layer.low, layer.low.site, number
        self.batch, self.hidden = layer.batch, layer.hidden
        self.gates, self.dtype = GATES[self.site.op], self.site.dtype()
        self.tag = f"d{number}." if len(layer.backwards) > 1 else ""
        each = len(default_activations(self.site.op))
        self.functions = layer.functions[number * each : (number + 1) * each]
        self.clip = self.site.number("clip", 0.0) if "clip" in self.site.attrs else None

    @property
    def from_end(self) -> bool:
        """Return True if steps run backwards; sequences with lengths are reversed instead."""
        return self.layer.backwards[self.number] and self.layer.lengths is None

    @property
    def axes(self) -> list[Axis]:
        """The axes of a state."""
        return self.layer.axes

    def temporary(self, hint: str, *shape: Dim) -> Var:
        """Return a new value."""
        return self.low.temporary(f"{self.tag}{hint}", shape, self.dtype)

    def state(self, hint: str) -> Var:
        """Return a new state."""
        return self.temporary(hint, self.batch, self.hidden)

    def act(self, which: int, x: Expr) -> Expr:
        """Return a gate's activation of a value clipped to `clip`."""
        if self.clip is not None:
            x = call(
                "max", call("min", x, self.clip, dtype=self.dtype), -self.clip, dtype=self.dtype
            )
        return self.plain(which, x)

    def plain(self, which: int, x: Expr) -> Expr:
        """Return an activation without clipping."""
        activated: Expr = self.functions[which](of_expressions(self.dtype), x)
        return activated

    # Inputs: x[t] @ W + b, for all steps at once.

    def inputs(self) -> Var:
        """Multiply the inputs of all steps for all gates; GRU adds its recurrent bias later."""
        site, width = self.site, self.gates * self.hidden
        nest = self.low.nest(f"{site.op.lower()}_inputs")
        t, b, j = Axis("t", self.layer.steps), Axis("b", self.batch), Axis("j", width)
        k = Axis("k", site.shape(0)[2])
        step = self.read_step(nest)
        index = (var("b"), step, var("k")) if self.layer.by_batch else (step, var("b"), var("k"))
        x = Read(nest.tensor(site.arg(0), "x"), index)
        w = Read(nest.tensor(site.arg(1), "w"), (Affine((), self.number), var("j"), var("k")))
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
        """Return the input that a step reads.

        A reversed sequence with a length starts at its end.
        """
        if self.layer.lengths is None or not self.layer.backwards[self.number]:
            return var("t")
        length = nest.load(self.layer.lengths, "length", (var("b"),))
        step = call("cast_int32", IndexValue(var("t")))
        back = call("sub", call("sub", length, Const(1, "int32")), step)
        return call("where", call("lt", step, length), back, step)

    def biases(self, nest: Nest) -> list[Expr]:
        """Return the terms added to the inputs of gate j: both biases, or their constant sum."""
        width, constant = self.gates * self.hidden, self.low.array(self.site.arg(3))
        both = self.site.op != "GRU"
        if constant is not None and both:
            row = constant[self.number]
            total = self.low.constant(row[:width] + row[width:], f"{self.tag}bias")
            return [nest.load(total, "bias", (var("j"),))]
        name = nest.tensor(self.site.arg(3), "bias")
        starts = (0, width) if both else (0,)
        return [Read(name, (Affine((), self.number), var("j") + s)) for s in starts]

    # States.

    def start(self, position: int, name: str) -> Var | None:
        """Return the initial state, or None if it is zero."""
        if not self.site.has(position):
            return None
        initial = self.site.arg(position)
        constant = self.low.array(initial)
        if constant is not None and not np.any(constant):
            return None
        out = self.state(name)
        if not self.layer.by_batch or len(self.layer.backwards) == 1:
            return self.low.view(out, initial, product((self.number, self.batch, self.hidden)))
        nest = self.low.nest("start")
        place = (var("b"), Affine((), self.number), var("j"))
        return self.emit(nest, out, Read(nest.tensor(initial, "x"), place))

    def zeros(self, name: str) -> Var:
        """Bind a state of zeros."""
        return self.emit(self.low.nest("zeros"), self.state(name), Const(0.0, self.dtype))

    def begin(self) -> State:
        """Return the state before the first step, zeros by default."""
        h = self.start(5, "h") or self.zeros("h")
        return State(h, (self.start(6, "c") or self.zeros("c")) if self.site.op == "LSTM" else None)

    def begin_unrolled(self) -> State:
        """Return the state before the first step; h is None if it is zero and R is finite.

        Then 0 @ R would add nothing.
        """
        h = self.start(5, "h")
        if h is None and not self._finite(self.low.array(self.site.arg(2))):
            h = self.zeros("h")
        return State(h, self.start(6, "c") if self.site.op == "LSTM" else None)

    @staticmethod
    def _finite(constant: np.ndarray | None) -> bool:
        return constant is not None and bool(np.isfinite(constant).all())

    def masked(self, nest: Nest, new: Expr, before: Var | None, step: DirectionStep) -> Expr:
        """Return a state after a step: unchanged if the sequence has ended."""
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
        step: DirectionStep,
        first: int = 0,
        count: int = 0,
        hint: str = "gates",
    ) -> Var:
        """Multiply h @ R for `count` gates from `first` on, plus the step's inputs or the bias."""
        low, site = self.low, self.site
        width, skip = (count or self.gates) * self.hidden, first * self.hidden
        nest = low.nest(f"{site.op.lower()}_{hint}")
        b, j, k = Axis("b", self.batch), Axis("j", width), Axis("k", self.hidden)
        left = Read(nest.tensor(h, "h"), (var("b"), var("k")))
        right = Read(
            nest.tensor(site.arg(2), "r"), (Affine((), self.number), var("j") + skip, var("k"))
        )
        out = self.temporary(f"{hint}{step.tag}", self.batch, width)
        more: Expr | None = None
        if add is not None:
            more = Read(nest.tensor(add, "inputs"), (var("b"), var("j") + skip))
        elif site.has(3):
            name = nest.tensor(site.arg(3), "bias")
            all_gates = self.gates * self.hidden
            more = Read(name, (Affine((), self.number), var("j") + (all_gates + skip)))
        product_ = apply("mul", left, right)
        acc = "y" if more is None else "acc"
        nest.compute(acc, shape_of(out), self.dtype, [b, j], product_, [k], "sum")
        if more is not None:
            total = call("add", Read("acc", (var("b"), var("j"))), more)
            nest.compute("y", shape_of(out), self.dtype, [b, j], total)
        return nest.into(out)

    def gate(self, nest: Nest, value: Var, name: str, which: int) -> Expr:
        """Load one gate of the values of all gates."""
        return Read(nest.tensor(value, name), (var("b"), var("j") + which * self.hidden))

    def element(self, nest: Nest, value: Var, name: str) -> Expr:
        """Load an element of a state."""
        return Read(nest.tensor(value, name), (var("b"), var("j")))

    def peephole(self, nest: Nest, x: Expr, c: Expr, which: int) -> Expr:
        """Add the peephole connection of the cell state to a gate's value."""
        if not self.site.has(7):
            return x
        place = (Affine((), self.number), var("j") + which * self.hidden)
        weight = nest.load(self.site.arg(7), "peephole", place)
        return call("add", x, call("mul", weight, c))

    def emit(self, nest: Nest, out: Var, expr: Expr) -> Var:
        """Bind a state."""
        nest.compute("y", shape_of(out), self.dtype, self.axes, expr)
        return nest.into(out)


# One step in one direction: from a state to the next.


def one_step(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Return the state after a step; `x` is its inputs, multiplied and biased for all gates."""
    return STEPS[d.site.op](d, x, state, step)


def _rnn(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    h = state.h
    gates = x if h is None else d.recurrent(h, x, step)
    nest = d.low.nest("rnn_cell")
    new = d.masked(nest, d.act(0, d.gate(nest, gates, "gates", 0)), h, step)
    return State(d.emit(nest, d.state(f"h{step.tag}"), new))


def _lstm(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Do a step of an LSTM; the gates' order is i, o, f, c."""
    h, c = state.h, state.c
    gates = x if h is None else d.recurrent(h, x, step)
    nest = d.low.nest("lstm_cell")
    # A zero cell is multiplied too: a gate that is NaN makes it NaN.
    old: Expr = Const(0.0, d.dtype) if c is None else d.element(nest, c, "c")
    enter = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 0), old, 0))
    new = call("mul", enter, d.act(1, d.gate(nest, gates, "gates", 3)))
    stay: Expr = call("sub", Const(1.0, d.dtype), enter)
    if not d.site.integer("input_forget"):
        stay = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 2), old, 2))
    new = call("add", call("mul", stay, old), new)
    cell, hidden, axes = d.state(f"c{step.tag}"), d.state(f"h{step.tag}"), d.axes
    nest.compute("new", shape_of(cell), d.dtype, axes, d.masked(nest, new, c, step))
    now = Read("new", (var("b"), var("j")))
    leave = d.act(0, d.peephole(nest, d.gate(nest, gates, "gates", 1), now, 1))
    out: Expr = call("mul", leave, d.plain(2, now))
    nest.compute("y", shape_of(cell), d.dtype, axes, d.masked(nest, out, h, step))
    nest.bind_outputs({"new": cell, "y": hidden})
    return State(hidden, cell)


def _gru(d: Direction, x: Var, state: State, step: DirectionStep) -> State:
    """Do a step of a GRU; the gates' order is z, r, h."""
    h = state.h or d.zeros("zeros")
    after = d.site.integer("linear_before_reset")
    return State((_gru_after if after else _gru_before)(d, x, h, step))


def _gru_after(d: Direction, x: Var, h: Var, step: DirectionStep) -> Var:
    """Do a step whose reset gate is applied after the product."""
    gates = d.recurrent(h, None, step)
    nest = d.low.nest("gru_cell")
    z, r = (
        d.act(0, call("add", d.gate(nest, x, "inputs", g), d.gate(nest, gates, "gates", g)))
        for g in (0, 1)
    )
    inner = call("mul", r, d.gate(nest, gates, "gates", 2))
    new = d.act(1, call("add", d.gate(nest, x, "inputs", 2), inner))
    return _gru_mixed(d, nest, z, new, h, step)


def _gru_before(d: Direction, x: Var, h: Var, step: DirectionStep) -> Var:
    """Do a step whose reset gate is applied to the state, before the product."""
    gates = d.recurrent(h, None, step, 0, 2)
    nest = d.low.nest("gru_reset")
    z, r = (
        d.act(0, call("add", d.gate(nest, x, "inputs", g), d.gate(nest, gates, "gates", g)))
        for g in (0, 1)
    )
    update, reset = d.state(f"z{step.tag}"), d.state(f"reset{step.tag}")
    nest.compute("z", shape_of(update), d.dtype, d.axes, z)
    nest.compute("y", shape_of(reset), d.dtype, d.axes, call("mul", r, d.element(nest, h, "h")))
    nest.bind_outputs({"z": update, "y": reset})
    inner = d.recurrent(reset, None, step, 2, 1, "new")
    nest = d.low.nest("gru_cell")
    new = d.act(1, call("add", d.gate(nest, x, "inputs", 2), d.element(nest, inner, "new")))
    return _gru_mixed(d, nest, d.element(nest, update, "z"), new, h, step)


def _gru_mixed(d: Direction, nest: Nest, z: Expr, new: Expr, h: Var, step: DirectionStep) -> Var:
    old = d.element(nest, h, "h")
    expr = call("add", new, call("mul", z, call("sub", old, new)))
    return d.emit(nest, d.state(f"h{step.tag}"), d.masked(nest, expr, h, step))


STEPS: dict[str, Callable[[Direction, Var, State, DirectionStep], State]] = {
    "RNN": _rnn,
    "GRU": _gru,
    "LSTM": _lstm,
}
