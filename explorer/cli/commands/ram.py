"""`ironworks ram`: the placement of tasks on units under each policy, and its time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.arguments import Parser, model_flags, names, parse_flags, run_flags
from explorer.cli.compile_model import (
    compile_model,
    input_arrays,
    load_model,
    options,
    require_this_machine,
    sizes,
)
from explorer.cli.terminal import print_answer, progress_line
from explorer.errors import BadOption
from explorer.plain_text import binding, correlation, duration, percent, signed_percent, table
from explorer.views import rammer
from explorer.views.answer import Answer
from explorer.views.labels import shorten_rows

if TYPE_CHECKING:
    import numpy as np

    from explorer.compiler.compilation import Compilation
    from explorer.tuning.compare import PolicyWall

RUNS = 15  # timed runs of a policy; the median one is reported


def main(argv: Sequence[str]) -> int:
    """Schedule a model under each policy and compare the walls."""
    parser = Parser(
        "ram",
        "How tasks are laid on cores or SMs: time, utilisation, launches and idle time of each "
        "policy, with op-by-op as the baseline; predicted for this machine or a data sheet.",
    )
    model_flags(parser)
    run_flags(parser)
    add = parser.add_argument
    add(
        "--policy",
        type=names,
        metavar="NAME[,NAME]",
        help="policies of Rammer (default: all that there are)",
    )
    add("--measure", action="store_true", help="run each policy here, and compare with the plan")
    flags = parse_flags(parser, argv)
    return print_answer(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """Return the policies in a table, the choices of one of them, and plan against run.

    The choices are those of the first requested policy, else of the fastest.
    """
    from explorer.tuning.compare import compare_policies

    chosen, policies = options(flags), _policies(flags)
    if flags.measure:
        require_this_machine(flags)
    model = load_model(flags)
    bound = sizes(model, flags)
    inputs = input_arrays(model, flags, bound)
    c = compile_model(model, flags, chosen, "EMITTED" if flags.measure else "PLANNED")
    with progress_line() as say:
        policy_walls = compare_policies(
            c, policies, bound, lambda policy: say(f"scheduling: {policy}")
        )
    explained = _select_explained(policy_walls, flags.policy)
    parts = [rammer.policies([w.statistics for w in policy_walls]), _choices(explained)]
    if flags.measure:
        parts.append(_compare_with_runs(c, policy_walls, inputs))
    head = _head(c, policy_walls[0], bound)
    data: dict[str, object] = {
        "model": c.model.name,
        "target": c.device.name,
        "sizes": bound,
        "kind": policy_walls[0].wall.kind,
        "units": policy_walls[0].statistics.units,
    }
    for part in parts:
        assert isinstance(part.data, dict)
        data |= part.data
    texts = (p.text for p in parts if p.text)
    return Answer(data, "\n\n".join((head, *texts, *rammer.trip_count_note(c, bound))))


def _policies(flags: Namespace) -> tuple[str, ...]:
    """Return the baseline and the requested policies; all of them by default."""
    from explorer.passes.policy_call import by_system
    from explorer.rammer import POLICIES
    from explorer.tuning.compare import BASELINE

    every = (*POLICIES, *by_system("rammer"))
    requested = every if flags.policy is None else flags.policy
    unknown = [name for name in requested if name not in every]
    if unknown:
        available = ", ".join(every)
        raise BadOption(
            f"Rammer has no policy {unknown[0]!r}; there are {available}",
            where="--policy",
            expected=available,
            actual=unknown[0],
        )
    return (BASELINE, *(name for name in requested if name != BASELINE))


def _select_explained(
    policy_walls: Sequence[PolicyWall], requested: Sequence[str] | None
) -> PolicyWall:
    """Return the wall whose choices are explained: the first requested, else the fastest."""
    if requested is not None:
        return next(s for s in policy_walls if s.policy == requested[0])
    return min(policy_walls, key=lambda s: s.statistics.total_us)


def _head(c: Compilation, first: PolicyWall, bound: dict[str, int]) -> str:
    a = first.statistics
    what = f"{c.device.name}, predicted"
    cores = (
        "cores" if c.target.has_resident_workers else dict(c.device.sources)["units"].split(":")[0]
    )
    return f"{c.model.name} on {what}: {a.cores:,} {cores}{binding(bound)}"


def _choices(s: PolicyWall) -> Answer:
    """List the candidates that a policy compared, in its own order."""
    weighed = [
        {"what": c.label, "terms": dict(c.terms), "taken": not c.refused, "refused": c.refused}
        for c in s.weighed
    ]
    rows = [
        (
            c.label,
            ", ".join(f"{name} {duration(us)}" for name, us in c.terms),
            c.refused or "taken",
        )
        for c in s.weighed
    ]
    data = {"weighed": {"policy": s.policy, "choices": weighed}}
    if not rows:
        return Answer(data, f"  {s.policy} weighs nothing")
    text = table((f"{s.policy} weighs", "times", ""), shorten_rows(rows, None, 3))
    return Answer(data, text)


def _compare_with_runs(
    c: Compilation, policy_walls: Sequence[PolicyWall], inputs: dict[str, np.ndarray]
) -> Answer:
    """Compare each planned wall with the median of some runs."""
    from dataclasses import replace

    from explorer.measure.walls import compare_walls

    rows, data = [], []
    for s in policy_walls:
        with progress_line(f"measuring {s.policy}, {RUNS} runs"):
            other = c.with_options(rammer=replace(c.options.rammer, policy=s.policy))
            other.run(inputs)
            measured = other.measured_wall(inputs, RUNS)
        comparison = compare_walls(s.wall, measured)
        rows.append(
            (
                s.policy,
                duration(comparison.planned_us),
                duration(comparison.measured_us),
                signed_percent(comparison.error),
                correlation(comparison.rank_correlation),
                percent(measured.busy),
            )
        )
        data.append(
            {
                "policy": s.policy,
                "planned_us": comparison.planned_us,
                "measured_us": comparison.measured_us,
                "error": comparison.error,
                "rank_correlation": comparison.rank_correlation,
                "busy": measured.busy,
                "missing": comparison.missing,
            }
        )
    head = (
        f"median of {RUNS} runs", ">planned", ">measured", ">plan is off by", ">rank correlation",
        ">units busy",
    )  # fmt: skip
    return Answer({"measured": data}, table(head, rows))
