"""The two programs that pictures of steps compare: before and after a step, or A's and this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.errors import BadOption
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.stepping.effects import did
from widgets.model.on_show import OnShow
from widgets.model.picture import Family

BEFORE, PINNED = "the program before", "A"
AGAINST = (BEFORE, PINNED)


@dataclass(frozen=True, slots=True)
class Between:
    """Two programs, and a title for what lies between them."""

    title: str
    before: Program
    after: Program


def between(s: OnShow) -> Between:
    """Return the programs of the view; raises BadOption for an unknown step."""
    c = s.now.compiled
    if against(s) == PINNED:
        return Between(f"A → {c.model.name}", s.pinned.compiled.program, c.program)
    number = step_of(s)
    if number < 0:
        return Between("as it was imported", c.program, c.program)
    step = c.snapshots[number]
    return Between(step.name, step.before, step.after)


def against(s: OnShow) -> str:
    """Return what the program on show is compared with; raises BadOption for an unknown choice."""
    choice = s.view.against or BEFORE
    if choice not in AGAINST:
        raise BadOption(
            f"there is nothing named {choice[:40]!r} to compare with", expected=", ".join(AGAINST)
        )
    return choice


def step_of(s: OnShow) -> int:
    """Return the step of the view, else the largest one, from graph operators to kernels.

    -1 if there is no step.
    """
    c, number = s.now.compiled, s.view.step
    if number >= len(c.snapshots):
        raise BadOption(
            f"there is no step {number + 1}: the compilation has {len(c.snapshots)} steps"
        )
    if number >= 0:
        return number
    steps = [n for n, x in enumerate(c.snapshots) if x.stage == Stage.LEGALIZED]
    return steps[0] if steps else len(c.snapshots) - 1


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    c = s.now.compiled
    texts = [
        f"{n + 1} {x.name}{'' if did(x) else ' (did nothing)'}" for n, x in enumerate(c.snapshots)
    ]
    chosen = against(s)
    step = ["step", "step", list(range(len(texts))), step_of(s), texts]
    versus = ["against", "compared with", list(AGAINST), AGAINST.index(chosen)]
    more = [versus] if chosen == PINNED or not texts else [step, versus]
    return {"devices": [], "device": "", "tiles": [], "rank": -1, "note": "", "more": more}


def _steps_alone(s: OnShow, op: str) -> Mapping[str, Any]:
    form = _controls(s, op)
    return {**form, "more": [control for control in form["more"] if control[0] == "step"]}


STEPS = Family("steps", _controls)
EACH_STEP = Family("steps", _steps_alone)  # where nothing is compared
