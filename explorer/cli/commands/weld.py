"""`ironworks weld`: which kernels share their tiles, in which memory, and what if they did not."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, connection, model_flags, parsed, run_flags, seconds
from explorer.cli.compiled import arrays, compiled, loaded, options, run_here, sizes
from explorer.cli.explained import connections
from explorer.cli.progress import doing
from explorer.plain_text import counted, duration

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation
    from explorer.measure.compare import Comparison
    from explorer.options import Options


def main(given: Sequence[str]) -> int:
    """Weld a model and say what came of it."""
    parser = Parser(
        "weld",
        "Which kernels share their tiles, in which memory, and what this moves; values can be put "
        "at a level by hand, and a refusal says what would flip it.",
    )
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add("--policy", metavar="NAME", help="gain (the default), two_step or shipped")
    add(
        "--connect",
        action="append",
        type=connection,
        default=[],
        metavar="VALUE=LEVEL",
        help="hand a value over at register, L1, L2 or L3; DRAM keeps its kernels apart",
    )
    add("--why", metavar="VALUE", help="a value, or its operator, at every level, or why it cannot")
    add("--measure", action="store_true", help="time it against every operator its own kernel")
    add("--seconds", type=seconds, default=2.0, metavar="S", help="to measure (default 2)")
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """The groups, their levels and bytes; a value at every level; times side by side."""
    chosen = _chosen(flags)
    if flags.measure:
        run_here(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    inputs = arrays(model, flags, bound)
    c = compiled(model, flags, chosen, "EMITTED" if flags.measure else "ROLLED")
    with doing("planning tiles"):
        apart = c.with_options(welder=replace(chosen.welder, enabled=False, connect=()))
        found = connections.groups(c, apart, bound)
        parts = [found]
        if flags.why is not None:
            parts.append(connections.why(c, flags.why, bound))
    if flags.measure:
        parts.append(_measured(c, apart, inputs, flags))
    data: dict[str, object] = {"model": c.model.name, "target": c.device.name, "sizes": bound}
    for part in parts:
        assert isinstance(part.data, dict)
        data |= part.data
    yes = all(p.yes for p in parts)
    return Answer(data, "\n\n".join(p.text for p in parts), yes)


def _chosen(flags: Namespace) -> Options:
    made = options(flags)
    welder = made.welder
    if flags.policy is not None:
        welder = replace(welder, policy=flags.policy)
    if flags.connect:
        welder = replace(welder, connect=(*welder.connect, *flags.connect))
    return replace(made, welder=welder)


def _measured(
    c: Compilation, apart: Compilation, inputs: dict[str, np.ndarray], flags: Namespace
) -> Answer:
    """Against every operator its own kernel, and against the default where something was asked."""
    from explorer.options import Options
    from explorer.tuning.compare import compare

    others = {"apart": apart}
    plain = Options().welder
    if c.options.welder != plain:
        with doing("compiling the default"):
            others["default"] = c.with_options(welder=plain)
    rows, lines = {}, []
    for name, other in others.items():
        with doing(f"timing against {name} for {flags.seconds:g} s"):
            found = compare(c, other, inputs, flags.seconds)
        rows[name] = _fields(found)
        lines.append(_line(name, found))
    threads = c.options.rammer.threads or c.device.units
    head = f"  measured on {counted(threads, 'thread')}, {found.first.machine}"
    return Answer({"measured": {"threads": threads, **rows}}, "\n".join((head, *lines)))


def _fields(found: Comparison) -> dict[str, object]:
    return {
        "welded_us": found.first.median_us,
        "other_us": found.second.median_us,
        "ratio": found.ratio,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "n": found.n,
        "verdict": found.verdict,
    }


def _line(name: str, found: Comparison) -> str:
    ours, theirs = duration(found.first.median_us), duration(found.second.median_us)
    ratio = f"{found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})"
    words = "every operator its own kernel" if name == "apart" else "what the compiler chooses"
    return f"  {ours}; {words} {theirs}: {found.verdict}, theirs / ours is {ratio}"
