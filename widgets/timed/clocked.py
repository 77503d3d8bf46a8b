"""What a clock said of many runs: in words, as the cells of a table, and on a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widgets.draw.table import Cell, time_text
from widgets.model.compiled import Measurement

COLUMNS = ("measured µs", "from µs", "to µs", "n")


def said(m: Measurement) -> str:
    """The median, its 99 % interval and of how many runs."""
    return (
        f"measured {time_text(m.median_us)} ({time_text(m.low_us)} to {time_text(m.high_us)}, "
        f"n = {m.n:,})"
    )


def cells(m: Measurement | None) -> tuple[Cell, ...]:
    """One for each of `COLUMNS`, empty where there is no time."""
    if m is None:
        return ("",) * len(COLUMNS)
    return (round(m.median_us, 3), round(m.low_us, 3), round(m.high_us, 3), m.n)


def whiskers(measured: Sequence[Measurement], colour: str, **look: Any) -> dict[str, Any]:
    """As plotly draws intervals at marks; `look`: thickness and width, in pixels."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [m.high_us - m.median_us for m in measured],
        "arrayminus": [m.median_us - m.low_us for m in measured],
        "color": colour,
        **look,
    }
