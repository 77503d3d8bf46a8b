"""ATen's recurrent layers, each as one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import OperatorCall
from explorer.frontends.aten.shaping import slice_dim
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit_several

Handler = Callable[..., Any]
# Indices of PyTorch's gates, in ONNX's order.
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _reorder_gates(op: str, weight: TracedArray) -> TracedArray:
    """Reorder a weight's gates from PyTorch's order to ONNX's."""
    order = GATES[op]
    if len(order) == 1:
        return weight
    size = weight.shape[0] // len(order)
    parts = [slice_dim(weight, 0, size * g, size * (g + 1)) for g in order]
    ordered: TracedArray = np.concatenate(parts)
    return ordered


def _layer(
    op: str,
    x: TracedArray,
    states: Sequence[TracedArray],
    params: Sequence[Sequence[TracedArray]],
    attrs: Mapping[str, Any],
) -> tuple[TracedArray, list[TracedArray]]:
    """Emit one layer of x (steps, batch, features); return its rows and its last states."""
    ordered = [[_reorder_gates(op, p) for p in direction] for direction in params]
    w, r = (np.stack([direction[i] for direction in ordered]) for i in (0, 1))
    bias = None
    if len(ordered[0]) > 2:
        bias = np.stack([np.concatenate(direction[2:4]) for direction in ordered])
    mode = "bidirectional" if len(params) == 2 else "forward"
    operands = (x, w, r, bias, None, *states)
    each = {n: v * len(params) if n == "activations" else v for n, v in attrs.items()}
    size = r.type.dims[2]
    outputs = emit_several(op, 1 + len(states), *operands, hidden_size=size, direction=mode, **each)
    steps, directions, batch, size = outputs[0].shape
    rows = np.transpose(outputs[0], (0, 2, 1, 3))
    return np.reshape(rows, (steps, batch, directions * size)), list(outputs[1:])


def _recurrent(op: str, **attrs: Any) -> Handler:
    def handler(
        call: OperatorCall,
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
            call.refuse("dropout between layers, or a projection, is not supported")
        array = call.cast(x)
        if batch_first:
            array = np.swapaxes(array, 0, 1)
        starts = [call.cast(h) for h in (hx if isinstance(hx, (list, tuple)) else [hx])]
        each, directions = 2 + 2 * biases, 1 + both_ways
        blocks = [[call.cast(p) for p in params[i : i + each]] for i in range(0, len(params), each)]
        final_states: list[list[TracedArray]] = []
        for n in range(layers):
            states = [slice_dim(s, 0, n * directions, (n + 1) * directions) for s in starts]
            array, last = _layer(
                op, array, states, blocks[n * directions : (n + 1) * directions], attrs
            )
            final_states.append(last)
        rows = np.swapaxes(array, 0, 1) if batch_first else array
        ends = [np.concatenate(column) for column in zip(*final_states, strict=True)]
        return [rows, *ends]

    return handler


RECURRENT: Mapping[str, Handler] = {
    "lstm.input": _recurrent("LSTM"),
    "gru.input": _recurrent("GRU", linear_before_reset=1),
    "rnn_tanh.input": _recurrent("RNN", activations=("Tanh",)),
    "rnn_relu.input": _recurrent("RNN", activations=("Relu",)),
}
