"""Whole models in one page of Chromium: ours in WebAssembly, and other runtimes, in turns.

    python -m tests.benchmarks browser [--models squeezenet,llama] [--seconds 20] [--json]
        [--targets wasm-relaxed,wasm-simd128] [--against onnxruntime-web,jax-js] [--packages DIR]
        [--clock cpu]

Every runtime has one thread. Ours runs the exported program in the runner of live pages. Our AVX2
kernels also take turns, natively, outside of the page. A run begins with the inputs in place and
ends with the outputs as arrays of JavaScript. Answers are compared first. Each model has a page of
its own. The packages of npm are not part of this project: DIR holds them by their names, as in
node_modules, and what it lacks is fetched with `npm pack`. WebGPU, as in
`--against "onnxruntime-web WebGPU"`, is Chromium's software renderer, whose times say nothing about
a GPU. A language model decodes 16 words after a prompt of 16; onnxruntime-web by a graph for the
prompt and one for a step. On a busy machine the processor's time says more: `--clock cpu`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from explorer.errors import AnswerMismatch, IronworksError
from explorer.measure.compare import checked_seconds
from explorer.tuning.compare import check_answers
from tests.benchmarks.browser_models import PEERS, Case, case_of, compilation, own_program
from tests.benchmarks.browser_page import (
    ROOT,
    MissingRuntime,
    RacePage,
    chromium,
    fetch_packages,
    race_page,
)
from tests.benchmarks.control_flow import our_turn
from tests.benchmarks.control_flow_peers.server import CLOCKS
from tests.benchmarks.racer import Turn, turns_of
from tests.benchmarks.rows import Row, mean, over_peers, parser_of, report, row_of, say

MODELS = ("squeezenet", "mobilenetv2", "resnet50", "bert", "llama")
TARGETS = ("wasm-relaxed", "wasm-simd128")
AGAINST = ("onnxruntime-web",)  # jax-js lacks operators of the three convolutional models
NATIVE = "cpu-avx2"
WALL = "wall"  # of `CLOCKS`
COLUMNS = ("versions",)
PACKAGES = ROOT / "build" / "browser-packages"


def browser_row(
    name: str,
    targets: Sequence[str],
    against: Sequence[str],
    seconds: float,
    packages: Path,
    clock: str = WALL,
) -> Row:
    """Compare the answers of all runtimes that have a model, then time them in turns.

    Raises MissingRuntime where ours does not run, AnswerMismatch where answers differ.
    """
    say(f"{name}: compiling it for {NATIVE}")
    native = compilation(name, NATIVE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        case = case_of(name, folder, native)
        answer = case.expected(native.run(case.inputs))
        folders = {"case": folder, "packages": packages}
        browser = stack.enter_context(chromium(any("WebGPU" in peer for peer in against)))
        page = stack.enter_context(race_page(browser, folders))
        details: dict[str, dict[str, object]] = {"versions": {"Chromium": page.browser_version}}
        turns: dict[str, Turn] = {}
        skipped: dict[str, str] = {}
        for runtime in (*targets, *against):
            say(f"{name}: loading it into {runtime}")
            try:
                facts = _load(page, case, runtime, answer)
            except (MissingRuntime, AnswerMismatch) as problem:
                if runtime in targets:
                    raise
                skipped[runtime] = str(problem)
                continue
            for fact, value in facts.items():
                details.setdefault(fact, {})[runtime] = value
            turn = page.turn if clock == WALL else page.processor_turn
            turns[runtime] = partial(turn, runtime)
        turns[NATIVE] = partial(our_turn, native, dict(case.inputs), CLOCKS[clock])
        say(f"{name}: timing it for {seconds:g} s")
        series = turns_of(turns, seconds)
    ours = {n: series[n] for n in (*targets, NATIVE)}
    peers = {n: series[n] for n in against if n in series}
    return row_of(name, ours, peers, base=targets[0], skipped=skipped, details=details)


def _load(
    page: RacePage, case: Case, runtime: str, answer: Mapping[str, np.ndarray]
) -> dict[str, object]:
    """Load a case into a runtime; return its version, error and times of loading."""
    kind, settings = PEERS[runtime](case) if runtime in PEERS else own_program(case, runtime)
    loaded, data = page.load(runtime, kind, settings)
    error = check_answers(answer, case.outputs(data, answer), runtime)
    times = {n: round(loaded[n], 1) for n in ("load_ms", "first_ms")}
    return {"versions": loaded["version"], "errors": error, **times}


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize: geometric means, and our times over those of our native kernels."""
    natively = [1 / r.ratios[NATIVE].median for r in rows if NATIVE in r.ratios]
    return over_peers(rows) | {
        "over_native": mean(natively),
        "most_over_native": max(natively, default=None),
    }


def rows(
    models: Sequence[str],
    targets: Sequence[str],
    against: Sequence[str],
    seconds: float,
    packages: Path,
    clock: str,
) -> Iterator[Row]:
    """Yield a row for each model that ours runs; say why another is left out."""
    for n, name in enumerate(models):
        try:
            yield browser_row(name, targets, against, seconds, packages, clock)
        except (MissingRuntime, IronworksError) as problem:
            say(f"{n + 1}/{len(models)} {name}: left out: {problem}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each model; return 1 where there is none, 2 for a bad flag."""
    parser = parser_of(__doc__, seconds=20.0)
    parser.add_argument("--models", default=",".join(MODELS), help="names of the zoo")
    parser.add_argument("--targets", default=",".join(TARGETS), help="ours; the first is the base")
    parser.add_argument("--against", default=",".join(AGAINST), help="other runtimes")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="a folder as node_modules")
    parser.add_argument("--clock", choices=CLOCKS, default=WALL, help="cpu: processor time")
    flags = parser.parse_args(arguments)
    models, targets, against = (
        tuple(n for n in text.split(",") if n)
        for text in (flags.models, flags.targets, flags.against)
    )
    unknown = [peer for peer in against if peer not in PEERS]
    if unknown or not targets:
        say(f"{', '.join(unknown) or 'no target'}: there are {', '.join((*TARGETS, *PEERS))}")
        return 2
    seconds = checked_seconds(flags.seconds)
    packages = fetch_packages(flags.packages)
    done = report(
        rows(models, targets, against, seconds, packages, flags.clock), flags.json, COLUMNS, summary
    )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
