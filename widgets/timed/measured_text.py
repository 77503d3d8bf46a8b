"""Measurements of many runs: in words, as cells of a table, and on a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widgets.draw.table import Cell, time_text
from widgets.model.compiled import Measurement

COLUMNS = ("measured µs", "from µs", "to µs", "n")


def measured_text(m: Measurement) -> str:
    """Return the median, its 99 % interval and the number of runs."""
    return (
        f"measured {time_text(m.median_us)} ({time_text(m.low_us)} to {time_text(m.high_us)}, "
        f"n = {m.n:,})"
    )


def cells(m: Measurement | None) -> tuple[Cell, ...]:
    """Return a cell for each of `COLUMNS`, empty without a measurement."""
    if m is None:
        return ("",) * len(COLUMNS)
    return (round(m.median_us, 3), round(m.low_us, 3), round(m.high_us, 3), m.n)


def whiskers(measured: Sequence[Measurement], colour: str, **look: Any) -> dict[str, Any]:
    """Return intervals as plotly's error bars; `look` is their thickness and width in pixels."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [m.high_us - m.median_us for m in measured],
        "arrayminus": [m.median_us - m.low_us for m in measured],
        "color": colour,
        **look,
    }
