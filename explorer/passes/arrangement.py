"""Removal and reordering of pipeline steps, refused where a step's requirements are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from explorer.errors import BadOption, did_you_mean
from explorer.ir.stage import Stage
from explorer.passes.ranges import Rows, check, option
from explorer.passes.registry import current_name
from explorer.passes.snapshots import Step


@dataclass(frozen=True, slots=True)
class Options:
    """Arrangement of the pipeline.

    off    names of steps that are left out
    moved  pairs of a step and the step that it follows, applied in order; "" puts it first in its
           stage
    """

    off: tuple[str, ...] = option((), Rows((str,), "names of steps"), "steps that are left out")
    moved: tuple[tuple[str, str], ...] = option(
        (), Rows((str, str), "pairs of a step and the one before it"), "steps that are moved"
    )

    def __post_init__(self) -> None:
        """Raise BadOption if a field is invalid."""
        check("steps", self)
        moved = tuple((current_name(step), current_name(after)) for step, after in self.moved)
        object.__setattr__(self, "off", tuple(map(current_name, self.off)))
        object.__setattr__(self, "moved", moved)


def arrange_steps(steps: Sequence[Step], options: Options) -> tuple[Step, ...]:
    """Return the steps in the order of the options.

    Raises:
        BadOption: there is no such step, a step would leave its stage, or a step would run before
            what it requires.
    """
    if not options.off and not options.moved:
        return tuple(steps)
    ordered = list(steps)
    for name, after in options.moved:
        ordered = _move_step(ordered, name, after)
    for name in options.off:
        _step_index(ordered, name)
    for name in options.off:
        if why := why_needed(ordered, name):
            raise BadOption(f"the step {name!r} cannot be left out: {why}", where="steps.off")
    ordered = [s for s in ordered if s.name not in options.off]
    _check(ordered, {MAKES[name] for name in options.off if name in MAKES})
    return tuple(ordered)


def why_needed(steps: Sequence[Step], name: str) -> str:
    """Return why a step cannot be left out, "" if it can."""
    provided = MAKES.get(name)
    for step in steps:
        if step.name == name:
            continue
        if provided is not None and provided in requirements(step):
            return f"{step.name!r} needs {provided}, which it alone provides"
    last = {"plan memory": "code needs a memory plan, which it alone provides"}
    return last.get(name, "")


def _step_index(steps: Sequence[Step], name: str) -> int:
    names = [s.name for s in steps]
    if name in names:
        return names.index(name)
    hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise BadOption(
        f"there is no step {name[:60]!r} in this pipeline{hint}",
        where="steps",
        expected=", ".join(names),
        actual=name[:60],
    )


def _move_step(steps: list[Step], name: str, after: str) -> list[Step]:
    step = steps[_step_index(steps, name)]
    others = [s for s in steps if s.name != name]
    if after:
        before = others[_step_index(others, after)]
        if before.stage != step.stage:
            raise BadOption(
                f"the step {name!r} works on programs at {step.stage.title}, and {after!r} stands "
                f"at {before.stage.title}: a step cannot change its stage",
                where="steps.moved",
            )
        at = others.index(before) + 1
    else:
        at = next((n for n, s in enumerate(others) if s.stage >= step.stage), len(others))
    ordered = [*others[:at], step, *others[at:]]
    _check(ordered, set())
    return ordered


def _check(steps: Sequence[Step], gone: set[str]) -> None:
    """Raise BadOption if a step requires what a later one provides."""
    makers = {provided: s.name for s in steps if (provided := MAKES.get(s.name))}
    there: set[str] = set()
    for step in steps:
        for want in requirements(step):
            if want not in there and want in makers and want not in gone:
                raise BadOption(
                    f"the step {step.name!r} cannot stand before {makers[want]!r}: it needs {want}",
                    where="steps.moved",
                )
        behind = BEHIND.get(step.name)
        names = [s.name for s in steps]
        if behind in names and names.index(behind) > names.index(step.name):
            raise BadOption(
                f"the step {step.name!r} must follow {behind!r}: it has no effect without it",
                where="steps.moved",
            )
        there.add(MAKES.get(step.name, ""))


__all__ = ["Options", "arrange_steps", "why_needed"]


# What steps provide that later steps require, as named in sentences.
MAKES: Mapping[str, str] = MappingProxyType(
    {
        "infer shapes": "inferred shapes",
        "inline calls": "calls that are inlined",
        "differentiate": "derivatives",
        "legalise to kernels": "kernels",
        "map control flow (Grinder)": "uTasks",
        "fuse (Welder)": "tile graphs",
        "tile (Roller)": "tiles",
        "schedule (Rammer)": "a schedule",
        "select control-flow schedules": "control-flow schedules",
        "plan memory": "a memory plan",
    }
)
# Requirements of the steps of each stage, user-defined ones included.
BY_STAGE: Mapping[Stage, tuple[str, ...]] = MappingProxyType(
    {
        Stage.TYPED: ("inferred shapes",),
        Stage.DIFFERENTIATED: ("inferred shapes", "calls that are inlined"),
        Stage.LEGALIZED: ("inferred shapes", "calls that are inlined", "derivatives", "kernels"),
        Stage.TASKED: ("kernels",),
        Stage.WELDED: ("kernels", "uTasks", "tile graphs"),
        Stage.ROLLED: ("kernels", "tile graphs", "tiles"),
        Stage.RAMMED: ("tiles", "a schedule"),
        Stage.PLANNED: ("tiles", "a schedule", "control-flow schedules"),
        Stage.EMITTED: ("a memory plan",),
    }
)
# Steps that have an effect only after another one.
BEHIND: Mapping[str, str] = MappingProxyType({"name reshapes": "fuse operators"})


def requirements(step: Step) -> tuple[str, ...]:
    """Return a step's requirements: those of its stage but what it provides itself."""
    own = MAKES.get(step.name)
    if own is not None and step.name != "plan memory":
        order = list(MAKES.values())
        return tuple(n for n in BY_STAGE[step.stage] if order.index(n) < order.index(own))
    return BY_STAGE[step.stage]
