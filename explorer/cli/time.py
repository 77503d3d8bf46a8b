"""`ironworks time`: how long a run takes, in all and per operator, beside what was planned."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed, run_flags, seconds
from explorer.cli.compiled import arrays, compiled, loaded, options, sizes
from explorer.cli.explained import rammer
from explorer.cli.progress import doing
from explorer.cli.text import binding, counted, duration, signed_percent
from explorer.ops.bind import bind_sizes

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation


def main(given: Sequence[str]) -> int:
    """Time a model."""
    parser = Parser("time", "How long a run takes: median and 99 % interval, beside the plan.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("--seconds", type=seconds, default=1.0, metavar="S", help="how long to measure (default 1)")
    add("--profile", action="store_true", help="also the time of each call, from time stamps")
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """The median of many runs, and what the plan had said."""
    chosen = options(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    c = compiled(model, flags, chosen)
    inputs = arrays(c, flags, bound)
    with doing(f"timing for {flags.seconds:g} s"):
        measured = c.time(inputs, seconds=flags.seconds)
    bound = bind_sizes(c.program, inputs)
    planned = c.planned_wall(bound)
    error = rammer.error(planned.total_us, measured.median_us)
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
        "error": error,
        "machine": measured.machine,
    }
    text = [
        f"{c.model.name} on {measured.machine}, {counted(planned.units, 'thread')}{binding(bound)}",
        "",
        f"  {duration(measured.median_us)} a run, 99 % between {duration(measured.low_us)} and "
        f"{duration(measured.high_us)}, n = {measured.n:,}",
        f"  {duration(planned.total_us)} planned, which is off by {signed_percent(error)}",
    ]
    if flags.profile:
        profile = _profile(c, bound, inputs)
        data["profile"] = profile.data
        text += ["", profile.text]
    return Answer(data, "\n".join(text))


def _profile(c: Compilation, bound: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> Answer:
    """Where the time of one stamped run went."""
    return rammer.wall(c, None, bound, inputs)
