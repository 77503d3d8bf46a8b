"""The zoo's models with control flow, in turns with NumPy, PyTorch, JAX and onnxruntime.

    python -m tests.benchmarks.control_flow [--models nasrnn,moe] [--batches 1,64] [--threads 1,2]
        [--seconds 10] [--python PATH] [--runtimes JAX,torch] [--clock cpu]

Each runtime is a process of its own, of the Python that `--python` names (this one if it is left
out). PyTorch is raced eagerly, scripted, compiled (what a loop repeats, as its compiler would
unroll the loop) and with its own LSTM; onnxruntime runs the Loop and If that the scripted model is
exported as. All answers are compared first. A case is one row: the median of our runs, that of each
runtime, and the ratio of the fastest other to ours, with its 99 % interval from the rounds. On a
busy machine, `--clock cpu` with one thread counts the seconds that each process had a core.
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
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import exp, log
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import explorer
from explorer.frontends import zoo
from explorer.measure.compare import verdict
from explorer.measure.interval import median_interval
from tests.benchmarks.control_flow_peers.server import CLOCKS
from tests.benchmarks.recursive_autoencoder import balanced, random_tree

MODELS = (
    *("nasrnn", "looped_lstm", "attention_decoding", "seq2seq_decoder"),
    *("beam_search", "blockdrop", "skipnet", "moe"),
    *("recursive_autoencoder", "recursive_autoencoder/random"),
)
TORCH = ("torch", "nn.LSTM", "TorchScript", "torch.compile")
RUNTIMES = ("NumPy", *TORCH, "JAX", "onnxruntime")
EXACT = ("words", "steps", "wanted", "run", "expert")
ROUNDS, TURN = 8, 0.05  # at least so many rounds; a turn lasts so many seconds, or one run
PATIENCE = 240  # seconds until a runtime is ready
ROOT = Path(__file__).parents[2]
Arrays = dict[str, np.ndarray]
Turn = Callable[[int], list[float]]


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


def raced(every: Mapping[str, Turn], seconds: float) -> dict[str, list[list[float]]]:
    """The turns of each, round by round, in an order that goes back and forth."""
    calls, found = {}, {name: [] for name in every}
    for name, turn in every.items():
        once = min(turn(1)[0] for _ in range(2))
        calls[name] = max(1, min(200, int(TURN / once)))
    end, n = perf_counter() + seconds, 0
    while n < ROUNDS or perf_counter() < end:
        order = list(every.items())
        for name, turn in reversed(order) if n % 2 else order:
            found[name].append(turn(calls[name]))
        n += 1
    return found


def case(
    name: str, batch: int, threads: int, runtimes: list[str], given: argparse.Namespace
) -> dict[str, Any]:
    """One row of the table."""
    shown, (name, _, tree) = name, name.partition("/")
    source: Any = zoo.entry(name).source
    inputs = feeds(source.flow, batch, tree)
    c = compiled(name, batch, threads)
    ours = c.run(inputs)
    row: dict[str, Any] = {"model": shown, "batch": batch, "threads": threads, "skipped": {}}
    every: dict[str, Turn] = {"ours": partial(our_turn, c, inputs, CLOCKS[given.clock])}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arrays = {f"w:{w.name}": w.drawn(0) for w in source.flow.weights}
        np.savez(folder / "case.npz", **arrays, **{f"x:{n}": v for n, v in inputs.items()})
        cores = set(sorted(os.sched_getaffinity(0))[:threads])
        for runtime in runtimes:
            where = sys.executable if runtime == "NumPy" else given.python
            peer = Peer(runtime, name, folder / "case.npz", where, cores, given.clock)
            stack.callback(peer.close)
            if peer.reason:
                row["skipped"][runtime] = peer.reason
                continue
            agree(ours, peer.outputs)
            every[runtime] = peer.turn
        turns = raced(every, given.seconds)
    row["ms"] = {n: 1e3 * float(np.median([np.median(t) for t in ts])) for n, ts in turns.items()}
    row["least"] = {n: 1e3 * min(min(t) for t in ts) for n, ts in turns.items()}
    others = {n: ms for n, ms in row["ms"].items() if n != "ours"}
    if others:
        row["fastest"] = min(others, key=others.__getitem__)
        logs = [
            log(np.median(b) / np.median(a)) for a, b in zip(turns["ours"], turns[row["fastest"]])
        ]
        found = median_interval(logs)
        row["ratio"] = [exp(v) for v in (found.median, found.low, found.high)]
        row["of_least"] = min(v for n, v in row["least"].items() if n != "ours")
        row["of_least"] /= row["least"]["ours"]
    return row


def told(row: Mapping[str, Any], runtimes: list[str]) -> str:
    """A row in words: medians in ms, with the least in brackets."""
    cells = [f"{row['model']:28} {row['batch']:3} {row['threads']:2}"]
    for name in ("ours", *runtimes):
        ms = row["ms"].get(name)
        cells.append(
            f"{'-':>17}" if ms is None else f"{ms:8.3f} ({row['least'][name]:.3f})".rjust(17)
        )
    if "ratio" in row:
        ratio, low, high = row["ratio"]
        said = verdict(ratio, low, high)
        cells.append(f"  {ratio:.2f}x ({low:.2f} to {high:.2f}) of {row['fastest']}: {said}")
        cells.append(f"; {row['of_least']:.2f}x of the least times")
    return "".join(cells)


def main() -> None:
    """Print the table, and what could not be raced."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    runtimes = given.runtimes.split(",")
    heads = "".join(f"{n:>17}" for n in ("ours", *runtimes))
    print(f"{'model':28} {'n':>3} {'t':>2}{heads}   (ms: median, least)", flush=True)
    rows = []
    for name in given.models.split(","):
        for batch in (int(b) for b in given.batches.split(",")):
            if name.startswith(("skipnet", "recursive_autoencoder")) and batch > 1:
                continue
            for threads in (int(t) for t in given.threads.split(",")):
                row = case(name, batch, threads, runtimes, given)
                rows.append(row)
                print(told(row, runtimes), flush=True)
                for runtime, reason in row["skipped"].items():
                    if runtime != "nn.LSTM" or name == "looped_lstm":
                        print(f"    {runtime} is left out: {reason}", flush=True)
    ratios = [row["ratio"][0] for row in rows if "ratio" in row]
    for what, found in (
        ("medians", ratios),
        ("least times", [row["of_least"] for row in rows if "of_least" in row]),
    ):
        if found:
            mean = exp(float(np.mean(np.log(found))))
            print(f"{len(found)} ratios of {what}: {mean:.2f} in the mean, {min(found):.2f} worst")


if __name__ == "__main__":
    main()
