"""LSTM and GRU over a static sequence: one product for all inputs, then step after step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, product
from explorer.ir.kernel import Affine, Axis, Expr, Read, apply, var
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, shape_of
from explorer.ops.record import Array, OperatorRecord, Site
from explorer.ops.scalar import sigmoid

GATES = {"LSTM": 4, "GRU": 3}


def _directions(site: Site) -> tuple[bool, ...]:
    """For each direction whether it runs from the end."""
    found = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    return found.get(site.text("direction", "forward")) or site.fail("direction is not known")


def _sizes(site: Site) -> tuple[Dim, Dim, int]:
    """Steps, batch and hidden size."""
    x, r = site.shape(0), site.shape(2)
    if len(x) != 3 or len(r) != 3 or not isinstance(r[2], int):
        site.fail(f"the input has rank {len(x)} and the recurrence rank {len(r)}; both must be 3")
    steps, batch = (x[1], x[0]) if site.integer("layout") else (x[0], x[1])
    hidden = r[2]
    return steps, batch, hidden if isinstance(hidden, int) else 0


def _types(site: Site) -> tuple[Tensor, ...]:
    steps, batch, hidden = _sizes(site)
    ways, dtype = len(_directions(site)), site.dtype()
    if site.integer("layout"):
        y, last = (batch, steps, ways, hidden), (batch, ways, hidden)
    else:
        y, last = (steps, ways, batch, hidden), (ways, batch, hidden)
    return (Tensor(y, dtype), Tensor(last, dtype), Tensor(last, dtype))[: site.results]


def _check(site: Site) -> int:
    """How many steps there are; UnsupportedOperator for the forms that have no kernel rule."""
    steps = _sizes(site)[0]
    if not isinstance(steps, int):
        site.unsupported(f"a sequence of {steps} steps is not known when compiling")
    if site.has(4) or site.has(7) or site.integer("layout") or "clip" in site.attrs:
        site.unsupported("sequence lengths, peepholes, clip and layout 1 have no kernel rule")
    if site.attrs.get("activations") not in (None, _usual(site)) or site.integer("input_forget"):
        site.unsupported("other activations than the usual ones have no kernel rule")
    return steps if isinstance(steps, int) else 0


def _usual(site: Site) -> tuple[str, ...]:
    each = ("Sigmoid", "Tanh", "Tanh") if site.op == "LSTM" else ("Sigmoid", "Tanh")
    return each * len(_directions(site))


class _Direction:
    """One direction of one layer: its weights, and the bindings of its steps."""

    def __init__(self, low: Lowering, way: int) -> None:
        self.low, self.site, self.way = low, low.site, way
        self.steps, self.batch, self.hidden = _sizes(low.site)
        self.gates = GATES[low.site.op]
        self.tag = f"d{way}." if len(_directions(low.site)) > 1 else ""

    def temporary(self, hint: str, *shape: Dim) -> Var:
        return self.low.temporary(f"{self.tag}{hint}", shape, self.site.dtype())

    def inputs(self) -> Var:
        """x[t] @ W + b, for all steps at once; GRU's reset gate keeps the recurrent bias apart."""
        low, site, width = self.low, self.site, self.gates * self.hidden
        nest = low.nest(f"{site.op.lower()}_inputs")
        t, b, j = Axis("t", self.steps), Axis("b", self.batch), Axis("j", width)
        k = Axis("k", site.shape(0)[2])
        x = Read(nest.tensor(site.arg(0), "x"), (var("t"), var("b"), var("k")))
        w = Read(nest.tensor(site.arg(1), "w"), (Affine((), self.way), var("j"), var("k")))
        out = self.temporary("inputs", self.steps, self.batch, width)
        biased = site.has(3)
        shape = shape_of(out)
        nest.compute(
            "acc" if biased else "y", shape, site.dtype(), [t, b, j], apply("mul", x, w), [k], "sum"
        )
        if biased:
            total: Expr = Read("acc", (var("t"), var("b"), var("j")))
            for bias in self.biases(nest):
                total = call("add", total, bias)
            nest.compute("y", shape, site.dtype(), [t, b, j], total)
        return nest.into(out)

    def biases(self, nest: Nest) -> list[Expr]:
        """What is added to the inputs of gate j: both biases, or their sum where it is known."""
        width, known = self.gates * self.hidden, self.low.array(self.site.arg(3))
        both = self.site.op == "LSTM"
        if known is not None and both:
            row = known[self.way]
            total = self.low.constant(row[:width] + row[width:], f"{self.tag}bias")
            return [nest.load(total, "bias", (var("j"),))]
        name = nest.tensor(self.site.arg(3), "bias")
        starts = (0, width) if both else (0,)
        return [Read(name, (Affine((), self.way), var("j") + s)) for s in starts]

    def step_inputs(self, inputs: Var, t: int) -> Var:
        width = self.gates * self.hidden
        out = self.temporary(f"x{t}", self.batch, width)
        return self.low.view(out, inputs, product((t, self.batch, width)))

    def start(self, position: int, name: str) -> Var | None:
        """The initial state, None where it is zero."""
        if not self.site.has(position):
            return None
        given = self.site.arg(position)
        known = self.low.array(given)
        if known is not None and not known.any():
            return None
        out = self.temporary(name, self.batch, self.hidden)
        return self.low.view(out, given, product((self.way, self.batch, self.hidden)))

    def recurrent(self, h: Var, add: Var | None, t: int) -> Var:
        """h @ R, plus the inputs of the step or the recurrent bias."""
        low, site, width = self.low, self.site, self.gates * self.hidden
        nest = low.nest(f"{site.op.lower()}_gates")
        b, j, k = Axis("b", self.batch), Axis("j", width), Axis("k", self.hidden)
        left = Read(nest.tensor(h, "h"), (var("b"), var("k")))
        right = Read(nest.tensor(site.arg(2), "r"), (Affine((), self.way), var("j"), var("k")))
        out = self.temporary(f"gates{t}", self.batch, width)
        nest.compute(
            "acc", shape_of(out), site.dtype(), [b, j], apply("mul", left, right), [k], "sum"
        )
        more: Expr | None = None
        if add is not None:
            more = Read(nest.tensor(add, "inputs"), (var("b"), var("j")))
        elif site.has(3):
            name = nest.tensor(site.arg(3), "bias")
            more = Read(name, (Affine((), self.way), var("j") + width))
        acc: Expr = Read("acc", (var("b"), var("j")))
        nest.compute(
            "y",
            shape_of(out),
            site.dtype(),
            [b, j],
            acc if more is None else call("add", acc, more),
        )
        return nest.into(out)

    def gate(self, nest: Nest, value: Var, name: str, which: int) -> Expr:
        return Read(nest.tensor(value, name), (var("b"), var("j") + which * self.hidden))

    def state(self, nest: Nest, value: Var, name: str) -> Expr:
        return Read(nest.tensor(value, name), (var("b"), var("j")))

    def emit(self, nest: Nest, out: Var, expr: Expr) -> Var:
        axes = [Axis("b", self.batch), Axis("j", self.hidden)]
        nest.compute("y", shape_of(out), self.site.dtype(), axes, expr)
        return nest.into(out)


