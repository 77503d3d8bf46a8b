"""Structural changes of a step: operators, kernels and loops added, removed, changed or moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from explorer.ops import family
from explorer.plain_text import counted
from explorer.views.differences import KINDS, Change, ChangePlace, difference
from widgets.draw.slide import NARROW, PX, ROW, Text, column_widths, cut_to, label_width, line
from widgets.draw.svg import Svg, label, operator_group, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.draw.theme import family_token
from widgets.model.house import House
from widgets.model.outline import compute_text
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program.program_diff import STEPS, Between, between

TOP, INSET = 56.0, 12.0  # over the rows, and left of their words
APART, GUTTER = 1300, 28.0  # pixels from which rows stand in two columns, and between these
NAMED = 4  # types that a sentence counts
PLAIN = ("output", "shapes", "view")  # without a family
GROUNDS = {"added": "add", "removed": "del", "changed": "tint", "moved": "line2"}
SIGNS = {"added": "+", "removed": "−", "changed": "~", "moved": "↷"}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One difference as it is shown.

    `name` is its label for readers, `loop` the text of a loop nest, `family` that of its operators.
    """

    kind: str
    what: str
    name: str
    words: str
    ops: tuple[str, ...]
    family: str = ""
    loop: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """The differences between two programs, and the number of equal bindings."""

    title: str
    rows: tuple[ChangeRow, ...]
    same: int
    renamed: int


def data(both: Between, house: House) -> ChangeRows:
    """Return the differences, under the labels of the explorer."""
    differences = difference(
        both.before, both.after, label=lambda b: house.heaviest(b.origin) or b.name
    )
    rows = tuple(_row(change, house) for change in differences.changes)
    return ChangeRows(both.title, rows, differences.same, differences.renamed)


def _row(change: Change, house: House) -> ChangeRow:
    place = change.place
    ops = tuple(sorted(change.ops))
    loop = compute_text(place.loop) if place and place.loop else ""
    kind = family(place.binding) if place and change.what not in PLAIN else ""
    return ChangeRow(
        change.kind,
        change.what,
        _name(place, house) if place else "",
        "; ".join(change.words),
        ops,
        kind,
        loop,
    )


def _name(place: ChangePlace, house: House) -> str:
    if place.loop is not None:
        return place.loop.out
    return house.heaviest(place.ops) or place.name


def caption(rows: ChangeRows) -> str:
    """Return the number of differences of each kind."""
    of = {kind: sum(r.kind == kind for r in rows.rows) for kind in KINDS}
    counts = ", ".join(f"{n} {kind}" for kind, n in of.items() if n) or "no difference"
    names = f", {rows.renamed} of them under another name" if rows.renamed else ""
    return f"{rows.title}: {counts}; {counted(rows.same, 'binding')} as before{names}"


def table(rows: ChangeRows) -> Table:
    """Return one row per difference."""
    return Table(
        ("", "what", "name", "what is different", "loop"),
        tuple((r.kind, r.what, r.name, r.words, r.loop) for r in rows.rows),
        tuple(r.ops for r in rows.rows),
        caption(rows),
        see(rows),
    )


def see(rows: ChangeRows) -> tuple[Sentence, ...]:
    """Return the sentences: the number of added, removed and changed bindings, and their types."""
    kinds = [(k, n) for k in KINDS if (n := sum(r.kind == k for r in rows.rows))]
    same = Mark(counted(rows.same, "binding"), "same")
    if not kinds:
        return ((f"{rows.title} changes nothing: ", same, " as before."),)
    parts = [part for k, n in kinds for part in (", ", Mark(f"{n:,} {k}", f"kind:{k}"))]
    sentences: list[Sentence] = [(f"{rows.title}: ", *parts[1:], "; ", same, " as before.")]
    whats = Counter(r.what for r in rows.rows if r.what)
    if len(whats) > 1:
        counts = whats.most_common(NAMED)
        types = ", ".join(counted(n, what.removesuffix("s")) for what, n in counts)
        sentences.append((f"By what they are: {types}.",))
    if rows.renamed:
        sentences.append((f"{counted(rows.renamed, 'binding')} only got another name.",))
    return tuple(sentences)


