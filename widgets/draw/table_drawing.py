"""A table as a drawing, the replacement of a chart where no script runs, as in a saved notebook."""

from __future__ import annotations

from collections.abc import Sequence

from widgets.draw.see import lit_by
from widgets.draw.svg import Svg, fit, label, path, text_width, wrap_text
from widgets.draw.table import Table, cell_text

WIDTH, LEFT, ROW, GAP = 780.0, 12.0, 18.0, 14.0
ROWS, WIDEST = 24, 150.0  # the last column may take what is left
BOLD_PX = 12  # as wide as bold text of 11 pixels


def draw_table(table: Table, keys: Sequence[str] = ()) -> Svg:
    """Draw the caption, the first rows and the count of others; sentences highlight by `keys`."""
    y, marks = 20.0, []
    for line in wrap_text(table.caption, WIDTH - 2 * LEFT, BOLD_PX):
        marks.append(label(LEFT, y, line, "i w"))
        y += 16
    shown = [table.columns, *(tuple(map(cell_text, row)) for row in table.rows[:ROWS])]
    x = LEFT
    for number, column in enumerate(zip(*shown), 1):
        last = number == len(table.columns)
        wide = min(WIDTH - LEFT - x if last else WIDEST, max(map(text_width, column)))
        if x + wide > WIDTH:
            break
        for n, cell in enumerate(column):
            mark = label(x, y + 6 + n * ROW, fit(cell, wide), "i" if n else "q", title=cell)
            marks.append(lit_by(mark, keys[n - 1]) if n and keys else mark)
        x += wide + GAP
    marks.append(path(f"M{LEFT:g} {y + 11:g}H{WIDTH - LEFT:g}", "var(--line2)"))
    y += ROW * len(shown)
    if len(table.rows) > ROWS:
        marks.append(label(LEFT, y + 6, f"and {len(table.rows) - ROWS} more", "q"))
        y += ROW
    return Svg(WIDTH, y + 6, "".join(marks), table.caption)
