"""The zoo's models with control flow, in turns with NumPy, PyTorch, JAX and onnxruntime.

    python -m tests.benchmarks control_flow [--models nasrnn,moe] [--batches 1,64] [--threads 1,2]
        [--seconds 10] [--python PATH] [--runtimes JAX,torch] [--clock cpu] [--json]

Each runtime is a process of its own, of the Python that `--python` names (this one if it is left
out). PyTorch is raced eagerly, scripted, compiled (what a loop repeats, as its compiler would
unroll the loop) and with its own LSTM; onnxruntime runs the Loop and If that the scripted model is
exported as. All answers are compared first. `least_ratio` is that of the fastest other's least time
to ours. On a busy machine, `--clock cpu` with one thread counts the seconds that each process had a
core.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.frontends import zoo
from tests.benchmarks.control_flow_peers.server import CLOCKS
from tests.benchmarks.racer import Turn, turns_of
from tests.benchmarks.recursive_autoencoder import balanced, random_tree
from tests.benchmarks.rows import Row, mean, numbers, over_peers, parser_of, report, row_of

MODELS = (
    *("nasrnn", "looped_lstm", "attention_decoding", "seq2seq_decoder"),
    *("beam_search", "blockdrop", "skipnet", "moe"),
    *("recursive_autoencoder", "recursive_autoencoder/random"),
)
TORCH = ("torch", "nn.LSTM", "TorchScript", "torch.compile")
RUNTIMES = ("NumPy", *TORCH, "JAX", "onnxruntime")
EXACT = ("words", "steps", "wanted", "run", "expert")
PATIENCE = 240  # seconds until a runtime is ready
ROOT = Path(__file__).parents[2]
Arrays = dict[str, np.ndarray]


class Peer:
    """A model in a runtime, in a process of its own."""

    def __init__(
        self, runtime: str, name: str, case: Path, python: str, cores: set[int], clock: str
    ) -> None:
        self.name, self.outputs = runtime, case.with_name(f"{runtime}.npz")
        threads = str(len(cores))
        count = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        module = "tests.benchmarks.control_flow_peers.server"
        self.process = subprocess.Popen(
            [python, "-m", module, runtime, name, str(case), str(self.outputs), clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(count, threads)},
            preexec_fn=partial(os.sched_setaffinity, 0, cores),
        )
        self.reason = self._start()

    def _start(self) -> str:
        """What stands in the way, "" for nothing."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            return f"not ready within {PATIENCE} s"
        line = self.process.stdout.readline()
        return str(json.loads(line).get("reason", "")) if line else "its process ended"

    def turn(self, calls: int) -> list[float]:
        """Seconds of so many runs. Stopped between its turns: threads of onnxruntime spin for 35 ms
        after a run and those of OpenBLAS for 100, on cores that the next one needs.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        found: list[float] = json.loads(self.process.stdout.readline())
        self.process.send_signal(signal.SIGSTOP)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def feeds(flow: Any, batch: int, tree: str) -> Arrays:
    """Inputs; sentences end after three fifths of their steps, images have a colour, trees are
    balanced or "random".
    """
    rng = np.random.default_rng(0)
    found = {}
    for name, kind in flow.inputs.items():
        shape = [d if isinstance(d, int) else batch for d in kind.dims]
        found[name] = rng.standard_normal(shape, np.float32)
        if name == "image":
            found[name] += 2 * rng.standard_normal((shape[0], 3, 1, 1), np.float32)
        if name == "ending":
            last = shape[0] * 3 // 5
            found[name] = np.where(np.arange(shape[0]) >= last, 60, -60).astype(np.float32)
        if name in ("left", "right"):
            n = flow.nodes
            links = random_tree(n, 0, n) if tree == "random" else balanced(n, n)
            found[name] = links[name == "right"]
    return found


def compiled(name: str, batch: int, threads: int) -> explorer.Compilation:
    """Ours, for this batch: as the others are compiled for it too."""
    model = zoo.load(name)
    symbols = [s.name for s in model.program.env.symbols]
    bound = explorer.bind_symbols(model.program, dict.fromkeys(symbols, batch))
    c = explorer.compile(replace(model, program=bound, head=b""))  # it is another one
    return c.with_options(rammer=replace(c.options.rammer, threads=threads))


def agree(found: Mapping[str, np.ndarray], given: Path) -> float:
    """How far a runtime's answers are from ours, in parts of the largest."""
    apart = 0.0
    with np.load(given) as stored:
        for (name, ours), theirs in zip(found.items(), stored.values(), strict=True):
            if name in EXACT:
                np.testing.assert_array_equal(ours, theirs, err_msg=name)
            else:
                least = np.abs(ours).max() + 1e-9
                apart = max(apart, float(np.abs(ours - theirs).max() / least))
    if apart > 1e-3:
        raise AssertionError(f"answers are {apart:.1e} apart")
    return apart


def our_turn(
    c: explorer.Compilation, inputs: Arrays, now: Callable[[], float], calls: int
) -> list[float]:
    times = []
    for _ in range(calls):
        begin = now()
        c.run(inputs)
        times.append(now() - begin)
    return times


def row(
    shown: str, batch: int, threads: int, runtimes: Sequence[str], flags: argparse.Namespace
) -> Row:
    """Compare the answers of a model, then time it in all runtimes that have it."""
    name, _, tree = shown.partition("/")
    source: Any = zoo.entry(name).source
    inputs = feeds(source.flow, batch, tree)
    c = compiled(name, batch, threads)
    answer, skipped = c.run(inputs), dict[str, str]()
    turns: dict[str, Turn] = {"ours": partial(our_turn, c, inputs, CLOCKS[flags.clock])}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arrays = {f"w:{w.name}": w.drawn(0) for w in source.flow.weights}
        np.savez(folder / "case.npz", **arrays, **{f"x:{n}": v for n, v in inputs.items()})
        cores = set(sorted(os.sched_getaffinity(0))[:threads])
        for runtime in runtimes:
            where = sys.executable if runtime == "NumPy" else flags.python
            peer = Peer(runtime, name, folder / "case.npz", where, cores, flags.clock)
            stack.callback(peer.close)
            if not peer.reason:
                agree(answer, peer.outputs)
                turns[runtime] = peer.turn
            elif runtime != "nn.LSTM" or name == "looped_lstm":
                skipped[runtime] = peer.reason
        series = turns_of(turns, flags.seconds)
    least = {n: min(map(min, s.turns)) for n, s in series.items()}
    ours = {"ours": series.pop("ours")}
    others = [ns for n, ns in least.items() if n != "ours"]
    details = {"least_ratio": min(others) / least["ours"] if others else None}
    case = f"{shown} batch {batch}, {threads} threads"
    return row_of(case, ours, series, skipped=skipped, details=details)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize the ratios of medians, and of least times."""
    ratios = [r.details["least_ratio"] for r in rows if r.details["least_ratio"]]
    return over_peers(rows) | {"over_fastest_peer_by_least_times": mean(ratios)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model, batch and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=10.0)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", type=numbers, default="1,64")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    flags = parser.parse_args(arguments)
    cases = [
        case
        for case in product(flags.models.split(","), flags.batches, flags.threads)
        if case[1] == 1 or not case[0].startswith(("skipnet", "recursive_autoencoder"))
    ]
    rows = (row(*case, flags.runtimes.split(","), flags) for case in cases)
    report(rows, flags.json, ("least_ratio",), summary)


if __name__ == "__main__":
    main()
