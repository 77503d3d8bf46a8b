"""Actions for a fusion that Welder refused: force it, or apply the smallest change."""

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
from widgets.welder import judge_moves

LABEL = re.compile(r"(\S+) (?:into|in) ")
HOLDING = ("cache", "near")  # conditions of a memory that holds the value in half its capacity
NEVER = ("readers", "in place", "outputs", "parts")  # conditions that make a fusion illegal
STEP = 1024  # granularity in bytes of a changed capacity


@dataclass(frozen=True, slots=True)
class Act:
    """A button: `kind` is "force", of a value to be fused, or "set", of a setting's text."""

    title: str
    says: str
    kind: str
    args: dict[str, Any]


def fusion_actions(step: Candidate[bool], device: Device) -> tuple[Act, ...]:
    """Return the actions for a refused fusion; empty if it was not refused or cannot be legal."""
    matched, why = LABEL.match(step.label), step.why
    if not step.refused or matched is None or (why is not None and why.condition in NEVER):
        return ()
    value = matched[1]
    says = f"Join {value} against the policy, where that is legal"
    force = Act("Force it", says, "force", {"value": value})
    return (force, *(_flip(why, value, device) if why is not None else ()))


def _flip(why: Refusal, value: str, device: Device) -> Iterator[Act]:
    """Yield the largest memory that would not hold the value, so that fusing it may gain."""
    level = next((m for m in device.levels if f"{m.name} holds" in why.text), None)
    capacity = int(2 * why.value) // STEP * STEP - STEP
    if why.condition in HOLDING and level is not None and capacity >= STEP:
        name = f"{level.name} capacity"
        figure = next(f for f in figures(device) if f.name == name)
        text = amount_text(replace(figure, value=capacity))
        says = f"What if {level.name} were so small that it does not hold {value}?"
        args = {"knob": f"{SET}{HARDWARE}.{name}", "label": text}
        yield Act(f"{name} {text}", says, "set", args)


def force_fusion(now: Setting, value: str) -> Compiled:
    """Return the compilation with a value fused by hand, in the nearest memory that has room.

    Raises BadOption with the reason, and what would flip it, if that is not legal.
    """
    level = judge_moves.joined_level(now.compiled, (), value, now.compiled.device)
    compiled: Compiled = judge_moves.compile_moves(now.compiled, [(value, level)])
    return compiled
