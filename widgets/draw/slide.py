"""Marks of drawings made for the page's pixels.

Nodes with a family's strip, small boxes, pipes with arrow heads, names in at most two lines, folded
rows, and rows of text in columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from widgets.draw import theme
from widgets.draw.svg import fit, label, path, rect, text_width
from widgets.draw.table import lit_by

PX = 13
BOLD = 1.08  # ratio of widths
NARROW = 640  # pixels: below, pictures use short words
LINE = 17.0
STRIP = 10.0
ROW, GAP = 22.0, 16.0  # from one line to the next, and between columns
_TRACED = re.compile(r"\.py:(\d+) (\S+)$")
_BREAK = re.compile(r"(?<=[_./· :-])(?=[^_./· :-])")


def label_width(text: str, *, bold: bool = False) -> float:
    """Return the width of a label in pixels."""
    return text_width(text, PX) * (BOLD if bold else 1)


def cut_to(text: str, room: float, *, bold: bool = False) -> str:
    """Return the text, with an ellipsis if it is wider than `room`."""
    return fit(text, room / (BOLD if bold else 1), PX)


def break_at_separators(
    text: str, room: float, most: int = 2, *, bold: bool = False
) -> list[str] | None:
    """Break a name at its separators into lines that fit; None if that takes more than `most`."""
    lines = [""]
    for piece in _BREAK.split(text):
        if lines[-1] and label_width((lines[-1] + piece).rstrip(), bold=bold) > room:
            lines.append(piece)
        else:
            lines[-1] += piece
    lines = [line.strip() for line in lines]
    return (
        lines
        if len(lines) <= most and all(label_width(x, bold=bold) <= room for x in lines)
        else None
    )


def name_lines(text: str, room: float, *, anywhere: bool = False) -> list[str] | None:
    """Break a bold name into at most two lines; None if it does not fit.

    The name is broken at its separators, or anywhere with `anywhere`. A traced operator's name
    (`flow.py:57 matmul`) becomes its operation and its line.
    """
    lines = break_at_separators(text, room, bold=True)
    traced = _TRACED.search(text)
    if lines is None and traced:
        short = [traced[2], f"line {traced[1]}"]
        lines = short if all(label_width(x, bold=True) <= room for x in short) else None
    if lines is None and anywhere:
        parts = break_in_two(text, room)
        lines = None if any("…" in part for part in parts) else parts
    return lines


def one_line(text: str, room: float, lead: str = "") -> str:
    """Return a bold name in one line, after `lead` if both fit."""
    traced = _TRACED.search(text)
    short = [f"{traced[2]}, line {traced[1]}"] if traced else []
    spellings = (f"{lead}{text}", text, *short)
    return next(
        (x for x in spellings if label_width(x, bold=True) <= room),
        cut_to(spellings[-1], room, bold=True),
    )


def break_in_two(text: str, room: float) -> list[str]:
    """Break a name into two lines where the first is full; the second may end in an ellipsis."""
    head = next(
        n for n in range(len(text), 0, -1) if n == 1 or label_width(text[:n], bold=True) <= room
    )
    tail = text[head:]
    return [text[:head], cut_to(tail, room, bold=True)] if tail else [text]


def node(
    x: float,
    y: float,
    w: float,
    h: float,
    name: str,
    sub: str = "",
    *,
    family: str = "",
    ops: Sequence[str] = (),
    on: bool = False,
    dashed: bool = False,
    keys: str = "node",
    title: str = "",
) -> str:
    """Return an operator's box: its family's strip, its name and `sub`.

    A name that is too wide takes two lines and the place of `sub`.
    """
    ink = "accent" if on else "ink"
    edge = f'rx="4" stroke="var(--{ink})" stroke-width="{2.5 if on else 1.5}"'
    edge += ' stroke-dasharray="4 3"' if dashed else ""
    body = rect(x, y, w, h, "var(--pane)", edge, title=title or name, ops=ops)
    if family:
        pattern = f"url(#p-{theme.family_token(family)})"
        body += rect(x + 1.5, y + 1.5, w - 3, STRIP - 2, pattern, 'pointer-events="none"')
    top = y + (STRIP if family else 0)
    most = max(1, int((y + h - top) / (LINE - 1)))
    lines = (name_lines(name, w - 8) or break_in_two(name, w - 8))[:2]
    lines = lines if len(lines) <= most else [cut_to(name, w - 8, bold=True)]
    below = [sub] if sub and len(lines) == 1 < most and label_width(sub) <= w - 8 else []
    at = top + (y + h - top - LINE * (len(lines) + len(below))) / 2 + 13
    style = "a" if on else "i w"
    for n, line in enumerate((*lines, *below)):
        mine, of = (style, ops) if n < len(lines) else ("", ())
        body += label(x + w / 2, at + LINE * n, line, mine, anchor="middle", ops=of)
    return lit_by(body, keys)


def small_box(
    x: float,
    y: float,
    lines: Sequence[str],
    *,
    on: bool = False,
    title: str = "",
    edge: str = "edge",
    fill: str = "pane",
    least: float = 0.0,
    extra: str = "",
    ops: Sequence[str] = (),
) -> str:
    """Return a small box centred on a point, with its first line in bold."""
    w, h = small_box_size(lines, least)
    ink = "accent" if on else edge
    border = f'rx="4" stroke="var(--{ink})" stroke-width="{2 if on else 1}" {extra}'
    marks = rect(x - w / 2, y - h / 2, w, h, f"var(--{fill})", border, title=title, ops=ops)
    for n, line in enumerate(lines):
        style = ("a" if on else "i w") if n == 0 else "i"
        marks += label(x, y - h / 2 + 15 + LINE * n, line, style, anchor="middle", ops=ops)
    return marks


def small_box_size(lines: Sequence[str], least: float = 0.0) -> tuple[float, float]:
    """Return the width and height of a small box with these lines."""
    widths = [label_width(line, bold=n == 0) for n, line in enumerate(lines)]
    return max([least, *widths]) + 14, LINE * len(lines) + 6


def pipe(d: str, *, ink: str = "ink", width: float = 2.5, dashed: str = "") -> str:
    """Return a line along which a value flows."""
    dash = f' stroke-dasharray="{dashed}"' if dashed else ""
    return path(d, f"var(--{ink})", f'stroke-width="{width:g}" stroke-linejoin="round"{dash}')


def tip(x: float, y: float, direction: str, ink: str = "ink") -> str:
    """Return an arrow head whose point is at (x, y)."""
    wings = {"up": "l-5 8h10z", "down": "l-5 -8h10z", "right": "l-8 -5v10z", "left": "l8 -5v10z"}
    return f'<path d="M{x:.1f} {y:.1f}{wings[direction]}" fill="var(--{ink})"/>'


def tick(x: float, y: float, *, good: bool) -> str:
    """Return a check mark or a cross around a point."""
    if good:
        return path(f"M{x - 5:g} {y:g}l4 4l7 -9", "var(--ok)", 'stroke-width="2.2"')
    return path(f"M{x - 5:g} {y - 5:g}l10 10m0 -10l-10 10", "var(--bad)", 'stroke-width="2.2"')


def legend(
    items: Iterable[tuple[str, str, str]], y: float, room: float, x: float = 0.0
) -> Iterator[str]:
    """Yield the entries of a one-line legend, as many as fit: (keys, kind, words).

    Kinds: "pipe", "grey", "dash", "box", "dashbox", or a family.
    """
    for keys, kind, words in items:
        w = 30 + label_width(words)
        if x + w > room:
            return
        yield lit_by(_swatch(kind, x, y) + label(x + 30, y, words), keys)
        x += w + 22


def _swatch(kind: str, x: float, y: float) -> str:
    if kind in ("box", "dashbox"):
        dash = ' stroke-dasharray="4 3"' if kind == "dashbox" else ""
        edge = f'rx="4" stroke="var(--ink)" stroke-width="1.5"{dash}'
        return rect(x + 1, y - 11, 22, 13, "none", edge)
    lines = {"pipe": ("ink", ""), "grey": ("edge", ""), "dash": ("ink3", "2 5")}
    if kind in lines:
        ink, dash = lines[kind]
        return pipe(f"M{x:g} {y - 5:g}h24", ink=ink, dashed=dash)
    pattern = f"url(#p-{theme.family_token(kind)})"
    return rect(x + 1, y - 11, 22, 13, pattern, 'stroke="var(--edge)"')


def choice(
    body: str, number: int, aria_label: str, *, on: bool, of: str = "", value: str = ""
) -> str:
    """Return marks that a reader selects by pointer or key.

    They stand for a tile by its `number`, or for a value of the control `of`. Arrow keys move
    between choices; the tab key reaches the one that is `on`.
    """
    attributes = [("data-rank", str(number)), ("role", "button"), ("aria-label", aria_label)]
    attributes += [("tabindex", "0" if on else "-1")]
    attributes += [("data-more", of), ("data-value", value)] if of else []
    return handle_group(body, attributes)


def step_only(body: str, *, shown: bool) -> str:
    """Return marks of one step, which are visible while the page is at it; `shown` if at first."""
    hidden = "" if shown else ' visibility="hidden"'
    return f'<g class="only"{hidden}>{body}</g>'


def scrub_mark(noun: str, first: int) -> str:
    """Return the mark of a drawing whose steps a page shows one at a time."""
    return f'<g data-scrub="{noun}" data-first="{first}"></g>'


def list_row(
    x: float,
    y: float,
    size: tuple[float, float],
    name: str,
    end: str = "",
    *,
    on: bool = False,
    style: str = "",
    title: str = "",
) -> str:
    """Return a row of a list of steps: its name, and `end` at its right end."""
    w, h = size
    fill = "var(--soft)" if on else "var(--pane)"
    body = rect(x, y, w, h - 2, fill, 'class="ground"', title=title or name)
    room = w - label_width(end) * BOLD - 24
    bold = "w" in style.split()
    middle = y + h / 2 + 3.5
    body += label(x + 8, middle, cut_to(name, room, bold=bold), style, title=title or name)
    return body + (label(x + w - 8, middle, end, style, anchor="end") if end else "")


def handle_group(body: str, attributes: Collection[tuple[str, str]]) -> str:
    """Return marks as one group with attributes."""
    attribute_text = " ".join(f'{name}="{escape(value, quote=True)}"' for name, value in attributes)
    return f"<g {attribute_text}>{body}</g>"


def fold_columns(
    count: int, shown: int, on: int = 0, weights: Sequence[float] = ()
) -> tuple[tuple[int, ...], ...]:
    """Group `count` operators into about `shown` columns.

    The first, the last and those near the selected operator `on`, or those of the greatest
    `weights`, get a column of their own. Each run between them shares a column.
    """
    if shown >= count:
        return tuple((n,) for n in range(count))
    ends = (0, count - 1)

    def rank(n: int) -> tuple[bool, bool, float]:
        near = min(abs(n - on), *(abs(n - e) for e in ends))
        return n != on, n not in ends, -weights[n] if weights else near

    order = sorted(range(count), key=rank)
    for keep in range(min(shown, count), 0, -1):
        parts = _runs(count, set(order[:keep]))
        if len(parts) <= shown or keep == 1:
            return parts
    return ((0,),)


def _runs(count: int, alone: set[int]) -> tuple[tuple[int, ...], ...]:
    runs: list[list[int]] = []
    for n in range(count):
        if n not in alone and runs and runs[-1][-1] not in alone:
            runs[-1].append(n)
        else:
            runs.append([n])
    return tuple(map(tuple, runs))


@dataclass(frozen=True, slots=True)
class Text:
    """One cell of a column, in the styles of `label`.

    `title` is the text shown on hover. With `end`, the cell is right-aligned.
    """

    text: str
    style: str = ""
    end: bool = False
    symbols: tuple[str, ...] = ()
    title: str = ""

    @property
    def mono(self) -> bool:
        """True if the text is code."""
        return "mono" in self.style.split()

    @property
    def width(self) -> float:
        """The width of the uncut text in pixels."""
        bold = {"w", "a", "bad"} & {*self.style.split()}
        return text_width(self.text, PX, mono=self.mono) * (BOLD if bold else 1)

    def fitted(self, room: float) -> str:
        """Return the text, with an ellipsis if it is wider than `room`."""
        if self.width <= room:
            return self.text
        return fit(self.text, room / BOLD, PX, mono=self.mono)


def cap_sizes(sizes: Sequence[float], room: float) -> list[float]:
    """Return sizes that sum to at most `room`: the largest are cut to the same size."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    capped_sizes, left = [0.0] * len(sizes), max(0.0, room)
    for done, n in enumerate(order):
        capped_sizes[n] = min(sizes[n], left / (len(sizes) - done))
        left -= capped_sizes[n]
    return capped_sizes


