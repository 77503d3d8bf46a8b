"""`ironworks race`: the same model in other runtimes, answers compared first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, names, parsed, run_flags, seconds
from explorer.cli.compiled import arrays, compiled, loaded, options, run_here, sizes
from explorer.cli.progress import doing
from explorer.measure.turns import MOST_TIMES_LONGER
from explorer.plain_text import binding, counted, duration, percent, table

if TYPE_CHECKING:
    from explorer.tuning.race import RaceResult, Runner


def main(given: Sequence[str]) -> int:
    """Race a model."""
    parser = Parser("race", "The same model in other runtimes, answers compared first.")
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add(
        "--against",
        type=names,
        default=("onnxruntime",),
        metavar="NAMES",
        help="onnxruntime,openvino,torch,torch.compile,jax (default: onnxruntime)",
    )
    add("--seconds", type=seconds, default=2.0, metavar="S", help="how long to measure (default 2)")
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Times side by side; no where nobody else ran. Answers that differ are an `AnswerMismatch`."""
    from explorer.tuning.peers.runtimes import check_peer_names
    from explorer.tuning.race import race

    check_peer_names(flags.against, "--against")
    chosen = options(flags)
    run_here(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    inputs = arrays(model, flags, bound)
    c = compiled(model, flags, chosen)
    with doing(f"racing {', '.join(flags.against)} for {flags.seconds:g} s"):
        found = race(c, inputs, flags.against, seconds=flags.seconds)
    head = f"{found.model} on {found.machine}, {counted(found.threads, 'thread')}{binding(bound)}"
    return Answer(
        {**found.to_json(), "sizes": bound}, f"{head}\n\n{_text(found)}", yes=len(found.runners) > 1
    )


def _text(found: RaceResult) -> str:
    rows = [_row(r) for r in found.runners]
    head = (
        "runtime", ">median", ">99 % from", ">to", ">n", ">largest error", ">theirs / ours",
        ">turns disturbed",
    )  # fmt: skip
    lines = [table(head, rows)]
    lines += [f"  {name} did not run: {reason}" for name, reason in found.skipped]
    if any(reason.endswith("is not installed") for _, reason in found.skipped):
        lines.append("  pip install 'ironworks[peers]' brings the other runtimes")
    other, versus = found.fastest_other, found.versus
    if other is None or versus is None:
        return "\n".join((*lines, "", "  no other runtime ran"))
    ratio = f"{versus.ratio:.2f} ({versus.low:.2f} to {versus.high:.2f})"
    words = {"faster": "faster than", "slower": "slower than"}
    verdict = words.get(found.verdict, "not distinguishable from")
    told = f"  ironworks is {verdict} {other.name}: their time / ours is {ratio}"
    if versus.wide:
        told += f"\n  the interval is wide, also after up to {MOST_TIMES_LONGER} times as long"
    return "\n".join((*lines, "", told))


def _row(r: Runner) -> tuple[str, ...]:
    time = r.time
    name = f"{r.name} {r.version}".strip()
    ratio = "" if r.versus is None else f"{r.versus.ratio:.2f}"
    error = "" if r.versus is None else f"{r.max_abs_error:.1e}"
    spread = (duration(time.low_us), duration(time.high_us))
    disturbed = percent(r.disturbed)
    return name, duration(time.median_us), *spread, f"{time.n:,}", error, ratio, disturbed
