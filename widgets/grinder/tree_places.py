"""Where the uTasks of a tree are drawn: a column for each leaf, a lane for each level."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from widgets.draw.svg import fit, text_width
from widgets.grinder.shown_tasks import Shown, leaves

PX, BOLD, LANES = 13, 1.07, 3
GUTTER, GAP = 124.0, 12.0  # the names of lanes; between columns
LEAST, MOST = 92.0, 208.0  # of the width of a box
HIGH, TALLEST, PAD = 44.0, 56.0, 20.0  # of a box; between its row and the next
LINE_HIGH, EMPTY = 16.0, 54.0  # of a line of words; a lane without uTasks


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is: the middle of its box, its row in its lane, and what it is part of."""

    node: Shown
    x: float
    row: int
    parent: int


def fits(tree: Shown, wide: float, high: float) -> bool:
    """Return True if all of a tree can be read in so many pixels."""
    room = (wide - GUTTER - GAP) / (LEAST + GAP)
    return leaves(tree) <= room and Places(tree, wide, high).fits


class Places:
    """Where everything is: a column for each leaf, in a lane a row for each part of a part."""

    def __init__(self, tree: Shown, wide: float, high: float) -> None:
        self.wide = wide
        self.column = (wide - GUTTER - GAP) / leaves(tree)
        self.across = min(MOST, self.column - GAP)
        self.places: list[Place] = []
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

    def _place(self, node: Shown, leaf: int, parent: int) -> tuple[float, int]:
        """Place a node and its parts; where it is, and the next free column."""
        at = len(self.places)
        self.places.append(Place(node, 0.0, self._row(node.lane, parent), parent))
        xs = []
        for part in node.parts:
            x, leaf = self._place(part, leaf, at)
            xs.append(x)
        if not xs:
            xs, leaf = [GUTTER + self.column * (leaf + 0.5)], leaf + 1
        self.places[at] = replace(self.places[at], x=(xs[0] + xs[-1]) / 2)
        return self.places[at].x, leaf

    def _row(self, lane: int, parent: int) -> int:
        """How many of those that a node is part of are in its lane."""
        row = 0
        while parent >= 0:
            row += self.places[parent].node.lane == lane
            parent = self.places[parent].parent
        return row

    def y(self, place: Place) -> float:
        """The middle of a box."""
        top, tall = self.tops[place.node.lane]
        return top + 4 + tall * (place.row + 0.5) / self.rows[place.node.lane]

    def lines(self, node: Shown) -> list[tuple[str, bool]]:
        """The name of a node, then what stands under it, each in two lines where one has no room;
        with each line whether it is of the name.
        """
        room = self.across - (28 if node.kind == "branch" else 10)
        names, under = _wrapped(node.name, room / BOLD, 3), _wrapped(node.under, room, 2)
        return [*((x, True) for x in names), *((x, False) for x in under)]


def _wrapped(text: str, room: float, most: int) -> list[str]:
    """A text in at most so many lines, cut after words and their marks; shortened where these are
    not enough.
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
