"""Line diff of two programs, such as before and after a step, with the words that changed.

The two programs that pictures of steps compare are chosen here too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from explorer.errors import BadOption
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.tuning.sensitivity import did
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Table
from widgets.draw.theme import family_token
from widgets.model.outline import Line, binding_lines, lines
from widgets.model.picture import Drawn, Family, OnShow, Picture

MOST_BY_WORD = 1000  # changed lines whose words are all compared one by one; chosen
ALIKE = 0.4  # share of words that two lines have in common to be one that changed; chosen
MOST = 80  # most words that are compared one by one; else all between the equal ends differs
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
BEFORE, PINNED = "the program before", "A"
AGAINST = (BEFORE, PINNED)
Spans = tuple[tuple[int, int], ...]  # half-open ranges of letters


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


def align_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of lines that correspond, in the order of both.

    Lines that alone define a value are paired first. Between them, lines are paired that define the
    same value or share enough words.
    """
    pairs: list[tuple[int, int]] = []
    a = b = 0
    for i, j in (*_anchors(old, new), (len(old), len(new))):
        pairs += _between(old, new, (a, i), (b, j))
        if i < len(old):
            pairs.append((i, j))
        a, b = i + 1, j + 1
    return pairs


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that define a unique value in both texts, as many as are in order."""
    first, second = _unique_heads(old), _unique_heads(new)
    pairs = sorted((i, second[head]) for head, i in first.items() if head in second)
    ends: list[int] = []  # last elements of increasing subsequences, by length
    last: list[int] = []  # the pairs of these elements
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        ends[at : at + 1], last[at : at + 1] = [j], [n]
        before.append(last[at - 1] if at else -1)
    chain, n = list[tuple[int, int]](), last[-1] if last else -1
    while n >= 0:
        chain.append(pairs[n])
        n = before[n]
    return chain[::-1]


def _unique_heads(lines: Sequence[str]) -> dict[str, int]:
    """Return the positions of the lines whose definition is unique."""
    heads = [_head(line) for line in lines]
    count = Counter(heads)
    return {head: n for n, head in enumerate(heads) if count[head] == 1}


def _head(line: str) -> str:
    """Return the part of a line that it defines; all of a line that defines nothing."""
    return line.split(" = ")[0]


def _between(
    old: Sequence[str], new: Sequence[str], a: tuple[int, int], b: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    first = b[0]
    for i in range(*a):
        words = set(_WORD.findall(old[i]))
        for j in range(first, min(b[1], first + 4)):
            other = set(_WORD.findall(new[j]))
            same = _head(old[i]) == _head(new[j])
            if same or len(words & other) >= ALIKE * len(words | other):
                yield i, j
                first = j + 1
                break


def spans(old: str, new: str, each: bool = True) -> tuple[Spans, Spans]:
    """Return the positions of the words that only one of two lines has.

    Without `each`, everything between the first and the last of them.
    """
    first, second = _WORD.findall(old), _WORD.findall(new)
    head = 0
    while head < min(len(first), len(second)) and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(second)) - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    middle = first[head : len(first) - tail], second[head : len(second) - tail]
    if not each or max(map(len, middle)) > MOST or not all(middle):
        changed = [(0, len(middle[0]), 0, len(middle[1]))]
    else:
        codes = SequenceMatcher(None, middle[0], middle[1], False).get_opcodes()
        changed = [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]
    return (
        _letters(first, [(head + a, head + b) for a, b, _, _ in changed]),
        _letters(second, [(head + c, head + d) for _, _, c, d in changed]),
    )


def _letters(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> Spans:
    """Return ranges of words as ranges of letters; ranges with only a space between are merged."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    ranges_of_letters: list[tuple[int, int]] = []
    for a, b in ranges:
        if a == b:
            continue
        gap = (
            "".join(words[_word_at(starts, ranges_of_letters[-1][1]) : a])
            if ranges_of_letters
            else "x"
        )
        if ranges_of_letters and not gap.strip():
            ranges_of_letters[-1] = (ranges_of_letters[-1][0], starts[b])
        else:
            ranges_of_letters.append((starts[a], starts[b]))
    return tuple(ranges_of_letters)


def _word_at(starts: Sequence[int], letter: int) -> int:
    return starts.index(letter)


@dataclass(frozen=True, slots=True)
class Between:
    """Two programs, and a title for what lies between them."""

    title: str
    before: Program
    after: Program


def between(s: OnShow) -> Between:
    """Return the programs of the view; raises BadOption for an unknown step."""
    c = s.now.compiled
    if against(s) == PINNED:
        return Between(f"A → {c.model.name}", s.pinned.compiled.program, c.program)
    number = step_of(s)
    if number < 0:
        return Between("as it was imported", c.program, c.program)
    step = c.snapshots[number]
    return Between(step.name, step.before, step.after)


def against(s: OnShow) -> str:
    """Return what the program on show is compared with; raises BadOption for an unknown choice."""
    choice = s.view.against or BEFORE
    if choice not in AGAINST:
        raise BadOption(
            f"there is nothing named {choice[:40]!r} to compare with", expected=", ".join(AGAINST)
        )
    return choice


def step_of(s: OnShow) -> int:
    """Return the step of the view, else the largest one, from graph operators to kernels.

    -1 if there is no step.
    """
    c, number = s.now.compiled, s.view.step
    if number >= len(c.snapshots):
        raise BadOption(
            f"there is no step {number + 1}: the compilation has {len(c.snapshots)} steps"
        )
    if number >= 0:
        return number
    steps = [n for n, x in enumerate(c.snapshots) if x.stage == Stage.LEGALIZED]
    return steps[0] if steps else len(c.snapshots) - 1


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    c = s.now.compiled
    texts = [
        f"{n + 1} {x.name}{'' if did(x) else ' (did nothing)'}" for n, x in enumerate(c.snapshots)
    ]
    chosen = against(s)
    step = ["step", "step", list(range(len(texts))), step_of(s), texts]
    versus = ["against", "compared with", list(AGAINST), AGAINST.index(chosen)]
    more = [versus] if chosen == PINNED or not texts else [step, versus]
    return {"devices": [], "device": "", "tiles": [], "rank": -1, "note": "", "more": more}


def _steps_alone(s: OnShow, op: str) -> Mapping[str, Any]:
    form = _controls(s, op)
    return {**form, "more": [control for control in form["more"] if control[0] == "step"]}


STEPS = Family("steps", _controls)
EACH_STEP = Family("steps", _steps_alone)  # where nothing is compared


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
