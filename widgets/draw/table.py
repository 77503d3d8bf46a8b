"""Tables of a picture's rows, as text, HTML and a drawing, and the sentences under its title.

A sentence's numbers highlight marks of the picture. The drawing replaces a chart where no script
runs, as in a saved notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from widgets.draw.svg import Svg, fit, label, path, text_width, wrap_text


@dataclass(frozen=True, slots=True)
class Mark:
    """A number or a name in a sentence that highlights marks of the picture.

    Pointing at it highlights the marks that have all words of `lights` in their `data-k`.
    Alternatives are separated by bars: "busy|idle tail".
    """

    text: str
    lights: str


Sentence: TypeAlias = tuple[str | Mark, ...]


def lit_by(body: str, keys: str, extra: str = "") -> str:
    """Return marks of a drawing as a group that a sentence highlights by `keys`.

    `keys` are words separated by spaces.
    """
    return f'<g data-k="{escape(keys, quote=True)}"{" " + extra if extra else ""}>{body}</g>'


def sentence_text(sentence: Sentence) -> str:
    """Return a sentence as plain text."""
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def see_part(sentences: Sequence[Sentence]) -> list[list[list[str]]]:
    """Return sentences as JSON: each a list of [text, lights], with lights "" for plain words."""
    return [
        [[part, ""] if isinstance(part, str) else [part.text, part.lights] for part in sentence]
        for sentence in sentences
    ]


def caption_sentences(caption: str) -> tuple[Sentence, ...]:
    """Return at most three clauses of a picture's caption as sentences.

    Used for a picture without sentences of its own.
    """
    clauses = [clause.strip() for clause in caption.split("; ") if clause.strip()]
    return tuple(
        (f"{clause_text[0].upper()}{clause_text[1:].removesuffix('.')}.",)
        for clause_text in clauses[:3]
    )


Cell: TypeAlias = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns.

    `ops` holds the source operators of each row. `see` holds the sentences under the picture's
    title: at most three, each with its key number.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    ops: tuple[tuple[str, ...], ...] = ()
    caption: str = ""
    see: tuple[Sentence, ...] = ()

    def text(self, limit: int = 40) -> str:
        """Return the table as plain text; rows past the limit are counted, not shown."""
        head = [self.columns] if self.columns else []
        shown = [*head, *(tuple(map(cell_text, row)) for row in self.rows[:limit])]
        widths = [max(len(row[i]) for row in shown) for i in range(len(self.columns))]
        numeric = [_is_numeric(self.rows, i) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.rjust(w) if right else cell.ljust(w)
                for cell, w, right in zip(row, widths, numeric)
            ).rstrip()
            for row in shown
        ]
        more = [f"… and {len(self.rows) - limit} more"] if len(self.rows) > limit else []
        return "\n".join([*([self.caption] if self.caption else []), *lines, *more])

    def html(self, limit: int = 200) -> str:
        """Return the table as HTML without styles of its own."""
        numeric = [_is_numeric(self.rows, i) for i in range(len(self.columns))]
        classes = [' class="r"' if right else "" for right in numeric]
        head = "".join(f"<th{k}>{escape(c)}</th>" for c, k in zip(self.columns, classes))
        body = "".join(
            "<tr>"
            + "".join(f"<td{k}>{escape(cell_text(c))}</td>" for c, k in zip(row, classes))
            + "</tr>"
            for row in self.rows[:limit]
        )
        hidden_rows = len(self.rows) - limit
        more = (
            f'<tr><td colspan="{len(self.columns)}">… and {hidden_rows} more</td></tr>'
            if hidden_rows > 0
            else ""
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f'<table class="tbl">{caption}<tr>{head}</tr>{body}{more}</table>'


def cell_text(cell: Cell) -> str:
    """Return a cell as it is shown: numbers with four significant digits."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _is_numeric(rows: Sequence[tuple[Cell, ...]], column: int) -> bool:
    return bool(rows) and all(isinstance(r[column], int | float) or not r[column] for r in rows)


def size_text(count: float) -> str:
    """Return a number of bytes in a suitable unit."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            value = count / step
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{count:.0f} B"


def time_text(us: float) -> str:
    """Return a duration, in microseconds, in a suitable unit."""
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    if us >= 1e4:
        return f"{us / 1e3:.1f} ms"
    return f"{us:,.0f} µs" if us >= 100 else f"{us:.1f} µs"


def rate_text(gb_per_s: float) -> str:
    """Return a bandwidth, in GB/s, in a suitable unit: 12 TB/s, 240 GB/s."""
    return _three(gb_per_s / 1e3, "TB/s") if gb_per_s >= 1e3 else _three(gb_per_s, "GB/s")


def speed_text(gflops: float) -> str:
    """Return a speed, in GFLOP/s, in a suitable unit: 12.5 TFLOP/s, 240 GFLOP/s."""
    return _three(gflops / 1e3, "TFLOP/s") if gflops >= 1e3 else _three(gflops, "GFLOP/s")


def _three(value: float, unit: str) -> str:
    """Return a value with three digits and without an exponent."""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


WIDTH, LEFT, ROW, GAP = 780.0, 12.0, 18.0, 14.0
ROWS, WIDEST = 24, 150.0  # the last column may take what is left
BOLD_PX = 12  # as wide as bold text of 11 pixels


def draw_table(table: Table, keys: Sequence[str] = ()) -> Svg:
    """Draw the caption, the first rows and the count of others; sentences highlight by `keys`."""
    y, marks = 20.0, []
    for line in wrap_text(table.caption, WIDTH - 2 * LEFT, BOLD_PX):
        marks.append(label(LEFT, y, line, "i w"))
        y += 16
    shown = [table.columns, *(tuple(map(cell_text, row)) for row in table.rows[:ROWS])]
    x = LEFT
    for number, column in enumerate(zip(*shown), 1):
        last = number == len(table.columns)
        wide = min(WIDTH - LEFT - x if last else WIDEST, max(map(text_width, column)))
        if x + wide > WIDTH:
            break
        for n, cell in enumerate(column):
            mark = label(x, y + 6 + n * ROW, fit(cell, wide), "i" if n else "q", title=cell)
            marks.append(lit_by(mark, keys[n - 1]) if n and keys else mark)
        x += wide + GAP
    marks.append(path(f"M{LEFT:g} {y + 11:g}H{WIDTH - LEFT:g}", "var(--line2)"))
    y += ROW * len(shown)
    if len(table.rows) > ROWS:
        marks.append(label(LEFT, y + 6, f"and {len(table.rows) - ROWS} more", "q"))
        y += ROW
    return Svg(WIDTH, y + 6, "".join(marks), table.caption)
