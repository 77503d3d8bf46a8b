"""A language model that goes on with a text, in turns with PyTorch and onnxruntime with caches.

    python -m tests.benchmarks.decode [--batches 1,4,16] [--threads 1,2] [--steps 64]
        [--model llama] [--seconds 10] [--python PATH] [--runtimes torch,onnxruntime]

All take the best word of each step, over caches of their own: ours in one launch, PyTorch's written
in place (eagerly, and a step compiled), onnxruntime's in its memory, a word longer after each step.
The words are compared first, with a small model's too. A row is the milliseconds of a step: a run
with all steps less one with none, both timed in turns; and the ratio of the fastest other to ours,
with its 99 % interval from the rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import exp, log
from os import sched_getaffinity
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import explorer
from explorer.counters import counters
from explorer.frontends import zoo
from explorer.measure.compare import verdict
from explorer.measure.interval import median_interval
from tests.benchmarks.control_flow import Arrays, Peer, Turn, agree, our_turn, raced

RUNTIMES = ("torch", "torch.compile", "onnxruntime")
PROMPT = 16  # words


def feeds(flow: Any, batch: int, words: int, steps: int) -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "prompt": rng.integers(0, flow.words, (batch, words)),
        "steps": np.array(steps),
        "temperature": np.float32(0),
        "top_p": np.float32(1),
        "noise": np.zeros((flow.most, batch), np.float32),
    }


def compiled(name: str, batch: int, words: int, threads: int) -> explorer.Compilation:
    """Ours, for this batch and prompt: as the others are compiled for them too."""
    model = zoo.load(name)
    bound = explorer.bind_symbols(model.program, {"batch": batch, "n": words})
    c = explorer.compile(replace(model, program=bound, head=b""))
    return c.with_options(rammer=replace(c.options.rammer, threads=threads))


def case(
    name: str, batch: int, threads: int, runtimes: list[str], given: argparse.Namespace
) -> dict[str, Any]:
    """One row of the table; with no seconds to race for, only the answers are compared."""
    source: Any = zoo.entry(name).source
    flow = source.flow
    steps = min(given.steps, flow.most // 2)
    words = min(PROMPT, flow.most - steps)
    c = compiled(name, batch, words, threads)
    row: dict[str, Any] = {"model": name, "batch": batch, "threads": threads, "skipped": {}}
    row["steps"], row["c"] = steps, c
    every: dict[str, Turn] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weights = {f"w:{w.name}": w.drawn(0) for w in flow.weights}
        cores = set(sorted(sched_getaffinity(0))[:threads])
        for count in (steps, 0):
            inputs = feeds(flow, batch, words, count)
            ours = {"words": c.run(inputs)["words"][:, :count]}
            every[f"ours {count}"] = partial(our_turn, c, inputs, perf_counter)
            sizes = {"heads": np.array(flow.heads), "most": np.array(flow.most)}
            asked = {n: inputs[n] for n in ("prompt", "steps")} | sizes
            at = folder / str(count) / "case.npz"
            at.parent.mkdir()
            np.savez(at, **weights, **{f"x:{n}": v for n, v in asked.items()})
            for runtime in runtimes:
                if runtime in row["skipped"]:
                    continue
                peer = Peer(runtime, "llama", at, given.python, cores, "wall")
                stack.callback(peer.close)
                if peer.reason:
                    row["skipped"][runtime] = peer.reason
                    continue
                agree(ours, peer.outputs)
                every[f"{runtime} {count}"] = peer.turn
        row["did"] = counted(c, flow, batch, words, steps)
        if given.seconds <= 0:
            return row
        turns = raced(every, given.seconds)
    each = {
        n: [
            (np.median(a) - np.median(b)) / steps
            for a, b in zip(turns[f"{n} {steps}"], turns[f"{n} 0"])
        ]
        for n in ("ours", *runtimes)
        if f"{n} 0" in turns
    }
    row["ms"] = {n: 1e3 * float(np.median(v)) for n, v in each.items()}
    row["prefill"] = {
        n: 1e3 * float(np.median([np.median(t) for t in turns[f"{n} 0"]])) for n in each
    }
    others = {n: ms for n, ms in row["ms"].items() if n != "ours"}
    if others:
        row["fastest"] = min(others, key=others.__getitem__)
        logs = [log(b / a) for a, b in zip(each["ours"], each[row["fastest"]]) if min(a, b) > 0]
        found = median_interval(logs)
        row["ratio"] = [exp(v) for v in (found.median, found.low, found.high)]
    return row


def counted(
    c: explorer.Compilation, flow: Any, batch: int, words: int, steps: int
) -> dict[str, int]:
    """What a run with the steps did that one without did not."""
    found = []
    for count in (steps, 0):
        with counters.delta() as did:
            c.run(feeds(flow, batch, words, count))
        found.append(did.counts)
    apart = found[0] - found[1]
    return {"kernels compiled": apart.kernel_compiles, "arrays made": apart.arrays_made}


def told(row: dict[str, Any], runtimes: list[str]) -> str:
    """A row in words."""
    cells = [f"{row['batch']:5} {row['threads']:2}"]
    for name in ("ours", *runtimes):
        ms = row["ms"].get(name)
        cells.append(
            f"{'-':>18}" if ms is None else f"{ms:9.3f} ({row['prefill'][name]:.1f})".rjust(18)
        )
    if "ratio" in row:
        ratio, low, high = row["ratio"]
        said = verdict(ratio, low, high)
        cells.append(f"  {ratio:.2f}x ({low:.2f} to {high:.2f}) of {row['fastest']}: {said}")
    return "".join(cells)


def kept(row: dict[str, Any]) -> str:
    """What the arena is beside the caches."""
    source: Any = zoo.entry(row["model"]).source
    flow, plan = source.flow, row["c"].memory()
    cache = 2 * flow.layers * row["batch"] * flow.groups * flow.most * flow.each * 4
    did = ", ".join(f"{count} {what}" for what, count in row["did"].items())
    arena = f"arena {plan.planned_bytes:,} bytes (of {plan.naive_bytes:,} in all)"
    return f"      {did} by {row['steps']} steps; {arena}, caches {cache:,}"


def main() -> None:
    """Print the table, and what could not be raced."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="llama")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    runtimes = given.runtimes.split(",")
    small = case("small_llama", 3, 1, runtimes, argparse.Namespace(**{**vars(given), "seconds": 0}))
    left = [f"{runtime} ({reason})" for runtime, reason in small["skipped"].items()]
    print(f"small_llama: all words are equal; left out: {', '.join(left) or 'none'}", flush=True)
    heads = "".join(f"{n:>18}" for n in ("ours", *runtimes))
    print(f"batch  t{heads}   (ms of a step, and of the prompt)", flush=True)
    for batch in (int(b) for b in given.batches.split(",")):
        for threads in (int(t) for t in given.threads.split(",")):
            row = case(given.model, batch, threads, runtimes, given)
            print(told(row, runtimes), flush=True)
            print(kept(row), flush=True)
            for runtime, reason in row["skipped"].items():
                print(f"      {runtime} is left out: {reason}", flush=True)


if __name__ == "__main__":
    main()
