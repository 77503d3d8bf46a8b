"""The zoo's models with control flow, their loops and branches followed by Python and in the
program, in turns: `python -m tests.benchmarks.control_zoo [--models nasrnn,moe] [--batch 1]
[--threads 1,2] [--seconds 2]`.

The models stand at their full and at their reduced sizes: what Python costs a trip is the same, and
the kernels are longer or shorter. Ratios have their 99 % interval; `eager` launches each kernel by
itself and welds nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np

from explorer.compilation import Compilation
from explorer.frontends import zoo
from explorer.grinder import Options as Grinder
from explorer.measure.compare import compare
from tests.benchmarks.control_flow import MODELS, Arrays, compiled, feeds

HOST = "host"
SCHEDULES = ("device", "auto", "eager")  # each against the host


def prepared(c: Compilation, schedule: str, inputs: Arrays) -> Callable[[], None]:
    """A run under a schedule, its arrays at hand."""
    welder = replace(c.options.welder, enabled=schedule != "eager")
    made = c.with_options(grinder=Grinder(schedule), welder=welder)
    return made.runnable.prepared(inputs, made.run(inputs))


def main() -> None:
    """Print a row for each model, and the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join((*MODELS, *(zoo.SMALL + n for n in MODELS))))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=2, help="of each pair")
    given = parser.parse_args()
    for threads in map(int, given.threads.split(",")):
        logs: dict[str, list[float]] = {s: [] for s in SCHEDULES}
        for shown in given.models.split(","):
            name, _, tree = shown.partition("/")
            source: Any = zoo.entry(name).source
            inputs = feeds(source.flow, given.batch, tree)
            c = compiled(name, given.batch, threads)
            host = prepared(c, HOST, inputs)
            cells = []
            for schedule in SCHEDULES:
                found = compare(prepared(c, schedule, inputs), host, seconds=given.seconds)
                logs[schedule].append(log(found.ratio))
                cells.append(f"{schedule} {found.first.median_us:,.1f} us ({found})")
            row = f"host {found.second.median_us:,.1f} us; {'; '.join(cells)}"
            print(f"{shown:36} {threads} threads: {row}", flush=True)
        means = (f"{s} {exp(float(np.mean(found))):.2f}" for s, found in logs.items())
        print(f"{threads} threads, over host in the mean: {', '.join(means)}", flush=True)


if __name__ == "__main__":
    main()
