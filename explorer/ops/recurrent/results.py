"""Results of a recurrent layer, from the states of its directions."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ops.arithmetic.elementwise import call
from explorer.ops.lowering import Nest, shape_of
from explorer.ops.recurrent.direction import Layer

Place = tuple[Affine, Affine, Affine, Affine]


def axes_of(layer: Layer) -> list[Axis]:
    """Return the axes of a state."""
    return [Axis("b", layer.batch), Axis("j", layer.hidden)]


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
    axes = [Axis("t", layer.steps), *axes_of(layer)]
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
        nest.compute("y", shape_of(result), low.site.dtype(), axes_of(layer), read, store=store)
    nest.into(result)
