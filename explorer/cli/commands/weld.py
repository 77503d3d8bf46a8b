"""`ironworks weld`: kernels that share tiles, the memory level of each value, and what-ifs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, connection, model_flags, parse_flags, run_flags, seconds
from explorer.cli.compile_model import (
    compile_model,
    input_arrays,
    load_model,
    options,
    require_this_machine,
    sizes,
)
from explorer.cli.terminal import print_answer, progress_line
from explorer.plain_text import counted, duration
from explorer.views import welder
from explorer.views.answer import Answer

if TYPE_CHECKING:
    import numpy as np

    from explorer.compiler.compilation import Compilation
    from explorer.compiler.options import Options
    from explorer.measure.compare import Comparison


def main(argv: Sequence[str]) -> int:
    """Fuse a model and print the groups."""
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
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the groups with their levels and bytes, a value at every level, and times."""
    chosen = _welder_options(flags)
    if flags.measure:
        require_this_machine(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    inputs = input_arrays(model, flags, bound)
    c = compile_model(model, flags, chosen, "EMITTED" if flags.measure else "ROLLED")
    with progress_line("planning tiles"):
        apart = c.with_options(welder=replace(chosen.welder, enabled=False, connect=()))
        groups = welder.compare_groups(c, apart, bound)
        parts = [groups]
        if flags.why is not None:
            parts.append(welder.value_at_levels(c, flags.why, bound))
    if flags.measure:
        parts.append(_measure(c, apart, inputs, flags))
    data: dict[str, object] = {"model": c.model.name, "target": c.device.name, "sizes": bound}
    for part in parts:
        assert isinstance(part.data, dict)
        data |= part.data
    yes = all(p.yes for p in parts)
    return Answer(data, "\n\n".join(p.text for p in parts), yes)


def _welder_options(flags: Namespace) -> Options:
    chosen = options(flags)
    own = chosen.welder
    if flags.policy is not None:
        own = replace(own, policy=flags.policy)
    if flags.connect:
        own = replace(own, connect=(*own.connect, *flags.connect))
    return replace(chosen, welder=own)


def _measure(
    c: Compilation, apart: Compilation, inputs: dict[str, np.ndarray], flags: Namespace
) -> Answer:
    """Compare with one kernel per operator and, if options were set, with the default."""
    from explorer.compiler.options import Options
    from explorer.tuning.compare import compare

    others = {"apart": apart}
    plain = Options().welder
    if c.options.welder != plain:
        with progress_line("compiling the default"):
            others["default"] = c.with_options(welder=plain)
    rows, lines = {}, []
    for name, other in others.items():
        with progress_line(f"timing against {name} for {flags.seconds:g} s"):
            comparison = compare(c, other, inputs, flags.seconds)
        rows[name] = _fields(comparison)
        lines.append(_line(name, comparison))
    threads = c.options.rammer.threads or c.device.units
    head = f"  measured on {counted(threads, 'thread')}, {comparison.first.machine}"
    return Answer({"measured": {"threads": threads, **rows}}, "\n".join((head, *lines)))


def _fields(comparison: Comparison) -> dict[str, object]:
    return {
        "welded_us": comparison.first.median_us,
        "other_us": comparison.second.median_us,
        "ratio": comparison.ratio,
        "ratio_low": comparison.low,
        "ratio_high": comparison.high,
        "n": comparison.n,
        "verdict": comparison.verdict,
    }


def _line(name: str, comparison: Comparison) -> str:
    ours, theirs = duration(comparison.first.median_us), duration(comparison.second.median_us)
    ratio = f"{comparison.ratio:.2f} ({comparison.low:.2f} to {comparison.high:.2f})"
    words = "every operator its own kernel" if name == "apart" else "what the compiler chooses"
    return f"  {ours}; {words} {theirs}: {comparison.verdict}, theirs / ours is {ratio}"
