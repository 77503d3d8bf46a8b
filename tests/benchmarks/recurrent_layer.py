"""A recurrent layer whose length is a symbol against onnxruntime, at several lengths.

python -m tests.benchmarks recurrent_layer [--op LSTM] [--hidden 256] [--batch 1] [--threads 2]
    [--seconds 5] [--json]
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.rammer import Options as RammerOptions
from tests.benchmarks.paper_models import model_row
from tests.benchmarks.rows import Row, parser_of, report

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


def rows(op: str, hidden: int, batch: int, threads: int, seconds: float) -> Iterator[Row]:
    """Yield a row for each length."""
    options = explorer.Options(rammer=RammerOptions(threads=threads))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{op}_{hidden}_batch_{batch}.onnx"
        onnx.save(layer(op, hidden, batch), path)
        c = explorer.compile(explorer.load(path, {"seq": (1, 4096)}), options=options)
        for steps in LENGTHS:
            x = RNG.standard_normal((steps, batch, hidden)).astype(np.float32)
            row = model_row({"ours": c}, {"x": x}, ("onnxruntime",), seconds)
            yield replace(row, case=f"{row.case}, {steps} steps, {threads} threads")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of threads and length."""
    parser = parser_of(__doc__, threads="2", seconds=5.0)
    parser.add_argument("--op", default="LSTM", choices=GATES)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1)
    f = parser.parse_args(arguments)
    cases = (rows(f.op, f.hidden, f.batch, threads, f.seconds) for threads in f.threads)
    report(chain.from_iterable(cases), f.json)


if __name__ == "__main__":
    main()
