"""How a data tile is spread over banks or cache sets: the number of each place in its cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from widgets.draw.svg import label, path, rect, wrapped
from widgets.roller.tile_panels import Storage

CELL, ROW = 20.0, 15.0
ROWS, COLUMNS, PADS = 8, 5, 2
ROOM = 292.0


def storage(s: Storage, x: float, y: float) -> tuple[list[str], float]:
    """The marks of one stored tile and their height: without padding, and with it where it has
    some.
    """
    marks, at = [], y + 12
    for line in wrapped(words(s), ROOM):
        marks.append(label(x, at, line, "bad" if s.conflict else "i"))
        at += 15
    if s.read_rows < 2:
        return marks, at - y
    marks += _grid(s, 0, x, at + 12)
    if s.padding:
        marks += _grid(s, s.padding, x + 152, at + 12)
    rows = min(s.read_rows, ROWS)
    return marks, at + 12 + rows * ROW + (16 if s.read_rows > rows else 4) - y


def words(s: Storage) -> str:
    """What one read asks of one bank or set."""
    places = f"{s.places} {s.kind}s"
    if s.read_rows == 1:
        return f"{s.tensor} is read a row at a time from {places}: no conflict"
    read = (
        f"{s.read_rows} by {s.read_columns} elements of {s.tensor} are read at once from {places}"
    )
    was = f"; {s.unpadded} of one {s.kind} without Roller's padding" if s.padding else ""
    if s.degree == 1:
        return f"{read}: no conflict{was}"
    if s.kind == "bank":
        return f"{read}: {s.degree} words of one bank, one after another{was}"
    fits = "they stay" if s.degree <= s.ways else "they push each other out"
    return f"{read}: {s.degree} lines of one set with {s.ways} ways, {fits}{was}"


def _grid(s: Storage, padding: int, x: float, y: float) -> Iterator[str]:
    """The first rows and columns with the place of each; marked: those that meet in one read."""
    rows = min(s.read_rows, ROWS)
    step = s.together
    whole = max(1, -(-s.columns // step))
    columns = min(whole, COLUMNS)
    read = min(max(1, -(-s.read_columns // step)), columns)
    places = {(r, c): s.place(r, c * step, padding) for r in range(rows) for c in range(columns)}
    meets = _meeting(s, padding)
    bare = "no padding" if s.padding else "as it lies"
    head = f"{padding} of Roller's padding" if padding else bare
    yield label(x, y - 6, f"its {s.kind}s, {head}", "q")
    for (r, c), place in places.items():
        clash = c < read and meets[place] > s.ways
        ground = "var(--ink)" if clash else INK[c < read]
        said = f"row {r}, column {c * step}: {s.kind} {place}"
        at = (x + c * CELL, y + r * ROW)
        yield rect(*at, CELL, ROW, ground, 'stroke="var(--line2)"', title=said)
        style = "inv w" if clash else "i" if c < read else "q"
        yield label(at[0] + CELL / 2, at[1] + 11.5, str(place), style, anchor="middle")
    right = x + columns * CELL
    if whole > columns:
        yield label(right + 3, y + 11.5, "…", "q")
        right += 17
    if padding:
        wide = min(padding, PADS) * CELL * 0.7
        said = f"{padding} elements of padding a row"
        edge = 'stroke="var(--edge)"'
        yield rect(right, y, wide, rows * ROW, "url(#p-pad)", edge, title=said)
    box = f"M{x - 1:g} {y - 1:g}h{read * CELL + 2:g}v{rows * ROW + 2:g}h{-read * CELL - 2:g}z"
    yield path(box, "var(--ink)", 'stroke-width="1.6"')
    if s.read_rows > rows:
        yield label(x, y + rows * ROW + 12, f"and {s.read_rows - rows} more rows", "q")


INK = {True: "var(--pane)", False: "var(--app)"}


def _meeting(s: Storage, padding: int) -> Counter[int]:
    """How many different words or lines of each place one read needs."""
    found = {
        (r * (s.columns + padding) + c) // s.together
        for r in range(s.read_rows)
        for c in range(s.read_columns)
    }
    return Counter(w % s.places for w in found)
