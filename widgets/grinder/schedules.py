"""The schedules of control flow that the uTask tree can show, from all on the host downwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.errors import BadOption
from explorer.grinder import lowest
from explorer.grinder.model import BranchTask, LoopTask, RecursionTask, UTask
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import Ran
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from widgets.model.brick_wall import Call
from widgets.model.house import read
from widgets.model.knobs import MOST_CALLS
from widgets.model.on_show import OnShow
from widgets.model.picture import Family, controls

HOST, DEVICE, AS_COMPILED = "host", "device", ""
CONTROL = ("loop", "branch", "call")


@dataclass(frozen=True, slots=True)
class Innermost:
    """A policy of Grinder: on the device if at most `depth` - 1 levels of control flow are inside,
    else on the host.
    """

    depth: int

    @property
    def __name__(self) -> str:
        return f"innermost {self.depth}"

    def __call__(self, body: Sequence[UTask]) -> tuple[str, str]:
        """The level of a loop or branch with this inside, and why."""
        level, why = lowest(body)
        if level == "device" and _nesting(body) >= self.depth:
            return "host", "asked for"
        return level, why


def _nesting(body: Sequence[UTask]) -> int:
    """How many levels of loops, branches and calls are in a body."""
    found = 0
    for part in body:
        match part:
            case LoopTask(body=inner) | RecursionTask(body=inner):
                found = max(found, 1 + _nesting(inner))
            case BranchTask(then=then, orelse=orelse):
                found = max(found, 1 + _nesting(then), 1 + _nesting(orelse))
    return found


def nesting(tree: TaskTree) -> int:
    """How many levels of loops, branches and calls a tree has."""
    inside = max((nesting(p) for p in tree.parts), default=0)
    return inside + (tree.kind in CONTROL)


def ladder(tree: TaskTree) -> tuple[str, ...]:
    """The schedules of a tree, from all on the host to all on the device, then as compiled."""
    between = (f"innermost {n}" for n in range(1, nesting(tree)))
    return (HOST, *between, DEVICE, AS_COMPILED)


def title(schedule: str) -> str:
    """What of the control flow is off the host."""
    named = {HOST: "nothing", DEVICE: "all", AS_COMPILED: "as compiled", "innermost 1": "innermost"}
    return named.get(schedule) or f"{schedule.rpartition(' ')[2]} innermost"


def has_control(tree: TaskTree | None) -> bool:
    """Return True if there is a loop, a branch or a call of a function that calls itself."""
    return tree is not None and nesting(tree) > 0


def controlled(program: Program) -> bool:
    """Return True if a program calls functions: for loops and branches, or by itself."""
    return any(b.calls for _, b in program.bindings())


@dataclass(frozen=True)
class Planned:
    """A program under one schedule, and what its calls are called."""

    program: Program
    calls: tuple[Call, ...]


def planned(s: OnShow, schedule: str) -> Planned:
    """The program under a schedule of the ladder: planned once, then kept."""
    now, c = s.now, s.now.compiled
    if schedule == AS_COMPILED:
        return Planned(c.program, s.house.calls)
    policy: Any = schedule
    if schedule.startswith("innermost "):
        policy = Innermost(int(schedule.rpartition(" ")[2]))
    until = min(c.program.stage, Stage.PLANNED)

    def plan() -> Planned:
        grinder = replace(c.options.grinder, schedule=policy)
        found = c.with_options(until=until, grinder=grinder)
        return Planned(found.program, read(found).calls)

    return s.house.kept(repr(("schedule", schedule)), now.sizes, plan)


def on_host(s: OnShow) -> Planned | None:
    """The program with all control flow on the host; None where planning it would take long."""
    c = s.now.compiled
    if s.now.ended or not controlled(c.model.program) or len(c.program.kernel_calls) > MOST_CALLS:
        return None
    return planned(s, HOST)


def chosen(s: OnShow) -> str:
    """The schedule of the view; raises BadOption for one that there is not."""
    host = on_host(s)
    tree = host.program.decisions.tasks if host is not None else None
    known = ladder(tree) if tree is not None else (AS_COMPILED,)
    if s.view.policy not in known:
        said = ", ".join(title(x) for x in known)
        raise BadOption(f"there is no schedule {s.view.policy[:40]!r} here", expected=said)
    return s.view.policy


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """How much of the control flow is off the host."""
    host = on_host(s)
    tree = host.program.decisions.tasks if host is not None else None
    if not has_control(tree) or tree is None:
        return {}
    known, now = ladder(tree), chosen(s)
    knob = ("policy", "off the host", list(known), known.index(now), [title(x) for x in known])
    return {**controls(s, knob), "play": "policy"}


SCHEDULED = Family("schedules", _controls)


def launches(tree: TaskTree, ran: Mapping[str, Ran], *, apart: bool = False) -> int | None:
    """Return how often a run launches kernels from Python, None where only a run tells: once for
    what stands between two things that Python does. `apart`: once for every kernel.
    """
    return _launches(tree.parts, 1, ran, apart)


def _launches(
    parts: Sequence[TaskTree], times: int, ran: Mapping[str, Ran], apart: bool
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


def _inside(part: TaskTree, times: int, ran: Mapping[str, Ran], apart: bool) -> int | None:
    """The launches in what Python follows, in all its iterations."""
    known = ran.get(part.binding)
    if part.kind == "library":
        return 0
    if known is None or part.kind == "call":
        return None
    if part.kind == "loop":
        return _launches(part.parts, known.trips, ran, apart)
    counts = (known.then, known.times - known.then)
    found = [_launches(arm.parts, n, ran, apart) for arm, n in zip(part.parts, counts)]
    return None if None in found else sum(n for n in found if n is not None)
