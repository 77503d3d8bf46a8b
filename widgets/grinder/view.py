"""Choices of Grinder's pictures: the loop, the costs of a launch and a barrier, the schedule.

The schedules of the uTask tree go from all control flow on the host downwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.grinder import lowest
from explorer.grinder.model import BranchTask, LoopTask, RecursionTask, UTask
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.runtime.planning.control_costs import AssumedCosts
from explorer.runtime.planning.schedule_times import Crossing
from widgets.model.brick_wall import WallCall
from widgets.model.house import read
from widgets.model.knobs import MOST_CALLS
from widgets.model.picture import Family, OnShow, controls

AS_IT_IS = "as it is"  # the device's own value
LAUNCHES = (AS_IT_IS, "0.1 µs", "1 µs", "5 µs", "20 µs", "100 µs")
BARRIERS = (AS_IT_IS, "0.05 µs", "0.5 µs", "2 µs", "5 µs", "20 µs")
HOST, DEVICE, AS_COMPILED = "host", "device", ""
CONTROL = ("loop", "branch", "call")


def crossings(s: OnShow) -> tuple[Crossing, ...]:
    """Return the crossing of every loop in the current program, inner loops first, with timings."""
    supposed = assumed_costs(s)
    c, sizes = s.now.compiled, s.now.sizes
    computed = s.house.cached(repr(supposed), sizes, lambda: c.crossings(dict(sizes), supposed))
    return tuple(replace(x, timed=s.timed(x.loop)) for x in computed)


def assumed_costs(s: OnShow) -> AssumedCosts:
    """Return the launch and barrier costs of the view; raises BadOption for an unknown choice."""
    return AssumedCosts(
        _us(s.view.launch, LAUNCHES, "launch"), _us(s.view.barrier, BARRIERS, "barrier")
    )


def _us(text: str, choices: tuple[str, ...], what: str) -> float | None:
    if (text or AS_IT_IS) not in choices:
        expected = ", ".join(choices)
        raise BadOption(f"unknown {what} time {text[:20]!r}", expected=expected)
    return None if text in ("", AS_IT_IS) else float(text.removesuffix(" µs"))


def crossing(s: OnShow, op: str) -> Crossing | None:
    """Return the loop of the view, else the innermost one around an operator, else the last.

    Return None if no loop has known sizes. Raises BadOption if the view names an unknown loop.
    """
    candidates = crossings(s)
    if s.view.loop:
        for x in candidates:
            if x.loop == s.view.loop:
                return x
        names = ", ".join(x.loop for x in candidates) or "none"
        raise BadOption(f"the program has no loop {s.view.loop[:40]!r}", expected=names)
    around = (x for x in candidates if op and op in x.origin)
    return next(around, candidates[-1] if candidates else None)


def _loop_controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of the picture with their current values."""
    selected = crossing(s, op)
    if selected is None:
        return {}
    names = [x.loop for x in crossings(s)]
    launch, barrier = s.view.launch or AS_IT_IS, s.view.barrier or AS_IT_IS
    own = target_of(s.now.compiled.device).is_emitted
    plain = controls(
        s,
        ("loop", "loop", names, names.index(selected.loop)),
        ("launch", "a launch takes", list(LAUNCHES), LAUNCHES.index(launch)),
        ("barrier", "a barrier takes", list(BARRIERS), BARRIERS.index(barrier)),
    )
    action = ["crossing", "Measure its schedules", {"loop": selected.loop}]
    return {**plain, "action": action if own else []}


def _about(s: OnShow, op: str) -> tuple[str, ...]:
    selected = crossing(s, op)
    return selected.origin if selected else ()


LOOPS = Family("loops", _loop_controls, _about)


@dataclass(frozen=True, slots=True)
class Innermost:
    """A Grinder policy that puts the innermost `depth` levels of control flow on the device.

    A task with `depth` or more levels of control flow inside runs on the host.
    """

    depth: int

    @property
    def __name__(self) -> str:
        """The name of the policy."""
        return f"innermost {self.depth}"

    def __call__(self, body: Sequence[UTask]) -> tuple[str, str]:
        """Return the level of a loop or branch with this body, and the reason."""
        level, why = lowest(body)
        if level == "device" and _nesting(body) >= self.depth:
            return "host", "asked for"
        return level, why


def _nesting(body: Sequence[UTask]) -> int:
    """Return the depth of loops, branches and calls in a body."""
    depth = 0
    for part in body:
        match part:
            case LoopTask(body=inner) | RecursionTask(body=inner):
                depth = max(depth, 1 + _nesting(inner))
            case BranchTask(then=then, orelse=orelse):
                depth = max(depth, 1 + _nesting(then), 1 + _nesting(orelse))
    return depth


