"""`ironworks time` and `ironworks gpu`: the time of a run here or on a GPU, beside the plan.

The run on a GPU may be a recorded one.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, bind, model_flags, parse_flags, run_flags, seconds
from explorer.cli.compile_model import (
    compile_model,
    input_arrays,
    load_model,
    options,
    require_this_machine,
    sizes,
)
from explorer.cli.terminal import print_answer, progress_line, step_progress
from explorer.errors import BadOption
from explorer.measure.walls import KernelTime, OperatorTime, off_by, profile_of
from explorer.ops.interpreter.frame import bind_sizes
from explorer.plain_text import binding, counted, duration, percent, signed_percent, table
from explorer.views import rammer
from explorer.views.answer import Answer
from explorer.views.labels import shorten_rows

if TYPE_CHECKING:
    import numpy as np

    from explorer.compiler.compilation import Compilation
    from explorer.ir.decisions.wall import Wall
    from explorer.measure.recorded_run import RecordedRun

Rows = Sequence[KernelTime] | Sequence[OperatorTime]
DEFAULT_SHEET = "h100"  # the default target
GPU_RUNS = 15  # timed runs; the median one is reported
LAUNCH_WORDS = {
    "program": "one kernel",
    "wave": "a launch a wave",
    "operator": "a launch an operator",
}


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


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """A kernel's time on all units together, planned and as it ran, and its share."""

    name: str
    family: str
    planned_us: float
    us: float
    share: float


def gpu_main(argv: Sequence[str]) -> int:
    """Run a model on a GPU."""
    parser = Parser(
        "gpu",
        "A run on the GPU of this machine as one persistent kernel: against the CPU's answer, its "
        "time, and each call beside the plan; or --recorded, a run on another machine's.",
    )
    model_flags(parser)
    parser.set_defaults(target=DEFAULT_SHEET)
    run_flags(parser)
    add = parser.add_argument
    add("--seconds", type=seconds, default=1.0, metavar="S", help="how long to measure (default 1)")
    add(
        "--launches",
        choices=tuple(LAUNCH_WORDS),
        default="program",
        help="what one launch has (default: the whole program), for comparison",
    )
    add("--graph", action="store_true", help="launches are asked for at once, as a CUDA graph")
    add("--record", type=Path, metavar="FILE", help="keep the run: FILE.run.json")
    add("--recorded", metavar="FILE", help="a recording in place of a run: a file, or h200")
    flags = parse_flags(parser, argv)
    return print_answer(gpu_answer(flags), flags.json)


def gpu_answer(flags: Namespace) -> Answer:
    """Return the run, or the recording, beside the plan."""
    chosen = options(flags)
    if flags.recorded is not None and (flags.record is not None or flags.launches != "program"):
        raise BadOption("--recorded shows a run that was: it takes no --record and no --launches")
    model = load_model(flags)
    c = compile_model(model, flags, chosen, "PLANNED")
    if not c.takes_cuda:
        raise BadOption(
            f"{c.device.name} has no thread blocks that a GPU could run",
            where="--target",
            actual=flags.target,
            try_=f"--target {DEFAULT_SHEET}",
        )
    if flags.recorded is None:
        return _run(c, flags)
    bound = {name: sizes(model, flags)[name] for name in bind(flags.bind)}
    return _show_recording(c, c.recorded(flags.recorded).under(bound))


def _run(c: Compilation, flags: Namespace) -> Answer:
    import explorer
    from explorer.tuning.compare import check_answers

    bound = sizes(c.model, flags)
    inputs = input_arrays(c.model, flags, bound)
    on = c.on_gpu(launches=flags.launches, graph=flags.graph)
    with progress_line("compiling one kernel for all of it, or reading it from the cache"):
        outputs = on.run(inputs)
    with progress_line("running it on the CPU"):
        expected = explorer.compile(c.model).run(inputs)
    max_error = check_answers(outputs, expected, "the CPU")
    with progress_line(f"timing for {flags.seconds:g} s"):
        measured = on.time(inputs, flags.seconds)
    if flags.record is None:
        wall = on.measured_wall(inputs, GPU_RUNS)
    else:
        wall = on.record(flags.record, inputs, GPU_RUNS).wall
    planned = c.device_program(bound, units=wall.units).plan.wall
    times = _calls(c, wall, planned)
    error = off_by(planned.total_us, wall.total_us)
    mode = LAUNCH_WORDS[flags.launches] + (", as a CUDA graph" if flags.graph else "")
    text = [
        f"{c.model.name} on {wall.device}, {mode} of {counted(wall.units, 'block')}, kernels of "
        f"{c.device.name}{binding(bound)}",
        "",
        f"  {duration(wall.total_us)} on the device, {duration(measured.median_us)} per run with "
        f"copies, 99 % between {duration(measured.low_us)} and {duration(measured.high_us)}",
        f"  {duration(planned.total_us)} planned, which is off by {signed_percent(error)}",
        f"  apart from the CPU's answer by {max_error:.1e} at most",
        "",
        _call_table(times, "measured"),
    ]
    data = {
        "model": c.model.name,
        "target": c.device.name,
        "device": wall.device,
        "sizes": bound,
        "units": wall.units,
        "launches": flags.launches,
        "graph": flags.graph,
        "wall_us": wall.total_us,
        "median_us": measured.median_us,
        "low_us": measured.low_us,
        "high_us": measured.high_us,
        "n": measured.n,
        "planned_us": planned.total_us,
        "error": error,
        "apart": max_error,
        "calls": times,
    }
    return Answer(data, "\n".join(text))


def _show_recording(c: Compilation, run: RecordedRun) -> Answer:
    """Return a recorded run beside the plan; the text names it as a recording."""
    planned = c.as_recorded(run).planned_wall(dict(run.sizes))
    times = _calls(c, run.wall, planned)
    here = run.is_of(c.device)
    error = off_by(planned.total_us, run.wall.total_us) if here else None
    off = "another device" if error is None else f"which is off by {signed_percent(error)}"
    text = [
        run.words,
        "",
        f"  {duration(planned.total_us)} planned for {c.device.name}, {off}",
        "",
        _call_table(times, "recorded"),
    ]
    data = {
        "model": run.model,
        "target": c.device.name,
        "recorded_on": run.machine,
        "sizes": dict(run.sizes),
        "units": run.wall.units,
        "recorded_us": run.wall.total_us,
        "planned_us": planned.total_us,
        "error": error,
        "calls": times,
    }
    return Answer(data, "\n".join(text))


def _calls(c: Compilation, ran: Wall, planned: Wall) -> list[KernelTiming]:
    """Return each kernel's time on all units together, the longest first."""
    plan = {k.name: k.us for k in profile_of(c.program, planned).kernels}
    kernels = profile_of(c.program, ran).kernels
    calls = [KernelTiming(k.name, k.family, plan.get(k.name, 0.0), k.us, k.share) for k in kernels]
    return sorted(calls, key=lambda call: -call.us)


def _call_table(calls: Sequence[KernelTiming], what: str) -> str:
    rows = [
        (
            call.name,
            call.family,
            percent(call.share),
            *rammer.format_times(call.planned_us, call.us),
        )
        for call in calls
    ]
    head = ("kernel", "kind", ">share", ">planned", f">{what}", ">plan is off by")
    return table(head, shorten_rows(rows, None, len(head)))
