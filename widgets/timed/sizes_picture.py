"""Words of the cost over a symbol's sizes, and its clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, time_text
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting, symbols
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Family, Picture, controls
from widgets.timed.measured_text import COLUMNS, cells
from widgets.timed.sizes import SizeRows, data, measure_sizes

NAME = "sizes"


def symbol_of(s: OnShow) -> str:
    """Return the symbol of the view, else the last that inputs have; "" if they have none.

    Raises BadOption for an unknown symbol.
    """
    names = symbols(s.now.compiled.model.program)
    if s.view.symbol and s.view.symbol not in names:
        known_names = ", ".join(names) or "none"
        raise BadOption(f"there is no symbol {s.view.symbol[:40]!r}", expected=known_names)
    return s.view.symbol or (names[-1] if names else "")


def caption(rows: SizeRows) -> str:
    """Return the number of planned sizes, and where the plan changes."""
    others = "".join(f", {name} = {size}" for name, size in rows.others)
    text = f"{rows.symbol} on {rows.device}{others}: predicted at {len(rows.planned)} sizes"
    if rows.at:
        text += f", {time_text(rows.at.us)} at {rows.now}"
    if rows.measured:
        text += f", {len(rows.measured)} measured"
    elif rows.own:
        text += ", none measured yet"
    left = "; search not finished" if rows.left else ""
    tiled = " and for ".join(map(str, rows.tiled))
    chosen = f"; tiles are chosen for {tiled}" if tiled else ""
    return f"{text}{chosen}; plan changes at {count_text(len(rows.breaks), 'size')}{left}"


def see(rows: SizeRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The time of the current size, the breaks of the plan, and the measurement, or without one the
    growth of the time.
    """
    if not rows.planned:
        return ()
    at = rows.at or rows.planned[0]
    us = Mark(time_text(at.us), "current" if rows.at else f"predicted size:{at.size}")
    took = dict(rows.measured).get(at.size)
    clock: Sentence = (".",)
    if took:
        clock = (", measured ", Mark(time_text(took.median_us), f"measured size:{at.size}"), ".")
    of = f"A run of {rows.symbol} = {at.size:,} is predicted to take "
    sentences: list[Sentence] = [(of, us, *clock)]
    if rows.breaks:
        first = rows.breaks[0].size
        count = Mark(count_text(len(rows.breaks), "size"), "change")
        more = " or more" if rows.left else ""
        begin = Mark(f"{first:,}", f"change size:{first}")
        sentences.append(("The plan changes at ", count, f"{more}, first at ", begin, "."))
    elif not rows.left:
        sizes = Mark(count_text(len(rows.planned), "size"), "predicted")
        sentences.append(("One plan serves all ", sizes, "."))
    return (*sentences, *_farthest(rows))


def _farthest(rows: SizeRows) -> Iterator[Sentence]:
    """Yield the size with the largest prediction error; unmeasured, the growth of the time."""
    planned_us = {p.size: p.us for p in rows.planned if p.us > 0}
    off = [
        (m.median_us / planned_us[n], n)
        for n, m in rows.measured
        if planned_us.get(n) and m.median_us
    ]
    if off:
        ratio, size = max(off, key=lambda x: max(x[0], 1 / x[0]))
        at = Mark(f"{size:,}", f"size:{size}")
        count = Mark(count_text(len(off), "size"), "measured")
        yield (
            "Measured at ",
            count,
            ", farthest off at ",
            at,
            f": {ratio:.2f} times the prediction.",
        )
    elif len(planned_us) > 1:
        (least, us), (most, longest) = min(planned_us.items()), max(planned_us.items())
        ends = Mark(f"{longest / us:.3g} times", f"size:{least}|size:{most}")
        yield f"From {least:,} to {most:,} it takes ", ends, " as long."


def table(rows: SizeRows) -> Table:
    """Return one row per size."""
    columns = (rows.symbol, "predicted µs", *COLUMNS, "plan changes")
    breaks = {b.size: f"{b.kind}: {b.words}" for b in rows.breaks}
    took, planned_us = dict(rows.measured), {p.size: p.us for p in rows.planned}
    cells_of_rows = tuple(
        (
            size,
            round(planned_us[size], 3) if size in planned_us else "",
            *cells(took.get(size)),
            breaks.get(size, ""),
        )
        for size in sorted({*planned_us, *took})
    )
    return Table(columns, cells_of_rows, tuple(() for _ in cells_of_rows), caption(rows), see(rows))


def _draw(s: OnShow, op: str) -> Drawn:
    symbol = symbol_of(s)
    if not symbol:
        words = "every size of this model is fixed"
        return (), None, Table(("size",), (("fixed",),), ((),), words)
    if s.walls.planned is None:
        return (), None, Table(("size",), (), (), "no run is predicted yet")
    timings = s.clocked(NAME, symbol) or ()
    plain = s.house.cached(f"sizes {symbol}", s.now.sizes, lambda: data(s.now, symbol))
    tiled = dict.fromkeys(sizes[symbol] for sizes in s.now.compiled.planned_sizes)
    rows = replace(plain, measured=tuple(timings), tiled=tuple(tiled))
    return rows, None, table(rows)


def _about(s: OnShow, op: str) -> str | None:
    return symbol_of(s) or None if s.walls.planned is not None else None


def _under(now: Setting, about: str) -> Setting:
    """Return the setting without the size: measurements hold for all sizes on show."""
    return replace(now, sizes=tuple(pair for pair in now.sizes if pair[0] != about))


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    yield from measure_sizes(now, about)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the control of the symbol, if there are several."""
    names = list(symbols(s.now.compiled.model.program))
    if len(names) < 2:
        return controls(s)
    return controls(s, ("symbol", "symbol", names, names.index(symbol_of(s))))


PICTURE = Picture(
    name=NAME,
    title="Sizes",
    words="Time per run over the size of a symbol, and the sizes at which its plan changes.",
    stage=Stage.PLANNED,
    family=Family("sizes", _controls),
    draw=_draw,
    clock=Clock(
        "Measure the sizes",
        _about,
        _measured,
        lambda times: f"{count_text(len(times), 'size')} measured" if times else "",
        _under,
    ),
)
