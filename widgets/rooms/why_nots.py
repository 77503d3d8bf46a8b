"""What can be done about a merge that Welder refused: it is forced, or what was in its way is
changed by as little as flips it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from explorer.devices.hardware import figures
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from widgets.model.compiled import Compiled
from widgets.model.controls.settings import HARDWARE, SET, amount_text
from widgets.model.knobs import Setting
from widgets.welder import judged

LABEL = re.compile(r"(\S+) (?:into|in) ")
HELD = ("cache", "near")  # a memory holds the value at half of it, so that nothing is gained
NEVER = ("readers", "in place", "outputs", "parts")  # no policy joins these: they are not legal
STEP = 1024  # bytes by which a memory is smaller than one that would hold it


@dataclass(frozen=True, slots=True)
class Act:
    """A button: `kind` is "force", of a value to be joined, or "set", of a setting's text."""

    title: str
    says: str
    kind: str
    args: dict[str, Any]


def acts(step: Candidate[bool], device: Device) -> tuple[Act, ...]:
    """What can be done about a refused merge: none where nothing was refused, or what cannot be."""
    found, why = LABEL.match(step.label), step.why
    if not step.refused or found is None or (why is not None and why.condition in NEVER):
        return ()
    value = found[1]
    says = f"Join {value} against the policy, where that is legal"
    force = Act("Force it", says, "force", {"value": value})
    return (force, *(_flip(why, value, device) if why is not None else ()))


def _flip(why: Refusal, value: str, device: Device) -> Iterator[Act]:
    """The largest memory that would not hold the value, which then may be worth keeping nearer."""
    level = next((m for m in device.levels if f"{m.name} holds" in why.text), None)
    capacity = int(2 * why.found) // STEP * STEP - STEP
    if why.condition in HELD and level is not None and capacity >= STEP:
        name = f"{level.name} capacity"
        figure = next(f for f in figures(device) if f.name == name)
        text = amount_text(replace(figure, value=capacity))
        says = f"What if {level.name} were so small that it does not hold {value}?"
        args = {"knob": f"{SET}{HARDWARE}.{name}", "label": text}
        yield Act(f"{name} {text}", says, "set", args)


def forced(now: Setting, value: str) -> Compiled:
    """The compilation with a value joined by hand, in the nearest memory that has room.

    Raises BadOption with the reason, and what would flip it, where that is not legal.
    """
    level = judged.joined(now.compiled, (), value, now.compiled.device)
    found: Compiled = judged.compiled(now.compiled, [(value, level)])
    return found