def nesting(tree: TaskTree) -> int:
    """Return the depth of loops, branches and calls in a tree."""
    inside = max((nesting(p) for p in tree.parts), default=0)
    return inside + (tree.kind in CONTROL)


def list_schedules(tree: TaskTree) -> tuple[str, ...]:
    """Return the schedules of a tree, from all on the host to all on the device, then "".

    "" is the schedule as compiled.
    """
    between = (f"innermost {n}" for n in range(1, nesting(tree)))
    return (HOST, *between, DEVICE, AS_COMPILED)


def title(schedule: str) -> str:
    """Return the part of the control flow that is off the host."""
    named = {HOST: "nothing", DEVICE: "all", AS_COMPILED: "as compiled", "innermost 1": "innermost"}
    return named.get(schedule) or f"{schedule.rpartition(' ')[2]} innermost"


def has_control(tree: TaskTree | None) -> bool:
    """Return True if there is a loop, a branch or a call of a recursive function."""
    return tree is not None and nesting(tree) > 0


def has_calls(program: Program) -> bool:
    """Return True if a program calls functions: for loops and branches, or recursively."""
    return any(b.calls for _, b in program.bindings())


@dataclass(frozen=True)
class Planned:
    """A program under one schedule, and the labels of its calls."""

    program: Program
    calls: tuple[WallCall, ...]


def plan_schedule(s: OnShow, schedule: str) -> Planned:
    """Return the program under a schedule of the ladder; the result is memoized."""
    now, c = s.now, s.now.compiled
    if schedule == AS_COMPILED:
        return Planned(c.program, s.house.calls)
    policy: Any = schedule
    if schedule.startswith("innermost "):
        policy = Innermost(int(schedule.rpartition(" ")[2]))
    until = min(c.program.stage, Stage.PLANNED)

    def plan() -> Planned:
        grinder = replace(c.options.grinder, schedule=policy)
        compiled = c.with_options(until=until, grinder=grinder)
        return Planned(compiled.program, read(compiled).calls)

    return s.house.cached(repr(("schedule", schedule)), now.sizes, plan)


def on_host(s: OnShow) -> Planned | None:
    """Return the program with all control flow on the host, None if planning it would take long."""
    c = s.now.compiled
    if s.now.ended or not has_calls(c.model.program) or len(c.program.kernel_calls) > MOST_CALLS:
        return None
    return plan_schedule(s, HOST)


def selected_schedule(s: OnShow) -> str:
    """Return the schedule of the view; raises BadOption for an unknown one."""
    host = on_host(s)
    tree = host.program.decisions.tasks if host is not None else None
    schedules = list_schedules(tree) if tree is not None else (AS_COMPILED,)
    if s.view.policy not in schedules:
        expected = ", ".join(title(x) for x in schedules)
        raise BadOption(f"unknown control-flow schedule {s.view.policy[:40]!r}", expected=expected)
    return s.view.policy


def _schedule_controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choice of how much control flow is off the host."""
    host = on_host(s)
    tree = host.program.decisions.tasks if host is not None else None
    if not has_control(tree) or tree is None:
        return {}
    schedules, now = list_schedules(tree), selected_schedule(s)
    knob = (
        "policy",
        "off the host",
        list(schedules),
        schedules.index(now),
        [title(x) for x in schedules],
    )
    return {**controls(s, knob), "play": "policy"}


SCHEDULED = Family("schedules", _schedule_controls)


def launches(
    tree: TaskTree, ran: Mapping[str, ControlFlowCounts], *, apart: bool = False
) -> int | None:
    """Return the number of kernel launches from Python in a run, None if only a run can tell.

    Kernels between two actions of Python share one launch; with `apart` each kernel counts.
    """
    return _launches(tree.parts, 1, ran, apart)


def _launches(
    parts: Sequence[TaskTree], times: int, ran: Mapping[str, ControlFlowCounts], apart: bool
) -> int | None:
    total, launched = 0, False
    for part in parts:
        if part.level == "host" and part.kind != "sequence":
            inside = _inside(part, times, ran, apart)
            if inside is None:
                return None
            total, launched = total + inside, False
            continue
        if not launched or (apart and part.kind == "operator"):
            total += times
        launched = True
    return total


def _inside(
    part: TaskTree, times: int, ran: Mapping[str, ControlFlowCounts], apart: bool
) -> int | None:
    """Return the launches within a task that Python runs, over all its iterations."""
    counts_of_run = ran.get(part.binding)
    if part.kind == "library":
        return 0
    if counts_of_run is None or part.kind == "call":
        return None
    if part.kind == "loop":
        return _launches(part.parts, counts_of_run.trips, ran, apart)
    counts = (counts_of_run.then, counts_of_run.times - counts_of_run.then)
    per_arm = [_launches(arm.parts, n, ran, apart) for arm, n in zip(part.parts, counts)]
    return None if None in per_arm else sum(n for n in per_arm if n is not None)
