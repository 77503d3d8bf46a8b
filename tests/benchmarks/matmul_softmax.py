"""Products welded with what follows them, against one kernel for each operator, and the floors.

    python -m tests.benchmarks matmul_softmax [--threads 1,2] [--seconds 2] [--only attention]
        [--json]

The Welder paper's own pair, MatMul[98304 x 64 x 128] + Softmax (1.26 times as fast welded on its
GPU); attention of 12 heads of 64 over 512 places; perceptrons of two products. Welded, unwelded and
the C library's copy take turns; outputs are written into arrays that are kept. The floor of memory
is what is read and written at the rate of that copy, the floor of arithmetic what is multiplied and
added at the rate of this machine's units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import explorer
from explorer.devices.model import Device
from explorer.frontends.model import Model
from explorer.measure.this_cpu import this_cpu
from explorer.tuning.compare import check_answers
from tests.benchmarks.memory_chain import COPY, compiled, copying, without_copy
from tests.benchmarks.rows import Row, parser_of, report, timed

COLUMNS = ("kernels", "percent_of_memory_floor", "percent_of_arithmetic_floor")
COPIED = 1 << 24  # elements of what the copy moves: more than a cache holds


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, the shapes of its inputs and of its output, and its multiply-adds."""

    name: str
    nodes: tuple[NodeProto, ...]
    inputs: dict[str, tuple[int, ...]]
    output: tuple[int, ...]
    products: int
    weights: dict[str, np.ndarray]

    def model(self, folder: Path) -> Model:
        """The graph as a model; its output is `y`."""
        graph = helper.make_graph(
            list(self.nodes),
            self.name,
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, s in self.inputs.items()
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, self.output)],
            [numpy_helper.from_array(v, n) for n, v in self.weights.items()],
        )
        opset = [helper.make_opsetid("", 20)]
        path = folder / f"{self.name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
        return explorer.load(path)

    @property
    def bytes(self) -> int:
        """What must be read and written at least."""
        shapes = [*self.inputs.values(), self.output, *(w.shape for w in self.weights.values())]
        return 4 * sum(int(np.prod(s)) for s in shapes)


def cases() -> Iterator[Case]:
    """The pair of the paper, attention, and perceptrons."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

    node = helper.make_node
    m, k, n = 98304, 64, 128
    yield Case(
        "matmul_softmax",
        (node("MatMul", ["x", "w"], ["s"]), node("Softmax", ["s"], ["y"], axis=-1)),
        {"x": (m, k)},
        (m, n),
        m * k * n,
        {"w": weight(k, n)},
    )
    heads, places, width = 12, 512, 64
    shape = (1, heads, places, width)
    yield Case(
        "attention",
        (
            node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "t"], ["s"]),
            node("Mul", ["s", "scale"], ["x"]),
            node("Softmax", ["x"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["y"]),
        ),
        dict.fromkeys("qkv", shape),
        shape,
        2 * heads * places * places * width,
        {"scale": np.array(width**-0.5, np.float32)},
    )
    for m, k, n in ((128, 768, 3072), (65536, 64, 64)):
        yield Case(
            f"perceptron_{m}x{k}x{n}",
            (
                node("MatMul", ["x", "w"], ["a"]),
                node("Add", ["a", "b"], ["c"]),
                node("Gelu", ["c"], ["d"]),
                node("MatMul", ["d", "v"], ["e"]),
                node("Add", ["e", "u"], ["y"]),
            ),
            {"x": (m, k)},
            (m, k),
            2 * m * k * n,
            {"w": weight(k, n), "b": weight(n), "v": weight(n, k), "u": weight(k)},
        )


def multiplied_per_us(device: Device, threads: int) -> float:
    """Multiply-adds that so many units do in a microsecond."""
    return device.clock_ghz * 1e3 * device.fma_per_cycle * device.lanes * threads


def row(case: Case, threads: int, seconds: float) -> Row:
    """Time welded against unwelded kernels; the details say how much of each floor is reached."""
    rng = np.random.default_rng(1)
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in case.inputs.items()}
    out = {"y": np.zeros(case.output, np.float32)}
    one, other = np.ones(COPIED, np.float32), np.ones(COPIED, np.float32)  # pages that are there
    with TemporaryDirectory() as folder:
        model = case.model(Path(folder))
        welded, apart = (compiled(model, on, threads) for on in (True, False))
        answer = {n: a.copy() for n, a in welded.run(feeds, out=out).items()}
        check_answers(answer, apart.run(feeds), "unwelded")
        variants = {
            "welded": partial(welded.run, feeds, out=out),
            "unwelded": partial(apart.run, feeds, out=out),
        }
        copy = {COPY: copying(one, other, threads)}
        name = f"{case.name}, {threads} threads"
        found = timed(name, variants, copy, seconds, base="welded")
    found, copy_s = without_copy(found)
    us = 1e6 * found.variants["welded"].median
    rate = 2 * one.nbytes / (1e6 * copy_s)  # bytes in a us
    memory = case.bytes / rate
    arithmetic = case.products / multiplied_per_us(this_cpu(), threads)
    kernels = [len(c.program.kernel_calls) for c in (welded, apart)]
    details = {
        "kernels": dict(zip(variants, kernels, strict=True)),
        "copy_gb_per_s": rate / 1e3,
        "percent_of_memory_floor": 100 * memory / us,
        "percent_of_arithmetic_floor": 100 * arithmetic / us,
    }
    return replace(found, details=details)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each case and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=2.0)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    flags = parser.parse_args(arguments)
    chosen = [c for c in cases() if c.name.startswith(flags.only)]
    rows = (row(case, threads, flags.seconds) for case in chosen for threads in flags.threads)
    report(rows, flags.json, COLUMNS)


if __name__ == "__main__":
    main()
