"""`ironworks race`: the same model in other runtimes, after a comparison of answers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, model_flags, names, parse_flags, run_flags, seconds
from explorer.cli.compile_model import (
    compile_model,
    input_arrays,
    load_model,
    options,
    require_this_machine,
    sizes,
)
from explorer.cli.terminal import print_answer, progress_line
from explorer.measure.turns import MOST_TIMES_LONGER
from explorer.plain_text import binding, counted, duration, percent, table
from explorer.views.answer import Answer

if TYPE_CHECKING:
    from explorer.tuning.race import RaceResult, Runner


def main(argv: Sequence[str]) -> int:
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
        help="onnxruntime,openvino,torch,torch.compile,jax,iree,ncnn (default: onnxruntime)",
    )
    add("--seconds", type=seconds, default=2.0, metavar="S", help="how long to measure (default 2)")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the times of all runtimes; no if no other runtime ran.

    Raises:
        AnswerMismatch: the answers of two runtimes differ.
    """
    from explorer.tuning.peers.runtimes import check_peer_names
    from explorer.tuning.race import race

    check_peer_names(flags.against, "--against")
    chosen = options(flags)
    require_this_machine(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    inputs = input_arrays(model, flags, bound)
    c = compile_model(model, flags, chosen)
    with progress_line(f"racing {', '.join(flags.against)} for {flags.seconds:g} s"):
        result = race(c, inputs, flags.against, seconds=flags.seconds)
    head = (
        f"{result.model} on {result.machine}, {counted(result.threads, 'thread')}{binding(bound)}"
    )
    return Answer(
        {**result.to_json(), "sizes": bound},
        f"{head}\n\n{_text(result)}",
        yes=len(result.runners) > 1,
    )


def _text(result: RaceResult) -> str:
    rows = [_row(r) for r in result.runners]
    head = (
        "runtime", ">median", ">99 % from", ">to", ">n", ">largest error", ">theirs / ours",
        ">turns disturbed",
    )  # fmt: skip
    lines = [table(head, rows)]
    lines += [f"  {name} did not run: {reason}" for name, reason in result.skipped]
    if any(reason.endswith("is not installed") for _, reason in result.skipped):
        lines.append("  pip install 'ironworks[peers]' brings the other runtimes")
    other, versus = result.fastest_other, result.versus
    if other is None or versus is None:
        return "\n".join((*lines, "", "  no other runtime ran"))
    ratio = f"{versus.ratio:.2f} ({versus.low:.2f} to {versus.high:.2f})"
    words = {"faster": "faster than", "slower": "slower than"}
    verdict = words.get(result.verdict, "not distinguishable from")
    verdict_text = f"  ironworks is {verdict} {other.name}: their time / ours is {ratio}"
    if versus.wide:
        verdict_text += (
            f"\n  the interval is wide, also after up to {MOST_TIMES_LONGER} times as long"
        )
    return "\n".join((*lines, "", verdict_text))


def _row(r: Runner) -> tuple[str, ...]:
    time = r.time
    name = f"{r.name} {r.version}".strip()
    ratio = "" if r.versus is None else f"{r.versus.ratio:.2f}"
    error = "" if r.versus is None else f"{r.max_abs_error:.1e}"
    spread = (duration(time.low_us), duration(time.high_us))
    disturbed = percent(r.disturbed)
    return name, duration(time.median_us), *spread, f"{time.n:,}", error, ratio, disturbed
