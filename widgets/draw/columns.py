"""Rows of words in columns, for drawings that are made for the page's pixels: how wide each column
is, and how many rows of each part have room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from widgets.draw.slide import BOLD, PX
from widgets.draw.svg import fit, label, text_width

ROW, GAP = 22.0, 16.0  # from one line to the next, and between columns


@dataclass(frozen=True, slots=True)
class Text:
    """Words in a column, in the styles of `label`; `title` is what a hover says, `end`: they stand
    at its right end.
    """

    text: str
    style: str = ""
    end: bool = False
    symbols: tuple[str, ...] = ()
    title: str = ""

    @property
    def mono(self) -> bool:
        """Whether it is code."""
        return "mono" in self.style.split()

    @property
    def wide(self) -> float:
        """How wide it is where it is not cut."""
        bold = {"w", "a", "bad"} & {*self.style.split()}
        return text_width(self.text, PX, mono=self.mono) * (BOLD if bold else 1)

    def fitted(self, room: float) -> str:
        """The words, with an ellipsis where the room is too small for them."""
        if self.wide <= room:
            return self.text
        return fit(self.text, room / BOLD, PX, mono=self.mono)


def capped(sizes: Sequence[float], room: float) -> list[float]:
    """Return sizes that fit into the room together: the largest are cut to the same size."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    found, left = [0.0] * len(sizes), max(0.0, room)
    for done, n in enumerate(order):
        found[n] = min(sizes[n], left / (len(sizes) - done))
        left -= found[n]
    return found


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many rows each part has, of as many as there are: all that it wants, or as many as
    the others.
    """
    found, order = [0] * len(wanted), sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, n in enumerate(order):
        found[n] = min(wanted[n], max(0, room) // (len(wanted) - done))
        room -= found[n]
    return found


def columns(rows: Iterable[Sequence[Text]], room: float, gap: float = GAP) -> list[float]:
    """Return how wide each column is, so that all of them fit."""
    wanted = [max(cell.wide for cell in column) for column in zip(*rows)]
    return capped(wanted, room - gap * (len(wanted) - 1))


def line(
    cells: Sequence[Text],
    wide: Sequence[float],
    x: float,
    y: float,
    ops: Sequence[str] = (),
    right: float = 0.0,
) -> Iterator[str]:
    """Yield the words of a row in its columns, the first in the colour of the selection where it
    stands for it; the last one that stands at an end is at `right`.
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
