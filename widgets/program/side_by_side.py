"""Two programs side by side, with corresponding lines aligned and changed words marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.plain_text import counted
from widgets.draw.svg import Svg, fit, label, rect, text_width
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.draw.theme import family_token
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program import program_diff
from widgets.program.program_diff import STEPS, Between, DiffLine, between

WIDE, LINE, NUMBER = 480.0, 17.0, 40.0  # of a side, of a line, left of its text
CONTEXT = 2  # equal lines that are drawn before and behind a change
MOST = 120  # lines that are drawn


@dataclass(frozen=True, slots=True)
class LinePair:
    """A line of each program; None if only the other has it."""

    before: DiffLine | None
    after: DiffLine | None

    @property
    def changed(self) -> bool:
        """True if the two differ."""
        return self.before is None or self.after is None or self.after.mark != " "

    @property
    def kind(self) -> str:
        """The kind of change: "changed", "new", "gone" or "same"."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "changed" if self.changed else "same"


@dataclass(frozen=True, slots=True)
class SideRows:
    """All lines of both programs; `title` names the step."""

    title: str
    lines: tuple[LinePair, ...]


def data(both: Between) -> SideRows:
    """Return the lines of both programs."""
    rows = program_diff.data(both.before, both.after)
    return SideRows(both.title, tuple(_pair_lines(rows)))


def _pair_lines(rows: tuple[DiffLine, ...]) -> Iterator[LinePair]:
    """Pair the lines in the order of both: removed lines stand before added ones unless paired."""
    at, number = 0, 0
    while at < len(rows):
        if rows[at].mark == " ":
            number += 1
            yield LinePair(_as_before(rows[at], number), rows[at])
            at += 1
            continue
        end = next((n for n in range(at, len(rows)) if rows[n].mark == " "), len(rows))
        gone = [n for n in range(at, end) if rows[n].mark == "-"]
        came = [n for n in range(at, end) if rows[n].mark == "+"]
        number += len(gone)
        for n in gone:
            mate = rows[n].mate
            while mate >= 0 and came[0] != mate:
                yield LinePair(None, rows[came.pop(0)])
            if mate >= 0:
                came.pop(0)
            yield LinePair(rows[n], rows[mate] if mate >= 0 else None)
        yield from (LinePair(None, rows[n]) for n in came)
        at = end


def _as_before(row: DiffLine, number: int) -> DiffLine:
    return DiffLine(" ", number, row.text, row.ops, row.family)


def table(rows: SideRows) -> Table:
    """Return one row per line, without equal ones far from all changes."""
    shown = _near(rows)
    line_pairs = [(x.before, x.after) for x in shown]
    return Table(
        ("line before", "before", "line after", "after"),
        tuple(
            (
                a.number if a else "",
                a.text if a else "",
                b.number if b else "",
                b.text if b else "",
            )
            for a, b in line_pairs
        ),
        tuple((b or a).ops if (b or a) else () for a, b in line_pairs),  # type: ignore[union-attr]
        caption(rows),
        see(rows),
    )


def see(rows: SideRows) -> tuple[Sentence, ...]:
    """Return the sentence: the number of changed and unchanged lines."""
    counts = [(key, sum(x.kind == key for x in rows.lines)) for key in ("changed", "new", "gone")]
    same = sum(x.kind == "same" for x in rows.lines)
    parts = [part for key, n in counts if n for part in (", ", Mark(f"{n:,} {key}", key))]
    if not parts:
        return ((f"{rows.title} changes none of {counted(same, 'line')}.",),)
    return ((f"{rows.title}: of the lines ", *parts[1:], f"; {same:,} as they were."),)


def caption(rows: SideRows) -> str:
    """Return the number of changed lines."""
    both = sum(x.changed and x.before is not None and x.after is not None for x in rows.lines)
    came = sum(x.before is None for x in rows.lines)
    gone = sum(x.after is None for x in rows.lines)
    same = len(rows.lines) - both - came - gone
    return f"{rows.title}: {both} lines changed, {came} new, {gone} gone, {same} as they were"


def _near(rows: SideRows) -> list[LinePair]:
    near = {
        j
        for i, x in enumerate(rows.lines)
        if x.changed
        for j in range(i - CONTEXT, i + CONTEXT + 1)
    }
    return [x for i, x in enumerate(rows.lines) if i in near]


def figure(rows: SideRows) -> Svg:
    """Draw the lines around the changes, before on the left, after on the right."""
    near = _near(rows)
    marks = [label(8, 14, "before", "q"), label(WIDE + 8, 14, "after", "q")]
    y = 20.0
    for pair in near[:MOST]:
        columns = ((0.0, pair.before), (WIDE, pair.after))
        body = "".join(m for x, row in columns for m in _draw_line(x, y, row, pair.changed))
        marks.append(lit_by(body, pair.kind))
        y += LINE
    if not near:
        marks = [label(12, 14, caption(rows), "i")]
    elif len(near) > MOST:
        marks.append(label(NUMBER, y + 12, f"… {len(near) - MOST} lines more in the table", "q"))
        y += LINE
    return Svg(2 * WIDE, y + 4, "".join(marks), caption(rows))


def _draw_line(x: float, y: float, row: DiffLine | None, changed: bool) -> list[str]:
    if row is None:
        return [rect(x, y, WIDE - 2, LINE, "var(--tint)")]
    ground = {"+": "var(--add)", "-": "var(--del)"}.get(row.mark, "")
    marks = [rect(x, y, WIDE - 2, LINE, ground)] if changed and ground else []
    per = text_width("m", 11, mono=True)
    last = x + WIDE - 8
    for a, b in row.words:
        left = x + NUMBER + a * per
        if left < last:
            edge = 'stroke="var(--ink2)" stroke-width="0.8" rx="2"'
            marks.append(
                rect(left, y + 1.5, min(b * per + x + NUMBER, last) - left, 14, "none", edge)
            )
    if row.family:
        marks.append(rect(x + 32, y + 2, 4, 13, f"var(--{family_token(row.family)})"))
    text = fit(row.text, WIDE - NUMBER - 8, mono=True)
    marks.append(label(x + 28, y + 12, str(row.number), "q", anchor="end"))
    shown = text.replace(" ", "\u00a0")
    marks.append(label(x + NUMBER, y + 12, shown, "mono i", ops=row.ops, title=row.text))
    return marks


def _draw(s: OnShow, op: str) -> Drawn:
    both = between(s)
    key = f"sides {id(both.before)} {id(both.after)}"
    # The key holds ids, so the cache keeps both programs.
    _, rows = s.house.cached(key, (), lambda: (both, data(both)))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="side_by_side",
    title="Side by side",
    words="The program before and after a step, or of the baseline and the current plan, line "
    "beside line; "
    "words that changed are framed.",
    draw=_draw,
    family=STEPS,
    live="sides",
    every="Step",
)
