"""Line diff of the program before and after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Table
from widgets.draw.theme import family_token
from widgets.model.on_show import OnShow
from widgets.model.outline import Line, binding_lines, lines
from widgets.model.picture import Drawn, Picture
from widgets.program.changed_words import Spans, align_lines, spans

MOST_BY_WORD = 1000  # changed lines whose words are all compared one by one; chosen


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff: `mark` is " ", "+" (only after) or "-" (only before).

    `number` counts lines in the line's own program. For a changed line, `mate` is the position of
    its counterpart, and `words` are the positions of the words that the counterpart lacks.
    """

    mark: str
    number: int
    text: str
    ops: tuple[str, ...] = ()
    family: str = ""
    mate: int = -1
    words: Spans = ()


def data(before: Program, after: Program) -> tuple[DiffLine, ...]:
    """Return all lines of `after`, and between them the lines of `before` that were removed."""
    old, new = lines(before), lines(after)
    if before is after or old == new:
        return tuple(_line(" ", i, line) for i, line in enumerate(new))
    return tuple(_pair_changes(_merge_blocks(old, new)))


def _merge_blocks(old: Sequence[Line], new: Sequence[Line]) -> list[DiffLine]:
    """Pair bindings by their names, so that a changed one stands right above its new version."""
    before, after = _blocks(old), _blocks(new)
    names = SequenceMatcher(None, [k for k, _, _ in before], [k for k, _, _ in after], False)
    merged: list[DiffLine] = []
    for tag, a0, a1, b0, b1 in names.get_opcodes():
        if tag == "equal":
            for (_, a, mine), (_, b, theirs) in zip(before[a0:a1], after[b0:b1], strict=True):
                merged += _diff_block(mine, theirs, a, b)
            continue
        for _, a, block in before[a0:a1]:
            merged += [_line("-", a + i, line) for i, line in enumerate(block)]
        for _, b, block in after[b0:b1]:
            merged += [_line("+", b + i, line) for i, line in enumerate(block)]
    return merged


def bindings_diff(before: Sequence[Binding], after: Sequence[Binding]) -> tuple[DiffLine, ...]:
    """Return the diff of some bindings of each program."""
    old, new = ([x for b in part for x in binding_lines(b)] for part in (before, after))
    return tuple(_pair_changes(_merge_blocks(old, new)))


def _pair_changes(rows: list[DiffLine]) -> list[DiffLine]:
    """Pair removed lines with similar added lines.

    With very many changes, words are compared only from both ends.
    """
    at, each = 0, sum(row.mark == "-" for row in rows) <= MOST_BY_WORD
    while at < len(rows):
        if rows[at].mark == " ":
            at += 1
            continue
        end = next((n for n in range(at, len(rows)) if rows[n].mark == " "), len(rows))
        gone = [n for n in range(at, end) if rows[n].mark == "-"]
        came = [n for n in range(at, end) if rows[n].mark == "+"]
        for i, j in align_lines([rows[n].text for n in gone], [rows[n].text for n in came]):
            a, b = gone[i], came[j]
            first, second = spans(rows[a].text, rows[b].text, each)
            rows[a] = _with_mate(rows[a], b, first)
            rows[b] = _with_mate(rows[b], a, second)
        at = end
    return rows


def _with_mate(row: DiffLine, mate: int, words: Spans) -> DiffLine:
    return DiffLine(row.mark, row.number, row.text, row.ops, row.family, mate, words)


Block = tuple[str, int, list[Line]]


def _blocks(lines: Sequence[Line]) -> list[Block]:
    """Return each binding with its lines: its name, its position, its lines."""
    blocks: list[Block] = []
    for at, line in enumerate(lines):
        if blocks and line.text.startswith("    "):
            blocks[-1][2].append(line)
        else:
            blocks.append((line.text.split(" = ")[0], at, [line]))
    return blocks


def _diff_block(old: list[Line], new: list[Line], a: int, b: int) -> list[DiffLine]:
    texts = [i.text for i in old], [i.text for i in new]
    if texts[0] == texts[1]:
        return [_line(" ", b + i, line) for i, line in enumerate(new)]
    if len(old) == len(new) == 1:
        return [_line("-", a, old[0]), _line("+", b, new[0])]
    merged: list[DiffLine] = []
    matcher = SequenceMatcher(None, *texts, autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag != "equal":
            merged += [_line("-", a + i, old[i]) for i in range(a0, a1)]
        merged += [_line(" " if tag == "equal" else "+", b + i, new[i]) for i in range(b0, b1)]
    return merged


def _line(mark: str, at: int, line: Line) -> DiffLine:
    return DiffLine(mark, at + 1, line.text, line.ops, line.family)


def table(rows: tuple[DiffLine, ...]) -> Table:
    """Return one row per line."""
    return Table(
        ("line", "", "text", "operators"),
        tuple((r.number, r.mark, r.text, len(r.ops)) for r in rows),
        tuple(r.ops for r in rows),
    )


def text(rows: tuple[DiffLine, ...]) -> str:
    """Return the diff as a terminal shows it."""
    return "\n".join(f"{r.mark} {r.text}" for r in rows)


def figure(rows: tuple[DiffLine, ...], limit: int = 60) -> Svg:
    """Draw the lines in their colours; if something changed, only those around the changes."""
    shown = _around_changes(rows)[:limit]
    marks = []
    for i, row in enumerate(shown):
        y = i * 17
        if row.mark != " ":
            marks.append(rect(0, y, 960, 17, "var(--add)" if row.mark == "+" else "var(--del)"))
        if row.family:
            marks.append(rect(44, y + 2, 4, 13, f"var(--{family_token(row.family)})"))
        number = label(28, y + 12, str(row.number), "q", anchor="end")
        marks += [
            number,
            label(34, y + 12, row.mark.strip(), "i"),
            label(54, y + 12, row.text, "mono i"),
        ]
    title = f"{sum(r.mark == '+' for r in rows)} lines new, {sum(r.mark == '-' for r in rows)} gone"
    return Svg(960, max(len(shown), 1) * 17, "".join(marks), title)


def _around_changes(rows: tuple[DiffLine, ...], context: int = 2) -> list[DiffLine]:
    near = {
        j for i, r in enumerate(rows) if r.mark != " " for j in range(i - context, i + context + 1)
    }
    return [r for i, r in enumerate(rows) if i in near] if near else list(rows)


def _draw(s: OnShow, op: str) -> Drawn:
    """Draw the largest step, from graph operators to kernels, if that was reached."""
    c = s.now.compiled
    steps = [x for x in c.snapshots if x.stage == Stage.LEGALIZED] or c.snapshots[-1:]
    rows = data(steps[0].before, steps[0].after) if steps else data(c.program, c.program)
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="program",
    title="Program before and after",
    words="The program's text before and after its operators became kernels, line against line.",
    draw=_draw,
)
