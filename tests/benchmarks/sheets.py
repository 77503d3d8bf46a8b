"""Rammer's models on data-sheet devices, simulated, beside what the paper measured on a V100.

    python -m tests.benchmarks sheets [--models lstm_tc,alexnet] [--device v100]
        [--policy wavefront] [--small] [--hoist off]

A row is a model: op-by-op (the paper's RammerBase: two layers, the fastest kernels) and a policy in
milliseconds, how much faster that is, multiprocessors in use (the paper's SM utilisation, figure
14) under both, and the share of op-by-op's time between kernels (figure 16). Ours is simulated from
data sheets, Roller's tiles and Welder's groups; the paper's are runs on a Tesla V100 (figures 11
and 14, batch 1). `--hoist off`, the default, leaves recurrent models cell by cell as in the paper.
`--small` takes the reduced models of the zoo, which the paper does not have.

Where they differ, and why: a convolution in groups is one kernel here and sixteen operators in the
paper's ResNeXt, so nothing is left to lay side by side; Welder joins more than the paper's compiler
does, so there are fewer launches; a multiprocessor counts as busy while a block waits for memory;
and one row's products are blocks of a few threads that wait for loads, as Roller's tiles have it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import process_time

import explorer
from explorer.compiler.options import Options
from explorer.plain_text import percent, table
from explorer.rammer.wall_statistics import WallStatistics
from explorer.tuning.compare import BASELINE, compare_policies


@dataclass(frozen=True, slots=True)
class Paper:
    """Rammer, figures 11 and 14: milliseconds and SM utilisation on a V100."""

    base_ms: float
    rammer_ms: float
    base_busy: float
    rammer_busy: float

    @property
    def speedup(self) -> float:
        """RammerBase over Rammer."""
        return self.base_ms / self.rammer_ms


PAPER = {
    "resnext29": Paper(10.94, 4.63, 0.58, 0.79),
    "nasnet": Paper(2.97, 1.74, 0.29, 0.50),
    "alexnet": Paper(0.961, 0.958, 0.90, 0.90),
    "deepspeech2": Paper(7.89, 4.69, 0.36, 0.64),
    "lstm_tc": Paper(29.71, 4.73, 0.23, 0.54),
    "seq2seq": Paper(9.27, 3.66, 0.10, 0.15),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A model simulated: op-by-op, and under the policy; seconds of processor time to get there."""

    model: str
    base: WallStatistics
    policy: WallStatistics
    compile_s: float
    lay_s: float

    @property
    def speedup(self) -> float:
        """Op-by-op over the policy."""
        return self.base.total_us / self.policy.total_us


def simulated(model: str, device: str, policy: str, hoist: str) -> Row:
    """A model on a device."""
    plain = Options()
    options = replace(plain, recurrent=replace(plain.recurrent, hoist=hoist))
    begin = process_time()
    c = explorer.compile(explorer.load(f"zoo:{model}"), device, options, until="planned")
    compiled = process_time()
    base, other = (s.statistics for s in compare_policies(c, (BASELINE, policy)))
    return Row(model, base, other, compiled - begin, process_time() - compiled)


def cells(row: Row) -> tuple[str, ...]:
    """A row in words."""
    paper = PAPER.get(row.model)
    theirs = ("", "", "", "", "")
    if paper is not None:
        theirs = (
            f"{paper.base_ms:.2f}", f"{paper.rammer_ms:.2f}", f"{paper.speedup:.2f}x",
            percent(paper.base_busy), percent(paper.rammer_busy),
        )  # fmt: skip
    base, policy = row.base, row.policy
    ours = (
        f"{base.total_us / 1e3:.2f}", f"{policy.total_us / 1e3:.2f}", f"{row.speedup:.2f}x",
        percent(base.core_busy), percent(policy.core_busy),
        percent(base.overhead_us / base.total_us), f"{base.launches:,}", f"{policy.launches:,}",
        f"{policy.units:,}", f"{row.compile_s:.1f}", f"{row.lay_s:.1f}",
    )  # fmt: skip
    return (row.model, *ours, *theirs)


HEAD = (
    "model", ">op-by-op ms", ">policy ms", ">speedup", ">SMs busy", ">policy", ">between kernels",
    ">launches", ">policy", ">units", ">compile s", ">walls s",
    ">paper: Base ms", ">Rammer ms", ">speedup", ">SMs busy", ">Rammer",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or with `--json` one object for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(PAPER))
    parser.add_argument("--device", default="v100")
    parser.add_argument("--policy", default="wavefront")
    parser.add_argument("--hoist", default="off", choices=("off", "auto", "on"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args(arguments)
    rows = []
    for name in flags.models.split(","):
        model = f"small_{name}" if flags.small else name
        row = simulated(model, flags.device, flags.policy, flags.hoist)
        rows.append(row)
        if flags.json:
            print(json.dumps({"model": model, "speedup": row.speedup, "cells": cells(row)}))
    if not flags.json:
        print(f"{flags.device}, simulated; policy {flags.policy}; hoisting {flags.hoist}\n")
        print(table(HEAD, [cells(row) for row in rows]))


if __name__ == "__main__":
    main()
