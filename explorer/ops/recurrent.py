"""RNN, GRU and LSTM: one product for all inputs, then the steps, in a loop or unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Loop, ShapeOf, Var
from explorer.ir.dims import Dim, product
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.program import Binding
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, shape_of
from explorer.ops.record import Array, OperatorRecord, Site
from explorer.ops.recurrent_cells import (
    GATES,
    Activation,
    Direction,
    DirectionStep,
    Layer,
    State,
    activations,
    default_activations,
    of_arrays,
    one_step,
)
from explorer.ops.shape_rules import demand_shape

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _directions(site: Site) -> tuple[bool, ...]:
    """Return for each direction whether it runs backwards."""
    return DIRECTIONS.get(site.text("direction", "forward")) or site.fail("direction is not known")


def _sizes(site: Site) -> tuple[Dim, Dim, int]:
    """Return steps, batch and hidden size."""
    x, r = site.shape(0), site.shape(2)
    if len(x) != 3 or len(r) != 3:
        site.fail(f"the input has rank {len(x)} and the recurrence rank {len(r)}; both must be 3")
    steps, batch = (x[1], x[0]) if site.integer("layout") else (x[0], x[1])
    hidden = r[2] if isinstance(r[2], int) else site.integer("hidden_size")
    if not hidden:
        site.unsupported(f"a hidden size of {r[2]}, which only a run knows")
    return steps, batch, hidden


def _types(site: Site) -> tuple[Tensor, ...]:
    steps, batch, hidden = _sizes(site)
    directions, dtype = len(_directions(site)), site.dtype()
    _check_arguments(site, batch, hidden, directions)
    if site.integer("layout"):
        y, last = (batch, steps, directions, hidden), (batch, directions, hidden)
    else:
        y, last = (steps, directions, batch, hidden), (directions, batch, hidden)
    return (Tensor(y, dtype), Tensor(last, dtype), Tensor(last, dtype))[: site.results]


def _check_arguments(site: Site, batch: Dim, hidden: int, directions: int) -> None:
    """Raise ShapeError unless weights, biases, lengths and first states fit the input."""
    width = GATES[site.op] * hidden
    state = (batch, directions, hidden) if site.integer("layout") else (directions, batch, hidden)
    expected = (
        ("the weights", (directions, width, site.shape()[2])),
        ("the recurrence", (directions, width, hidden)),
        ("the bias", (directions, 2 * width)),
        ("the tensor of lengths", (batch,)),
        ("the first state", state),
        ("the first cell", state),
        ("the tensor of peepholes", (directions, 3 * hidden)),
    )
    for i, (name, shape) in enumerate(expected, 1):
        if site.has(i):
            demand_shape(site, i, shape, name)


def _layer(low: Lowering) -> Layer:
    site = low.site
    steps, batch, hidden = _sizes(site)
    backwards = _directions(site)
    try:
        functions = functions_of(site.op, site.attrs, len(backwards))
    except KeyError as error:
        site.unsupported(f"the activation {error} has no kernel rule")
    count = len(default_activations(site.op))
    if len(functions) != count * len(backwards):
        site.fail(f"{len(functions)} activations for {len(backwards)} directions")
    return Layer(low, steps, batch, hidden, backwards, functions)


def _lower(low: Lowering) -> None:
    layer = _layer(low)
    read = [low.is_read(r.name) for r in low.results]
    if isinstance(layer.steps, int) and layer.steps <= low.unroll:
        unrolled = unroll(layer, layer.steps)
        last = unrolled.last
        if read[0]:
            write_steps(layer, low.results[0], unrolled.hidden, layer.steps)
    else:
        last, rows = as_loop(layer, stacked=read[0])
        if read[0]:
            write_rows(layer, low.results[0], rows)
    for result, is_read, values in zip(low.results[1:], read[1:], zip(*(s.values for s in last))):
        if is_read:
            write_last(layer, result, values)


def _record(op: str) -> OperatorRecord:
    results = 3 if op == "LSTM" else 2
    return OperatorRecord(
        op,
        "matmul",
        lambda site: _types(site)[:results],
        lambda attrs, args: run(attrs, args, op),
        _lower,
    )


# A layer unrolled: separate kernels for each step.


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The state after the last step of each direction, and the hidden ones after each step."""

    last: tuple[State, ...]
    hidden: tuple[dict[int, Var], ...]


def unroll(layer: Layer, steps: int) -> Unrolled:
    """Lower all steps of all directions."""
    runs = [
        _unroll_direction(Direction(layer, number), steps) for number in range(len(layer.backwards))
    ]
    return Unrolled(tuple(last for last, _ in runs), tuple(hidden for _, hidden in runs))


def _unroll_direction(d: Direction, steps: int) -> tuple[State, dict[int, Var]]:
    if not steps:
        return d.begin(), {}
    inputs, width = d.inputs(), d.gates * d.hidden
    state = d.begin_unrolled()
    hidden: dict[int, Var] = {}
    for t in reversed(range(steps)) if d.from_end else range(steps):
        x = d.temporary(f"x{t}", d.batch, width)
        d.low.view(x, inputs, product((t, d.batch, width)))
        state = one_step(d, x, state, DirectionStep(str(t), t))
        assert state.h is not None
        hidden[t] = state.h
    return state, hidden


