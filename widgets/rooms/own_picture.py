"""Pictures of the user's own: functions from a compilation to rows, shown as bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

from explorer.errors import BadOption, Cancelled
from explorer.ir.dims import is_symbolic
from explorer.ir.stage import Stage
from explorer.process.sandbox import at_definition
from explorer.process.user_code import Registry, shown, user_code
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.rooms import gallery

Rows = Callable[[Any], Iterable[tuple[str, float]]]
Bars = tuple[tuple[str, float], ...]
WIDTH, LEFT, RIGHT, ROW, TOP = 780, 220, 90, 20, 30
MOST_ROWS = 200  # that are drawn; chosen
LONGEST = 80  # characters of a title and of a unit; chosen
SHIPPED = gallery.PICTURES
PAIRS = "pairs of a name and a number"


@dataclass(frozen=True, slots=True)
class _Own:
    """A picture with the function of its rows."""

    picture: Picture
    unit: str
    rows: Rows


def _list_in_gallery() -> None:
    """Put the registered pictures behind those that are included."""
    gallery.PICTURES = (*SHIPPED, *(own.picture for own in _own.values()))


_own = Registry[_Own](_list_in_gallery)


def picture(
    name: str, *, title: str, unit: str, words: str = "", stage: Stage = Stage.TASKED
) -> Callable[[Rows], Rows]:
    """Register a picture: `rows(compilation)` returns names and numbers of a `unit`, a bar each.

    It has its tab under a stage, its table, its link and its place in reports. `words` describe it,
    by default the first line of the function's docstring. Registered again, it replaces the first.

    Raises:
        BadOption: The name is no identifier, or that of an included picture; the title or the unit
            is no text; the function cannot be called.
    """
    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise BadOption(
            f"a picture's name must be an identifier such as kernel_sizes, found {shown(name)}",
            where="picture",
        )
    if any(p.name == name for p in SHIPPED):
        raise BadOption(f"there is a picture {name!r} already: give yours another name", where=name)
    for what, text in (("title", title), ("unit", unit), ("words", words or "-")):
        _check_text(name, what, text)

    def register(rows: Rows) -> Rows:
        if not callable(rows):
            raise BadOption(
                f"the picture {name!r} is {shown(rows)}, and must be a function of a compilation",
                where=name,
            )

        def draw(s: OnShow, op: str) -> Drawn:
            return _drawn(title, unit, _call_rows(name, rows, s.now.compiled))

        summary = (rows.__doc__ or "").strip().partition("\n")[0]
        described = words or summary or f"{title}, in {unit}."
        _own[name] = _Own(Picture(name, title, described, draw, stage), unit, rows)
        _list_in_gallery()
        return rows

    return register


def _check_text(name: str, what: str, text: object) -> None:
    longest = LONGEST if what != "words" else 10 * LONGEST
    if isinstance(text, str) and text.strip() and text.isprintable() and len(text) <= longest:
        return
    raise BadOption(
        f"the {what} of the picture {name!r} is {shown(text)}, and must be one line of text of at "
        f"most {longest} characters",
        where=name,
        try_=f'@widgets.picture({name!r}, title="Bytes of a kernel", unit="bytes")',
    )


def forget_picture(name: str) -> None:
    """Remove a picture; raises BadOption if it is not one of the user's own."""
    if name not in _own:
        own_names = ", ".join(_own) or "none"
        raise BadOption(f"no picture of your own is named {name!r}", where=name, expected=own_names)
    del _own[name]
    _list_in_gallery()


