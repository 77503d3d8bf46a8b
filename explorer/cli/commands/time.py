"""`ironworks time`: the time of a run, in total and per operator, beside the plan."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, print_answer
from explorer.cli.arguments import Parser, model_flags, parse_flags, run_flags, seconds
from explorer.cli.compiled import (
    compile_model,
    input_arrays,
    load_model,
    options,
    require_this_machine,
    sizes,
)
from explorer.cli.explained import rammer
from explorer.cli.explained.find import shorten_rows
from explorer.cli.progress import progress_line, step_progress
from explorer.measure.profile import KernelTime, OperatorTime, profile_of
from explorer.measure.walls import off_by
from explorer.ops.reference.bind import bind_sizes
from explorer.plain_text import binding, counted, duration, percent, signed_percent, table

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation

Rows = Sequence[KernelTime] | Sequence[OperatorTime]


@dataclass(frozen=True, slots=True)
class PlannedAndMeasured:
    """The time of a kernel or an operator on all units together, and its share of the run.

    `source` names where a kernel's planned time comes from.
    """

    name: str
    planned_us: float
    measured_us: float
    share: float
    source: str = ""


def main(argv: Sequence[str]) -> int:
    """Time a model."""
    parser = Parser("time", "How long a run takes: median and 99 % interval, beside the plan.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("--seconds", type=seconds, default=1.0, metavar="S", help="how long to measure (default 1)")
    add("--profile", action="store_true", help="also the time of each call, from time stamps")
    add("--profiled", action="store_true", help="plan with times of tasks measured here, once")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the median of many runs beside the planned time."""
    chosen = options(flags)
    require_this_machine(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    inputs = input_arrays(model, flags, bound)
    c = compile_model(model, flags, chosen)
    if flags.profiled:
        with progress_line() as say:
            c = c.profiled(inputs, progress=step_progress(say))
    with progress_line(f"timing for {flags.seconds:g} s"):
        measured = c.time(inputs, seconds=flags.seconds)
    bound = bind_sizes(c.program, inputs)
    planned = c.planned_wall(bound)
    error = off_by(planned.total_us, measured.median_us)
    data: dict[str, object] = {
        "model": c.model.name,
        "target": c.device.name,
        "sizes": bound,
        "threads": planned.units,
        "median_us": measured.median_us,
        "low_us": measured.low_us,
        "high_us": measured.high_us,
        "n": measured.n,
        "planned_us": planned.total_us,
        "times": "measured" if flags.profiled else "modelled",
        "error": error,
        "machine": measured.machine,
    }
    text = [
        f"{c.model.name} on {measured.machine}, {counted(planned.units, 'thread')}{binding(bound)}",
        "",
        f"  {duration(measured.median_us)} per run, 99 % between {duration(measured.low_us)} and "
        f"{duration(measured.high_us)}, n = {measured.n:,}",
        f"  {duration(planned.total_us)} planned, which is off by {signed_percent(error)}",
        *rammer.trip_count_note(c, bound),
    ]
    if flags.profile:
        profile = _profile(c, bound, inputs)
        data["profile"] = profile.data
        text += ["", profile.text]
    return Answer(data, "\n".join(text))


def _profile(c: Compilation, bound: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> Answer:
    """Return the time of a typical run by kernel and by operator, beside the plan."""
    planned, measured = c.planned_wall(bound), rammer.typical_wall(c, inputs)
    plan, run = profile_of(c.program, planned), profile_of(c.program, measured)
    facts = c.task_facts(bound)
    kernels = [
        replace(part, source=facts[part.name].source) if part.name in facts else part
        for part in _planned_and_measured(plan.kernels, run.kernels)
    ]
    operators = _planned_and_measured(plan.operators, run.operators)
    kinds = {o.name: o.kind + (" *" if o.shared else "") for o in run.operators}
    families = {k.name: k.family for k in run.kernels}
    text = (
        rammer.wall_table(planned, measured),
        _table("kernel", kernels, families),
        _table("operator", operators, kinds),
        "  * kernels shared with other operators: their time is split evenly",
    )
    data = {
        "planned_us": planned.total_us,
        "measured_us": measured.total_us,
        "error": off_by(planned.total_us, measured.total_us),
        "kernels": kernels,
        "operators": operators,
        "absent": dict(run.absent),
    }
    return Answer(data, "\n\n".join(text))


def _planned_and_measured(plan: Rows, run: Rows) -> list[PlannedAndMeasured]:
    planned = {row.name: row.us for row in plan}
    return [
        PlannedAndMeasured(row.name, planned.get(row.name, 0.0), row.us, row.share) for row in run
    ]


def _table(what: str, parts: Sequence[PlannedAndMeasured], kinds: Mapping[str, str]) -> str:
    rows = [
        (
            p.name,
            kinds[p.name],
            percent(p.share),
            *rammer.format_times(p.planned_us, p.measured_us),
            p.source,
        )
        for p in parts
    ]
    head = (what, "kind", ">share", ">planned", ">measured", ">plan is off by", "planned from")
    return table(head, shorten_rows(rows, None, len(head)))
