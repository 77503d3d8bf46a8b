"""Welder's models, welded, unwelded, in onnxruntime, and in PyTorch, eager and compiled.

    python -m tests.benchmarks weld_race [--models swin,bert.onnx] [--threads 2] [--seconds 4]
        [--against onnxruntime,torch] [--partial FILE] [--json]

Unwelded means every operator its own kernel, from the same generator. PyTorch runs in its fastest
form (`torch_peer`). Ratios are over the welded time. Each model has a process of its own. Rows go
to the partial file as they are made, and those that are there are not made again. Paper: Shi et al.
2023, Welder, section 5.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter_ns

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compile_model
from explorer.frontends import zoo
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.frontends.zoo.entries import WELDER
from explorer.measure.turns import Clock
from explorer.rammer import Options as RammerOptions
from explorer.tuning.peers.runtimes import check_peer_names
from explorer.welder import plan_group
from tests.benchmarks.paper_models import ModelBench, inputs_of, model_row
from tests.benchmarks.rows import Row, mean, over_peers, say

PAPER = tuple(e.name for e in WELDER if not e.name.startswith(zoo.SMALL))
AGAINST = ("onnxruntime", "torch", "torch.compile")
WELDED, UNWELDED = "welded", "unwelded"
COLUMNS = ("kernels", "dram_bytes")


def weld_row(
    name: str,
    threads: int,
    seconds: float,
    against: Sequence[str] = AGAINST,
    clock: Clock = perf_counter_ns,
) -> Row:
    """Race a model: an ONNX file, or zoo:NAME. See `model_row`.

    Raises BadOption for a runtime that is not known.
    """
    check_peer_names(against)
    model = load(name)
    ours = {}
    for variant in (WELDED, UNWELDED):
        say(f"{model.name}: compiling it {variant}")
        ours[variant] = _compile(model, threads, variant == WELDED)
    details = {
        "kernels": {n: len(c.program.kernel_calls) for n, c in ours.items()},
        "dram_bytes": {n: dram_bytes(c) for n, c in ours.items()},
        "compile_seconds": {n: round(c.seconds, 3) for n, c in ours.items()},
    }
    inputs = inputs_of(ours[WELDED])
    return model_row(ours, inputs, against, seconds, base=WELDED, details=details, clock=clock)


def _compile(model: Model, threads: int, welded: bool) -> Compilation:
    options = Options(rammer=RammerOptions(threads=threads))
    welder = replace(options.welder, enabled=welded)
    return compile_model(model, options=replace(options, welder=welder))


def dram_bytes(c: Compilation) -> int:
    """Return what the kernels move to and from memory behind the last cache, by Welder's model."""
    env = c.program.env
    calls = (b.kernel_call for b in c.program.kernel_calls)
    return sum(plan_group(k.kernel, c.device, env, k.tiling).levels[-2].traffic for k in calls)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize: geometric means over the models, the greatest, and who is behind."""
    welding = [r.ratios[UNWELDED].median for r in rows]
    moved = [r.details["dram_bytes"] for r in rows]
    return over_peers(rows) | {
        "greatest_welding": max(welding, default=None),
        "dram_bytes_unwelded_over_welded": mean(m[UNWELDED] / max(1, m[WELDED]) for m in moved),
    }


BENCH = ModelBench(
    "tests.benchmarks.weld_race", __doc__, PAPER, AGAINST, weld_row, COLUMNS, summary
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see `ModelBench.main`."""
    return BENCH.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
