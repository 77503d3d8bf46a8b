"""Requests that run together against batches that wait for their longest, and against one by one.

    python -m tests.benchmarks requests [--shapes 24M] [--threads 1,2] [--seconds 10]
        [--requests 16] [--rows 8] [--json]

Prompts of 16 to 320 tokens and answers of 8 to 64, all there at the start. `batches` are prompts of
`explorer.generate`, so many rows at a time, each of which runs until the longest answer ends.
Their tokens are compared first. Details are tokens/s, and latencies in milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer import Request
from explorer.generation.generated_many import GeneratedMany
from tests.benchmarks.generation_peers.model_files import VOCABULARY, write_gguf
from tests.benchmarks.rows import Row, parser_of, report, say, timed


def drawn_requests(count: int) -> list[Request]:
    rng = np.random.default_rng(0)
    return [
        Request(
            rng.integers(3, VOCABULARY, int(rng.integers(16, 321))).tolist(),
            int(rng.integers(8, 65)),
        )
        for _ in range(count)
    ]


def batches(c: Any, requests: Sequence[Request], rows: int) -> list[tuple[int, ...]]:
    """Continue so many prompts at a time, until the longest answer of these ends."""
    ids = []
    for first in range(0, len(requests), rows):
        batch = requests[first : first + rows]
        most = max(request.tokens for request in batch)
        done = explorer.generate(c, [request.prompt for request in batch], most)
        ids += [row.ids[: r.tokens] for r, row in zip(batch, done.rows, strict=True)]
    return ids


def row(c: Any, shape: str, threads: int, flags: argparse.Namespace) -> Row:
    """Compare the tokens, then time all requests."""
    requests = drawn_requests(flags.requests)
    results: list[GeneratedMany] = []

    def continuous() -> list[tuple[int, ...]]:
        results.append(explorer.generate_many(c, requests, most_rows=flags.rows))
        return [n.ids for n in results[-1].continuations]

    works = {
        "continuous": continuous,
        "batches": lambda: batches(c, requests, flags.rows),
        "alone": lambda: batches(c, requests, 1),
    }
    ids = [work() for work in works.values()]
    same = np.mean([a == b for other in ids[1:] for a, b in zip(ids[0], other, strict=True)])
    case = f"{shape}, {flags.requests} requests, {flags.rows} rows, {threads} threads"
    done = timed(case, works, seconds=flags.seconds, base="continuous")
    last, count = results[-1], sum(request.tokens for request in requests)
    details = {
        "same_tokens": float(same),
        **{f"{n}_per_s": count / times.median for n, times in done.variants.items()},
        "first_p50_ms": 1e3 * last.to_first_token(50),
        "first_p95_ms": 1e3 * last.to_first_token(95),
        "between_p50_ms": 1e3 * last.between_tokens(50),
        "between_p95_ms": 1e3 * last.between_tokens(95),
    }
    return replace(done, details=details)


def rows(flags: argparse.Namespace) -> Iterator[Row]:
    for shape in flags.shapes.split(","):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "model.gguf")
            write_gguf(path, shape, "F32")
            model: Any = explorer.load(path)
            first = explorer.compile(model, donate=model.caches)
            for threads in flags.threads:
                options = replace(first.options.rammer, threads=threads)
                yield row(first.with_options(rammer=options), shape, threads, flags)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each shape and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=10.0)
    parser.add_argument("--shapes", default="24M")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--rows", type=int, default=8)
    flags = parser.parse_args(arguments)
    say("tokens are compared before each row is timed")
    columns = ("same_tokens", "continuous_per_s", "batches_per_s", "alone_per_s", "first_p50_ms")
    report(rows(flags), flags.json, (*columns, "between_p50_ms", "between_p95_ms"))


if __name__ == "__main__":
    main()
