"""RNN, GRU and LSTM over a static sequence: one product for all inputs, then step after step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.calls import Var
from explorer.ir.kernel import Affine, Axis, Const, Expr, IndexValue, Read, var
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.activations import Activation, activations, of_arrays
from explorer.ops.arithmetic.broadcast import demand_shape
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Lowering, shape_of
from explorer.ops.record import OperatorRecord
from explorer.ops.recurrent.steps import GATES, Direction, Layer, run_steps, usual
from explorer.ops.site import Array, Site

LENGTHS = 4  # the position of the lengths of the batch's sequences


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
    _check_arguments(site, batch, hidden, ways)
    if site.integer("layout"):
        y, last = (batch, steps, ways, hidden), (batch, ways, hidden)
    else:
        y, last = (steps, ways, batch, hidden), (ways, batch, hidden)
    return (Tensor(y, dtype), Tensor(last, dtype), Tensor(last, dtype))[: site.results]


def _check_arguments(site: Site, batch: Dim, hidden: int, ways: int) -> None:
    """ShapeError unless weights, biases, lengths and first states fit the input."""
    width = GATES[site.op] * hidden
    state = (batch, ways, hidden) if site.integer("layout") else (ways, batch, hidden)
    wanted = (
        ("the weights", (ways, width, site.shape()[2])),
        ("the recurrence", (ways, width, hidden)),
        ("the bias", (ways, 2 * width)),
        ("the tensor of lengths", (batch,)),
        ("the first state", state),
        ("the first cell", state),
        ("the tensor of peepholes", (ways, 3 * hidden)),
    )
    for i, (name, shape) in enumerate(wanted, 1):
        if site.has(i):
            demand_shape(site, i, shape, name)


def _functions(op: str, attrs: Mapping[str, Any], ways: int) -> tuple[Activation, ...]:
    """The activations of all directions."""
    names = attrs.get("activations") or usual(op) * ways
    given = ([*(attrs.get(f"activation_{n}") or ())] for n in ("alpha", "beta"))
    return activations(names, *given)


def _layer(low: Lowering) -> Layer:
    site = low.site
    steps, batch, hidden = _sizes(site)
    ways = _directions(site)
    if not isinstance(steps, int):
        site.unsupported(f"a sequence of {steps} steps is not known when compiling")
    try:
        functions = _functions(site.op, site.attrs, len(ways))
    except KeyError as error:
        site.unsupported(f"the activation {error} has no kernel rule")
    count = len(usual(site.op))
    if len(functions) != count * len(ways):
        site.fail(f"{len(functions)} activations for {len(ways)} directions")
    return Layer(low, steps if isinstance(steps, int) else 0, batch, hidden, ways, functions)


def _lower(low: Lowering) -> None:
    layer = _layer(low)
    hidden: list[dict[int, Var]] = []
    last: list[Var] = []
    cells: list[Var] = []
    for way in range(len(layer.ways)):
        direction = Direction(layer, way)
        order = range(layer.steps)[::-1] if direction.from_end else range(layer.steps)
        found, h, c = run_steps(direction, order)
        hidden.append(found)
        last.append(h)
        cells += [] if c is None else [c]
    names = [low.is_read(r.name) for r in low.results]
    if names[0]:
        _whole(layer, low.results[0], hidden)
    for i, values in ((1, last), (2, cells)):
        if len(names) > i and names[i]:
            _last(layer, low.results[i], values)


def _axes(layer: Layer) -> list[Axis]:
    return [Axis("b", layer.batch), Axis("j", layer.hidden)]


def _whole(layer: Layer, result: Var, hidden: Sequence[dict[int, Var]]) -> None:
    """The hidden state after every step."""
    low = layer.low
    if len(hidden) == 1 and layer.steps == 1 and layer.lengths is None:
        low.view(result, hidden[0][0])
        return
    nest = low.nest("stack")
    dtype = low.site.dtype()
    if not layer.steps:
        nest.map("y", result, lambda axes: Const(0.0, dtype))
        return
    if layer.lengths is not None:
        _whole_by_length(layer, result, hidden)
        return
    for t in range(layer.steps):
        for way, states in enumerate(hidden):
            place = (Affine((), t), Affine((), way), var("b"), var("j"))
            store = (place[2], place[0], place[1], place[3]) if layer.by_batch else place
            read = Read(nest.tensor(states[t], f"x{t}_{way}"), (var("b"), var("j")))
            nest.compute("y", shape_of(result), dtype, _axes(layer), read, store=store)
    nest.into(result)


def _whole_by_length(layer: Layer, result: Var, hidden: Sequence[dict[int, Var]]) -> None:
    """The same where sequences end at their lengths: zeros after, reversed within."""
    low, dtype = layer.low, layer.low.site.dtype()
    stacked = []
    for way, states in enumerate(hidden):
        nest = low.nest("stack_steps")
        rows = low.temporary(f"rows{way}", (layer.steps, layer.batch, layer.hidden), dtype)
        for t in range(layer.steps):
            read = Read(nest.tensor(states[t], f"x{t}"), (var("b"), var("j")))
            store = (Affine((), t), var("b"), var("j"))
            nest.compute("y", shape_of(rows), dtype, _axes(layer), read, store=store)
        stacked.append(nest.into(rows))
    nest = low.nest("stack")
    axes = [Axis("t", layer.steps), *_axes(layer)]
    assert layer.lengths is not None
    length = nest.load(layer.lengths, "length", (var("b"),))
    step = call("cast_int32", IndexValue(var("t")))
    going = call("lt", step, length)
    for way, rows in enumerate(stacked):
        back = call("sub", call("sub", length, Const(1, "int32")), step)
        place: Affine | Expr = call("where", going, back, step) if layer.ways[way] else var("t")
        read = Read(nest.tensor(rows, f"x{way}"), (place, var("b"), var("j")))
        at = (var("t"), Affine((), way), var("b"), var("j"))
        place_of = (at[2], at[0], at[1], at[3]) if layer.by_batch else at
        value = call("where", going, read, Const(0.0, dtype))
        nest.compute("y", shape_of(result), dtype, axes, value, store=place_of)
    nest.into(result)


def _last(layer: Layer, result: Var, values: Sequence[Var]) -> None:
    """The last state of each direction."""
    low = layer.low
    if len(values) == 1:
        low.view(result, values[0])
        return
    nest = low.nest("stack")
    for way, value in enumerate(values):
        place = Affine((), way)
        last = (var("b"), place, var("j")) if layer.by_batch else (place, var("b"), var("j"))
        read = Read(nest.tensor(value, f"x{way}"), (var("b"), var("j")))
        nest.compute("y", shape_of(result), low.site.dtype(), _axes(layer), read, store=last)
    nest.into(result)


# The references.


class _Cell:
    """One direction of a layer in NumPy: weights, and the functions of its gates."""

    def __init__(
        self,
        op: str,
        attrs: Mapping[str, Any],
        parts: Sequence[Array | None],
        functions: Sequence[Activation],
    ) -> None:
        self.op, self.attrs = op, attrs
        w, r, b, p = parts
        assert w is not None and r is not None
        self.w, self.r, self.functions = w, r, functions
        self.b = np.zeros(2 * len(w), w.dtype) if b is None else b
        self.p = np.zeros(3 * r.shape[1], w.dtype) if p is None else p
        self.f = of_arrays(w.dtype.name)

    def act(self, which: int, x: Array) -> Any:
        limit = self.attrs.get("clip")
        if limit is not None:
            x = np.clip(x, -x.dtype.type(limit), x.dtype.type(limit))
        return self.functions[which](self.f, x)

    def step(self, x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        half = len(self.b) // 2
        wb, rb = self.b[:half], self.b[half:]
        if self.op == "RNN":
            return self.act(0, x @ self.w.T + wb + h @ self.r.T + rb), c
        if self.op == "GRU":
            return self.gru(x @ self.w.T + wb, h, rb), c
        i, o, f, g = np.split(x @ self.w.T + h @ self.r.T + wb + rb, 4, axis=-1)
        pi, po, pf = np.split(self.p, 3)
        i = self.act(0, i + pi * c)
        f = 1 - i if self.attrs.get("input_forget") else self.act(0, f + pf * c)
        c = f * c + i * self.act(1, g)
        return self.act(0, o + po * c) * self.functions[2](self.f, c), c

    def gru(self, x: Array, h: Array, rb: Array) -> Any:
        n = h.shape[-1]
        xz, xr, xh = np.split(x, 3, axis=-1)
        hz, hr = np.split(h @ self.r[: 2 * n].T + rb[: 2 * n], 2, axis=-1)
        z, reset = self.act(0, xz + hz), self.act(0, xr + hr)
        if self.attrs.get("linear_before_reset"):
            new = self.act(1, xh + reset * (h @ self.r[2 * n :].T + rb[2 * n :]))
        else:
            new = self.act(1, xh + (reset * h) @ self.r[2 * n :].T + rb[2 * n :])
        return (1 - z) * new + z * h


def _run(attrs: Mapping[str, Any], args: Any, op: str) -> Any:
    x, w, r, b, lengths, h0, c0, p = (*args, *(None,) * 8)[:8]
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[
        attrs.get("direction", "forward")
    ]
    turned = bool(attrs.get("layout"))
    x = x.swapaxes(0, 1) if turned else x
    steps, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    lengths = np.full(batch, steps) if lengths is None else lengths
    y = np.zeros((steps, len(ways), batch, hidden), x.dtype)
    h, c = (
        np.zeros((len(ways), batch, hidden), x.dtype)
        if s is None
        else (s.swapaxes(0, 1) if turned else s).copy()
        for s in (h0, c0)
    )
    functions = _functions(op, attrs, len(ways))
    count = len(usual(op))
    rows = np.arange(batch)
    for way, backwards in enumerate(ways):
        parts = [None if v is None else v[way] for v in (w, r, b, p)]
        cell = _Cell(op, attrs, parts, functions[way * count : (way + 1) * count])
        for s in range(steps):
            at = np.where(s < lengths, lengths - 1 - s, s) if backwards else np.full(batch, s)
            new, memory = cell.step(x[at, rows], h[way], c[way])
            going = (s < lengths)[:, None]
            h[way], c[way] = np.where(going, new, h[way]), np.where(going, memory, c[way])
            y[at, way, rows] = np.where(going, new, 0)
    if turned:
        y, h, c = y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)
    return (y, h, c) if op == "LSTM" else (y, h)


def _record(op: str) -> OperatorRecord:
    results = 3 if op == "LSTM" else 2
    return OperatorRecord(
        op,
        "matmul",
        lambda site: _types(site)[:results],
        lambda attrs, args: _run(attrs, args, op),
        _lower,
    )


RECORDS = tuple(_record(op) for op in GATES)
