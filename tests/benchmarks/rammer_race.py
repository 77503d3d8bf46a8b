"""Rammer's models under every policy, in onnxruntime, PyTorch eager and compiled, and JAX.

    python -m tests.benchmarks rammer_race [--models lstm,seq2seq] [--threads 2] [--seconds 4]
        [--against onnxruntime,jax] [--partial FILE] [--json]

Op-by-op, a schedule in two layers, is the baseline of the same kernels. Ratios are over the fastest
policy's time. The plans use measured times of tasks (`Compilation.profiled`). The others run in
their fastest form: recurrent models cell by cell or with an operator for each layer
(`model_forms`). Each model has a process of its own. Rows go to the partial file as they are made,
and those that are there are not made again. Paper: Ma et al. 2020, Rammer, section 5.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compile_model
from explorer.errors import InternalFault, IronworksError
from explorer.frontends.load import load
from explorer.measure.turns import Clock
from explorer.measure.walls import compare_walls
from explorer.rammer import POLICIES
from explorer.rammer import Options as RammerOptions
from explorer.tuning.compare import BASELINE, policy_wall
from explorer.tuning.peers.runtimes import check_peer_names
from tests.benchmarks.paper_models import ModelBench, inputs_of, model_row, sizes_of
from tests.benchmarks.rows import Row, mean, over_peers, say

PAPER = ("resnext29", "nasnet", "alexnet", "deepspeech2", "lstm_tc", "seq2seq", "lstm")
AGAINST = ("onnxruntime", "torch", "torch.compile", "jax")
NEAR_SHARE = 0.2  # of a makespan: a plan that was off by no more foretold it; chosen
WALLS = 9  # stamped runs, of which the one of the median makespan counts; chosen
COLUMNS = ("planned_us", "wall_us", "launches", "barriers")  # of the fastest policy


@dataclass(frozen=True, slots=True)
class Plan:
    """A model under one policy. Times are microseconds; `wall_us` is the makespan by time stamps,
    of a run that is slowed down by taking them. `barriers`: waits of one unit for another.
    """

    planned_us: float
    wall_us: float
    error: float  # of the plan, as a share of the measured makespan
    rank_correlation: float | None  # of the bricks' lengths; None where all are planned alike
    launches: int
    barriers: int
    busy: float  # the share of units times time that planned bricks fill
    idle: Mapping[str, float]  # planned, by cause, in microseconds of all units together
    plan_seconds: float


def rammer_row(
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
    say(f"{name}: compiling it")
    first = compile_model(load(name), options=Options(rammer=RammerOptions(threads=threads)))
    inputs = inputs_of(first)
    say(f"{name}: timing its tasks")
    measured = first.profiled(inputs)
    ours: dict[str, Compilation] = {}
    plans: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for policy in POLICIES:
        say(f"{name}: planning it, {policy}")
        options = replace(measured.options.rammer, policy=policy)
        try:
            begin = perf_counter()
            c = measured.with_options(rammer=options)
            c.run(inputs)
            plans[policy] = asdict(_plan(c, inputs, perf_counter() - begin))
        except InternalFault:
            raise
        except IronworksError as problem:
            skipped[policy] = problem.sentence
            continue
        ours[policy] = c
    row = model_row(ours, inputs, against, seconds, skipped=skipped, clock=clock)
    facts = {
        "plans": plans,
        "calls": len(first.program.kernel_calls),
        "compile_seconds": round(first.seconds, 3),
    }
    return replace(row, details={**row.details, **facts, **plans[row.base]})


def _plan(c: Compilation, inputs: Mapping[str, np.ndarray], seconds: float) -> Plan:
    plan = policy_wall(c, sizes_of(c))
    walls = compare_walls(plan.wall, c.measured_wall(inputs, WALLS))
    rank = walls.rank_correlation
    return Plan(
        walls.planned_us,
        walls.measured_us,
        walls.error,
        None if isnan(rank) else rank,
        plan.statistics.launches,
        plan.barriers,
        plan.statistics.busy,
        dict(plan.statistics.idle),
        round(seconds, 3),
    )


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Summarize: geometric means over the models, who is behind, and how near the plans were."""
    gains = [r.ratios[BASELINE].median if BASELINE in r.ratios else 1.0 for r in rows]
    near = [abs(r.details["error"]) <= NEAR_SHARE for r in rows]
    ranks = [r.details["rank_correlation"] for r in rows]
    return over_peers(rows) | {
        "over_op_by_op": mean(gains),
        "greatest_over_op_by_op": max(gains, default=None),
        "planned_within_20_percent": sum(near) / len(rows) if rows else None,
        "least_rank_correlation": min((r for r in ranks if r is not None), default=None),
    }


BENCH = ModelBench(
    "tests.benchmarks.rammer_race", __doc__, PAPER, AGAINST, rammer_row, COLUMNS, summary
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; see `ModelBench.main`."""
    return BENCH.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
