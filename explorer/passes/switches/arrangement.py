"""The steps of a pipeline without some, and in another order: refused where a step would run
without what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.errors import BadOption, did_you_mean
from explorer.passes.pipeline.pipeline import Step
from explorer.passes.pipeline.ranges import Rows, check, option
from explorer.passes.switches.needs import BEHIND, MAKES, needed


@dataclass(frozen=True, slots=True)
class Options:
    """How the pipeline is arranged.

    off    steps that are left out, by name
    moved  pairs of a step and the one right behind which it stands, one after the other; "" puts it
           before all others of its stage
    """

    off: tuple[str, ...] = option((), Rows((str,), "names of steps"), "steps that are left out")
    moved: tuple[tuple[str, str], ...] = option(
        (), Rows((str, str), "pairs of a step and the one before it"), "steps that stand elsewhere"
    )

    def __post_init__(self) -> None:
        check("steps", self)


def arranged(steps: Sequence[Step], options: Options) -> tuple[Step, ...]:
    """The steps as the options say. BadOption where there is no such step, where a step would leave
    its stage, and where one needs what nothing before it makes.
    """
    if not options.off and not options.moved:
        return tuple(steps)
    found = list(steps)
    for name, after in options.moved:
        found = _moved(found, name, after)
    for name in options.off:
        _known(found, name)
    for name in options.off:
        if why := why_needed(found, name):
            raise BadOption(f"the step {name!r} cannot be left out: {why}", where="steps.off")
    found = [s for s in found if s.name not in options.off]
    _check(found, {MAKES[name] for name in options.off if name in MAKES})
    return tuple(found)


def why_needed(steps: Sequence[Step], name: str) -> str:
    """Why a step cannot be left out: which other one needs what it alone makes; "" where it can."""
    made = MAKES.get(name)
    for step in steps:
        if step.name == name:
            continue
        if made is not None and made in needed(step):
            return f"{step.name!r} needs {made}, which it alone makes"
    last = {"plan memory": "code needs a memory plan, which it alone makes"}
    return last.get(name, "")


def why_fixed(steps: Sequence[Step], name: str, after: str) -> str:
    """Why a step cannot stand right behind another one, or before all of its stage (""); "" where
    it can.
    """
    try:
        arranged(steps, Options(moved=((name, after),)))
    except BadOption as refused:
        return refused.sentence
    return ""


def _known(steps: Sequence[Step], name: str) -> int:
    names = [s.name for s in steps]
    if name in names:
        return names.index(name)
    hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
    raise BadOption(
        f"there is no step {name[:60]!r} in this pipeline{hint}",
        where="steps",
        expected=", ".join(names),
        found=name[:60],
    )


def _moved(steps: list[Step], name: str, after: str) -> list[Step]:
    step = steps[_known(steps, name)]
    rest = [s for s in steps if s.name != name]
    if after:
        before = rest[_known(rest, after)]
        if before.stage != step.stage:
            raise BadOption(
                f"the step {name!r} works on programs at {step.stage.name}, and {after!r} stands "
                f"at {before.stage.name}: a step keeps its stage",
                where="steps.moved",
            )
        at = rest.index(before) + 1
    else:
        at = next((n for n, s in enumerate(rest) if s.stage >= step.stage), len(rest))
    found = [*rest[:at], step, *rest[at:]]
    _check(found, set())
    return found


def _check(steps: Sequence[Step], gone: set[str]) -> None:
    """Raises where a step needs what is made behind it."""
    makers = {made: s.name for s in steps if (made := MAKES.get(s.name))}
    there: set[str] = set()
    for step in steps:
        for want in needed(step):
            if want not in there and want in makers and want not in gone:
                raise BadOption(
                    f"the step {step.name!r} cannot stand before {makers[want]!r}: it needs {want}",
                    where="steps.moved",
                )
        behind = BEHIND.get(step.name)
        names = [s.name for s in steps]
        if behind in names and names.index(behind) > names.index(step.name):
            raise BadOption(
                f"the step {step.name!r} stands behind {behind!r}: it does nothing but for that",
                where="steps.moved",
            )
        there.add(MAKES.get(step.name, ""))


__all__ = ["Options", "arranged", "why_fixed", "why_needed"]
