"""A recurrent layer unrolled: separate kernels for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Const, Read
from explorer.ir.shapes.dims import product
from explorer.ops.lowering import shape_of
from explorer.ops.recurrent.direction import Direction, DirectionStep, Layer, State
from explorer.ops.recurrent.results import axes_of, place_of, write_rows
from explorer.ops.recurrent.steps import one_step


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The state after the last step of each direction, and the hidden ones after each step."""

    last: tuple[State, ...]
    hidden: tuple[dict[int, Var], ...]


def unroll(layer: Layer, steps: int) -> Unrolled:
    """Lower all steps of all directions."""
    runs = [_run(Direction(layer, number), steps) for number in range(len(layer.backwards))]
    return Unrolled(tuple(last for last, _ in runs), tuple(hidden for _, hidden in runs))


def _run(d: Direction, steps: int) -> tuple[State, dict[int, Var]]:
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
            nest.compute("y", shape_of(result), dtype, axes_of(layer), read, store=store)
    nest.into(result)


def _rows(layer: Layer, number: int, states: dict[int, Var]) -> Var:
    """Stack the states after each step."""
    low, dtype = layer.low, layer.low.site.dtype()
    nest = low.nest("stack_steps")
    rows = low.temporary(f"rows{number}", (len(states), layer.batch, layer.hidden), dtype)
    for t in range(len(states)):
        read = Read(nest.tensor(states[t], f"x{t}"), (var("b"), var("j")))
        store = (Affine((), t), var("b"), var("j"))
        nest.compute("y", shape_of(rows), dtype, axes_of(layer), read, store=store)
    return nest.into(rows)
