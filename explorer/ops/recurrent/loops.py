"""A recurrent layer as a loop: one product for the inputs of all steps, then a trip for each.

    y, h, c = LSTM(x, W, R, B)  ->  inputs = x @ W + B
                                    h, c, y = loop over t: h, c = step(inputs[t], h, c); y[t] = h

A trip does a step of every direction: step t, or if backwards step `steps - 1 - t`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.ir.affine import var
from explorer.ir.calls import Loop, ShapeOf, Var
from explorer.ir.kernel import Const, Read
from explorer.ir.program import Binding
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.recurrent.direction import Direction, DirectionStep, Layer, State
from explorer.ops.recurrent.steps import one_step

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
    last = tuple(_renamed(d, s, "last") for d, s in zip(directions, first, strict=True))
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
    before = [_renamed(d, s, "before") for d, s in zip(directions, first, strict=True)]
    after = [
        one_step(d, _row(d, x, number), state, DirectionStep("", number))
        for d, x, state in zip(directions, inputs, before, strict=True)
    ]
    rows = tuple(s.values[0] for s in after if stacked)
    params = (number, going, *_values(before))
    return low.function(inner, params, (going, *_values(after), *rows))


def _row(d: Direction, inputs: Var, number: Var) -> Var:
    """Return the inputs of the step that a trip does."""
    nest = d.low.nest("row")
    step = nest.load(number, "number", ())
    if d.from_end:
        step = call("sub", Const(d.layer.steps - 1, "int64"), step)
    row = d.temporary("x", d.batch, d.gates * d.hidden)
    name = nest.tensor(inputs, "inputs")
    return nest.map("y", row, lambda axes: Read(name, (step, *(var(a.name) for a in axes))))


def _renamed(d: Direction, state: State, when: str) -> State:
    """Return the state with names for another time."""
    return State(*(d.state(f"{n}.{when}") for n, _ in zip("hc", state.values)))


def _values(states: Sequence[State]) -> tuple[Var, ...]:
    return tuple(v for s in states for v in s.values)
