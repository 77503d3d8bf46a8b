"""Every match of a step's rules: the rule, its place in the source, and its part of the program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.plain_text import counted
from explorer.views.matches import Rule, StepMatch, matches, regions
from widgets.draw.svg import Svg, fit, label, rect, step_group, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.compiled import Compiled
from widgets.model.house import House
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program import program_diff
from widgets.program.program_diff import EACH_STEP, DiffLine, step_of

WIDTH, LINE, HEAD = 780.0, 16.0, 22.0
MOST, LINES = 30, 12  # matches that are drawn, and lines of each


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One match: the number of its rule among the step's, its title, and its subject.

    The subject is named by the labels of the explorer.
    """

    rule: int
    title: str
    about: str
    ops: tuple[str, ...]
    match: StepMatch

    @property
    def lines(self) -> tuple[DiffLine, ...]:
        """The part of the program before and after."""
        return program_diff.bindings_diff(self.match.before, self.match.after)


@dataclass(frozen=True, slots=True)
class MatchRows:
    """The matches of one step in order, and its rules."""

    step: str
    rules: tuple[Rule, ...]
    rows: tuple[MatchRow, ...]


def data(c: Compiled, number: int, house: House) -> MatchRows:
    """Return the matches of the step with this number."""
    step = c.snapshots[number].name if number >= 0 else ""
    step_matches = _matches(c, number)
    rules = tuple(dict.fromkeys(m.rule for m in step_matches))
    place = {rule: n for n, rule in enumerate(rules)}
    rows = tuple(_row(m, place[m.rule], house) for m in step_matches)
    return MatchRows(step, rules, rows)


def _matches(c: Compiled, number: int) -> tuple[StepMatch, ...]:
    """Return the matches that rules report; for a foreign compilation, the parts that differ."""
    if number < 0:
        return ()
    step = c.snapshots[number]
    if isinstance(c, Compilation):
        try:
            return matches(c, step.name)
        except BadOption:  # a step that this version does not have
            pass
    parts = regions(step.before, step.after)
    return tuple(StepMatch(Rule(step.name), a, b, False, step.name) for a, b in parts)


def _row(match: StepMatch, rule: int, house: House) -> MatchRow:
    mine = [b for b in (*match.before, *match.after) if b.origin]
    names = dict.fromkeys(house.heaviest(b.origin) or b.name for b in mine)
    return MatchRow(rule, match.title, ", ".join(names), tuple(sorted(match.ops)), match)


def table(rows: MatchRows) -> Table:
    """Return one row per match."""
    return Table(
        ("match", "rule", "about", "before", "after", "written at"),
        tuple(
            (
                n + 1,
                r.title,
                r.about,
                "; ".join(b.name for b in r.match.before),
                "; ".join(b.name for b in r.match.after),
                rows.rules[r.rule].place,
            )
            for n, r in enumerate(rows.rows)
        ),
        tuple(r.ops for r in rows.rows),
        caption(rows),
        see(rows),
    )


def see(rows: MatchRows) -> tuple[Sentence, ...]:
    """Return the sentences: the number of matches and rules, and the rule with the most matches."""
    if not rows.rows:
        return ((f"{rows.step or 'As it was imported'}: no rule matched.",),)
    if not all(r.match.traced for r in rows.rows):
        parts = Mark(counted(len(rows.rows), "part"), "match")
        return ((f"{rows.step}: ", parts, " of the program changed."),)
    rules = Counter(r.rule for r in rows.rows)
    matches_ = Mark(_matches_text(len(rows.rows)), "match")
    first: Sentence = (f"{rows.step}: ", matches_, f" of {counted(len(rules), 'rule')}.")
    most, count = min(rules.items(), key=lambda x: (-x[1], x[0]))
    title = next(r.title for r in rows.rows if r.rule == most)
    if len(rules) < 2 or count < 2:
        return (first,)
    return (first, (Mark(title, f"rule{most}"), f" matched most, {count:,} times."))


def caption(rows: MatchRows) -> str:
    """Return the number of matches and their rules."""
    if not rows.rows:
        return f"{rows.step or 'as it was imported'}: no rule matched"
    are_reported = all(r.match.traced for r in rows.rows)
    kinds = list(dict.fromkeys(r.title for r in rows.rows))
    if not are_reported:
        return f"{rows.step}: {counted(len(rows.rows), 'part')} of the program changed"
    rule_titles = ", ".join(kinds[:6]) + (f" and {len(kinds) - 6} more" if len(kinds) > 6 else "")
    return f"{rows.step}: {_matches_text(len(rows.rows))} of {rule_titles}"


def _matches_text(count: int) -> str:
    return f"{count:,} match{'' if count == 1 else 'es'}"


def figure(rows: MatchRows) -> Svg:
    """Draw the matches below each other, each a step to walk through."""
    marks = [label(12, 15, fit(caption(rows), WIDTH - 24), "i w", title=caption(rows))]
    y = 26.0
    for number, row in enumerate(rows.rows[:MOST]):
        part, high = _match(rows, number, row, y)
        description = f"{row.title}: {row.about}" if row.about else row.title
        marks.append(
            step_group(lit_by("".join(part), f"match rule{row.rule}"), number, description)
        )
        y += high
    if len(rows.rows) > MOST:
        marks.append(label(12, y + 12, f"… {len(rows.rows) - MOST} more in the table", "q"))
        y += LINE
    return Svg(WIDTH, y + 6, "".join(marks), caption(rows))


def _match(rows: MatchRows, number: int, row: MatchRow, top: float) -> tuple[list[str], float]:
    rule = rows.rules[row.rule]
    head = f"{number + 1} {row.title}"
    marks = [
        label(12, top + 15, head, "i w"),
        label(WIDTH - 12, top + 15, rule.place, anchor="end"),
    ]
    y = top + HEAD
    for words in wrap_text(rule.short, WIDTH - 24) if rule.short else []:
        marks.append(label(12, y + 10, words))
        y += LINE
    lines = row.lines
    for line in lines[:LINES]:
        ground = {"+": "var(--add)", "-": "var(--del)"}.get(line.mark)
        marks.append(rect(0, y, WIDTH, LINE, ground or "none"))
        text = fit(line.text, WIDTH - 52, mono=True).replace(" ", "\u00a0")
        marks.append(label(28, y + 12, line.mark.strip(), "i"))
        marks.append(label(44, y + 12, text, "mono i", ops=line.ops, title=line.text))
        y += LINE
    if len(lines) > LINES:
        marks.append(label(44, y + 12, f"… {len(lines) - LINES} lines more", "q"))
        y += LINE
    return marks, y + 8 - top


def matches_of_step(s: OnShow, number: int) -> MatchRows:
    """Return the matches of a step of the setting on show, computed once."""
    c = s.now.compiled
    return s.house.cached(f"matches {number}", s.now.sizes, lambda: data(c, number, s.house))


def _draw(s: OnShow, op: str) -> Drawn:
    rows = matches_of_step(s, step_of(s))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="matches",
    title="Rule by rule",
    words="Every match of a step's rules: the rule with its source, where it matched, and "
    "that part of the program before and after.",
    draw=_draw,
    family=EACH_STEP,
    live="matches",
    every="Step",
)
