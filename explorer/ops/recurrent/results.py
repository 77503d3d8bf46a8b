"""What a recurrent layer gives, from what its directions make."""

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
    """The axes of a state."""
    return [Axis("b", layer.batch), Axis("j", layer.hidden)]


def place_of(layer: Layer, step: Affine, way: int) -> Place:
    """Where the hidden state after a step lies in the first result."""
    b, j, direction = var("b"), var("j"), Affine((), way)
    return (b, step, direction, j) if layer.by_batch else (step, direction, b, j)


def write_rows(layer: Layer, result: Var, rows: Sequence[Var]) -> None:
    """The first result from the stacked hidden states of each direction, in the order in which it
    makes them. Where sequences end at their lengths: zeros after, reversed within.
    """
    if len(rows) == 1 and not layer.ways[0] and not layer.by_batch and layer.lengths is None:
        layer.low.view(result, rows[0])
        return
    nest, dtype = layer.low.nest("stack"), layer.low.site.dtype()
    axes = [Axis("t", layer.steps), *axes_of(layer)]
    for way, made in enumerate(rows):
        name = nest.tensor(made, f"x{way}")
        value = _within(layer, nest, name, way) if layer.lengths else _row(layer, name, way)
        store = place_of(layer, var("t"), way)
        nest.compute("y", shape_of(result), dtype, axes, value, store=store)
    nest.into(result)


def _row(layer: Layer, rows: str, way: int) -> Expr:
    last = Affine((), layer.steps - 1)
    place = last + var("t") * -1 if layer.ways[way] else var("t")
    return Read(rows, (place, var("b"), var("j")))


def _within(layer: Layer, nest: Nest, rows: str, way: int) -> Expr:
    """The row of a step of a sequence with a length."""
    assert layer.lengths is not None
    length = nest.load(layer.lengths, "length", (var("b"),))
    step = call("cast_int32", IndexValue(var("t")))
    going = call("lt", step, length)
    back = call("sub", call("sub", length, Const(1, "int32")), step)
    place: Affine | Expr = call("where", going, back, step) if layer.ways[way] else var("t")
    read = Read(rows, (place, var("b"), var("j")))
    return call("where", going, read, Const(0.0, layer.low.site.dtype()))


def write_last(layer: Layer, result: Var, values: Sequence[Var]) -> None:
    """The last state of each direction as one value."""
    low = layer.low
    if len(values) == 1:
        low.view(result, values[0])
        return
    nest = low.nest("stack")
    for way, value in enumerate(values):
        place = Affine((), way)
        store = (var("b"), place, var("j")) if layer.by_batch else (place, var("b"), var("j"))
        read = Read(nest.tensor(value, f"x{way}"), (var("b"), var("j")))
        nest.compute("y", shape_of(result), low.site.dtype(), axes_of(layer), read, store=store)
    nest.into(result)
