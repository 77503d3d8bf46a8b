"""A box cut into equal tiles."""

from __future__ import annotations

from widgets.draw.svg import path, rect


def grid(
    x: float, y: float, wide: float, high: float, down: int, across: int, *, marked: bool
) -> list[str]:
    """A box with at most 40 lines each way; more tiles than that are a tint."""
    lines = ""
    if down <= 40:
        lines += "".join(f"M{x} {y + high * i / down:.1f}h{wide}" for i in range(1, down))
    if across <= 40:
        lines += "".join(f"M{x + wide * i / across:.1f} {y}v{high}" for i in range(1, across))
    ground = "var(--app)" if max(down, across) <= 40 else "var(--tint)"
    marks = [
        rect(x, y, wide, high, ground, 'stroke="var(--line2)"'),
        path(lines or "M0 0", "var(--line2)"),
    ]
    if marked:
        w, h = max(wide / across, 3), max(high / down, 3)
        marks.append(rect(x, y, w, h, "var(--soft)", 'stroke="var(--accent)" stroke-width="1.6"'))
    return marks
