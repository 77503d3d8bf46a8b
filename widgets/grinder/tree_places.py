"""Positions of the uTasks of a tree: a column for each leaf, a lane for each hardware level."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from widgets.draw.svg import fit, text_width
from widgets.grinder.shown_tasks import ShownTask, leaves

PX, BOLD, LANES = 13, 1.07, 3
GUTTER, GAP = 124.0, 12.0  # width of the lanes' names; gap between columns
LEAST, MOST = 92.0, 208.0  # limits of a box's width
HIGH, TALLEST, PAD = 44.0, 56.0, 20.0  # limits of a box's height; gap to the next row
LINE_HIGH, EMPTY = 16.0, 54.0  # heights of a text line and of an empty lane


@dataclass(frozen=True, slots=True)
class NodePosition:
    """Position of a node: its box's centre x, its row in its lane, and its parent's index."""

    node: ShownTask
    x: float
    row: int
    parent: int


def fits(tree: ShownTask, wide: float, high: float) -> bool:
    """Return True if the whole tree is legible in `wide` × `high` pixels."""
    room = (wide - GUTTER - GAP) / (LEAST + GAP)
    return leaves(tree) <= room and TreeLayout(tree, wide, high).fits


class TreeLayout:
    """Layout of a tree: a column for each leaf and, in each lane, a row for each nesting depth."""

    def __init__(self, tree: ShownTask, wide: float, high: float) -> None:
        """Lay out `tree` in `wide` × `high` pixels."""
        self.wide = wide
        self.column = (wide - GUTTER - GAP) / leaves(tree)
        self.across = min(MOST, self.column - GAP)
        self.places: list[NodePosition] = []
        self._place(tree, 0, -1)
        self.rows = [
            1 + max((p.row for p in self.places if p.node.lane == lane), default=-1)
            for lane in range(LANES)
        ]
        used = [n for n in self.rows if n]
        pitch = (high - EMPTY * (LANES - len(used)) - 4 * LANES) / (sum(used) + 0.3 * len(used))
        lines = max((len(self.lines(p.node)) for p in self.places), default=2)
        least = HIGH + LINE_HIGH * max(0, lines - 2)
        self.box = min(TALLEST + LINE_HIGH * max(0, lines - 2), pitch - PAD)
        self.tops: list[tuple[float, float]] = []
        y = 0.0
        for count in self.rows:
            tall = (count + 0.3) * pitch if count else EMPTY
            self.tops.append((y, tall))
            y += tall + 4
        cut = any("…" in text for p in self.places for text, _ in self.lines(p.node))
        self.fits = self.box >= least and self.across >= (MOST if cut else LEAST)

    def _place(self, node: ShownTask, leaf: int, parent: int) -> tuple[float, int]:
        """Place a node and its parts; return its x and the next free column."""
        at = len(self.places)
        self.places.append(NodePosition(node, 0.0, self._row(node.lane, parent), parent))
        xs = []
        for part in node.parts:
            x, leaf = self._place(part, leaf, at)
            xs.append(x)
        if not xs:
            xs, leaf = [GUTTER + self.column * (leaf + 0.5)], leaf + 1
        self.places[at] = replace(self.places[at], x=(xs[0] + xs[-1]) / 2)
        return self.places[at].x, leaf

    def _row(self, lane: int, parent: int) -> int:
        """Return how many ancestors of a node are in its lane."""
        row = 0
        while parent >= 0:
            row += self.places[parent].node.lane == lane
            parent = self.places[parent].parent
        return row

    def y(self, place: NodePosition) -> float:
        """Return the y of the centre of a box."""
        top, tall = self.tops[place.node.lane]
        return top + 4 + tall * (place.row + 0.5) / self.rows[place.node.lane]

    def lines(self, node: ShownTask) -> list[tuple[str, bool]]:
        """Return the lines of a node's label, each with True if it belongs to the name.

        The name comes first, then the note under it; each is wrapped where it is too wide.
        """
        room = self.across - (28 if node.kind == "branch" else 10)
        names, under = _wrapped(node.name, room / BOLD, 3), _wrapped(node.under, room, 2)
        return [*((x, True) for x in names), *((x, False) for x in under)]


def _wrapped(text: str, room: float, most: int) -> list[str]:
    """Break a text into at most `most` lines, after words and separators.

    A text that needs more lines is shortened to one.
    """
    lines = [""]
    for piece in re.findall(r"[^\s_./:]*[\s_./:]*", text):
        longer = lines[-1] + piece
        if lines[-1] and text_width(longer.strip(), PX) > room:
            lines.append(piece)
        else:
            lines[-1] = longer
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) > most or any(text_width(line, PX) > room for line in lines):
        return [fit(text, room, PX)]
    return lines
