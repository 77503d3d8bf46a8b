"""A recurrent layer as an ONNX Scan that stacks every step, against NumPy and onnxruntime.

    python -m tests.benchmarks scan_rnn [--seconds 12] [--json]

100 steps, hidden 64, batch 1; `loop` is the same body in a Loop that stacks nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compiler.compilation import Compilation
from tests.benchmarks.rows import Row, parser_of, report, timed

STEPS, WIDTH = 100, 64
ROW = (1, WIDTH)
RNG = np.random.default_rng(0)
WEIGHTS = {n: (RNG.standard_normal((WIDTH, WIDTH)) / 8).astype(np.float32) for n in ("W", "U")}
BIAS = RNG.standard_normal(WIDTH).astype(np.float32)
STEP = (
    helper.make_node("MatMul", ["x", "W"], ["a"]),
    helper.make_node("MatMul", ["h", "U"], ["b"]),
    helper.make_node("Add", ["a", "b"], ["c"]),
    helper.make_node("Add", ["c", "bias"], ["d"]),
    helper.make_node("Tanh", ["d"], ["after"]),
)


def value(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A typed value."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(node: onnx.NodeProto, outputs: list[onnx.ValueInfoProto]) -> bytes:
    """A model of one node."""
    arrays = {**WEIGHTS, "bias": BIAS, "steps": np.array(STEPS)}
    weights = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    inputs = [value("h0", *ROW), value("xs", STEPS, *ROW)]
    graph = helper.make_graph([node], "rnn", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def scan() -> bytes:
    """Every step is stacked."""
    row = helper.make_node("Identity", ["after"], ["y"])
    given, made = [value("h", *ROW), value("x", *ROW)], [value("after", *ROW), value("y", *ROW)]
    body = helper.make_graph([*STEP, row], "step", given, made)
    node = helper.make_node("Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)
    return model(node, [value("last", *ROW), value("ys", STEPS, *ROW)])


def loop() -> bytes:
    """The last state alone is kept."""
    begin = helper.make_node("Gather", ["xs", "i"], ["x"])
    going = helper.make_node("Identity", ["go"], ["more"])
    counters = [value("i", kind=TensorProto.INT64), value("go", kind=TensorProto.BOOL)]
    made = [value("more", kind=TensorProto.BOOL), value("after", *ROW)]
    body = helper.make_graph([begin, *STEP, going], "step", [*counters, value("h", *ROW)], made)
    node = helper.make_node("Loop", ["steps", "", "h0"], ["last"], body=body)
    return model(node, [value("last", *ROW)])


def by_numpy(h: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the scan computes."""
    rows = []
    for x in xs:
        h = np.tanh(x @ WEIGHTS["W"] + h @ WEIGHTS["U"] + BIAS)
        rows.append(h)
    return h, np.stack(rows)


def compiled(made: bytes, name: str) -> Compilation:
    """A model of ours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(made)
        return explorer.compile(explorer.load(path))


def row(seconds: float) -> Row:
    """Compare the answers, then time all of them."""
    feeds = {
        "h0": np.zeros(ROW, np.float32),
        "xs": RNG.standard_normal((STEPS, *ROW)).astype(np.float32),
    }
    stacked, plain = compiled(scan(), "scan"), compiled(loop(), "loop")
    session = onnxruntime.InferenceSession(scan(), providers=["CPUExecutionProvider"])
    right = by_numpy(feeds["h0"], feeds["xs"])
    for result, wanted in zip(stacked.run(feeds).values(), right, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    ours = {"scan": partial(stacked.run, feeds), "loop": partial(plain.run, feeds)}
    peers = {
        "NumPy": partial(by_numpy, feeds["h0"], feeds["xs"]),
        "onnxruntime": partial(session.run, None, feeds),
    }
    return timed(f"{STEPS} steps", ours, peers, seconds, base="scan")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the row."""
    flags = parser_of(__doc__, seconds=12.0).parse_args(arguments)
    report([row(flags.seconds)], flags.json)


if __name__ == "__main__":
    main()
