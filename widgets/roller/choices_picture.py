"""The list of tile choices, each with its predicted time, its measured one, and its waves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from widgets.draw.see import lit_by
from widgets.draw.svg import fit, label, rect, text_width, wrap_text
from widgets.draw.table import count_text, time_text
from widgets.roller.staircase import StaircaseRows
from widgets.roller.tiled_kernel import TileChoice

PX, BOLD = 13, 1.07
LINE, ROW, BAR = 17.0, 24.0, 84.0
MOST_LINES = 3  # per label
HEADS = {True: "thread blocks, by the whole model", False: "results of the construction"}


def choices(rows: StaircaseRows, x: float, y: float, wide: float, high: float) -> Iterator[str]:
    """Draw the list of tiles, as many as fit, with the current one."""
    yield label(x, y + 16, "Tiles to choose from", "big")
    if not rows.choices:
        yield label(x, y + 40, "No tile fits.")
        return
    how = "outlined: predicted" + ", filled: measured" * any(c.measured for c in rows.choices)
    both = len({c.block is None for c in rows.choices}) > 1
    by = "" if both else f"{_weighed_by(rows)}; "
    lines = wrap_text(by + how, wide, PX)
    for n, line in enumerate(lines):
        yield label(x, y + 36 + LINE * n, line, "q")
    y += LINE * (len(lines) - 1)
    high -= LINE * (len(lines) - 1)
    bar = min(BAR, wide * 0.24)
    times = [_time(c) for c in rows.choices]
    value = max(text_width(t, PX) for t in times) * BOLD
    room = wide - 26 - bar - value - 16
    shown = _shown(rows, room, high - 46 - LINE - 2 * ROW * both)
    most = max(us for c in rows.choices for us in _both(c)) or 1.0
    at, head = y + 52, None
    for n in shown:
        if both and (rows.choices[n].block is not None) != head:
            head = rows.choices[n].block is not None
            yield label(x, at + 13, HEADS[head], "q")
            at += ROW
        lines = _lines(rows.choices[n], room)
        body = "".join(_choice(rows, n, lines, (x, at, wide), (bar, bar / most), times[n]))
        words = f'data-rank="{n}" tabindex="0" role="button" aria-label="tile {n + 1}"'
        yield lit_by(body, "choice now" if n == rows.rank else "choice", words)
        at += ROW + LINE * (len(lines) - 1)
    if len(shown) < len(rows.choices) and at + 16 <= y + high:
        hidden = count_text(len(rows.choices) - len(shown), "tile")
        yield label(x, at + 12, f"and {hidden} more, in the table", "q")


def _weighed_by(rows: StaircaseRows) -> str:
    """Describe the ranking of the choices."""
    if rows.own:
        return "weighed for this machine by the whole model"
    blocks = any(c.block is not None for c in rows.choices)
    return HEADS[blocks]


def _both(c: TileChoice) -> tuple[float, ...]:
    return (c.modelled_us, c.measured.median_us) if c.measured else (c.modelled_us,)


def _time(c: TileChoice) -> str:
    return time_text(c.measured.median_us if c.measured else c.modelled_us)


def _lines(c: TileChoice, room: float) -> list[str]:
    lines = wrap_text(c.label, room / BOLD, PX)
    if len(lines) > MOST_LINES:
        tail = " ".join(lines[MOST_LINES - 1 :])
        lines = [*lines[: MOST_LINES - 1], fit(tail, room / BOLD, PX)]
    return lines


def _shown(rows: StaircaseRows, room: float, high: float) -> Sequence[int]:
    """Return the choices that fit: the first ones and the current one."""
    tall = [ROW + LINE * (len(_lines(c, room)) - 1) for c in rows.choices]
    fitting: list[int] = []
    left = high - tall[rows.rank]
    for n, each in enumerate(tall):
        if n == rows.rank:
            continue
        if each > left:
            break
        fitting.append(n)
        left -= each
    return sorted({*fitting, rows.rank})


def _choice(
    rows: StaircaseRows,
    n: int,
    lines: Sequence[str],
    at: tuple[float, float, float],
    bars: tuple[float, float],
    time: str,
) -> Iterator[str]:
    c, (x, y, wide), (bar, scale) = rows.choices[n], at, bars
    on = n == rows.rank
    tip = "; ".join(filter(None, (c.label, c.note, _waves(c))))
    high = ROW + LINE * (len(lines) - 1)
    ground = "var(--soft)" if on else "transparent"
    yield rect(x, y - 2, wide, high - 2, ground, title=tip)
    style = "a" if on else "i"
    yield label(x + 20, y + 13, str(n + 1), style, anchor="end")
    for k, line in enumerate(lines):
        yield label(x + 26, y + 13 + LINE * k, line, style, title=tip)
    end = x + wide - 4
    yield label(end, y + 13, time, style, anchor="end")
    left = x + wide - 8 - bar - text_width(time, PX) * BOLD
    edge = f'stroke="var(--{"accent" if on else "ink2"})"'
    bar_tip = f"predicted {time_text(c.modelled_us)}"
    yield rect(left, y + 3, max(c.modelled_us * scale, 1), 5, "none", edge, title=bar_tip)
    if c.measured:
        us = c.measured.median_us
        bar_tip = f"measured {time_text(us)}, n = {c.measured.n}"
        ink = "var(--accent)" if on else "var(--ink2)"
        yield rect(left, y + 9, max(us * scale, 1), 6, ink, title=bar_tip)


def _waves(c: TileChoice) -> str:
    w = c.waves
    full = "full" if w.last == w.places else f"{w.last / max(1, w.places):.0%} full"
    return f"{count_text(w.grid, 'task')} in {count_text(w.waves, 'wave')}, the last {full}"
