"""A chain bound by memory: six elementwise operators and a normalisation on 64 MiB.

    python -m tests.benchmarks memory_chain [--threads 2] [--seconds 4] [--rows 16384] [--json]

All take turns: the chain as one kernel, with every operator its own, onnxruntime, torch.compile,
and the C library's copy of the input to the output, which moves the least that the chain can move:
`copy_percent` is its share of our time. Ours write into arrays that are kept, as onnxruntime's
arena keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.frontends.model import Model
from explorer.tuning.compare import check_answers
from explorer.tuning.peers.peer import Skipped
from explorer.tuning.peers.peer_process import prepare_apart
from explorer.tuning.race import with_threads
from explorer.welder import Options as WelderOptions
from tests.benchmarks.rows import Row, parser_of, report, timed

COLUMNS = 1024
PEERS = ("onnxruntime", "torch.compile")
COPY = "C library's copy"


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


def without_copy(row: Row) -> tuple[Row, float]:
    """Take the copy, which is a floor and no peer, out of a row; return its seconds too."""
    peers, ratios = ({n: i for n, i in x.items() if n != COPY} for x in (row.peers, row.ratios))
    return replace(row, peers=peers, ratios=ratios), row.peers[COPY].median


def row(rows: int, threads: int, seconds: float) -> Row:
    """Compare the answers, then time all of them."""
    x = np.random.default_rng(1).standard_normal((rows, COLUMNS)).astype(np.float32)
    out, feeds, skipped = {"y": np.zeros_like(x)}, {"x": x}, {}
    peers: dict[str, Callable[[], object]] = {}
    with TemporaryDirectory() as name, ExitStack() as stack:
        model = chain(rows, COLUMNS, Path(name))
        ours, apart = (compiled(model, on, threads) for on in (True, False))
        answer = {n: a.copy() for n, a in ours.run(feeds, out=out).items()}
        check_answers(answer, apart.run(feeds), "unwelded")
        for peer in PEERS:
            try:
                ready = prepare_apart(peer, model, feeds, threads)
            except Skipped as reason:
                skipped[peer] = str(reason)
                continue
            stack.callback(ready.close)
            check_answers(answer, ready.run(), peer)
            peers[peer] = ready.run
        peers[COPY] = copying(x, np.zeros_like(x), threads)
        variants = {"welded": partial(ours.run, feeds, out=out)}
        variants["unwelded"] = partial(apart.run, feeds, out=out)
        kernels = [len(c.program.kernel_calls) for c in (ours, apart)]
        details = {"threads": threads, "kernels": dict(zip(variants, kernels, strict=True))}
        found = timed(
            f"{rows} rows, {threads} threads", variants, peers, seconds,
            base="welded", skipped=skipped, details=details,
        )  # fmt: skip
    found, copy = without_copy(found)
    ours_s = found.variants["welded"].median
    floor = {"gb_per_s": 2 * x.nbytes / ours_s / 1e9, "copy_percent": 100 * copy / ours_s}
    return replace(found, details={**found.details, **floor})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of threads."""
    parser = parser_of(__doc__, threads="2", seconds=4.0)
    parser.add_argument("--rows", type=int, default=16384)
    flags = parser.parse_args(arguments)
    rows = (row(flags.rows, threads, flags.seconds) for threads in flags.threads)
    report(rows, flags.json, ("kernels", "gb_per_s", "copy_percent"))


if __name__ == "__main__":
    main()