def figure(rows: ChangeRows, size: tuple[int, int]) -> Svg:
    """Draw the changed share of the program as a bar, and below it one line per difference.

    Loops stand below their kernel; as many lines as fit.
    """
    width, height = size
    marks = [*_bar(rows, width)]
    columns_ = 2 if width >= APART else 1
    each = (width - GUTTER * (columns_ - 1)) / columns_
    room = max(1, int((height - TOP) / ROW)) * columns_
    shown = rows.rows if len(rows.rows) <= room else rows.rows[: room - 1]
    per = -(-room // columns_)
    cells = _fit_columns([_cells(row) for row in shown], each - INSET)
    wide_ = column_widths(cells, each - INSET)
    for n, (row, line_) in enumerate(zip(shown, cells)):
        x, y = (n // per) * (each + GUTTER), TOP + (n % per) * ROW
        body = operator_group(_marks(row, line_, wide_, (x, y, each)), row.ops)
        marks.append(lit_by(body, f"kind:{row.kind}"))
    if len(shown) < len(rows.rows):
        n = room - 1
        more = f"and {len(rows.rows) - len(shown):,} more, all of them in the table"
        x, y = (n // per) * (each + GUTTER), TOP + (n % per) * ROW
        marks.append(label(x + INSET, y + 15, cut_to(more, each - INSET), title=more))
    return Svg(width, height, "".join(marks), caption(rows), px=PX)


def _bar(rows: ChangeRows, width: float) -> Iterator[str]:
    """Yield the bar: the shares of all bindings and loops that differ, by kind."""
    counts = [(k, sum(r.kind == k for r in rows.rows)) for k in KINDS]
    parts = [*((k, k, n) for k, n in counts if n), ("same", "as before", rows.same)]
    total = sum(n for *_, n in parts) or 1
    x, words = 0.0, 0.0
    for kind, kind_words, n in parts:
        w = width * n / total
        key = "same" if kind == "same" else f"kind:{kind}"
        fill = f"var(--{GROUNDS.get(kind, 'pane')})"
        text = f"{SIGNS.get(kind, '=')} {n:,} {kind_words}"
        box = (min(x, width - 2) + 0.5, 1, max(1.0, w - 1), 18)
        body = rect(*box, fill, 'stroke="var(--edge)"', title=text) if n else ""
        if words + label_width(text) <= width:
            body += label(words, 38, text, "i")
        yield lit_by(body, key)
        x, words = x + w, words + label_width(text) + 20


def _cells(row: ChangeRow) -> tuple[Text, ...]:
    quiet = "" if row.what == "loop" else "i"
    details = "; ".join(x for x in (row.words, row.loop) if x)
    return (
        Text(f"{SIGNS[row.kind]} {row.kind}", "i"),
        Text(row.what, quiet),
        Text(f"{'  ' * (row.what == 'loop')}{row.name}", quiet, title=row.name),
        Text(details),
    )


def _fit_columns(rows: list[tuple[Text, ...]], room: float) -> list[tuple[Text, ...]]:
    """Return the rows, without their kind or type if the width is too small."""
    if rows and room < NARROW:
        return [(replace(row[0], text=row[0].text[:1]), row[2], row[3]) for row in rows]
    return rows


def _marks(
    row: ChangeRow,
    cells: tuple[Text, ...],
    room: list[float],
    place: tuple[float, float, float],
) -> list[str]:
    x, y, each = place
    ground = {"added": "var(--add)", "removed": "var(--del)"}.get(row.kind)
    marks = [rect(x, y, each, ROW - 1, ground or "var(--pane)", "" if ground else 'class="ground"')]
    if row.family:
        marks.append(rect(x, y, 5, ROW - 1, f"var(--{family_token(row.family)})"))
    return [*marks, *line(cells, room, x + INSET, y + 15, row.ops)]


def _draw(s: OnShow, op: str) -> Drawn:
    both = between(s)
    key = f"changes {id(both.before)} {id(both.after)}"
    _, rows = s.house.cached(key, s.now.sizes, lambda: (both, data(both, s.house)))
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="changes",
    title="What changed",
    words="Structural differences of a step, or between the baseline and the current plan: "
    "operators, kernels and loops. Renames are ignored.",
    draw=_draw,
    family=STEPS,
    every="Step",
)
