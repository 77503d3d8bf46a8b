"""RNN, GRU and LSTM: one product for all inputs, then the steps, in a loop or unrolled."""

from __future__ import annotations

from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import demand_shape
from explorer.ops.lowering import Lowering
from explorer.ops.record import OperatorRecord
from explorer.ops.recurrent.direction import GATES, Layer, default_activations
from explorer.ops.recurrent.loops import as_loop
from explorer.ops.recurrent.reference import functions_of, run
from explorer.ops.recurrent.results import write_last, write_rows
from explorer.ops.recurrent.unrolled import unroll, write_steps
from explorer.ops.site import Site

LENGTHS = 4  # the position of the lengths of the batch's sequences


def _directions(site: Site) -> tuple[bool, ...]:
    """Return for each direction whether it runs backwards."""
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    return directions.get(site.text("direction", "forward")) or site.fail("direction is not known")


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


RECORDS = tuple(_record(op) for op in GATES)
