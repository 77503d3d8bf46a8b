"""A recurrent layer whose length is a symbol against onnxruntime, both on as many threads, at
several lengths: `python -m tests.benchmarks.recurrent_layer [OP] [HIDDEN] [BATCH] [THREADS]`;
without more, LSTM 256 1 2.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.tuning.races.race import race

LENGTHS = (64, 1000)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RNG = np.random.default_rng(0)


def layer(op: str, hidden: int, batch: int, steps: int | str = "seq") -> onnx.ModelProto:
    """One layer as wide as its input."""

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        array = RNG.standard_normal(shape) / np.sqrt(hidden)
        return numpy_helper.from_array(array.astype(np.float32), name)

    rows = GATES[op] * hidden
    weights = [weight("W", 1, rows, hidden), weight("R", 1, rows, hidden), weight("B", 1, 2 * rows)]
    names = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, ["x", "W", "R", "B"], names, name="layer", hidden_size=hidden)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, hidden])
    made = [onnx.ValueInfoProto(name=n) for n in names]
    graph = helper.make_graph([node], op.lower(), [given], made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def main() -> None:
    """Print a race for each length."""
    asked = sys.argv[1:]
    op, hidden, batch, threads = (*asked, *("LSTM", "256", "1", "2")[len(asked) :])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{op}_{hidden}_batch_{batch}.onnx"
        onnx.save(layer(op, int(hidden), int(batch)), path)
        model = explorer.load(path, {"seq": (1, 4096)})
        for steps in LENGTHS:
            x = RNG.standard_normal((steps, int(batch), int(hidden))).astype(np.float32)
            found = race(model, {"x": x}, ("onnxruntime",), int(threads), seconds=5)
            print(f"{steps} steps of {found}")


if __name__ == "__main__":
    main()
