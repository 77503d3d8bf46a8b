"""What a step changed, by structure: operators, kernels and loops that were added, removed, changed
or moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from explorer.differences.changes import difference
from explorer.differences.model import KINDS, Change, Place
from explorer.ops import family
from widgets.draw.columns import ROW, Text, columns, line
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import NARROW, PX, cut_to, wide
from widgets.draw.svg import Svg, label, rect, together
from widgets.draw.table import Table, count_text
from widgets.draw.theme import family_token
from widgets.model.house import House
from widgets.model.on_show import OnShow
from widgets.model.outline import compute_text
from widgets.model.picture import Drawn, Picture
from widgets.program.steps import STEPS, Between, between

TOP, INSET = 56.0, 12.0  # over the rows, and left of their words
APART, GUTTER = 1300, 28.0  # pixels from which rows stand in two columns, and between these
NAMED = 4  # of what differences are that a sentence counts
PLAIN = ("output", "shapes", "view")  # that are of no family
GROUNDS = {"added": "add", "removed": "del", "changed": "tint", "moved": "line2"}
SIGNS = {"added": "+", "removed": "−", "changed": "~", "moved": "↷"}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One difference as it is shown: `name` is what readers call it, `loop` its text where it is a
    loop nest; `family` that of its operators.
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
    """The differences between two programs, and how many bindings are the same."""

    title: str
    rows: tuple[ChangeRow, ...]
    same: int
    renamed: int


def data(both: Between, house: House) -> ChangeRows:
    """The differences, under the names of the house."""
    found = difference(both.before, both.after, label=lambda b: house.heaviest(b.origin) or b.name)
    rows = tuple(_row(change, house) for change in found.changes)
    return ChangeRows(both.title, rows, found.same, found.renamed)


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


def _name(place: Place, house: House) -> str:
    if place.loop is not None:
        return place.loop.out
    return house.heaviest(place.ops) or place.name


def caption(rows: ChangeRows) -> str:
    """How many there are of each kind."""
    of = {kind: sum(r.kind == kind for r in rows.rows) for kind in KINDS}
    said = ", ".join(f"{n} {kind}" for kind, n in of.items() if n) or "no difference"
    names = f", {rows.renamed} of them under another name" if rows.renamed else ""
    return f"{rows.title}: {said}; {count_text(rows.same, 'binding')} as before{names}"


def table(rows: ChangeRows) -> Table:
    """One row a difference."""
    return Table(
        ("", "what", "name", "what is different", "loop"),
        tuple((r.kind, r.what, r.name, r.words, r.loop) for r in rows.rows),
        tuple(r.ops for r in rows.rows),
        caption(rows),
        see(rows),
    )


def see(rows: ChangeRows) -> tuple[Sentence, ...]:
    """The sentences: how many bindings are added, removed and changed, how many are as they were,
    and what they are.
    """
    kinds = [(k, n) for k in KINDS if (n := sum(r.kind == k for r in rows.rows))]
    same = Mark(count_text(rows.same, "binding"), "same")
    if not kinds:
        return ((f"{rows.title} changes nothing: ", same, " as before."),)
    parts = [part for k, n in kinds for part in (", ", Mark(f"{n:,} {k}", f"kind:{k}"))]
    told: list[Sentence] = [(f"{rows.title}: ", *parts[1:], "; ", same, " as before.")]
    whats = Counter(r.what for r in rows.rows if r.what)
    if len(whats) > 1:
        counts = whats.most_common(NAMED)
        said = ", ".join(count_text(n, what.removesuffix("s")) for what, n in counts)
        told.append((f"By what they are: {said}.",))
    if rows.renamed:
        told.append((f"{count_text(rows.renamed, 'binding')} only got another name.",))
    return tuple(told)


def figure(rows: ChangeRows, size: tuple[int, int]) -> Svg:
    """How much of the program is different, as one bar; below it a line a difference, loops below
    their kernel, as many as have room.
    """
    width, height = size
    marks = [*_bar(rows, width)]
    columns_ = 2 if width >= APART else 1
    each = (width - GUTTER * (columns_ - 1)) / columns_
    room = max(1, int((height - TOP) / ROW)) * columns_
    shown = rows.rows if len(rows.rows) <= room else rows.rows[: room - 1]
    per = -(-room // columns_)
    cells = _fitting([_cells(row) for row in shown], each - INSET)
    wide_ = columns(cells, each - INSET)
    for n, (row, line_) in enumerate(zip(shown, cells)):
        x, y = (n // per) * (each + GUTTER), TOP + (n % per) * ROW
        body = together(_marks(row, line_, wide_, (x, y, each)), row.ops)
        marks.append(lit_by(body, f"kind:{row.kind}"))
    if len(shown) < len(rows.rows):
        n = room - 1
        more = f"and {len(rows.rows) - len(shown):,} more, all of them in the table"
        x, y = (n // per) * (each + GUTTER), TOP + (n % per) * ROW
        marks.append(label(x + INSET, y + 15, cut_to(more, each - INSET), title=more))
    return Svg(width, height, "".join(marks), caption(rows), px=PX)


def _bar(rows: ChangeRows, width: float) -> Iterator[str]:
    """What share of all bindings and loops is different, and how."""
    counts = [(k, sum(r.kind == k for r in rows.rows)) for k in KINDS]
    parts = [*((k, k, n) for k, n in counts if n), ("same", "as before", rows.same)]
    total = sum(n for *_, n in parts) or 1
    x, words = 0.0, 0.0
    for kind, said, n in parts:
        w = width * n / total
        key = "same" if kind == "same" else f"kind:{kind}"
        fill = f"var(--{GROUNDS.get(kind, 'pane')})"
        text = f"{SIGNS.get(kind, '=')} {n:,} {said}"
        box = (min(x, width - 2) + 0.5, 1, max(1.0, w - 1), 18)
        body = rect(*box, fill, 'stroke="var(--edge)"', title=text) if n else ""
        if words + wide(text) <= width:
            body += label(words, 38, text, "i")
        yield lit_by(body, key)
        x, words = x + w, words + wide(text) + 20


def _cells(row: ChangeRow) -> tuple[Text, ...]:
    quiet = "" if row.what == "loop" else "i"
    said = "; ".join(x for x in (row.words, row.loop) if x)
    return (
        Text(f"{SIGNS[row.kind]} {row.kind}", "i"),
        Text(row.what, quiet),
        Text(f"{'  ' * (row.what == 'loop')}{row.name}", quiet, title=row.name),
        Text(said),
    )


def _fitting(rows: list[tuple[Text, ...]], room: float) -> list[tuple[Text, ...]]:
    """The rows, without their kind or what they are where there is too little width for them."""
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
    _, rows = s.house.kept(key, s.now.sizes, lambda: (both, data(both, s.house)))
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="changes",
    title="What changed",
    words="What a step changed, or what the baseline and the current plan have different, by "
    "structure: operators, kernels and loops. Other names are no change.",
    draw=_draw,
    family=STEPS,
    every="Step",
)
