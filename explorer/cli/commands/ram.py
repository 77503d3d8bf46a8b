"""`ironworks ram`: how tasks are laid on units under each policy, and how long that takes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, names, parsed, run_flags
from explorer.cli.compiled import arrays, compiled, loaded, options, run_here, sizes
from explorer.cli.explained import rammer
from explorer.cli.explained.find import shortened
from explorer.cli.progress import doing
from explorer.errors import BadOption
from explorer.plain_text import binding, correlation, duration, percent, signed_percent, table

if TYPE_CHECKING:
    import numpy as np

    from explorer.compilation import Compilation
    from explorer.tuning.compare_policies import PolicyWall

RUNS = 15  # stamped runs of a policy, of which the one in the middle is told


def main(given: Sequence[str]) -> int:
    """Lay a model's walls and say what each policy makes of it."""
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
    flags = parsed(parser, given)
    return tell(answer(flags), flags.json)


def answer(flags: Namespace) -> Answer:
    """The policies side by side; what the first of those asked for weighed; plan against run."""
    from explorer.tuning.compare_policies import compare_policies

    chosen, policies = options(flags), _policies(flags)
    if flags.measure:
        run_here(flags)
    model = loaded(flags)
    bound = sizes(model, flags)
    inputs = arrays(model, flags, bound)
    c = compiled(model, flags, chosen, "EMITTED" if flags.measure else "PLANNED")
    with doing() as say:
        sides = compare_policies(c, policies, bound, lambda policy: say(f"laying a wall: {policy}"))
    told = _told(sides, flags.policy)
    parts = [_sides(sides), _idle(sides), _weighed(told)]
    if flags.measure:
        parts.append(_measured(c, sides, inputs))
    head = _head(c, sides[0], bound)
    data: dict[str, object] = {
        "model": c.model.name,
        "target": c.device.name,
        "sizes": bound,
        "kind": sides[0].wall.kind,
        "units": sides[0].statistics.units,
    }
    for part in parts:
        assert isinstance(part.data, dict)
        data |= part.data
    told_parts = (p.text for p in parts if p.text)
    return Answer(data, "\n\n".join((head, *told_parts, *rammer.trips(c, bound))))


def _policies(flags: Namespace) -> tuple[str, ...]:
    """Those asked for after the baseline; all where none is."""
    from explorer.rammer import POLICIES
    from explorer.tuning.compare_policies import BASELINE

    asked = POLICIES if flags.policy is None else flags.policy
    unknown = [name for name in asked if name not in POLICIES]
    if unknown:
        known = ", ".join(POLICIES)
        raise BadOption(
            f"Rammer has no policy {unknown[0]!r}; there are {known}",
            where="--policy",
            expected=known,
            actual=unknown[0],
        )
    return (BASELINE, *(name for name in asked if name != BASELINE))


def _told(sides: Sequence[PolicyWall], asked: Sequence[str] | None) -> PolicyWall:
    """The side whose choices are told: the first that was asked for, else the fastest."""
    if asked is not None:
        return next(s for s in sides if s.policy == asked[0])
    return min(sides, key=lambda s: s.statistics.total_us)


def _head(c: Compilation, first: PolicyWall, bound: dict[str, int]) -> str:
    a = first.statistics
    what = f"{c.device.name}, predicted"
    cores = "cores" if c.device.kind == "cpu" else dict(c.device.sources)["units"].split(":")[0]
    return f"{c.model.name} on {what}: {a.cores:,} {cores}{binding(bound)}"


def _sides(sides: Sequence[PolicyWall]) -> Answer:
    base = sides[0].statistics.total_us
    rows, data = [], []
    for s in sides:
        a = s.statistics
        rows.append(
            (
                s.policy,
                duration(a.total_us),
                f"{base / a.total_us:.2f}x" if a.total_us else "–",
                percent(a.core_busy),
                percent(a.busy),
                f"{a.units:,}",
                f"{a.launches:,}",
                duration(a.kernel_us),
                duration(a.overhead_us),
            )
        )
        data.append(_fields(s, base))
    head = (
        "policy", ">time", ">speedup", ">cores busy", ">units busy", ">units", ">rPrograms",
        ">in them", ">between",
    )  # fmt: skip
    return Answer({"policies": data}, table(head, rows))


def _fields(s: PolicyWall, base_us: float) -> dict[str, object]:
    a = s.statistics
    return {
        "policy": s.policy,
        "total_us": a.total_us,
        "speedup": base_us / a.total_us if a.total_us else None,
        "core_busy": a.core_busy,
        "busy": a.busy,
        "units": a.units,
        "per_core": a.per_core,
        "bricks": a.bricks,
        "rprograms": a.launches,
        "kernel_us": a.kernel_us,
        "overhead_us": a.overhead_us,
        "idle_us": dict(a.idle),
    }


def _idle(sides: Sequence[PolicyWall]) -> Answer:
    """Idle time of all units together, as a share of units times time."""
    causes = sorted({cause for s in sides for cause, _ in s.statistics.idle})
    if not causes:
        return Answer({}, "  no unit is ever idle")
    rows = []
    for s in sides:
        a, idle = s.statistics, dict(s.statistics.idle)
        area = a.units * a.total_us
        rows.append((s.policy, *(percent(idle.get(c, 0.0) / area) if area else "" for c in causes)))
    return Answer({}, table(("idle by cause", *(f">{c}" for c in causes)), rows))


def _weighed(s: PolicyWall) -> Answer:
    """What a policy compared, candidate by candidate, in the order in which it did."""
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
    text = table((f"{s.policy} weighs", "times", ""), shortened(rows, None, 3))
    return Answer(data, text)


def _measured(c: Compilation, sides: Sequence[PolicyWall], inputs: dict[str, np.ndarray]) -> Answer:
    """Each wall as it was planned and as it ran, the median of some runs."""
    from dataclasses import replace

    from explorer.measure.walls import compare_walls

    rows, data = [], []
    for s in sides:
        with doing(f"measuring {s.policy}, {RUNS} runs"):
            other = c.with_options(rammer=replace(c.options.rammer, policy=s.policy))
            other.run(inputs)
            measured = other.measured_wall(inputs, RUNS)
        found = compare_walls(s.wall, measured)
        rows.append(
            (
                s.policy,
                duration(found.planned_us),
                duration(found.measured_us),
                signed_percent(found.error),
                correlation(found.rank_correlation),
                percent(measured.busy),
            )
        )
        data.append(
            {
                "policy": s.policy,
                "planned_us": found.planned_us,
                "measured_us": found.measured_us,
                "error": found.error,
                "rank_correlation": found.rank_correlation,
                "busy": measured.busy,
                "missing": found.missing,
            }
        )
    head = (
        f"median of {RUNS} runs", ">planned", ">measured", ">plan is off by", ">rank correlation",
        ">units busy",
    )  # fmt: skip
    return Answer({"measured": data}, table(head, rows))
