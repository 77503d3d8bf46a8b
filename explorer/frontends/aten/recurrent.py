"""ATen's recurrent layers, each as one operator of the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import Call
from explorer.frontends.aten.shaping import cut
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit_several

Handler = Callable[..., Any]
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}  # PyTorch's order, in ONNX's


def _gates(op: str, weight: TracedArray) -> TracedArray:
    """The rows of a weight in the order that the language has them."""
    order = GATES[op]
    if len(order) == 1:
        return weight
    size = weight.shape[0] // len(order)
    parts = [cut(weight, 0, size * g, size * (g + 1)) for g in order]
    found: TracedArray = np.concatenate(parts)
    return found


def _layer(
    op: str,
    x: TracedArray,
    states: Sequence[TracedArray],
    params: Sequence[Sequence[TracedArray]],
    attrs: Mapping[str, Any],
) -> tuple[TracedArray, list[TracedArray]]:
    """One layer of x, which is (steps, batch, features): its rows, and its last states."""
    ordered = [[_gates(op, p) for p in direction] for direction in params]
    w, r = (np.stack([direction[i] for direction in ordered]) for i in (0, 1))
    bias = None
    if len(ordered[0]) > 2:
        bias = np.stack([np.concatenate(direction[2:4]) for direction in ordered])
    way = "bidirectional" if len(params) == 2 else "forward"
    given = (x, w, r, bias, None, *states)
    each = {n: v * len(params) if n == "activations" else v for n, v in attrs.items()}
    size = r.type.dims[2]
    found = emit_several(op, 1 + len(states), *given, hidden_size=size, direction=way, **each)
    steps, directions, batch, size = found[0].shape
    rows = np.transpose(found[0], (0, 2, 1, 3))
    return np.reshape(rows, (steps, batch, directions * size)), list(found[1:])


def _recurrent(op: str, **attrs: Any) -> Handler:
    def handler(
        call: Call,
        x: Any,
        hx: Any,
        params: Sequence[Any],
        biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> Any:
        if (dropout and train) or (op == "LSTM" and len(params) % (2 + 2 * biases)):
            call.refuse("dropout between layers, or a projection")
        given = call.cast(x)
        if batch_first:
            given = np.swapaxes(given, 0, 1)
        starts = [call.cast(h) for h in (hx if isinstance(hx, (list, tuple)) else [hx])]
        each, ways = 2 + 2 * biases, 1 + both_ways
        blocks = [[call.cast(p) for p in params[i : i + each]] for i in range(0, len(params), each)]
        lasts: list[list[TracedArray]] = []
        for n in range(layers):
            states = [cut(s, 0, n * ways, (n + 1) * ways) for s in starts]
            given, last = _layer(op, given, states, blocks[n * ways : (n + 1) * ways], attrs)
            lasts.append(last)
        rows = np.swapaxes(given, 0, 1) if batch_first else given
        ends = [np.concatenate(column) for column in zip(*lasts, strict=True)]
        return [rows, *ends]

    return handler


RECURRENT: Mapping[str, Handler] = {
    "lstm.input": _recurrent("LSTM"),
    "gru.input": _recurrent("GRU", linear_before_reset=1),
    "rnn_tanh.input": _recurrent("RNN", activations=("Tanh",)),
    "rnn_relu.input": _recurrent("RNN", activations=("Relu",)),
}
