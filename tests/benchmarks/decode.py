"""A language model that goes on with a text, in turns with PyTorch and onnxruntime with caches.

    python -m tests.benchmarks decode [--batches 1,4,16] [--threads 1,2] [--steps 64]
        [--model llama] [--seconds 10] [--python PATH] [--runtimes torch,onnxruntime] [--json]

All take the best word of each step, over caches of their own: ours in one launch, PyTorch's written
in place (eagerly, and a step compiled), onnxruntime's in its memory, a word longer after each step.
The words are compared first, with a small model's too. Times are of a step: a run with all steps
less one with none, both timed in turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from os import sched_getaffinity
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import explorer
from explorer.frontends import zoo
from explorer.process.counters import counters
from tests.benchmarks.control_flow import Arrays, Peer, agree, our_turn
from tests.benchmarks.racer import Turn, turns_of
from tests.benchmarks.rows import Row, numbers, parser_of, report, row_of, say, series_of

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


def row(
    name: str, batch: int, threads: int, runtimes: Sequence[str], flags: argparse.Namespace
) -> Row | None:
    """Compare the words, then time a step; None with no seconds to time it for."""
    source: Any = zoo.entry(name).source
    flow = source.flow
    steps = min(flags.steps, flow.most // 2)
    words = min(PROMPT, flow.most - steps)
    c = compiled(name, batch, words, threads)
    turns, skipped = dict[str, Turn](), dict[str, str]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weights = {f"w:{w.name}": w.drawn(0) for w in flow.weights}
        cores = set(sorted(sched_getaffinity(0))[:threads])
        for count in (steps, 0):
            inputs = feeds(flow, batch, words, count)
            ours = {"words": c.run(inputs)["words"][:, :count]}
            turns[f"ours {count}"] = partial(our_turn, c, inputs, perf_counter)
            sizes = {"heads": np.array(flow.heads), "most": np.array(flow.most)}
            asked = {n: inputs[n] for n in ("prompt", "steps")} | sizes
            at = folder / str(count) / "case.npz"
            at.parent.mkdir()
            np.savez(at, **weights, **{f"x:{n}": v for n, v in asked.items()})
            for runtime in runtimes:
                if runtime in skipped:
                    continue
                peer = Peer(runtime, "llama", at, flags.python, cores, "wall")
                stack.callback(peer.close)
                if peer.reason:
                    skipped[runtime] = peer.reason
                    continue
                agree(ours, peer.outputs)
                turns[f"{runtime} {count}"] = peer.turn
        if flags.seconds <= 0:
            return None
        timed = turns_of(turns, flags.seconds)
    each, prompt_ms = {}, {}
    for n in ("ours", *runtimes):
        if f"{n} 0" in timed:
            first, whole = ([median(t) for t in timed[f"{n} {k}"].turns] for k in (0, steps))
            each[n] = series_of([[(b - a) / steps / 1e9] for a, b in zip(first, whole)])
            prompt_ms[n] = median(first) / 1e6
    details = {"prompt_ms": prompt_ms, "steps": steps, **counted(c, flow, batch, words, steps)}
    variants = {"ours": each.pop("ours")}
    case = f"{name} batch {batch}, {threads} threads"
    return row_of(case, variants, each, skipped=skipped, details=details)


def counted(
    c: explorer.Compilation, flow: Any, batch: int, words: int, steps: int
) -> dict[str, int]:
    """Count what a run with the steps did that one without did not, and the arena's bytes."""
    found = []
    for count in (steps, 0):
        with counters.delta() as did:
            c.run(feeds(flow, batch, words, count))
        found.append(did.counts)
    apart, plan = found[0] - found[1], c.memory()
    return {
        "kernels_compiled": apart.kernel_compiles,
        "arrays_made": apart.arrays_made,
        "arena_bytes": plan.planned_bytes,
        "naive_bytes": plan.naive_bytes,
        "cache_bytes": 2 * flow.layers * batch * flow.groups * flow.most * flow.each * 4,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare a small model's words, then print a row for each batch and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=10.0)
    parser.add_argument("--model", default="llama")
    parser.add_argument("--batches", type=numbers, default="1,4,16")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--python", default=sys.executable)
    flags = parser.parse_args(arguments)
    runtimes = flags.runtimes.split(",")
    row("small_llama", 3, 1, runtimes, argparse.Namespace(**{**vars(flags), "seconds": 0}))
    say("small_llama: all words are equal")
    cases = product([flags.model], flags.batches, flags.threads)
    rows = filter(None, (row(*case, runtimes, flags) for case in cases))
    report(rows, flags.json, ("prompt_ms", "arena_bytes", "cache_bytes"))


if __name__ == "__main__":
    main()
