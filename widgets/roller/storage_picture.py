"""The shared-memory banks or cache sets that one read hits, without and with padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.svg import fit, label, path, rect, text_width, wrap_text
from widgets.draw.table import count_text
from widgets.roller.bank_map import BankAccess, BankRows
from widgets.roller.data_tiles import LevelPanel, Storage

PX, MOST_ROWS, COLUMNS, MOST_CELL = 13, 6, 8, 36.0
BANKS = 32  # banks of every GPU
MOST_WORDS = 8  # drawn words per bank


def worst_storage(panels: Sequence[LevelPanel]) -> Storage | None:
    """Return the stored tile with the worst conflict, of those read in several rows at once."""
    stored = [s for p in panels for s in p.stored if s.read_rows > 1]
    return max(
        stored, key=lambda s: (s.degree > s.associativity, s.unpadded, s.read_rows), default=None
    )


def worst_access(rows: BankRows | None) -> BankAccess | None:
    """Return the access to shared memory that waits the longest for its words."""
    asks = rows.accesses if rows is not None else ()
    return max(
        asks,
        key=lambda a: (a.cycles / max(1, a.least), not a.store, _banks_accessed(a)),
        default=None,
    )


def _banks_accessed(a: BankAccess) -> int:
    """Return the number of banks that its first threads access."""
    return len(a.parts[0][1]) if a.parts else 0


def banks_width(storage: Storage | None, access: BankAccess | None, wide: float) -> float:
    """Return the width that the banks need, in pixels."""
    if access is not None or (storage is not None and storage.padding):
        return wide * 0.5
    return max(wide * 0.3, min(280.0, wide * 0.5))


def words(s: Storage) -> str:
    """Describe how one read hits one bank or set."""
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
    fits = "they stay" if s.degree <= s.associativity else "they push each other out"
    return f"{read}: {s.degree} lines of one set with {s.associativity} ways, {fits}{was}"


def sentence(storage: Storage | None, access: BankAccess | None) -> Sentence | None:
    """Return the sentence about the banks with its numbers, None if there are none."""
    if access is not None:
        does = "A write to" if access.store else "A read of"
        if access.conflict:
            number_text = f"{access.cycles} cycles instead of {access.least}"
            return f"{does} {access.array} takes ", Mark(number_text, "bank"), ": a bank conflict."
        return f"{does} {access.array} takes ", Mark(_cycles(access), "bank"), ": no conflict."
    if storage is None:
        return None
    reads, places, most = count_conflicts(storage, storage.padding)
    number_text = f"{count_text(reads, 'read')} hit {count_text(places, storage.kind)}"
    return Mark(number_text, "bank"), f": {_verdict(storage, most)}."


def _cycles(a: BankAccess) -> str:
    return f"{a.cycles} cycle{'s' * (a.cycles > 1)}"


def _verdict(s: Storage, most: int) -> str:
    """Describe the effect of `most` reads of one place."""
    if most <= 1:
        return "no conflict"
    if s.kind == "bank":
        return "a conflict"
    return f"{'they fit' if most <= s.associativity else 'more than'} its {s.associativity} ways"


def count_conflicts(s: Storage, padding: int) -> tuple[int, int, int]:
    """Return the words or lines that one read needs, their banks or sets, and the most in one."""
    counts = _places(s, padding)
    return sum(counts.values()), len(counts), max(counts.values(), default=0)


def _places(s: Storage, padding: int) -> Counter[int]:
    """Return how many different words or lines of each bank or set one read needs."""
    addresses = {
        (r * (s.columns + padding) + c) // s.together
        for r in range(s.read_rows)
        for c in range(s.read_columns)
    }
    return Counter(w % s.places for w in addresses)


def banks(
    storage: Storage | None,
    access: BankAccess | None,
    none: str,
    y: float,
    wide: float,
    high: float,
) -> list[str]:
    """Draw the lower left part of the Tiles picture, `high` pixels from `y` on."""
    if access is not None:
        return [lit_by("".join(_draw_access(access, y, wide, high)), "bank")]
    if storage is not None:
        return list(_of_storage(storage, y, wide, high))
    lines = wrap_text(none, wide - 24, PX)
    return [label(0, y + 16, "Banks", "big")] + [
        label(0, y + 42 + 20 * n, line) for n, line in enumerate(lines)
    ]


def _titled(title: str, note: str, y: float, wide: float) -> Iterator[str]:
    x = text_width(title, 16) * 1.07 + 8
    yield label(0, y + 16, title, "big")
    if wide - x > 60:
        yield label(x, y + 16, fit(note, wide - x, PX), title=note)


def _of_storage(s: Storage, y: float, wide: float, high: float) -> Iterator[str]:
    title = "Banks" if s.kind == "bank" else "Cache sets"
    yield from _titled(title, f"{s.tensor} in {s.level}, {s.read_rows} rows read at once", y, wide)
    grids = [0, s.padding] if s.padding else [0]
    rows = min(s.read_rows, MOST_ROWS)
    columns = min(COLUMNS, max(1, -(-s.columns // s.together)))
    gap = 24.0
    most = (wide - gap * len(grids)) / len(grids) / columns
    cell = min(MOST_CELL, (high - 64) / rows, most)
    if cell * columns < 132 and len(grids) > 1:  # only the one in use fits
        grids = [s.padding]
        cell = min(MOST_CELL, (high - 64) / rows, (wide - gap) / columns)
    for n, padding in enumerate(grids):
        x = n * (wide / len(grids))
        summary = _describe_storage(s, padding)
        body = _cells(s, padding, x, y + 28, cell, rows, columns)
        under = [
            label(x, y + 45 + rows * cell + 17 * i, line, "i")
            for i, line in enumerate(wrap_text(summary, wide / len(grids) - 12, PX)[:2])
        ]
        lit = "bank" if padding == s.padding else "plain"
        yield lit_by("".join((*body, *under)), lit)


def _describe_storage(s: Storage, padding: int) -> str:
    reads, places, most = count_conflicts(s, padding)
    head = f"padded by {padding}" if padding else "plain" if s.padding else "as it lies"
    summary = f"{head}: {count_text(reads, 'read')}, {count_text(places, s.kind)}"
    return f"{summary}, {_verdict(s, most)}"


def _cells(
    s: Storage, padding: int, x: float, y: float, cell: float, rows: int, columns: int
) -> Iterator[str]:
    """Draw the number of each bank or set in its cell, and a frame around a read."""
    step, meets = s.together, _places(s, padding)
    read = min(max(1, -(-s.read_columns // step)), columns)
    for r in range(rows):
        for c in range(columns):
            place = s.place(r, c * step, padding)
            clash = c < read and meets[place] > max(1, s.associativity)
            ground = "var(--ink)" if clash else "var(--soft)" if c < read else "var(--app)"
            at = (x + c * cell, y + r * cell)
            tip = f"row {r}, column {c * step}: {s.kind} {place}"
            yield rect(*at, cell, cell, ground, 'stroke="var(--line2)"', title=tip)
            if cell >= 17:
                style = "inv w" if clash else "i w" if c < read else "q"
                middle = (at[0] + cell / 2, at[1] + cell / 2 + 4.5)
                yield label(*middle, str(place), style, anchor="middle")
    clash = max(meets.values(), default=0) > max(1, s.associativity)
    ink = "var(--ink)" if clash else "var(--accent)"
    yield path(f"M{x:g} {y:g}h{read * cell:g}v{rows * cell:g}h{-read * cell:g}z", ink)


def _draw_access(a: BankAccess, y: float, wide: float, high: float) -> Iterator[str]:
    """Draw the words that one warp reads of each bank, stacked where they conflict."""
    does = "write to" if a.store else "read of"
    yield from _titled("Banks", f"one warp's {does} {a.array}, {a.bits} bits per thread", y, wide)
    bank_words = a.parts[0][1] if a.parts else ()
    most = max((len(words) for _, words in bank_words), default=1)
    drawn = min(most, MOST_WORDS)
    cell = min(18.0, (wide - 24) / BANKS, (high - 84) / drawn)
    floor = y + 34 + drawn * cell
    for bank, stacked_words in bank_words:
        for n, (word, lanes) in enumerate(stacked_words[:drawn]):
            ground = "var(--ink)" if n else "var(--soft)"
            tip = f"bank {bank}, word {word}: {count_text(len(lanes), 'thread')}"
            at = (bank * cell, floor - (n + 1) * cell)
            edge = f'stroke="var(--{"ink" if n else "accent"})"'
            yield rect(*at, cell - 1, cell - 1, ground, edge, title=tip)
    yield path(f"M0 {floor + 0.5:g}h{BANKS * cell:g}", "var(--ink2)")
    yield label(0, floor + 17, "bank 0", "q")
    yield label(BANKS * cell, floor + 17, f"bank {BANKS - 1}", "q", anchor="end")
    summary = f"{_cycles(a)}, no conflict"
    if a.conflict:
        summary = f"a bank gives up to {most} words: {_cycles(a)} instead of {a.least}"
    yield label(0, floor + 37, fit(summary, wide - 12, PX), "i", title=summary)
