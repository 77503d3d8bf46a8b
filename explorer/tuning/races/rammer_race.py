"""Rammer raced: models under every policy, in onnxruntime, PyTorch eager and compiled, and JAX,
each model in one run.

    python -m explorer.tuning.races.rammer_race [--models lstm,seq2seq] [--threads 2] [--seconds S]
                                          [--against onnxruntime,jax] [--partial FILE] [--json]

Op-by-op, a schedule in two layers, is the baseline of the same kernels. The others run in their
fastest form: recurrent models cell by cell or with an operator for each layer (`model_forms`). Each
model has a process of its own. Rows go to the partial file as they are made, and those that are
there are not made again. Paper: Ma et al. 2020, Rammer, section 5.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from explorer.tuning.races.rammer_row import AGAINST, BASELINE, RammerRow
from explorer.tuning.races.rows import Race, mean, over_others

PAPER = ("resnext29", "nasnet", "alexnet", "deepspeech2", "lstm_tc", "seq2seq", "lstm")
NEAR_SHARE = 0.2  # of a makespan: a plan that was off by no more foretold it; chosen


def summary(rows: Sequence[RammerRow]) -> dict[str, object]:
    """Geometric means over the models, who is behind, and how well the plans foretold."""
    gains = {r.model: r.policies[BASELINE].ratio for r in rows if BASELINE in r.policies}
    foretold = [abs(r.plan.error) <= NEAR_SHARE for r in rows]
    ranks = [r.plan.rank_correlation for r in rows if r.plan.rank_correlation is not None]
    return over_others(rows) | {
        "over_op_by_op": mean(gains),
        "greatest_over_op_by_op": max(gains.values(), default=None),
        "planned_within_20_percent": sum(foretold) / len(rows) if rows else None,
        "least_rank_correlation": min(ranks, default=None),
    }


def line(row: RammerRow) -> str:
    """A row in a line."""
    times = ", ".join(f"{t.name} {t.median_us / 1e3:.3f}" for t in row.times)
    best, plan = row.ratio, row.plan
    ratio = f"{best.ratio:.2f}x {row.fastest_other}" if best else "nobody else ran"
    base = row.policies.get(BASELINE)
    over = f", {base.ratio:.2f}x {BASELINE}" if base else ""
    return (
        f"{row.model}: {times} ms; {row.fastest} {ratio}{over}; planned {plan.planned_us / 1e3:.3f}"
        f" and measured {plan.wall_us / 1e3:.3f} ms, {plan.launches} launches,"
        f" {plan.barriers} barriers"
    )


RAMMER_RACE = Race(
    "rammer_race",
    "explorer.tuning.races.rammer_row",
    PAPER,
    AGAINST,
    RammerRow.read,
    line,
    summary,
)


def main(given: Sequence[str] | None = None) -> int:
    """The command; see `Race.main`."""
    return RAMMER_RACE.main(given)


if __name__ == "__main__":
    sys.exit(main())
