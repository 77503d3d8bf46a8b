"""Predicted effects of moving values to other memory levels by hand, as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.devices.model import Device
from widgets.draw.table import size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.manual_moves import ManualMoves, Move, Outcome, Totals

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
