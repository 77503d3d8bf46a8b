"""Layout of a fused pipeline: operators in columns, memory levels as lanes below them.

Operators that do not fit are folded into one column with a count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.cached_property import cached_property
from widgets.draw.slide import NARROW, fold_columns, name_lines
from widgets.welder.pipeline import PipelineRows, Value

WIDEST, LEAST, LEAST_NARROW = 232.0, 84.0, 60.0  # pixels of a column
LOW, TALL = 34.0, 100.0  # minimum height of a lane, and of one with two rows
LEGEND, THIN, RIGHT = 30.0, 30.0, 44.0  # RIGHT holds the result's name
ENTRY, FAR, INPUT, OUT = 0.24, 0.42, 0.54, 0.76  # x of lines as shares of an operator's column


@dataclass(frozen=True, slots=True)
class Column:
    """The operators of a column: one, or several that are folded."""

    operators: tuple[int, ...]
    x: float
    width: float

    @property
    def folded(self) -> bool:
        """True if it stands for several operators."""
        return len(self.operators) > 1

    def at(self, share: float) -> float:
        """Return the x at a share of its width."""
        return self.x + self.width * share


@dataclass(frozen=True, slots=True)
class Lane:
    """One memory level; `thin` if no value of the group is handed over in it."""

    level: str
    y: float
    high: float
    thin: bool
    tall: bool = False

    @property
    def row(self) -> float:
        """The middle of the boxes of values."""
        return self.y + self.high * (0.27 if self.tall else 0.5) - 2

    @property
    def outer(self) -> float:
        """The middle of the boxes of inputs."""
        return self.y + self.high * 0.74 - 2


@dataclass(frozen=True)
class Layout:
    """Positions in a drawing of `width` by `height` pixels, around the selected operator `on`.

    `even`: values can be moved to every level, so all lanes have the same height, and kernels have
    no boxes.
    """

    rows: PipelineRows
    width: int
    height: int
    on: int = 0
    even: bool = False

    @property
    def narrow(self) -> bool:
        """True if there is room for short text only."""
        return self.width < NARROW

    @property
    def gutter(self) -> float:
        """The width of the lanes' names."""
        return 64.0 if self.narrow else 144.0

    @property
    def top(self) -> float:
        """The top of the operators, below the names of the kernels."""
        return 4.0 if self.even else 32.0

    @property
    def high(self) -> float:
        """The height of an operator."""
        return 50.0 if self.narrow else 56.0

    @property
    def foot(self) -> float:
        """The bottom of the operators."""
        return self.top + self.high

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return as many operators as their names leave room for, the others folded."""
        count, room = len(self.rows.operators), self.width - self.gutter - RIGHT
        room += 32 * self.narrow
        least = LEAST_NARROW if self.narrow else LEAST
        most = max(1, min(count, int(room / least)))
        for shown in range(most, 0, -1):
            parts = fold_columns(count, shown, self.on)
            wide = min(WIDEST, room / len(parts))
            if shown <= 3 or all(self._fits(p, wide - (18 if self.narrow else 28)) for p in parts):
                break
        left = self.gutter + (room - wide * len(parts)) / 2
        return tuple(Column(p, left + i * wide, wide) for i, p in enumerate(parts))

    def _fits(self, part: Sequence[int], room: float) -> bool:
        label = self.rows.operators[part[0]].label if len(part) == 1 else "operators"
        return name_lines(label, room, anywhere=self.narrow) is not None

    @cached_property
    def column_of(self) -> dict[int, int]:
        """Return the column of each operator."""
        return {o: n for n, c in enumerate(self.columns) for o in c.operators}

    @cached_property
    def lanes(self) -> dict[str, Lane]:
        """Return the memory levels from the top down."""
        levels, last = self.rows.levels, self.rows.levels[-1]
        used = {*self.rows.cuts, *(v.level for v in self.rows.values), last, levels[0]}
        used |= set(levels) if self.even else set()
        y = self.foot + 12
        room = self.height - y - LEGEND
        count, unused = sum(n in used for n in levels), sum(n not in used for n in levels)
        if room - THIN * unused < LOW * count:  # no room for unused levels
            levels, unused = tuple(n for n in levels if n in used), 0
        room -= THIN * unused
        tall = not self.narrow and not self.even and 1.7 * room / (count + 0.7) >= TALL
        unit = room / (count + 0.7 * tall)
        lanes_by_level = {}
        for level in levels:
            high = THIN if level not in used else unit * (1.7 if tall and level == last else 1)
            lanes_by_level[level] = Lane(level, y, high, level not in used, tall and level == last)
            y += high
        return lanes_by_level

    @cached_property
    def far(self) -> dict[tuple[int, int], int]:
        """Return the track of each line that skips a column, by source and target column.

        Tracks are numbered within a lane.
        """
        pairs: dict[str, list[tuple[int, int]]] = {}
        for v in self.rows.values:
            for source, target in self.column_pairs(v):
                if target > source + 1:
                    pairs.setdefault(v.level, []).append((source, target))
        return {p: n for mine in pairs.values() for n, p in enumerate(dict.fromkeys(mine))}

    def column_pairs(self, v: Value) -> Iterator[tuple[int, int]]:
        """Yield the source and target columns of a value."""
        source = self.column_of[v.source]
        for target in dict.fromkeys(self.column_of[r] for r in v.readers):
            if target > source:
                yield source, target
