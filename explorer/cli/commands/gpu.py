"""`ironworks gpu`: a run on this machine's GPU, or a recorded run, beside the plan."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, print_answer
from explorer.cli.arguments import Parser, bind, model_flags, parse_flags, run_flags, seconds
from explorer.cli.compiled import compile_model, input_arrays, load_model, options, sizes
from explorer.cli.explained import rammer
from explorer.cli.explained.find import shorten_rows
from explorer.cli.progress import progress_line
from explorer.errors import BadOption
from explorer.measure.profile import profile_of
from explorer.measure.walls import off_by
from explorer.plain_text import binding, counted, duration, percent, signed_percent, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.decisions.wall import Wall
    from explorer.measure.recorded_run import RecordedRun

SHEET = "h100"  # the default target
RUNS = 15  # timed runs; the median one is reported
HOW = {"program": "one kernel", "wave": "a launch a wave", "operator": "a launch an operator"}


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """A kernel's time on all units together, planned and as it ran, and its share."""

    name: str
    family: str
    planned_us: float
    us: float
    share: float


def main(argv: Sequence[str]) -> int:
    """Run a model on a GPU."""
    parser = Parser(
        "gpu",
        "A run on the GPU of this machine as one persistent kernel: against the CPU's answer, its "
        "time, and each call beside the plan; or --recorded, a run on another machine's.",
    )
    model_flags(parser)
    parser.set_defaults(target=SHEET)
    run_flags(parser)
    add = parser.add_argument
    add("--seconds", type=seconds, default=1.0, metavar="S", help="how long to measure (default 1)")
    add(
        "--launches",
        choices=tuple(HOW),
        default="program",
        help="what one launch has (default: the whole program), for comparison",
    )
    add("--graph", action="store_true", help="launches are asked for at once, as a CUDA graph")
    add("--record", type=Path, metavar="FILE", help="keep the run: FILE.run.json")
    add("--recorded", metavar="FILE", help="a recording in place of a run: a file, or h200")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the run, or the recording, beside the plan."""
    chosen = options(flags)
    if flags.recorded is not None and (flags.record is not None or flags.launches != "program"):
        raise BadOption("--recorded shows a run that was: it takes no --record and no --launches")
    model = load_model(flags)
    c = compile_model(model, flags, chosen, "PLANNED")
    if not c.device.takes_cuda:
        raise BadOption(
            f"{c.device.name} has no thread blocks that a GPU could run",
            where="--target",
            actual=flags.target,
            try_=f"--target {SHEET}",
        )
    if flags.recorded is None:
        return _run(c, flags)
    bound = {name: sizes(model, flags)[name] for name in bind(flags.bind)}
    return _show_recording(c, c.recorded(flags.recorded).under(bound))


def _run(c: Compilation, flags: Namespace) -> Answer:
    import explorer
    from explorer.tuning.answers import check_answers

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
        wall = on.measured_wall(inputs, RUNS)
    else:
        wall = on.record(flags.record, inputs, RUNS).wall
    planned = c.device_program(bound, units=wall.units).plan.wall
    times = _calls(c, wall, planned)
    error = off_by(planned.total_us, wall.total_us)
    mode = HOW[flags.launches] + (", as a CUDA graph" if flags.graph else "")
    text = [
        f"{c.model.name} on {wall.device}, {mode} of {counted(wall.units, 'block')}, kernels of "
        f"{c.device.name}{binding(bound)}",
        "",
        f"  {duration(wall.total_us)} on the device, {duration(measured.median_us)} per run with "
        f"copies, 99 % between {duration(measured.low_us)} and {duration(measured.high_us)}",
        f"  {duration(planned.total_us)} planned, which is off by {signed_percent(error)}",
        f"  apart from the CPU's answer by {max_error:.1e} at most",
        "",
        _table(times, "measured"),
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
        _table(times, "recorded"),
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


def _table(calls: Sequence[KernelTiming], what: str) -> str:
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
