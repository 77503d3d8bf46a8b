"""Relax's room: every value with its annotation, what its symbols are now, and what is known of its
shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.calls import MatchCast
from explorer.ir.dims import Dim, evaluate_dim, symbols_of
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from widgets.compiled import Compiled
from widgets.outline import type_text
from widgets.svg import Svg, fit, label, path
from widgets.table import Table, size_text

SHOWN = 14


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A value: `known` is "proved", "checked at run time", "rank only" or "nothing"; `bytes` is
    under the present sizes.
    """

    name: str
    annotation: str
    known: str
    now: str
    bytes: int
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeRows:
    """Values in program order, and each symbol with its bounds and present value."""

    values: tuple[ValueRow, ...]
    symbols: tuple[tuple[str, str, int], ...]


def data(c: Compiled, sizes: Mapping[str, int]) -> ShapeRows:
    """The values of the program after deduction."""
    program = _typed(c)
    values = [_value(p.name, p.type, (), sizes, False) for p in program.main.params]
    for _, b in program.bindings():
        cast = isinstance(b.expr, MatchCast)
        values += [_value(v.name, v.type, tuple(sorted(b.origin)), sizes, cast) for v in b.vars]
    symbols = []
    for name, value in sizes.items():
        bound = program.env.of(name)
        symbols.append(
            (name, f"{bound.low} to {'any' if bound.high is None else bound.high}", value)
        )
    return ShapeRows(tuple(values), tuple(symbols))


def _typed(c: Compiled) -> Program:
    done = [s.after for s in c.snapshots if s.after.stage == Stage.TYPED]
    return done[-1] if done else c.program


def _value(
    name: str, annotation: object, ops: tuple[str, ...], sizes: Mapping[str, int], cast: bool
) -> ValueRow:
    if not isinstance(annotation, Tensor):
        return ValueRow(name, "", "nothing", "", 0, ops)
    text = type_text(annotation)
    if annotation.shape is None:
        return ValueRow(
            name, text, "rank only" if annotation.rank is not None else "nothing", "", 0, ops
        )
    known = all(symbols_of(d) <= sizes.keys() for d in annotation.shape)
    now = "×".join(str(evaluate_dim(d, sizes)) for d in annotation.shape) if known else ""
    size = _bytes(annotation.bytes, sizes) if known and annotation.is_known else 0
    return ValueRow(name, text, "checked at run time" if cast else "proved", now, size, ops)


def _bytes(dim: Dim, sizes: Mapping[str, int]) -> int:
    return evaluate_dim(dim, sizes)


def table(rows: ShapeRows) -> Table:
    """One row a value."""
    return Table(
        ("value", "annotation", "known", "now", "bytes"),
        tuple((v.name, v.annotation, v.known, v.now, v.bytes) for v in rows.values),
        tuple(v.ops for v in rows.values),
    )


def figure(rows: ShapeRows, selected: str = "") -> Svg:
    """Symbols with their bounds, then the values: those around the selected operator, else those
    whose shape is symbolic.
    """
    marks, y = [label(12, 22, "Symbols", "i w"), label(668, 22, "now", "q", anchor="end")], 40.0
    for name, bounds, value in rows.symbols:
        marks += [
            path(f"M12 {y - 13.5}H668", "var(--line)"),
            label(12, y, name, "mono i"),
            label(172, y, bounds),
            label(668, y, f"{value:,}", "i w", anchor="end"),
        ]
        y += 20
    if not rows.symbols:
        marks.append(label(12, y, "none: every extent of this model is a number"))
        y += 20
    y += 18
    counts = {
        k: sum(v.known == k for v in rows.values)
        for k in ("proved", "checked at run time", "rank only", "nothing")
    }
    said = ", ".join(f"{n} {k}" for k, n in counts.items() if n)
    marks += [label(12, y, "Values", "i w"), label(668, y, said, "q", anchor="end")]
    for row in _around(rows.values, selected):
        y += 20
        marks += _value_marks(row, y, bool(selected) and selected in row.ops)
    return Svg(680, y + 20, "".join(marks), f"Shapes of {len(rows.values)} values: {said}")


def _around(values: tuple[ValueRow, ...], selected: str) -> tuple[ValueRow, ...]:
    at = next((i for i, v in enumerate(values) if selected and selected in v.ops), None)
    if at is None:
        return values[:SHOWN]
    first = max(0, min(at - SHOWN // 2, len(values) - SHOWN))
    return values[first : first + SHOWN]


def _value_marks(v: ValueRow, y: float, on: bool) -> list[str]:
    inks = {"proved": "var(--ink)", "checked at run time": "var(--ink3)"}
    ink = inks.get(v.known, "none")
    dot = f'<circle cx="662" cy="{y - 4}" r="4" fill="{ink}" stroke="var(--ink)"/>'
    return [
        path(f"M12 {y - 13.5}H668", "var(--line)"),
        label(12, y, fit(v.name, 200, mono=True), "mono a" if on else "mono i", ops=v.ops),
        label(222, y, fit(v.annotation, 220, mono=True), "mono"),
        label(450, y, v.now, "i"),
        label(590, y, size_text(v.bytes) if v.bytes else "", anchor="end"),
        label(650, y, v.known if v.known != "checked at run time" else "checked", anchor="end"),
        dot,
    ]
