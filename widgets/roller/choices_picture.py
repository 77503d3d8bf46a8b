"""The tiles to choose from, each with its modelled time, its measured one, and its waves."""

from __future__ import annotations

from collections.abc import Iterator

from widgets.draw.svg import fit, label, path, rect, wrapped
from widgets.draw.table import count_text, time_text
from widgets.roller.rolled import Choice
from widgets.roller.staircase import StaircaseRows

LEFT, RIGHT, BAR, WIDE = 12.0, 768.0, 470.0, 120.0


def choices(rows: StaircaseRows, y: float) -> tuple[list[str], float]:
    """The marks of the list and where it ends."""
    marks = [path(f"M{LEFT} {y - 14.5}H{RIGHT}", "var(--line2)")]
    marks.append(label(BAR, y + 4, "outlined: modelled, filled: measured", "q"))
    marks.append(label(RIGHT, y + 4, "copies in waves", "q", anchor="end"))
    times = [c.measured.median_us if c.measured else 0.0 for c in rows.choices]
    most = max((c.modelled_us for c in rows.choices), default=0.0)
    most = max([most, *times]) or 1.0
    told = ""
    for n, choice in enumerate(rows.choices):
        if (head := _head(rows, choice)) != told:
            y += 8 if told else 0
            marks.append(label(LEFT, y + 4, head, "i w"))
            y, told = y + 22, head
        row = "".join(_choice(n, choice, n == rows.rank, WIDE / most, y))
        marks.append(f'<g data-rank="{n}">{row}</g>')
        y += 20
    number, way = rows.way
    for line in wrapped(f"The way to result {number}: {way}", RIGHT - LEFT) if way else ():
        marks.append(label(LEFT, y + 6, line))
        y += 15
    return marks, y + 12


def _head(rows: StaircaseRows, c: Choice) -> str:
    """Over the choices of one kind: how many there are, and who weighed them."""
    alike = [x for x in rows.choices if (x.block is None) == (c.block is None)]
    if c.block is not None:
        what = count_text(len(alike), "thread block")
        return f"{what}, weighed for {rows.device} by the whole model"
    if rows.own:
        return f"{count_text(len(alike), 'tile')}, weighed for this machine by the whole model"
    return f"{count_text(len(alike), 'tile')}, the construction's results, timed as it times them"


def _choice(n: int, c: Choice, on: bool, scale: float, y: float) -> Iterator[str]:
    said = "; ".join(filter(None, (c.label, c.note)))
    ground = "var(--soft)" if on else "transparent"
    yield rect(LEFT - 4, y - 13, RIGHT - LEFT + 8, 19, ground, title=said)
    yield label(LEFT + 14, y, str(n + 1), "a" if on else "i", anchor="end")
    text = fit(c.label, BAR - LEFT - 36, mono=True)
    yield label(LEFT + 24, y, text, "mono a" if on else "mono i", title=said)
    edge = f'stroke="var(--{"accent" if on else "ink2"})"'
    told = f"modelled {time_text(c.modelled_us)}"
    yield rect(BAR, y - 9, max(c.modelled_us * scale, 1), 4, "none", edge, title=told)
    words = time_text(c.modelled_us)
    if c.measured:
        us = c.measured.median_us
        told = f"measured {time_text(us)}, n = {c.measured.n}"
        ink = "var(--accent)" if on else "var(--t2)"
        yield rect(BAR, y - 4, max(us * scale, 1), 6, ink, title=told)
        words += f", {time_text(us)}"
    yield label(BAR + WIDE + 8, y, words, "i")
    w = c.waves
    full = "full" if w.last == w.places else f"last {w.last / max(1, w.places):.0%}"
    yield label(RIGHT, y, f"{w.grid:,} in {w.waves:,}, {full}", "q", anchor="end")
