"""The levels of a kernel's tile next to each other: output in memory, one task, and registers.

Below them are the candidate tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from explorer.ir.decisions.tiling import Block, Micro
from widgets.draw.columns import Text, column_widths, line
from widgets.draw.see import lit_by
from widgets.draw.slide import LINE, PX, cut_to
from widgets.draw.svg import label, path, rect, text_width, wrap_text
from widgets.roller.layout.grid import grid

HEAD, GAP, LEAST = 44.0, 44.0, 34.0  # height above a box; gap; minimum height
CELL = 22.0  # maximum pixels of a register cell


@dataclass(frozen=True, slots=True)
class Panel:
    """A level: its name with its sizes, a subtitle, and its box.

    The box is cut into `down` by `across` tiles with the first marked, or into cells. `spare` are
    the padded shares below and at the right.
    """

    key: str
    title: str
    subtitle: str
    down: int = 1
    across: int = 1
    cells: tuple[int, int, int] = (0, 0, 0)  # rows, columns, columns per vector
    spare: tuple[float, float] = (0.0, 0.0)
    note: str = ""


def draw_panels(panels: Sequence[Panel], place: tuple[float, float, float, float]) -> Iterator[str]:
    """Draw panels from left to right, each enlarging one tile of the previous one.

    On a narrow page they are one below the other.
    """
    x, y, wide, high = place
    flat = wide >= 200 * len(panels)
    n = len(panels)
    each = (wide - GAP * (n - 1)) / n if flat else wide
    tall = high if flat else high / n
    for i, panel in enumerate(panels):
        left, top = (x + i * (each + GAP), y) if flat else (x, y + i * tall)
        yield lit_by(
            "".join(_panel(panel, (left, top, each, tall - (0 if flat else 6)))), panel.key
        )
        if flat and i and tall > HEAD + LEAST:
            yield _zoom(
                panels[i - 1], left - GAP - each, left, top + HEAD, (each, _low(panel, tall))
            )


def _low(panel: Panel, tall: float) -> float:
    return tall - HEAD - (LINE + 4 if panel.note else 4)


def _panel(panel: Panel, place: tuple[float, float, float, float]) -> Iterator[str]:
    x, y, wide, tall = place
    yield label(x, y + 13, cut_to(panel.title, wide, bold=True), "i w", title=panel.title)
    yield label(x, y + 13 + LINE, cut_to(panel.subtitle, wide), title=panel.subtitle)
    top, high = y + HEAD, _low(panel, tall)
    if high < LEAST:
        return
    rows, width, group = panel.cells
    if rows:
        yield from _cells(rows, width, group, (x, top, wide, high))
    else:
        yield from grid(
            x, top, wide, high, panel.down, panel.across, marked=panel.down * panel.across > 1
        )
    below, right = panel.spare
    if below > 0:
        yield rect(x, top + high * (1 - below), wide, high * below, "url(#p-pad)")
    if right > 0:
        yield rect(x + wide * (1 - right), top, wide * right, high, "url(#p-pad)")
    if panel.note:
        yield label(x, y + tall - 4, cut_to(panel.note, wide), title=panel.note)


def _cells(
    rows: int, width: int, group: int, place: tuple[float, float, float, float]
) -> Iterator[str]:
    """Draw registers as cells, those of one vector in one tint."""
    x, y, wide, high = place
    cell = min(CELL, wide / width, high / rows)
    for r in range(rows):
        for g in range(0, width, group):
            w = min(group, width - g) * cell
            fill = ("var(--t3)", "var(--t2)")[g // group % 2]
            yield rect(x + g * cell, y + r * cell, max(0.5, w - 1), max(0.5, cell - 1), fill)


def _zoom(before: Panel, x: float, to: float, top: float, size: tuple[float, float]) -> str:
    """Draw lines from the marked tile of a panel to the box of the next."""
    if before.down * before.across < 2:
        return ""
    wide, high = size
    right, low = x + max(wide / before.across, 3), top + max(high / before.down, 3)
    d = f"M{right:.1f} {top:.1f}H{to:.1f}M{right:.1f} {low:.1f}L{to:.1f} {top + high:.1f}"
    return path(d, "var(--ink3)", 'stroke-dasharray="2 3"')


def of_block(block: Block, lanes: int) -> tuple[Panel, Panel]:
    """Return the panels of a thread block: its warps, and the registers of one thread."""
    warps = -(-block.threads // lanes)
    sizes = [n for _, n in block.register if n > 1] or [1]
    notes = [
        *(f"{n} of {a} at once" for a, n in block.shared),
        *(f"{n} threads to a sum" for _, n in block.parts if n > 1),
        "on matrix units" if block.matrix else "",
    ]
    note = ", ".join(filter(None, notes)) or "reads operands once"
    subtitle = f"{warps:,} warp{'s' * (warps != 1)} of {lanes}"
    threads = Panel(
        "register", f"a block: {block.threads:,} threads", subtitle, warps, lanes, note=note
    )
    rows, width = prod(sizes[:-1]), sizes[-1]
    each_ = Panel(
        "registers", f"a thread: {register_shape(block)}", "in registers", cells=(rows, width, 1)
    )
    return threads, each_


def register_shape(block: Block) -> str:
    """Return the results of a thread along each axis."""
    return "×".join(str(n) for _, n in block.register if n > 1) or "1"


def of_micro(micro: Micro, rows: int, width: int, depth: int) -> tuple[Panel, Panel]:
    """Return the panels of a task: its register tiles with padding, and the registers of one."""
    down, across = -(-rows // micro.rows), -(-width // micro.columns)
    spare = 1 - rows / (down * micro.rows), 1 - width / (across * micro.columns)
    padding = 1 - rows * width / (down * micro.rows * across * micro.columns)
    count = down * across
    subtitle = f"{count:,} register tile{'s' * (count != 1)}, {padding:.0%} padding"
    task = Panel("register", f"one task: {rows}×{width}", subtitle, down, across, spare=spare)
    note = f"{micro.rows * micro.vectors} hold sums, {depth:,} products each"
    sums = Panel(
        "registers",
        f"registers: {micro.rows}×{micro.columns}",
        f"{micro.vectors} vector{'s' * (micro.vectors != 1)} of {micro.lanes}",
        cells=(micro.rows, micro.vectors * micro.lanes, micro.lanes),
        note=note,
    )
    return task, sums


def draw_candidates(
    rows: Sequence[tuple[Sequence[Text], Sequence[tuple[str, float]], bool]],
    title: str,
    place: tuple[float, float, float, float],
    inks: dict[str, str],
) -> Iterator[str]:
    """Draw candidate tiles with their predicted cost terms as bars, or their refusal."""
    x, y, wide, high = place
    yield label(x, y + 13, cut_to(title, wide, bold=True), "i w")
    pitch, foot = 22.0, LINE + 8 if inks else 0.0
    shown = rows[: max(0, int((high - HEAD + 14 - foot) / pitch))]
    room = column_widths([cells for cells, _, _ in shown], wide * 0.62)
    start = x + sum(room) + 16 * len(room)
    longest = max((sum(us for _, us in terms) for _, terms, _ in shown), default=0.0) or 1.0
    scale = (x + wide - start) / longest
    for n, (cells, terms, on) in enumerate(shown):
        top = y + 24 + n * pitch
        body = rect(x - 4, top, wide + 4, pitch - 2, "var(--soft)") if on else ""
        body += "".join(line(cells, room, x, top + 15))
        at = start
        for name, us in terms:
            edge = 'stroke="var(--t2)" stroke-width="0.6"'
            body += rect(
                at,
                top + 4,
                max(us * scale - 0.6, 0.6),
                12,
                f"var(--{inks[name]})",
                edge,
                title=name,
            )
            at += us * scale
        yield lit_by(body, "weighed on" if on else "weighed")
    at = x
    for name, ink in inks.items():
        w = 20 + text_width(name, PX)
        if at + w > x + wide:
            return
        yield rect(at, y + high - 15, 13, 11, f"var(--{ink})", 'stroke="var(--t2)"')
        yield label(at + 19, y + high - 5, name)
        at += w + 16


def text_lines(text: str, wide: float) -> Iterator[str]:
    """Draw text only."""
    for n, words in enumerate(wrap_text(text, wide, PX)):
        yield label(0, 16 + LINE * n, words, "i")
