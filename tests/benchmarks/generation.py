"""A language model of a file: a decode step and a prefill, in turns with other engines.

    python -m tests.benchmarks generation [--shapes 24M,125M,1.1B] [--weights float32,bfloat16,q4_0]
        [--rows float32,int8] [--threads 1,2] [--engines llama.cpp,openvino-genai]
        [--prompt 256] [--seconds 10] [--json]

Weights are random, of Llama's shape, in one GGUF file for all engines: llama.cpp, OpenVINO GenAI,
ONNX Runtime GenAI and, for float32, transformers. With `--rows int8`, rows of products with q8_0 or
q4_0 are rounded. A step adds a token to a cache of `--prompt` tokens. The scores of the next token
are compared first, `apart` over the largest; of an engine that tells none, its best token's score.
`floor` reads as many bytes as a step reads of weights and of the cache. Memory is of a process that
loads the model after a small one: anonymous bytes after loading, and the most of them until tokens
were generated, over the bytes of the file. IRONWORKS_MEMORY bounds it as it does elsewhere.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer import cache
from explorer.measure.fit import READ
from explorer.measure.this_cpu import native_function
from tests.benchmarks.generation_peers.engines import (
    ENGINES,
    F32,
    Case,
    Run,
    is_rounded,
    reason_against,
)
from tests.benchmarks.generation_peers.model_files import SPREADS, cache_bytes, write_gguf
from tests.benchmarks.racer import Racer, racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of, say
from tests.benchmarks.single_kernels.roofs import argument_block

KINDS = {  # by the name of weights
    **{"float32": F32, "float16": "F16", "bfloat16": "BF16"},
    **{"q8_0": "Q8_0", "q4_0": "Q4_0"},
}
MOST_APART, MOST_APART_ROUNDED = 1e-3, 0.1  # of the largest score
PAGE = 64  # tokens
MEMORY = """
import json, sys
from threading import Thread
from time import sleep
import explorer
from explorer import cache
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024
most = 0
def watch():
    global most
    while True:
        most = max(most, anonymous())
        sleep(0.002)
def compiled(path):
    model = explorer.load(path)
    return explorer.compile(model, donate=model.caches)
