"""The bars of the bytes that cross every border of two memory levels, apart and welded."""

from __future__ import annotations

from collections.abc import Sequence

from widgets.draw.svg import fit, label, rect, wrapped
from widgets.draw.table import size_text
from widgets.welder.stream_marks import NAMES
from widgets.welder.tile_curve import CurveRows

LEFT, RIGHT = 12.0, 768.0
BAR, END = 220.0, 690.0


def bars(rows: CurveRows) -> tuple[list[str], float]:
    """Bytes at each border of two levels: apart outlined, welded filled; then the program's."""
    marks = [
        label(LEFT, 20, "Bytes per level", "i w"),
        label(LEFT, 36, "outlined: operators apart, filled: welded", "q"),
    ]
    y = 62.0
    marks.append(label(LEFT, y, f"this group, {rows.device}", "i"))
    shown = [
        (f"{_named(m.farther)} ↔ {_named(m.level)}", m.before, m.after)
        for m in reversed(rows.moved)
    ]
    found, y = _pairs(shown, y + 8)
    marks += found
    if any(rows.program):
        marks.append(label(LEFT, y + 16, "all groups of the program, each tensor once", "i"))
        found, y = _pairs([("memory", *rows.program)], y + 24)
        marks += found
    for line in wrapped(_change(rows), RIGHT - LEFT):
        marks.append(label(LEFT, y + 18, line, "q"))
        y += 15
    return marks, y + 14


def _pairs(rows: Sequence[tuple[str, int | None, int]], y: float) -> tuple[list[str], float]:
    most = max((n or 0 for _, a, b in rows for n in (a, b)), default=1) or 1
    marks = []
    for name, before, after in rows:
        marks.append(label(LEFT, y + 13, fit(name, BAR - LEFT - 6), "i", title=name))
        said = f"{name}: welded {size_text(after)}"
        if before is not None:
            said += f", apart {size_text(before)}"
            wide = max(1.0, (END - BAR) * before / most)
            edge = 'stroke="var(--ink3)"'
            marks.append(rect(BAR, y + 2, wide, 14, "none", edge, title=said))
        wide = max(1.0, (END - BAR) * after / most)
        marks.append(rect(BAR, y + 4.5, wide, 9, "var(--t2)", title=said))
        marks.append(label(RIGHT, y + 13, size_text(after), "i", anchor="end"))
        y += 21
    return marks, y


def _change(rows: CurveRows) -> str:
    """What welding saves at the farthest border."""
    if not rows.moved or rows.moved[-1].before is None:
        return ""
    m = rows.moved[-1]
    assert m.before is not None
    less = m.before - m.after
    return (
        f"{_named(m.farther)}: {size_text(m.before)} apart, {size_text(m.after)} welded, "
        f"{size_text(abs(less))} {'less' if less >= 0 else 'more'}"
    )


def _named(level: str) -> str:
    return NAMES.get(level, level)
