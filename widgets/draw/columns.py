"""Rows of text in columns, laid out for the page's pixels.

Computes the width of each column and the number of rows of each part that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from widgets.draw.slide import BOLD, PX
from widgets.draw.svg import fit, label, text_width

ROW, GAP = 22.0, 16.0  # from one line to the next, and between columns


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
