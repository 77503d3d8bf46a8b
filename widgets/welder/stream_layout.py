"""Where everything of the streaming picture lies: operators in columns, columns in bands of one
width below each other, memory levels as lanes of a band, and a track of its own for each reuse tile
that goes past others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.cached_property import cached_property
from widgets.welder.tile_stream import Reuse, Slot, StreamRows, VirtualNode

LEFT, X0, X1 = 12.0, 88.0, 768.0  # names of lanes, then the columns
SLOT, ENTRY, BETWEEN = 94.0, 13.0, 10.0
HEAD, RECT, TRACK, THIN, ROOM, NODE = 38.0, 30.0, 6.0, 15.0, 17.0, 3.0
MOST_SLOTS = 6  # of one column; more go on in the next


@dataclass(frozen=True, slots=True)
class Column:
    """One operator, or a part of it where it has many tensors: its tensors beside each other after
    the lines that come in from operators before it.
    """

    operator: int
    entries: tuple[Reuse, ...]
    slots: tuple[Slot, ...]
    first: bool
    last: bool

    @property
    def width(self) -> float:
        """How wide it is."""
        return len(self.entries) * ENTRY + max(1, len(self.slots)) * SLOT

    def position(self, tensor: str) -> int:
        """Where a tensor stands; the last place where it does not."""
        last = max(0, len(self.slots) - 1)
        return next((n for n, s in enumerate(self.slots) if s.tensor == tensor), last)


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its left edge."""

    column: Column
    x: float

    def entry(self, reuse: Reuse) -> float:
        """Where a reuse tile goes up into the operator."""
        return self.x + (self.column.entries.index(reuse) + 0.5) * ENTRY

    def slot(self, n: int) -> float:
        """The middle of a tensor's room."""
        return self.x + len(self.column.entries) * ENTRY + (n + 0.5) * SLOT

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.column.width


@dataclass(frozen=True, slots=True)
class Lane:
    """One memory level in one band: `thin` where it holds nothing there."""

    level: str
    y: float
    high: float
    thin: bool
    tracks: int


@dataclass(frozen=True)
class Band:
    """Columns beside each other with the lanes below them."""

    number: int
    y: float
    columns: tuple[Placed, ...]
    lanes: tuple[Lane, ...]
    tracks: dict[Reuse, int]

    @cached_property
    def by_level(self) -> dict[str, Lane]:
        """The lanes by name."""
        return {lane.level: lane for lane in self.lanes}

    @property
    def end(self) -> float:
        """Where it ends, downwards."""
        return self.lanes[-1].y + self.lanes[-1].high if self.lanes else self.y + HEAD

    def column(self, operator: int, *, last: bool) -> Placed | None:
        """The first, or the last, column of an operator that is in this band."""
        mine = [p for p in self.columns if p.column.operator == operator]
        return next((p for p in mine if (p.column.last if last else p.column.first)), None)

    def beside(self, source: Placed, target: Placed) -> bool:
        """Whether nothing stands between two columns."""
        return self.columns.index(target) == self.columns.index(source) + 1


def columns_of(rows: StreamRows) -> Iterator[Column]:
    """Every operator's columns, in order."""
    for n, _ in enumerate(rows.operators):
        slots = [s for s in rows.slots if s.operator == n]
        entries = tuple(dict.fromkeys(r for r in rows.reuse if r.target == n))
        pieces = [slots[i : i + MOST_SLOTS] for i in range(0, len(slots), MOST_SLOTS)] or [[]]
        for i, piece in enumerate(pieces):
            coming = entries if i == 0 else ()
            yield Column(n, coming, tuple(piece), i == 0, i == len(pieces) - 1)


def bands_of(rows: StreamRows, top: float) -> tuple[Band, ...]:
    """All bands, from the top down."""
    found: list[Band] = []
    placed = [_spread(line) for line in _wrapped(list(columns_of(rows)))]
    where = {}
    for number, line in enumerate(placed):
        for p in line:
            if p.column.first:
                where[p.column.operator, False] = number
            if p.column.last:
                where[p.column.operator, True] = number
    for number, line in enumerate(placed):
        through = [
            r for r in rows.reuse if where[r.source, True] <= number <= where[r.target, False]
        ]
        tracks = _tracks(through, line)
        lanes = tuple(_lanes(rows, line, through, tracks, top + HEAD))
        band = Band(number, top, tuple(line), lanes, tracks)
        found.append(band)
        top = band.end + 16
    return tuple(found)


def _wrapped(columns: Sequence[Column]) -> list[list[Column]]:
    """As few bands as there is room for, about equally wide, each of one column at least."""
    best = _filled(columns, X1 - X0)
    low, high = 0.0, X1 - X0
    while high - low > SLOT / 8:
        room = (low + high) / 2
        found = _filled(columns, room)
        if len(found) > len(best):
            low = room
        else:
            best, high = found, room
    return best


def _filled(columns: Sequence[Column], room: float) -> list[list[Column]]:
    lines: list[list[Column]] = []
    x = room
    for c in columns:
        if x + c.width > room:
            lines.append([])
            x = 0.0
        lines[-1].append(c)
        x += c.width + BETWEEN
    return lines


def _spread(line: Sequence[Column]) -> list[Placed]:
    found, x = [], X0
    for c in line:
        found.append(Placed(c, x))
        x += c.width + BETWEEN
    return found


def _tracks(through: Sequence[Reuse], line: Sequence[Placed]) -> dict[Reuse, int]:
    """A track for each reuse tile within its level: two never share a stretch of one."""
    left = {p.column.operator: p.x for p in line if p.column.first}
    right = {p.column.operator: p.right for p in line if p.column.last}
    busy: dict[str, list[float]] = {}
    found: dict[Reuse, int] = {}
    for r in sorted(through, key=lambda r: right.get(r.source, X0)):
        start, end = right.get(r.source, X0), left.get(r.target, X1)
        lanes = busy.setdefault(r.level, [])
        track = next((n for n, until in enumerate(lanes) if until <= start), len(lanes))
        lanes[track : track + 1] = [max(end, start) + ENTRY * 4]
        found[r] = track
    return found


def _lanes(
    rows: StreamRows,
    line: Sequence[Placed],
    through: Sequence[Reuse],
    tracks: dict[Reuse, int],
    y: float,
) -> Iterator[Lane]:
    used = {r.level for p in line for s in p.column.slots for r in s.rects}
    shown = {p.column.operator for p in line}
    for level in rows.levels:
        mine = [tracks[r] for r in through if r.level == level]
        count = max(mine, default=-1) + 1
        thin = level not in used and not count
        high = THIN if thin else ROOM + RECT + 6 + TRACK * count
        high += NODE * _depth_at(rows.nodes, level, shown)
        yield Lane(level, y, high, thin, count)
        y += high


def _depth_at(nodes: Sequence[VirtualNode], level: str, shown: set[int]) -> int:
    """How many virtual nodes that are inside each other end at a level."""
    mine = [n.depth for n in nodes if n.level == level and shown & set(n.operators)]
    return len(set(mine))