other = compiled(sys.argv[2])  # so that what is imported is not counted; it stays in memory
explorer.generate(other, [[1] * 200], 2)
cache.finish()
before = anonymous()
model = explorer.load(sys.argv[1])
loaded = anonymous()
Thread(target=watch, daemon=True).start()
c = explorer.compile(model, donate=model.caches)
explorer.generate(c, [[1] * 200], 8)
cache.finish()  # it writes what passes derived
print(json.dumps([n - before for n in (loaded, max(most, anonymous()), anonymous())]))
"""


def ours(case: Case) -> Run:
    """Return a run, which returns scores."""
    model: Any = explorer.load(case.path)
    if case.rows == "int8":
        model = explorer.round_rows(model)
    c = explorer.compile(model, donate=model.caches)
    c = c.with_options(rammer=replace(c.options.rammer, threads=case.threads))
    room = -(-(case.prompt + 1) // PAGE) * PAGE
    shape = (1, model.config.groups, room, model.config.each)
    state = {n: np.zeros(shape, np.float32) for n in model.caches}
    first, inputs = (
        {"ids": ids, "at": np.array([at])}
        for ids, at in ((case.first, 0), (case.ids, 0 if case.prefill else case.prompt))
    )
    c.run({**first, **state})
    cache.finish()  # it writes what passes derived, on this core
    run = c.planned_for({"batch": 1, "n": case.ids.size, "room": room}).run
    return lambda: run({**inputs, **state})["scores"].reshape(-1)


def reading(count: int, threads: int) -> Run:
    """Return a function that reads so many bytes as the bandwidths of this machine are measured."""
    read = native_function(READ)
    blocks = [argument_block(count // threads, 0) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def run() -> int:
        list(pool.map(lambda block: read(0, 1, block[0].ctypes.data), blocks))
        return 0

    return run


def memory_of(path: Path, other: Path) -> tuple[int, int, int]:
    """Return the anonymous bytes after loading, the most of them, and those after generating.

    The process ran another model before.
    """
    command = [sys.executable, "-c", MEMORY, str(path), str(other)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded, most, generated = json.loads(done.stdout)
    return loaded, most, generated


def rows(flags: argparse.Namespace) -> Iterator[Row]:
    for shape, weights in product(flags.shapes.split(","), flags.weights.split(",")):
        kind = KINDS[weights]
        with tempfile.TemporaryDirectory() as name:
            path, small = Path(name, "model.gguf"), Path(name, "small.gguf")
            details = {"weight_bytes": write_gguf(path, shape, kind)}
            write_gguf(small, "2M", kind)
            loaded, most, _ = memory_of(path, small)
            size = path.stat().st_size
            details |= {"load_over_file": loaded / size, "peak_over_file": most / size}
            levels = [n for n in flags.rows.split(",") if n == "float32" or kind in SPREADS]
            for level, threads, prefill in product(levels, flags.threads, (False, True)):
                case = Case(path, shape, kind, level, threads, flags.prompt, prefill)
                label = f"{shape} {weights}, {level} rows"
                yield row(case, label, details, flags)


def row(case: Case, label: str, details: dict[str, float], flags: argparse.Namespace) -> Row:
    """Compare the answers, then time a step or a prefill."""
    runs: dict[str, Callable[[Case], Run]] = {"ours": ours}
    skipped = {}
    for name in filter(None, flags.engines.split(",")):
        skipped[name] = reason_against(name, case)
        if not skipped[name]:
            runs[name] = ENGINES[name][1]
    makes = {name: partial(run, case) for name, run in runs.items()}
    read_bytes = int(details["weight_bytes"]) + cache_bytes(case.shape, case.prompt)
    if not case.prefill:
        makes["floor"] = partial(reading, read_bytes, case.threads)
    with ExitStack() as stack:
        runners: dict[str, Racer] = racers(stack, makes, case.threads)
        answers = {n: runners[n].values(1)[0] for n in runs}
        scores = answers.pop("ours")
        apart = {n: difference(scores, answer) for n, answer in answers.items()}
        for name, part in apart.items():
            most = MOST_APART_ROUNDED if is_rounded(name, case) else MOST_APART
            assert part <= most, f"{label}: scores of {name} are {part:.1e} apart"
        timed = turns_of(runners, flags.seconds)
    what = f"prefill of {case.prompt}" if case.prefill else "step"
    peers = {n: timed[n] for n in answers}
    done = row_of(
        f"{label}: {what}, {case.threads} threads",
        {"ours": timed["ours"]},
        peers,
        skipped={n: reason for n, reason in skipped.items() if reason},
    )
    each = case.prompt if case.prefill else 1
    medians = {n: i.median for n, i in {**done.variants, **done.peers}.items()}
    more: dict[str, Any] = {"tokens_per_s": {n: each / t for n, t in medians.items()}}
    if not case.prefill:
        floor = row_of("floor", {"floor": timed["floor"]}).variants["floor"].median
        more["read_bytes"] = read_bytes
        more["floor_gb_per_s"] = read_bytes / floor / 1e9
        more["of_floor"] = floor / medians["ours"]
    return replace(done, details={**more, "apart": apart, **details})


def difference(scores: np.ndarray, answer: np.ndarray | int) -> float:
    """Return how far scores, or the score of a best token, are apart, over the largest."""
    apart = scores - answer if isinstance(answer, np.ndarray) else scores.max() - scores[answer]
    return float(np.abs(apart).max() / np.abs(scores).max())


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare answers, then print a row for each shape, weights, rows, threads, step, prefill."""
    parser = parser_of(__doc__, threads="1,2", seconds=10.0)
    parser.add_argument("--shapes", default="24M,125M")
    parser.add_argument("--weights", default="float32")
    parser.add_argument("--rows", default="float32")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--prompt", type=int, default=256)
    flags = parser.parse_args(arguments)
    say("answers are compared before each row is timed")
    columns = ("tokens_per_s", "of_floor", "floor_gb_per_s", "weight_bytes")
    report(rows(flags), flags.json, (*columns, "read_bytes", "load_over_file", "peak_over_file"))


if __name__ == "__main__":
    main()
