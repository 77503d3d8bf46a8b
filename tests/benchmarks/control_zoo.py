"""The zoo's models with control flow, decided by Python (`host`) and in the program.

    python -m tests.benchmarks control_zoo [--models nasrnn,moe] [--batch 1] [--threads 1,2]
        [--seconds 2] [--json]

The models stand at their full and at their reduced sizes: what Python costs a trip is the same, and
the kernels are longer or shorter. Ratios are over the time of `host`; `eager` launches each kernel
by itself and welds nothing. The seconds are for each schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from explorer.compiler.compilation import Compilation
from explorer.frontends import zoo
from explorer.grinder import Options as Grinder
from tests.benchmarks.control_flow import MODELS, Arrays, compiled, feeds
from tests.benchmarks.rows import Row, parser_of, report, timed

HOST = "host"
SCHEDULES = ("device", "auto", "eager")  # each against the host


def prepared(c: Compilation, schedule: str, inputs: Arrays) -> Callable[[], None]:
    """A run under a schedule, its arrays at hand."""
    welder = replace(c.options.welder, enabled=schedule != "eager")
    made = c.with_options(grinder=Grinder(schedule), welder=welder)
    return made.runnable.prepared(inputs, made.run(inputs))


def row(shown: str, batch: int, threads: int, seconds: float) -> Row:
    """Time a model under every schedule."""
    name, _, tree = shown.partition("/")
    source: Any = zoo.entry(name).source
    inputs = feeds(source.flow, batch, tree)
    c = compiled(name, batch, threads)
    runs = {s: prepared(c, s, inputs) for s in (HOST, *SCHEDULES)}
    return timed(f"{shown}, {threads} threads", runs, None, len(SCHEDULES) * seconds, base=HOST)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=2.0)
    parser.add_argument("--models", default=",".join((*MODELS, *(zoo.SMALL + n for n in MODELS))))
    parser.add_argument("--batch", type=int, default=1)
    flags = parser.parse_args(arguments)
    cases = product(flags.models.split(","), [flags.batch], flags.threads)
    report((row(*case, flags.seconds) for case in cases), flags.json)


if __name__ == "__main__":
    main()
