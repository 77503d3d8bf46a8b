"""A chain bound by memory: six elementwise operators and a normalisation on 64 MiB.

    python -m tests.benchmarks.memory_chain [--threads 2] [--seconds 4] [--rows 16384]

Ratios with 99 % intervals, all runtimes taking turns: how many times as long the same kernels take
with every operator its own, then onnxruntime, torch.compile, and the C library's copy of the input
to the output, which moves the least that the chain can move. Ours write into arrays that are kept,
as onnxruntime's arena keeps its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter_ns

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compilation import Compilation
from explorer.frontends.model import Model
from explorer.measure.compare import comparison, measurement
from explorer.measure.machine import machine
from explorer.measure.turns import take_turns
from explorer.tuning.answers import check_answers
from explorer.tuning.peers.runtimes import Skipped, prepare
from explorer.tuning.races.race import with_threads
from explorer.welder import Options as WelderOptions

COLUMNS = 1024
PEERS = ("onnxruntime", "torch.compile")


def chain(rows: int, columns: int, folder: Path) -> Model:
    """`layer_norm(min(square(relu(x * a + b)) - c, 6))` on float32[rows, columns]."""
    rng = np.random.default_rng(0)
    known = {n: rng.standard_normal(columns).astype(np.float32) for n in "abcgh"}
    known["six"] = np.array(6, np.float32)
    shape = [rows, columns]
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["scaled"]),
        helper.make_node("Add", ["scaled", "b"], ["shifted"]),
        helper.make_node("Relu", ["shifted"], ["positive"]),
        helper.make_node("Mul", ["positive", "positive"], ["square"]),
        helper.make_node("Sub", ["square", "c"], ["moved"]),
        helper.make_node("Min", ["moved", "six"], ["clipped"]),
        helper.make_node("LayerNormalization", ["clipped", "g", "h"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "memory_chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(v, n) for n, v in known.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), folder / "chain.onnx")
    return explorer.load(folder / "chain.onnx")


def compiled(model: Model, welded: bool, threads: int) -> Compilation:
    """Our kernels, one for the chain or one for each operator."""
    options = explorer.Options(welder=WelderOptions(enabled=welded))
    return with_threads(explorer.compile(model, options=options), threads)


def copying(x: np.ndarray, y: np.ndarray, threads: int) -> Callable[[], None]:
    """The C library's copy by so many threads."""
    pieces = list(zip(np.array_split(x, threads), np.array_split(y, threads), strict=True))

    def run() -> None:
        others = [Thread(target=np.copyto, args=(b, a)) for a, b in pieces[1:]]
        for t in others:
            t.start()
        np.copyto(pieces[0][1], pieces[0][0])
        for t in others:
            t.join()

    return run


def race(rows: int, threads: int, seconds: float) -> list[str]:
    """What is printed: a line for each runtime."""
    x = np.random.default_rng(1).standard_normal((rows, COLUMNS)).astype(np.float32)
    out = {"y": np.zeros_like(x)}
    with TemporaryDirectory() as name, ExitStack() as stack:
        model = chain(rows, COLUMNS, Path(name))
        ours, apart = (compiled(model, on, threads) for on in (True, False))
        given = {"x": x}
        answer = {n: a.copy() for n, a in ours.run(given, out=out).items()}
        check_answers(answer, apart.run(given), "unwelded")
        names = [f"unwelded, {len(apart.program.kernel_calls)} kernels"]
        works: list[Callable[[], object]] = [
            lambda: ours.run(given, out=out),
            lambda: apart.run(given, out=out),
        ]
        for peer in PEERS:
            try:
                ready = prepare(peer, model, given, threads)
            except Skipped as reason:
                print(f"{peer} skipped: {reason}")
                continue
            stack.callback(ready.close)
            check_answers(answer, ready.run(), peer)
            names.append(peer)
            works.append(ready.run)
        names.append("copy of the C library")
        works.append(copying(x, np.zeros_like(x), threads))
        first, *others = take_turns(works, seconds, perf_counter_ns)
    mine = measurement(first)
    rate = 2 * x.nbytes / mine.median_us / 1e3
    head = f"welded, {len(ours.program.kernel_calls)} kernel: {mine.median_us / 1e3:.2f} ms"
    lines = [f"{head}, {rate:.1f} GB/s of what is read and written, {threads} threads"]
    lines += [f"  {n:24} {comparison(first, o)}" for n, o in zip(names, others, strict=True)]
    return lines


def main(given: Sequence[str] | None = None) -> None:
    """Parse, race, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rows", type=int, default=16384)
    chosen = parser.parse_args(given)
    print(machine().line)
    for line in race(chosen.rows, chosen.threads, chosen.seconds):
        print(line)


if __name__ == "__main__":
    main()