def write_steps(layer: Layer, result: Var, hidden: Sequence[dict[int, Var]], steps: int) -> None:
    """Bind the hidden states after all steps as one value."""
    low, dtype = layer.low, layer.low.site.dtype()
    if len(hidden) == 1 and steps == 1 and layer.lengths is None:
        low.view(result, hidden[0][0])
        return
    nest = low.nest("stack")
    if not steps:
        nest.map("y", result, lambda axes: Const(0.0, dtype))
        return
    if layer.lengths is not None:
        write_rows(layer, result, [_rows(layer, *row) for row in enumerate(hidden)])
        return
    for t in range(steps):
        for number, states in enumerate(hidden):
            store = place_of(layer, Affine((), t), number)
            read = Read(nest.tensor(states[t], f"x{t}_{number}"), (var("b"), var("j")))
            nest.compute("y", shape_of(result), dtype, layer.axes, read, store=store)
    nest.into(result)


def _rows(layer: Layer, number: int, states: dict[int, Var]) -> Var:
    """Stack the states after each step."""
    low, dtype = layer.low, layer.low.site.dtype()
    nest = low.nest("stack_steps")
    rows = low.temporary(f"rows{number}", (len(states), layer.batch, layer.hidden), dtype)
    for t in range(len(states)):
        read = Read(nest.tensor(states[t], f"x{t}"), (var("b"), var("j")))
        store = (Affine((), t), var("b"), var("j"))
        nest.compute("y", shape_of(rows), dtype, layer.axes, read, store=store)
    return nest.into(rows)


# Results of a layer, from the states of its directions.


Place = tuple[Affine, Affine, Affine, Affine]


def place_of(layer: Layer, step: Affine, number: int) -> Place:
    """Return where the hidden state after a step lies in the first result."""
    b, j, direction = var("b"), var("j"), Affine((), number)
    return (b, step, direction, j) if layer.by_batch else (step, direction, b, j)


def write_rows(layer: Layer, result: Var, rows: Sequence[Var]) -> None:
    """Bind the first result from the stacked hidden states of each direction.

    They are in the order of the trips. Sequences with lengths are zero after their ends, and
    reversed within.
    """
    if len(rows) == 1 and not layer.backwards[0] and not layer.by_batch and layer.lengths is None:
        layer.low.view(result, rows[0])
        return
    nest, dtype = layer.low.nest("stack"), layer.low.site.dtype()
    axes = [Axis("t", layer.steps), *layer.axes]
    for number, states in enumerate(rows):
        name = nest.tensor(states, f"x{number}")
        value = _within(layer, nest, name, number) if layer.lengths else _row(layer, name, number)
        store = place_of(layer, var("t"), number)
        nest.compute("y", shape_of(result), dtype, axes, value, store=store)
    nest.into(result)


def _row(layer: Layer, rows: str, number: int) -> Expr:
    last = Affine((), layer.steps - 1)
    place = last + var("t") * -1 if layer.backwards[number] else var("t")
    return Read(rows, (place, var("b"), var("j")))


def _within(layer: Layer, nest: Nest, rows: str, number: int) -> Expr:
    """Return the row of a step of a sequence with a length."""
    assert layer.lengths is not None
    length = nest.load(layer.lengths, "length", (var("b"),))
    step = call("cast_int32", IndexValue(var("t")))
    going = call("lt", step, length)
    back = call("sub", call("sub", length, Const(1, "int32")), step)
    place: Affine | Expr = call("where", going, back, step) if layer.backwards[number] else var("t")
    read = Read(rows, (place, var("b"), var("j")))
    return call("where", going, read, Const(0.0, layer.low.site.dtype()))


def write_last(layer: Layer, result: Var, values: Sequence[Var]) -> None:
    """Bind the last state of each direction as one value."""
    low = layer.low
    if len(values) == 1:
        low.view(result, values[0])
        return
    nest = low.nest("stack")
    for number, value in enumerate(values):
        place = Affine((), number)
        store = (var("b"), place, var("j")) if layer.by_batch else (place, var("b"), var("j"))
        read = Read(nest.tensor(value, f"x{number}"), (var("b"), var("j")))
        nest.compute("y", shape_of(result), low.site.dtype(), layer.axes, read, store=store)
    nest.into(result)


# A loop: one product for the inputs of all steps, then a trip for each. A trip does a step of every
# direction: step t, or if backwards step `steps - 1 - t`.
# y, h, c = LSTM(x, W, R, B)  ->  inputs = x @ W + B
#                                 h, c, y = loop over t: h, c = step(inputs[t], h, c); y[t] = h


SCALAR = ()


