"""Drawing of a memory plan: calls from left to right, bytes of the arena upwards.

Below it are the live bytes at each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.ir.decisions.memory_plan import BufferPlacement
from widgets.draw import theme
from widgets.draw.see import lit_by
from widgets.draw.slide import LINE, PX, cut_to, label_width, name_lines, tip
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import size_text
from widgets.memory.memory_plan import MemoryRows, begin, formula_text, written_at

TOP, AXIS = 26.0, 24.0  # above the map; call numbers below it
STRIP, LOW = 84.0, 400  # height of the live bytes; minimum page height for them
MARGIN, TICK = 12.0, 44.0  # right margin; minimum distance of labelled addresses
HATCH = 7.0  # width of the writer's hatch at the left of a box
TINY = 1.6  # smaller boxes, in pixels, are merged without text


@dataclass(frozen=True, slots=True)
class MapPositions:
    """Positions of calls and bytes: `floor` and `top` of the map, `base` of the live bytes."""

    rows: MemoryRows
    left: float
    right: float
    floor: float
    top: float
    base: float

    def x(self, call: float) -> float:
        """Return the x of the start of a call."""
        return self.left + call / max(1, len(self.rows.live)) * (self.right - self.left)

    def y(self, address: float) -> float:
        """Return the y of a byte of the arena."""
        return self.floor - address / max(1, self.rows.planned_bytes) * (self.floor - self.top)

    def live(self, count: float) -> float:
        """Return the y of a number of live bytes, on the scale of the arena."""
        return self.base - count / max(1, self.rows.planned_bytes) * (STRIP - 4)


def figure(
    rows: MemoryRows,
    words: Sequence[str],
    title: str,
    size: tuple[int, int],
    selected: str = "",
    symbols: Sequence[str] = (),
) -> Svg:
    """Draw the map; `words` are lines about the selected operator, as many as fit below it."""
    width, height = size
    words = words[: max(1, (height - 180) // 60)]
    foot = LINE * len(words) + (8 if words else 0)
    strip = STRIP + 26 if height - foot >= LOW else 0.0
    bottom = height - foot - AXIS
    most = max(label_width(size_text(n)) for n in (*_bytes(rows, 1000), rows.planned_bytes, 1023))
    plan = MapPositions(rows, most + 10, width - MARGIN, bottom - strip, TOP, bottom)
    marks = [*_axes(plan, strip > 0), *_boxes(plan, selected), *_peak(plan, strip > 0)]
    for n, line in enumerate(words):
        y = height - 5 - LINE * (len(words) - 1 - n)
        text = cut_to(line, width - 4, bold=n == 0)
        style = "a" if n == 0 else ""
        marks.append(label(0, y, text, style, symbols=symbols, title=line))
    return Svg(width, height, "".join(marks), title, selected, PX)


def _bytes(rows: MemoryRows, high: float) -> list[int]:
    """Return the addresses to label, far enough apart for an arena of `high` pixels."""
    step = 64
    while step * high < TICK * max(1, rows.planned_bytes):
        step *= 2
    return [*range(0, rows.planned_bytes + 1, step)]


def _calls(plan: MapPositions) -> Iterator[int]:
    """Yield the calls to label: all, or every second, fifth, tenth."""
    count, room = len(plan.rows.live), label_width(f"{len(plan.rows.live):,}") + 20
    steps = (n * 10**e for e in range(9) for n in (1, 2, 5))
    step = next(n for n in steps if plan.x(n) - plan.left >= room or n > count)
    yield from range(0, count, step)


def _axes(plan: MapPositions, strip: bool) -> Iterator[str]:
    rows, edge = plan.rows, plan.left - 6
    wide_, high = plan.right - plan.left, plan.floor - plan.top
    ground = rect(plan.left, plan.top, wide_, high, "var(--app)", 'stroke="var(--line2)"')
    free = plan.top + 13 + LINE  # below the label of the arena's size
    for at in _bytes(rows, high):
        y = plan.y(at)
        if y >= free:
            ground += path(f"M{plan.left:.1f} {y:.1f}H{plan.right:.1f}", "var(--line)")
            ground += label(
                edge, y + (4.5 if at else 0), size_text(at) if at else "0", anchor="end"
            )
    total_label = label(edge, plan.top + 10, size_text(rows.planned_bytes), "i w", anchor="end")
    yield lit_by(ground + total_label, "taken")
    if strip:
        yield from _live(plan)
    room, last = plan.right - label_width("call"), 0.0
    for n in _calls(plan):
        text = f"{n:,}"
        x = (plan.x(n) + plan.x(n + 1)) / 2
        if x - label_width(text) / 2 > last + 4 and x + label_width(text) / 2 < room - 10:
            yield label(x, plan.base + 17, text, anchor="middle")
            last = x + label_width(text) / 2
    yield label(plan.right, plan.base + 17, "call", anchor="end")


def _live(plan: MapPositions) -> Iterator[str]:
    """Draw the live bytes at each call, below the map and aligned with it."""
    rows = plan.rows
    words = "live at each call; the line is what the plan takes"
    yield label(plan.left, plan.base - STRIP - 7, cut_to(words, plan.right - plan.left))
    line = f"M{plan.left:.1f} {plan.live(rows.planned_bytes):.1f}H{plan.right:.1f}"
    yield path(line, "var(--line2)")
    d, last = f"M{plan.left:.1f} {plan.base:.1f}", -1
    for n, count in enumerate(rows.live):
        if count != last:
            d, last = d + f"H{plan.x(n):.1f}V{plan.live(count):.1f}", count
    d += f"H{plan.right:.1f}V{plan.base:.1f}z"
    yield lit_by(f'<path d="{d}" fill="var(--line2)" stroke="var(--edge)"/>', "live")


def _peak(plan: MapPositions, strip: bool) -> Iterator[str]:
    """Mark the call with the most live bytes, over the map and in the live bytes."""
    rows = plan.rows
    if not rows.buffers:
        return
    peak, most = rows.peak, size_text(rows.live[rows.peak])
    x0, x1 = plan.x(peak), plan.x(peak + 1)
    x = (x0 + x1) / 2
    texts = (f"peak at {written_at(rows, peak)}: {most} live", f"peak: {most}", "peak")
    text = next((t for t in texts if label_width(t, bold=True) <= plan.right - plan.left), "peak")
    half = label_width(text, bold=True) / 2
    middle = min(max(x, plan.left + half), plan.right - half)
    marks = label(middle, 13, text, "i w", anchor="middle") + tip(x, plan.top - 1, "down")
    if strip:
        high = plan.base - plan.live(rows.live[peak])
        marks += rect(x0, plan.base - high, max(2.0, x1 - x0), high, "var(--ink)")
    yield lit_by(marks, "peak")


def _boxes(plan: MapPositions, selected: str) -> Iterator[str]:
    rows, small = plan.rows, dict[str, str]()
    alive, largest = {b.name for b in rows.alive(rows.peak)}, {b.name for b in rows.largest[:1]}
    sharers = {b.name for most in rows.largest[:1] for b in rows.sharing(most)}
    for b in rows.buffers:
        kinds = [("alive", alive), ("largest", largest), ("sharer", sharers)]
        keys = " ".join(["value", *(word for word, names in kinds if b.name in names)])
        on = bool(selected) and selected in b.origin
        x0, x1 = plan.x(begin(b)), plan.x(b.last + 1)
        y0, y1 = plan.y(b.offset + b.bytes), plan.y(b.offset)
        if min(x1 - x0, y1 - y0) < TINY and not on:  # merged into one path
            w, h = max(1.0, x1 - x0), max(1.0, y1 - y0)
            small[keys] = small.get(keys, "") + f"M{x0:.1f} {y0:.1f}h{w:.1f}v{h:.1f}h-{w:.1f}z"
        else:
            yield lit_by("".join(_box(plan, b, x0, x1, y0, y1, on, b.name in alive)), keys)
    for keys, d in small.items():
        yield lit_by(f'<path d="{d}" fill="var(--edge)"/>', keys)


def _box(
    plan: MapPositions,
    b: BufferPlacement,
    x0: float,
    x1: float,
    y0: float,
    y1: float,
    on: bool,
    alive: bool,
) -> Iterator[str]:
    """Draw a value from the call that writes it to the last that reads it.

    The box has the hatch of its writer, its name and its bytes; values live at the peak have a
    stronger edge.
    """
    rows, w, h = plan.rows, max(2.0, x1 - x0 - 2), max(2.0, y1 - y0 - 2)
    x, y = min(x0 + 1, plan.right - w), max(plan.top, min(y0 + 1, plan.floor - h))
    ops, name, formula = sorted(b.origin), rows.label(b.name), formula_text(b)
    tip_text = f"{name}: {size_text(b.bytes)}{formula}, calls {b.first} to {b.last}"
    tip_text += f"; {b.name} in the program" if b.name != name else ""
    ink, fill = ("accent", "soft") if on else ("ink" if alive else "edge", "pane")
    edge = f'stroke="var(--{ink})" stroke-width="{2.5 if on else 1.5 if alive else 1}"'
    yield rect(x, y, w, h, f"var(--{fill})", edge, title=tip_text, ops=ops)
    family, lead = rows.families.get(b.name, ""), 0.0
    if family and w > 3 * HATCH and h > 6:
        pattern, lead = f"url(#p-{theme.family_token(family)})", HATCH
        yield rect(x + 1.5, y + 1.5, HATCH - 1, h - 3, pattern, 'pointer-events="none"')
    room = w - lead - 8
    lines = name_lines(name, room) or []
    most = int((h - 4) / LINE)
    lines = lines if len(lines) <= most else [name] if label_width(name, bold=True) <= room else []
    if not lines or most < 1:
        return
    size = size_text(b.bytes)
    more = [size] if len(lines) < most and label_width(size) <= room else []
    top = y + (h - LINE * len([*lines, *more])) / 2 + 13
    for n, line in enumerate([*lines, *more]):
        style = ("a" if on else "i w") if n < len(lines) else "i"
        where = x + lead + (w - lead) / 2
        yield label(where, top + LINE * n, line, style, anchor="middle", ops=ops, title=tip_text)
