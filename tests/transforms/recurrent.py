"""Graphs that are unrolled over time, of operators, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.ir.calls import Attrs, OpCall, Var
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Object, Tensor
from explorer.relax import deduce
from tests.transforms.programs import weights

BATCH = symbol("batch")


class Net:
    """A graph being written; values are named."""

    def __init__(self) -> None:
        self.params: list[Var] = []
        self.body: list[Binding] = []
        self.constants: dict[str, Constant] = {}
        self.results: list[str] = []

    def input(self, name: str, *shape: Dim) -> str:
        self.params.append(Var(name, Tensor(tuple(shape), "float32")))
        return name

    def weight(self, name: str, *shape: int) -> str:
        scale = np.float32(1 / np.sqrt(shape[0]))
        array = weights(*shape, seed=len(self.constants)) * scale
        self.constants.setdefault(name, Constant(array))
        return name

    def constant(self, name: str, values: Sequence[int]) -> str:
        self.constants.setdefault(name, Constant(np.array(values, np.int64)))
        return name

    def ops(self, op: str, *args: str, results: int = 1, attrs: Attrs = ()) -> list[str]:
        name = f"{op.lower()}{len(self.body)}"
        names = [f"{name}.{n}" for n in range(results)] if results > 1 else [name]
        vars = tuple(Var(n, Object()) for n in names)
        given = tuple(Var(a, Object()) for a in args)
        self.body.append(Binding(vars, OpCall(op, given, attrs), frozenset([name])))
        return names

    def op(self, op: str, *args: str, **attrs: object) -> str:
        return self.ops(op, *args, attrs=tuple(attrs.items()))[0]  # type: ignore[arg-type]

    def split(self, x: str, parts: int, axis: int) -> list[str]:
        return self.ops("Split", x, results=parts, attrs=(("axis", axis), ("num_outputs", parts)))

    def program(self, *outputs: str) -> Program:
        """The program, with every value's type; its outputs, or else the results."""
        outputs = outputs or tuple(dict.fromkeys(self.results))
        known = {p.name: p for p in self.params}
        body = tuple(self._with_types(b, known) for b in self.body)
        results = tuple(Var(o, Object()) for o in outputs)
        main = Function("main", tuple(self.params), body, results, tuple(outputs))
        env = ShapeEnv((SymbolBound("batch", 1, 64, 3),))
        return deduce(Program((main,), self.constants, env))

    def _with_types(self, b: Binding, known: dict[str, Var]) -> Binding:
        assert isinstance(b.expr, OpCall)
        named = [a for a in b.expr.args if a is not None]
        known |= {n: Var(n, c.type) for n, c in self.constants.items()}
        args = tuple(known.get(a.name, a) for a in named)
        known.update((v.name, v) for v in b.vars)
        return Binding(b.vars, OpCall(b.expr.op, args, b.expr.attrs), b.origin)


def cell(net: Net, x: str, h: str, c: str, layer: str, width: int) -> tuple[str, str]:
    """An LSTM cell: what it hands on, and its state."""
    inputs = net.op("MatMul", x, net.weight(f"{layer}.input", width, 4 * width))
    state = net.op("MatMul", h, net.weight(f"{layer}.state", width, 4 * width))
    both = net.op("Add", net.op("Add", inputs, state), net.weight(f"{layer}.bias", 4 * width))
    i, f, g, o = net.split(both, 4, 1)
    new = net.op("Mul", net.op("Sigmoid", i), net.op("Tanh", g))
    c = net.op("Add", net.op("Mul", net.op("Sigmoid", f), c), new)
    return net.op("Mul", net.op("Sigmoid", o), net.op("Tanh", c)), c


def lstm(
    layers: int,
    steps: int,
    width: int = 4,
    batch: Dim = 1,
    *,
    shared: bool = False,
    both_ways: bool = False,
    rows: Sequence[int] = (),
) -> Net:
    """Layers over each other, step by step. `shared`: all layers have the same weights;
    `both_ways`: each odd layer reads the steps backwards; `rows`: steps whose answers are results.
    """
    net = Net()
    x = net.input("x", steps * batch, width)
    parts = net.split(x, steps, 0) if steps > 1 else [x]
    start = net.input("start", batch, width)
    states = {n: (start, start) for n in range(layers)}
    if not both_ways:
        for t in range(steps):
            value = parts[t]
            for n in range(layers):
                states[n] = cell(net, value, *states[n], _name(n, shared), width)
                value = states[n][0]
            parts[t] = value
    else:
        for n in range(layers):
            order = range(steps) if n % 2 == 0 else reversed(range(steps))
            for t in order:
                states[n] = cell(net, parts[t], *states[n], _name(n, shared), width)
                parts[t] = states[n][0]
    net.results = [parts[t] for t in rows] or [parts[-1]]
    return net


def _name(layer: int, shared: bool) -> str:
    return "layer" if shared else f"layer{layer}"