def share_rows(wanted: Sequence[int], room: int) -> list[int]:
    """Return the number of rows that each part gets out of `room`.

    A part gets all rows that it wants, or as many as the others.
    """
    row_counts, order = [0] * len(wanted), sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, n in enumerate(order):
        row_counts[n] = min(wanted[n], max(0, room) // (len(wanted) - done))
        room -= row_counts[n]
    return row_counts


def column_widths(rows: Iterable[Sequence[Text]], room: float, gap: float = GAP) -> list[float]:
    """Return the width of each column so that all of them fit."""
    wanted = [max(cell.width for cell in column) for column in zip(*rows)]
    return cap_sizes(wanted, room - gap * (len(wanted) - 1))


def line(
    cells: Sequence[Text],
    wide: Sequence[float],
    x: float,
    y: float,
    ops: Sequence[str] = (),
    right: float = 0.0,
) -> Iterator[str]:
    """Yield the labels of a row in its columns.

    The first cell takes the colour of the selection if it stands for it. A right-aligned last cell
    ends at `right`.
    """
    for n, (cell, room) in enumerate(zip(cells, wide)):
        at = x + room if cell.end else x
        at = right if right and cell.end and n == len(cells) - 1 else at
        if cell.text:
            yield label(
                at,
                y,
                cell.fitted(room),
                cell.style,
                anchor="end" if cell.end else "",
                ops=() if n else ops,
                symbols=cell.symbols,
                title=cell.title or cell.text,
            )
        x += room + GAP