def _lstm_steps(d: _Direction, steps: Sequence[int]) -> tuple[dict[int, Var], Var | None]:
    """The hidden state after each step, and the last cell state; the gates' order is i, o, f, c."""
    inputs, h, c = d.inputs(), d.start(5, "h"), d.start(6, "c")
    found: dict[int, Var] = {}
    for t in steps:
        x = d.step_inputs(inputs, t)
        gates = x if h is None else d.recurrent(h, x, t)
        nest = d.low.nest("lstm_cell")
        new = call(
            "mul",
            call("sigmoid", d.gate(nest, gates, "gates", 0)),
            call("tanh", d.gate(nest, gates, "gates", 3)),
        )
        if c is not None:
            kept = call(
                "mul", call("sigmoid", d.gate(nest, gates, "gates", 2)), d.state(nest, c, "c")
            )
            new = call("add", kept, new)
        c = d.emit(nest, d.temporary(f"c{t}", d.batch, d.hidden), new)
        nest = d.low.nest("lstm_output")
        out = call(
            "mul",
            call("sigmoid", d.gate(nest, gates, "gates", 1)),
            call("tanh", d.state(nest, c, "c")),
        )
        h = found[t] = d.emit(nest, d.temporary(f"h{t}", d.batch, d.hidden), out)
    return found, c


def _gru_steps(d: _Direction, steps: Sequence[int]) -> tuple[dict[int, Var], Var | None]:
    """The hidden state after each step; gates stand in the order z, r, h."""
    if not d.site.integer("linear_before_reset"):
        d.site.unsupported("linear_before_reset 0 has no kernel rule")
    inputs, h = d.inputs(), d.start(5, "h")
    if h is None:
        zero = np.zeros(
            tuple(n if isinstance(n, int) else 1 for n in (d.batch, d.hidden)), np.float32
        )
        if not isinstance(d.batch, int):
            d.site.unsupported("an initial state of zeros for a batch that is a symbol")
        h = d.low.constant(zero, f"{d.tag}zeros")
    found: dict[int, Var] = {}
    for t in steps:
        x, gates = d.step_inputs(inputs, t), d.recurrent(h, None, t)
        nest = d.low.nest("gru_cell")
        z, r = (
            call(
                "sigmoid",
                call("add", d.gate(nest, x, "inputs", g), d.gate(nest, gates, "gates", g)),
            )
            for g in (0, 1)
        )
        new = call(
            "tanh",
            call(
                "add", d.gate(nest, x, "inputs", 2), call("mul", r, d.gate(nest, gates, "gates", 2))
            ),
        )
        kept = d.state(nest, h, "h")
        expr = call("add", new, call("mul", z, call("sub", kept, new)))
        h = found[t] = d.emit(nest, d.temporary(f"h{t}", d.batch, d.hidden), expr)
    return found, None