def as_loop(layer: Layer, *, stacked: bool) -> tuple[tuple[State, ...], tuple[Var, ...]]:
    """Return the state of each direction after the last step, and the stacked hidden states.

    The hidden states are in the order of the trips, and only made if `stacked`.
    """
    low, directions = (
        layer.low,
        [Direction(layer, number) for number in range(len(layer.backwards))],
    )
    inputs, first = [d.inputs() for d in directions], [d.begin() for d in directions]
    name = f"{low.result.name}.steps"
    trip = low.bind(Var(name, Tensor(SCALAR, "int64")), ShapeOf((layer.steps,), 0))
    body, args = _trip(layer, inputs, first, stacked)
    last = tuple(_renamed_state(d, s, "last") for d, s in zip(directions, first, strict=True))
    shape = (layer.steps, layer.batch, layer.hidden)
    rows = tuple(d.temporary("rows", *shape) for d in directions) if stacked else ()
    loop = Loop(body, trip, None, _values(first), args, len(rows))
    low.bindings.append(Binding((*_values(last), *rows), loop, low.origin))
    return last, rows


def _trip(
    layer: Layer, inputs: Sequence[Var], first: Sequence[State], stacked: bool
) -> tuple[str, tuple[Var, ...]]:
    """Return the body that does a step of each direction, and its arguments besides the states."""
    low = layer.low
    inner = low.within("step")
    number = Var(f"{inner.result.name}.number", Tensor(SCALAR, "int64"))
    going = Var(f"{inner.result.name}.going", Tensor(SCALAR, "bool"))
    directions = [Direction(replace(layer, low=inner), n) for n in range(len(layer.backwards))]
    before = [_renamed_state(d, s, "before") for d, s in zip(directions, first, strict=True)]
    after = [
        one_step(d, _step_inputs(d, x, number), state, DirectionStep("", number))
        for d, x, state in zip(directions, inputs, before, strict=True)
    ]
    rows = tuple(s.values[0] for s in after if stacked)
    params = (number, going, *_values(before))
    return low.function(inner, params, (going, *_values(after), *rows))


def _step_inputs(d: Direction, inputs: Var, number: Var) -> Var:
    """Return the inputs of the step that a trip does."""
    nest = d.low.nest("row")
    step = nest.load(number, "number", ())
    if d.from_end:
        step = call("sub", Const(d.layer.steps - 1, "int64"), step)
    row = d.temporary("x", d.batch, d.gates * d.hidden)
    name = nest.tensor(inputs, "inputs")
    return nest.map("y", row, lambda axes: Read(name, (step, *(var(a.name) for a in axes))))


def _renamed_state(d: Direction, state: State, when: str) -> State:
    """Return the state with names for another time."""
    return State(*(d.state(f"{n}.{when}") for n, _ in zip("hc", state.values)))


def _values(states: Sequence[State]) -> tuple[Var, ...]:
    return tuple(v for s in states for v in s.values)


# The reference.


def functions_of(op: str, attrs: Mapping[str, Any], directions: int) -> tuple[Activation, ...]:
    """Return the activations of all directions."""
    names = attrs.get("activations") or default_activations(op) * directions
    parameters = ([*(attrs.get(f"activation_{n}") or ())] for n in ("alpha", "beta"))
    return activations(names, *parameters)


class _Cell:
    """One direction of a layer in NumPy: weights, and the functions of its gates."""

    def __init__(
        self,
        op: str,
        attrs: Mapping[str, Any],
        parts: Sequence[Array | None],
        functions: Sequence[Activation],
    ) -> None:
        """Fill in missing biases and peepholes."""
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


def run(attrs: Mapping[str, Any], args: Any, op: str) -> Any:
    """Evaluate a recurrent operator."""
    x, w, r, b, lengths, h0, c0, p = (*args, *(None,) * 8)[:8]
    directions = DIRECTIONS[attrs.get("direction", "forward")]
    turned = bool(attrs.get("layout"))
    x = x.swapaxes(0, 1) if turned else x
    steps, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    lengths = np.full(batch, steps) if lengths is None else lengths
    y = np.zeros((steps, len(directions), batch, hidden), x.dtype)
    h, c = (
        np.zeros((len(directions), batch, hidden), x.dtype)
        if s is None
        else (s.swapaxes(0, 1) if turned else s).copy()
        for s in (h0, c0)
    )
    functions = functions_of(op, attrs, len(directions))
    count = len(default_activations(op))
    rows = np.arange(batch)
    for number, backwards in enumerate(directions):
        parts = [None if v is None else v[number] for v in (w, r, b, p)]
        cell = _Cell(op, attrs, parts, functions[number * count : (number + 1) * count])
        for s in range(steps):
            at = np.where(s < lengths, lengths - 1 - s, s) if backwards else np.full(batch, s)
            new, memory = cell.step(x[at, rows], h[number], c[number])
            going = (s < lengths)[:, None]
            h[number], c[number] = (
                np.where(going, new, h[number]),
                np.where(going, memory, c[number]),
            )
            y[at, number, rows] = np.where(going, new, 0)
    if turned:
        y, h, c = y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)
    return (y, h, c) if op == "LSTM" else (y, h)


RECORDS = tuple(_record(op) for op in GATES)
