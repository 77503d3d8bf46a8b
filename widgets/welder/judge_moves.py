"""Effects of moving values to other memory levels, computed by `explorer.welder.what_if`.

They are the groups that each move affects, before and after, the program that Welder would leave,
and the predicted change as text. A fusion that Welder refused offers actions: force it, or apply
the smallest change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import explorer
from explorer.devices.hardware import figures
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.stage import Stage
from explorer.welder.tiles.levels import REGISTER
from explorer.welder.what_if import MoveState, WhatIf
from widgets.draw.table import size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.knobs import Setting
from widgets.model.picture import ManualMoves, Move, Outcome, Totals
from widgets.model.settings import HARDWARE, SET, amount_text


def judge_moves(
    c: Compiled, moves: Sequence[Move], device: Device, sizes: Mapping[str, int] = {}
) -> Outcome:
    """Return the effect of the last move after all those before it, on a device.

    Bytes and times are at `sizes`, or at the hints of symbols not given. No code is generated or
    run. Raises BadOption for a value that no kernel computes, and for an unknown level.
    """
    value, level = moves[-1]
    change = WhatIf(compile_with_moves(c, moves[:-1], device), sizes).connect(value, level)
    if change.refused is not None:
        return Outcome(refused=change.refused.text, flip=change.refused.change)
    assert change.after is not None
    program = compile_with_moves(c, moves, device).program
    return Outcome(_totals(change.before), _totals(change.after), program)


def joined_level(c: Compiled, moves: Sequence[Move], value: str, device: Device) -> str:
    """Return the nearest level with room for a value when its kernels are fused."""
    return WhatIf(compile_with_moves(c, moves, device)).join(value).level


def compile_with_moves(c: Compiled, moves: Sequence[Move], device: Device) -> Any:
    """Return the compilation with values moved to levels by hand.

    For a data sheet, or after a move, it is compiled only through Welder.
    """
    if not moves and device.name == c.device.name:
        return c
    levels = (REGISTER, *(m.name for m in device.levels))
    near = device.levels[0].name  # a data sheet's name of a GPU's shared memory
    mine = [(value, level if level in levels else near) for value, level in moves]
    return explorer.compile(c.model, device, with_moves(c, mine), until=Stage.WELDED)


def with_moves(c: Compiled, moves: Sequence[Move]) -> Any:
    """Return the options of a compilation with values moved to levels by hand."""
    connect = dict(c.options.welder.connect) | dict(moves)
    return replace(c.options, welder=replace(c.options.welder, connect=tuple(connect.items())))


def compile_moves(c: Any, moves: Sequence[Move]) -> Any:
    """Compile the moves one after the other, each under a tile that has room for its value."""
    for value, level in moves:
        c = WhatIf(c).connect(value, level).compile()
    return c


def _totals(groups_side: MoveState) -> Totals:
    """Sum the costs of several groups; the footprint is that of the fullest task."""
    usage = [p.at(p.level) for p in groups_side.plans]
    fullest = max(usage, key=lambda m: m.footprint / (m.capacity or 1 << 60), default=None)
    return Totals(
        len(groups_side.groups),
        groups_side.dram_bytes,
        fullest.level if fullest else "",
        fullest.footprint if fullest else 0,
        fullest.capacity if fullest else None,
        groups_side.predicted_us,
    )


Judge = Callable[[Compiled, Sequence[Move], Device, Mapping[str, int]], Outcome]


def move_state(
    hand: ManualMoves, levels: Sequence[str], device: str, *, sheet: bool
) -> dict[str, Any]:
    """Return the moves and the effect of the last one as a JSON value."""
    last_outcome = hand.outcome
    rows: list[tuple[str, str, str, str, bool]] = []
    summary = "All values are where the compiler put them."
    if (
        last_outcome is not None
        and last_outcome.before is not None
        and last_outcome.after is not None
    ):
        rows = changes(last_outcome.before, last_outcome.after)
        value, level = hand.steps[-1][0]
        summary = f"{value} in {level}: {predicted(last_outcome)}"
        # The effect of a value moved twice is relative to its original level.
        latest = {move[0]: outcome for move, outcome in hand.steps}
        if len(latest) > 1:
            saved = sum(map(_saved, latest.values()))
            more = "less" if saved >= 0 else "more"
            summary += f"; all {len(latest)} moves: {time_text(abs(saved))} {more}"
    return {
        "refused": "",
        "levels": list(levels),
        "last": levels[-1] if levels else "",
        "device": device,
        "sheet": sheet,
        "moves": [list(move) for move in hand.moves],
        "rows": [list(row) for row in rows],
        "said": summary,
    }


def _saved(outcome: Outcome) -> float:
    if outcome.before is None or outcome.after is None:
        return 0.0
    return outcome.before.predicted_us - outcome.after.predicted_us


def predicted(outcome: Outcome) -> str:
    """Compare the predicted time after the move with the time before."""
    if outcome.before is None or outcome.after is None:
        return "nothing changes"
    before, after = outcome.before.predicted_us, outcome.after.predicted_us
    return f"predicted {time_text(after)}, {_share(before, after)}"


def changes(before: Totals, after: Totals) -> list[tuple[str, str, str, str, bool]]:
    """Return the predictions before and after, by name.

    Each row is the name, both values, the change, and True if the value does not fit.
    """
    room = f" of {size_text(after.capacity)}" if after.capacity else ""
    full = after.capacity is not None and after.footprint > after.capacity
    return [
        (
            "kernels",
            str(before.kernels),
            str(after.kernels),
            _more(before.kernels, after.kernels),
            False,
        ),
        (
            "to and from memory",
            size_text(before.traffic),
            size_text(after.traffic),
            _share(before.traffic, after.traffic),
            False,
        ),
        (
            f"held in {after.level}",
            f"{size_text(before.footprint)} ({before.level})",
            f"{size_text(after.footprint)}{room}",
            "too large" if full else _share(before.footprint, after.footprint),
            full,
        ),
        (
            "time",
            time_text(before.predicted_us),
            time_text(after.predicted_us),
            _share(before.predicted_us, after.predicted_us),
            False,
        ),
    ]


def _more(before: int, after: int) -> str:
    return f"{after - before:+d}" if after != before else "same"


def _share(before: float, after: float) -> str:
    if not before or f"{after / before - 1:+.1%}" in ("+0.0%", "-0.0%"):
        return "same"
    return f"{after / before - 1:+.1%}"


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
    level = joined_level(now.compiled, (), value, now.compiled.device)
    compiled: Compiled = compile_moves(now.compiled, [(value, level)])
    return compiled
