"""The drawing and the words of the Calls room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, cross, fit, label, path, text_width
from widgets.draw.table import Table
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax import call_boundary
from widgets.relax.call_boundary import BoundaryRow, MatchRow
from widgets.relax.shapes_picture import around

SHOWN, MOST = 6, 10
RIGHT = 668.0
COLUMNS = (24.0, 152.0, 266.0, 380.0)


def table(rows: Sequence[BoundaryRow]) -> Table:
    """One row a dim; those of a parameter that are literally the same are one."""
    lines = [(call, row) for call in rows for row in _told(call.rows)]
    return Table(
        ("call", "in", "callee", "parameter", "says", "argument says", "binds", "level", "why"),
        tuple(
            (
                c.called,
                c.function,
                f"{c.kind} {c.callee}",
                r.param,
                r.wanted,
                r.found,
                r.binds,
                r.level,
                r.reason,
            )
            for c, r in lines
        )
        or (("none", "", "", "", "", "", "", "", "nothing is called yet"),),
        tuple(c.ops for c, _ in lines),
        caption(rows),
    )


def _told(rows: Sequence[MatchRow]) -> Iterator[MatchRow]:
    """Dims that are written alike on both sides need no proof: they are told together."""
    for (param, alike), found in groupby(rows, lambda r: (r.param, r.wanted == r.found)):
        mine = list(found)
        if alike and not any(r.binds for r in mine) and len({r.level for r in mine}) == 1:
            dims = ", ".join(r.wanted for r in mine)
            yield MatchRow(param, dims, dims, "", mine[0].level, "written alike")
        else:
            yield from mine


def caption(rows: Sequence[BoundaryRow]) -> str:
    """How many calls there are of each kind, and how many leave something to the run."""
    kinds = dict.fromkeys(c.kind for c in rows)
    counts = ", ".join(f"{sum(c.kind == k for c in rows)} {k}" for k in kinds)
    left = sum(c.level != "proved" for c in rows)
    return f"calls: {counts or 'none'}; {left} leave something to the run"


def figure(rows: Sequence[BoundaryRow], symbols: Sequence[str] = (), selected: str = "") -> Svg:
    """A table of unification for each call around the selected operator; dims of a parameter that
    are literally the same are one row.
    """
    shown = around(rows, [selected in c.ops for c in rows], SHOWN)
    marks = [
        label(12, 22, "Call boundaries", "i w"),
        label(RIGHT, 22, caption(rows), "q", anchor="end"),
    ]
    heads = ("parameter", "it says", "the argument says", "so")
    marks += [label(x, 42, text, "q") for x, text in zip(COLUMNS, heads, strict=True)]
    y = 64.0
    for call in shown:
        y = _boundary(call, symbols, marks, y)
    if not rows:
        marks.append(label(12, y, "none: nothing is called yet"))
    elif len(rows) > len(shown):
        rest = f"and {len(rows) - len(shown):,} more calls, all of them in the table"
        marks.append(label(12, y, rest, "q"))
    return Svg(680, y + 16, "".join(marks), f"Call boundaries: {caption(rows)}", selected)


def _boundary(c: BoundaryRow, symbols: Sequence[str], marks: list[str], y: float) -> float:
    said = f"{c.kind} {c.callee}"
    result = fit(f"gives {c.result}", 250, mono=True)
    marks += [
        path(f"M12 {y - 14:g}H{RIGHT}", "var(--line2)"),
        label(
            12,
            y,
            fit(c.called, 185),
            "i w",
            ops=c.ops,
            title=f"{c.called}; {c.name} in the program",
        ),
        label(212, y, fit(said, 190), "", title=said),
        label(RIGHT, y, result, "mono i", anchor="end", symbols=symbols, title=c.result),
    ]
    y += 18
    told = tuple(_told(c.rows))
    for row in told[:MOST]:
        marks += _row(row, symbols, y)
        y += 16
    if len(told) > MOST:
        marks.append(label(24, y, f"and {len(told) - MOST} more", "q"))
        y += 16
    if not c.rows:
        marks.append(label(24, y, "it takes nothing whose shape is known", "q"))
        y += 16
    return y + 12


def _row(r: MatchRow, symbols: Sequence[str], y: float) -> Iterator[str]:
    parameter, says, argument, so = COLUMNS
    yield label(parameter, y, fit(r.param, says - parameter - 10, mono=True), "mono", title=r.param)
    for x, text in ((says, r.wanted), (argument, r.found)):
        yield label(x, y, fit(text, 104, mono=True), "mono i", symbols=symbols, title=text)
    wide = text_width(r.level)
    bad = r.level in ("never fits", "too little is known")
    yield label(so + 14, y, r.level, "bad" if bad else "i")
    if bad:
        yield cross(so + 4, y - 4, 3.5)
    elif r.level == "proved":
        yield path(f"M{so:g} {y - 4:g}l3 3l5 -7", "var(--ok)", 'stroke-width="1.6"')
    else:
        yield f'<circle cx="{so + 4:g}" cy="{y - 4:g}" r="3" fill="none" stroke="var(--ink2)"/>'
    x = so + 22 + wide * (1.1 if bad else 1)
    yield label(x, y, fit(r.reason, RIGHT - x), "q", symbols=symbols, title=r.reason)


def _draw(s: OnShow, op: str) -> Drawn:
    c = s.now.compiled
    rows = s.house.kept("calls", (), lambda: call_boundary.data(c, s.house.operators))
    names = tuple(b.name for b in c.program.env.symbols)
    return rows, figure(rows, names, op), table(rows)


PICTURE = Picture(
    name="calls",
    title="Calls",
    words="At each call what a parameter says beside what its argument says, and what follows.",
    stage=Stage.TYPED,
    about="operator",
    draw=_draw,
)