def chart(name: str, compiled: Any, theme: str) -> Any:
    """Return the chart of a picture of one's own as a plotly figure; None if it is not one.

    Raises BadOption if there is nothing to show.
    """
    if name not in _own:
        return None
    from plotly import graph_objects as go

    from widgets.draw.plots import colours, least_height, styled

    own = _own[name]
    bars = _call_rows(name, own.rows, compiled)[:MOST_ROWS]
    if not bars:
        raise BadOption(f"there is no chart {name!r} to draw: it has no rows", where=name)
    figure = go.Figure()
    figure.add_bar(
        x=[number if isfinite(number) else None for _, number in bars],
        y=[what for what, _ in bars],
        orientation="h",
        marker={"color": colours(theme)["t2"]},
        hovertemplate=f"%{{y}}: %{{x:.4g}} {own.unit}<extra></extra>",
    )
    figure.update_xaxes(title=own.unit)
    figure.update_yaxes(autorange="reversed", type="category")
    title = gallery.figure_title(f"{own.picture.title}, in {own.unit}")
    return styled(figure, theme, title, least_height(len(bars))["least"])


def _call_rows(name: str, rows: Rows, compiled: Any) -> Bars:
    """Return the rows of a picture; raises BadOption for what the function raises or returns."""

    def failed(words: str) -> BadOption:
        return BadOption(f"the picture {name!r} failed: {words}", where=name)

    def wrong(words: str, try_: str = "") -> BadOption:
        sentence = f"the picture {name!r} returned {words}{at_definition(rows)}"
        return BadOption(sentence, where=name, try_=try_)

    with user_code(f"the picture {name!r}", failed, (BadOption, Cancelled)):
        answer = rows(compiled)
        if isinstance(answer, Mapping):
            raise wrong(f"a {type(answer).__name__}, and must return {PAIRS}", ".items() of it")
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise wrong(f"{shown(answer)}, and must return {PAIRS}")
        bars = []
        for n, row in enumerate(answer, 1):
            if not isinstance(row, tuple | list) or len(row) != 2:
                raise wrong(f"{shown(row)} as row {n}, and must return {PAIRS}")
            what, number = row
            if is_symbolic(number) and number.free_symbols:
                raise wrong(
                    f"{shown(row)} as row {n}, whose number has symbols",
                    "c.program.env.hint(number), its value under the hints",
                )
            if not isinstance(number, Real) and not is_symbolic(number):
                raise wrong(f"{shown(row)} as row {n}, and {shown(number)} is no number")
            bars.append((" ".join(str(what).split()), float(number)))
        return tuple(bars)


def _drawn(title: str, unit: str, rows: Bars) -> Drawn:
    """Draw a bar for each row from zero; negative ones to the left, none for NaN and infinity."""
    if not rows:
        return placeholder(f"{title}: nothing to show")
    finite = [number for _, number in rows if isfinite(number)]
    low, high = min((0.0, *finite)), max((0.0, *finite))
    scale = (WIDTH - LEFT - RIGHT) / ((high - low) or 1.0)
    zero = LEFT - low * scale
    drawn, height = rows[:MOST_ROWS], TOP + ROW * min(len(rows), MOST_ROWS) + 8
    marks = [label(LEFT, 16, f"{unit}, from {low:g} to {high:g}", "i")]
    if low < 0:
        marks.append(path(f"M{zero:.1f} {TOP}V{height - 8}", "var(--edge)"))
    for n, (what, number) in enumerate(drawn):
        y, wide = TOP + ROW * n, abs(number) * scale if isfinite(number) else 0.0
        marks.append(label(12, y + 12, fit(what, LEFT - 24)))
        if isfinite(number):
            left = zero - wide if number < 0 else zero
            marks.append(rect(left, y + 2, max(0.5, wide), ROW - 6, "var(--ink2)", title=what))
        end = zero + (wide if number > 0 else 0.0)
        marks.append(label(end + 6, y + 12, f"{number:g}", "i"))
    left_out = len(rows) - MOST_ROWS
    more = f"; {left_out} more are in the table" if left_out > 0 else ""
    cells = tuple((what, x if isfinite(x) else f"{x:g}") for what, x in rows)
    table = Table(("name", unit), cells, (), f"{title}, in {unit}{more}")
    return rows, Svg(WIDTH, height, "".join(marks), title), table
