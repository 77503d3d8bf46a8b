"""What a step changed, by structure: operators, kernels and loops that were added, removed, changed
or moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.differences.changes import difference
from explorer.differences.model import KINDS, Change, Place
from explorer.ops import family
from widgets.draw.svg import Svg, fit, label, rect, together, wrapped
from widgets.draw.table import Table, count_text
from widgets.draw.theme import family_token
from widgets.model.house import House
from widgets.model.on_show import OnShow
from widgets.model.outline import compute_text
from widgets.model.picture import Drawn, Picture
from widgets.program.steps import STEPS, Between, between

WIDTH, LINE = 650.0, 16.0  # no wider than the pane of a house of 1,280
AT = (12.0, 28.0, 84.0, 152.0, 326.0)  # sign, kind, what, name, words
MOST = 150  # rows that are drawn
PLAIN = ("output", "shapes", "view")  # that are of no family
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
    )


def figure(rows: ChangeRows) -> Svg:
    """A line a difference, loops below their kernel."""
    marks = [label(AT[0], 15, caption(rows), "i w")]
    y = 28.0
    for row in rows.rows[:MOST]:
        said = "; ".join(x for x in (row.words, row.loop) if x)
        lines = wrapped(said, WIDTH - AT[4] - 8) if said else [""]
        marks.append(together(_marks(row, lines, y), row.ops))
        y += LINE * len(lines)
    if len(rows.rows) > MOST:
        marks.append(label(AT[1], y + 12, f"… {len(rows.rows) - MOST} more in the table", "q"))
        y += LINE
    return Svg(WIDTH, y + 6, "".join(marks), caption(rows))


def _marks(row: ChangeRow, lines: list[str], y: float) -> list[str]:
    quiet = "" if row.what == "loop" else "i"
    inset = 10 if row.what == "loop" else 0
    ground = {"added": "var(--add)", "removed": "var(--del)"}.get(row.kind)
    high = LINE * len(lines)
    marks = [
        rect(0, y, WIDTH, high, ground or "var(--pane)", 'class="ground"' if not ground else "")
    ]
    if row.family:
        marks.append(rect(AT[3] - 10, y + 3, 4, 10, f"var(--{family_token(row.family)})"))
    name = fit(row.name, AT[4] - AT[3] - inset - 12)
    marks += [
        label(AT[0], y + 12, SIGNS[row.kind], "i w"),
        label(AT[1], y + 12, row.kind, "i"),
        label(AT[2] + inset, y + 12, row.what, quiet),
        label(AT[3] + inset, y + 12, name, quiet, title=row.name),
    ]
    return marks + [label(AT[4], y + 12 + n * LINE, line) for n, line in enumerate(lines)]


def _draw(s: OnShow, op: str) -> Drawn:
    both = between(s)
    key = f"changes {id(both.before)} {id(both.after)}"
    _, rows = s.house.kept(key, s.now.sizes, lambda: (both, data(both, s.house)))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="changes",
    title="What changed",
    words="What a step changed, or what the baseline and the current plan have different, by "
    "structure: operators, kernels and loops. Other names are no change.",
    draw=_draw,
    family=STEPS,
    every="Step",
)
