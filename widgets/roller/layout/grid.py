"""A box cut into equal tiles."""

from __future__ import annotations

from widgets.draw.svg import path, rect

MOST = 40  # distinguishable lines in each direction


def grid(
    x: float, y: float, wide: float, high: float, down: int, across: int, *, marked: bool
) -> list[str]:
    """Draw a box with lines between its tiles, the first of them `marked`; of too many a tint."""
    lines = ""
    if down <= MOST:
        lines += "".join(f"M{x:g} {y + high * i / down:.1f}h{wide:g}" for i in range(1, down))
    if across <= MOST:
        lines += "".join(f"M{x + wide * i / across:.1f} {y:g}v{high:g}" for i in range(1, across))
    ground = "var(--app)" if max(down, across) <= MOST else "var(--tint)"
    marks = [
        rect(x, y, wide, high, ground, 'stroke="var(--edge)"'),
        path(lines or "M0 0", "var(--line2)"),
    ]
    if marked:
        w, h = max(wide / across, 3), max(high / down, 3)
        marks.append(rect(x, y, w, h, "var(--line2)", 'stroke="var(--ink)" stroke-width="2"'))
    return marks
