"""Pictures of the user's own: functions from a compilation to rows, shown as bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.process.cancellation import cancelling_user_code
from explorer.process.sandbox import at_line
from explorer.process.user_code import describe_error
from widgets.draw.svg import Svg, fit, label, rect
from widgets.draw.table import Table
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.rooms import gallery

Rows = Callable[[Any], Iterable[tuple[str, float]]]
WIDTH, LEFT, RIGHT, ROW, TOP = 780, 220, 90, 20, 30
MOST_ROWS = 200  # that are drawn; chosen

_own: dict[str, Picture] = {}


def picture(
    name: str, *, title: str, unit: str, words: str = "", stage: Stage = Stage.TASKED
) -> Callable[[Rows], Rows]:
    """Register a picture: `rows(compilation)` returns names and numbers of a `unit`, a bar each.

    It has its tab under a stage, its table, its link and its place in reports. Registered again, it
    replaces the first. Raises BadOption for an invalid name, or that of a built-in picture.
    """
    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise BadOption(
            f"a picture's name must be an identifier, found {str(name)[:40]!r}", where="picture"
        )
    if name not in _own and any(p.name == name for p in gallery.PICTURES):
        raise BadOption(f"there is a picture {name!r} already: give yours another name", where=name)

    def register(rows: Rows) -> Rows:
        def draw(s: OnShow, op: str) -> Drawn:
            return _drawn(name, title, unit, _call_rows(name, rows, s.now.compiled))

        own = Picture(name, title, words or f"{title}, in {unit}.", draw, stage)
        gallery.PICTURES = (*(p for p in gallery.PICTURES if p.name != name), own)
        _own[name] = own
        return rows

    return register


def forget_picture(name: str) -> None:
    """Remove a picture; raises BadOption if it is not one of the user's own."""
    if name not in _own:
        own_names = ", ".join(_own) or "none"
        raise BadOption(f"no picture of your own is named {name!r}", where=name, expected=own_names)
    del _own[name]
    gallery.PICTURES = tuple(p for p in gallery.PICTURES if p.name != name)


def _call_rows(name: str, rows: Rows, compiled: Any) -> tuple[tuple[str, float], ...]:
    with cancelling_user_code(f"the picture {name!r}"):
        try:
            return tuple((str(what), float(number)) for what, number in rows(compiled))
        except (Exception, SystemExit) as problem:  # a user's code may raise anything
            raise BadOption(
                f"the picture {name!r} failed: {describe_error(problem)}{at_line(problem)}",
                where=name,
                expected="pairs of a name and a number",
            ) from problem


def _drawn(name: str, title: str, unit: str, rows: tuple[tuple[str, float], ...]) -> Drawn:
    if not rows:
        return placeholder(f"{title}: nothing to show")
    most = max((abs(number) for _, number in rows), default=0.0) or 1.0
    marks = [label(LEFT, 16, f"{unit}, from 0 to {most:g}", "i")]
    for n, (what, number) in enumerate(rows[:MOST_ROWS]):
        y = TOP + ROW * n
        wide = (WIDTH - LEFT - RIGHT) * abs(number) / most
        marks.append(label(12, y + 12, fit(what, LEFT - 24)))
        marks.append(rect(LEFT, y + 2, max(0.5, wide), ROW - 6, "var(--ink2)", title=what))
        marks.append(label(LEFT + wide + 6, y + 12, f"{number:g}", "i"))
    left = len(rows) - MOST_ROWS
    more = f"; {left} more are in the table" if left > 0 else ""
    table = Table(("name", unit), rows, (), f"{title}, in {unit}{more}")
    height = TOP + ROW * min(len(rows), MOST_ROWS) + 8
    return rows, Svg(WIDTH, height, "".join(marks), title), table