def _lower(low: Lowering) -> None:
    steps, ways = _check(low.site), _directions(low.site)
    hidden: list[dict[int, Var]] = []
    last: list[Var] = []
    cells: list[Var] = []
    for way, backwards in enumerate(ways):
        order = range(steps)[::-1] if backwards else range(steps)
        run = _lstm_steps if low.site.op == "LSTM" else _gru_steps
        found, cell = run(_Direction(low, way), order)
        hidden.append(found)
        last.append(found[order[-1]])
        cells += [] if cell is None else [cell]
    parts = [hidden[way][t] for t in range(steps) for way in range(len(ways))]
    for result, values in zip(low.results, (parts, last, cells), strict=False):
        if low.is_read(result.name):
            _stack(low, result, values)


def _stack(low: Lowering, result: Var, parts: Sequence[Var]) -> None:
    """Bind rows that lie one after the other."""
    if len(parts) == 1:
        low.view(result, parts[0])
        return
    nest, (batch, hidden) = low.nest("stack"), shape_of(parts[0])
    axes, shape = [Axis("b", batch), Axis("j", hidden)], shape_of(result)
    for i, part in enumerate(parts):
        place = (i // shape[1], i % shape[1]) if len(shape) == 4 else (i,)
        store = (*(Affine((), p) for p in place), var("b"), var("j"))
        read = Read(nest.tensor(part, f"x{i}"), (var("b"), var("j")))
        nest.compute("y", shape, low.site.dtype(), axes, read, store=store)
    nest.into(result)


# The references.


def _run(attrs: Mapping[str, Any], args: Any, op: str) -> Any:
    x, w, r, b, lengths, h0, c0, peepholes = (*args, *(None,) * 8)[:8]
    if lengths is not None or peepholes is not None or attrs.get("clip") is not None:
        raise UnsupportedOperator(f"{op}: sequence lengths, peepholes and clip have no reference")
    ways = {"forward": (1,), "reverse": (-1,), "bidirectional": (1, -1)}[
        attrs.get("direction", "forward")
    ]
    x = x.swapaxes(0, 1) if attrs.get("layout") else x
    steps, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    y = np.zeros((steps, len(ways), batch, hidden), x.dtype)
    h, c = (
        np.zeros((len(ways), batch, hidden), x.dtype)
        if s is None
        else (s.swapaxes(0, 1) if attrs.get("layout") else s).copy()
        for s in (h0, c0)
    )
    bias = np.zeros((len(ways), 2 * GATES[op] * hidden), x.dtype) if b is None else b
    cell = _lstm_cell if op == "LSTM" else _gru_cell
    for way, step in enumerate(ways):
        for t in range(steps)[::step]:
            h[way], c[way] = cell(x[t], w[way], r[way], bias[way], h[way], c[way], attrs)
            y[t, way] = h[way]
    if attrs.get("layout"):
        y, h, c = y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)
    return (y, h, c) if op == "LSTM" else (y, h)


def _lstm_cell(
    x: Array, w: Array, r: Array, b: Array, h: Array, c: Array, attrs: Mapping[str, Any]
) -> tuple[Any, Any]:
    half = len(b) // 2
    i, o, f, g = np.split(x @ w.T + h @ r.T + b[:half] + b[half:], 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _gru_cell(
    x: Array, w: Array, r: Array, b: Array, h: Array, c: Array, attrs: Mapping[str, Any]
) -> tuple[Any, Any]:
    half = len(b) // 2
    xz, xr, xh = np.split(x @ w.T + b[:half], 3, axis=-1)
    hz, hr, hh = np.split(h @ r.T + b[half:], 3, axis=-1)
    z, reset = sigmoid(xz + hz), sigmoid(xr + hr)
    if not attrs.get("linear_before_reset"):
        n = len(xh[0])
        hh = (reset * h) @ r[2 * n :].T + b[half + 2 * n :]
        new = np.tanh(xh + hh)
    else:
        new = np.tanh(xh + reset * hh)
    return (1 - z) * new + z * h, c


RECORDS = (
    OperatorRecord("LSTM", "matmul", _types, lambda a, v: _run(a, v, "LSTM"), _lower),
    OperatorRecord(
        "GRU", "matmul", lambda site: _types(site)[:2], lambda a, v: _run(a, v, "GRU"), _lower
    ),
)
