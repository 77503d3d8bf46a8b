"""A step of Adam as one kernel that writes three tensors, and as three kernels.

    python -m tests.benchmarks optimizer_step [--threads 1,2] [--seconds 3] [--json]

One parameter of a million float32 elements.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.passes.arrangement import Options as Steps
from explorer.rammer import Options as RammerOptions
from tests.benchmarks.rows import Row, parser_of, report, timed

DOMAIN = "ai.onnx.preview.training"
ELEMENTS = 1_000_000
ARGS, RESULTS = ("rate", "time", "x", "g", "v", "h"), ("x1", "v1", "h1")


def step(threads: int, kernels: int) -> Compilation:
    """The step compiled, as one kernel or as one for each result."""
    several = [tuple(r if r == k else f"{r}_{k}" for r in RESULTS) for k in RESULTS]
    made = [RESULTS] if kernels == 1 else several
    nodes = [helper.make_node("Adam", ARGS, names, domain=DOMAIN) for names in made]
    inputs = [
        helper.make_tensor_value_info("rate", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("time", TensorProto.INT64, []),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, [ELEMENTS]) for n in ARGS[2:]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [ELEMENTS]) for n in RESULTS]
    graph = helper.make_graph(nodes, "step", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets), path)
        apart = Steps(
            off=("eliminate common subexpressions", "merge sibling kernels") if kernels == 3 else ()
        )
        options = explorer.Options(rammer=RammerOptions(threads=threads), steps=apart)
        compiled = explorer.compile(explorer.load(path), options=options)
    assert len(compiled.program.kernel_calls) == kernels
    return compiled


def rows(threads: Sequence[int], seconds: float) -> Iterator[Row]:
    """Yield a row for each number of threads."""
    rng = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {n: rng.random(ELEMENTS).astype(np.float32) for n in ARGS[2:]}
    values |= {"rate": np.array(0.01, np.float32), "time": np.array(3)}
    for count in threads:
        three, one = step(count, 3), step(count, 1)
        a, b = three.run(values), one.run(values)
        for name in RESULTS:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-6, atol=1e-6)
        runs = {"one kernel": partial(one.run, values), "three": partial(three.run, values)}
        yield timed(f"{count} threads", runs, None, seconds, base="one kernel")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows."""
    flags = parser_of(__doc__, threads="1,2", seconds=3.0).parse_args(arguments)
    report(rows(flags.threads, flags.seconds), flags.json)


if __name__ == "__main__":
    main()
