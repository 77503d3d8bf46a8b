"""What moving values to other memory levels by hand would change, predicted, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.devices.model import Device
from widgets.draw.table import size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.hand import Hand, Move, Outcome, Totals

Judge = Callable[[Compiled, Sequence[Move], Device, Mapping[str, int]], Outcome]


def told(hand: Hand, levels: Sequence[str], device: str, *, sheet: bool) -> dict[str, Any]:
    """The moves and what the last one changes, as a JSON value."""
    found = hand.outcome
    rows: list[tuple[str, str, str, str, bool]] = []
    said = "All values are where the compiler put them."
    if found is not None and found.before is not None and found.after is not None:
        rows = changes(found.before, found.after)
        value, level = hand.steps[-1][0]
        said = f"{value} in {level}: {predicted(found)}"
        # A value that was moved again was judged as if it had not been moved before.
        latest = {move[0]: outcome for move, outcome in hand.steps}
        if len(latest) > 1:
            saved = sum(map(_saved, latest.values()))
            more = "less" if saved >= 0 else "more"
            said += f"; all {len(latest)} moves: {time_text(abs(saved))} {more}"
    return {
        "refused": "",
        "levels": list(levels),
        "last": levels[-1] if levels else "",
        "device": device,
        "sheet": sheet,
        "moves": [list(move) for move in hand.moves],
        "rows": [list(row) for row in rows],
        "said": said,
    }


def _saved(outcome: Outcome) -> float:
    if outcome.before is None or outcome.after is None:
        return 0.0
    return outcome.before.predicted_us - outcome.after.predicted_us


def predicted(found: Outcome) -> str:
    """The modelled time after, against that before, in words."""
    if found.before is None or found.after is None:
        return "nothing changes"
    before, after = found.before.predicted_us, found.after.predicted_us
    return f"predicted {time_text(after)}, {_share(before, after)}"


def changes(before: Totals, after: Totals) -> list[tuple[str, str, str, str, bool]]:
    """What is predicted before and after: a name, both values, the change, and whether there is no
    room.
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
