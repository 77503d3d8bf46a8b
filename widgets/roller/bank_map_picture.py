"""Threads over banks: of each access to shared memory which lane of a warp asks which bank for
which word, and whose words wait; below, the outputs that a thread makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from explorer.ir.stage import Stage
from explorer.tile.gpu.banks.requests import BANKS, WARP
from widgets.draw.svg import Svg, label, path, rect, stepped, text_width, wrapped
from widgets.draw.table import Cell, Table, count_text
from widgets.model.picture import Picture
from widgets.roller.bank_map import Ask, BankRows, Owned, data
from widgets.roller.view import TILES, of_tile

WIDTH, LEFT, GUTTER = 640.0, 12.0, 84.0
CELL, ROW = 17.0, 15.0
MOST_HIGH = 8  # words of one bank that are drawn
TILE_WIDE, TILE_HIGH, MOST_CELL = WIDTH - 2 * LEFT, 300.0, 14.0
FREE, WAITS = "var(--tint)", "var(--ink)"
MINE, WARPS, OTHERS = "var(--ink)", "var(--t3)", "var(--tint)"


def table(rows: BankRows) -> Table:
    """One row an access, or several alike; then one an output; or why there are none."""
    columns = (
        "phase", "access", "array", "bits a thread", "places", "times", "warp", "cycles",
        "without conflicts", "threads at once",
    )  # fmt: skip
    found: list[tuple[Cell, ...]] = [
        (
            a.phase,
            "write" if a.store else "read",
            a.array,
            a.bits,
            a.places,
            a.times,
            a.warp,
            a.cycles,
            a.least,
            1024 // max(32, a.bits),
        )
        for a in rows.asks
    ]
    found += [
        ("", "thread 0 makes", o.tensor, "", o.points(0), "", 0, "", "", "") for o in rows.owned
    ]
    found = found or [("", rows.said or "none", *[""] * 8)]
    return Table(columns, tuple(found), tuple(rows.ops for _ in found), caption(rows))


def caption(rows: BankRows) -> str:
    """How many accesses wait, and for how long."""
    if rows.said:
        return f"{rows.kernel}: {rows.said}"
    waits = [a for a in rows.asks if a.conflict]
    told = f"{rows.kernel} on {rows.device}: {count_text(rows.threads, 'thread')} a block, "
    if not rows.asks:
        return f"{told}which use no shared memory; {rows.predicted}"
    told += f"{len(rows.asks)} access{'es' * (len(rows.asks) != 1)}"
    if waits:
        worst = max(waits, key=lambda a: a.cycles / max(1, a.least))
        told += f", {len(waits)} of them with conflicts, at worst {worst.cycles} cycles instead of "
        told += f"{worst.least}"
    else:
        told += ", none with a conflict"
    if not rows.exact:
        told += "; of long loops the first iterations and the last were evaluated"
    if rows.unknown:
        told += f"; data decide the indices of {count_text(rows.unknown, 'line')}"
    return f"{told}; {rows.predicted}"


def words(a: Ask) -> str:
    """An access in a line."""
    does = "writes" if a.store else "reads"
    where = "" if a.places == 1 else f" at {a.places} places"
    often = f", {a.times} times" if a.times > 1 else ""
    took = f"{a.cycles} cycle{'s' * (a.cycles > 1)}"
    if a.conflict:
        took += f" instead of {a.least}: {_most(a)} words of one bank"
    elif a.cycles > 1:
        took += f", no conflict: {1024 // a.bits} threads at once"
    else:
        took += ", no conflict"
    who = f"phase {a.phase}: warp {a.warp} {does} {a.array}{where}"
    return f"{who}, {a.bits} bits a thread{often}: {took}"


def _most(a: Ask) -> int:
    return max(len(found) for _, banks in a.parts for _, found in banks)


def figure(rows: BankRows) -> Svg:
    """The accesses in their order as banks with the words that are asked of them, one above the
    other where they wait; then which thread makes what.
    """
    said, y = caption(rows), 22.0
    marks: list[str] = []
    for line in wrapped(said, WIDTH - 2 * LEFT - 40):
        marks.append(label(LEFT, y, line, "i w"))
        y += 15
    if rows.asks:
        marks += _legend(y)
        y += 24
    for number, a in enumerate(rows.asks):
        part, high = _access(a, y, rows.threads)
        marks.append(stepped("".join(part), number, words(a)))
        y += high
    for o in rows.owned:
        part, high = _tile(o, y)
        marks += part
        y += high
    return Svg(WIDTH, y + 8, "".join(marks), f"Threads over banks: {said}")


def _legend(y: float) -> Iterator[str]:
    x = LEFT
    for ground, said in (
        (FREE, "a bank's first word, by lane, bold where others ask for it too"),
        (WAITS, "another word of it: a cycle more"),
    ):
        yield rect(x, y - 2, 13, 11, ground, 'stroke="var(--edge)"')
        yield label(x + 18, y + 7, said)
        x += 36 + text_width(said)


def _access(a: Ask, y: float, threads: int) -> tuple[list[str], float]:
    """The banks side by side, for each of the threads that are served together a band."""
    marks = [path(f"M{LEFT} {y + 0.5:g}H{WIDTH - LEFT}", "var(--line2)")]
    at = y + 17
    for line in wrapped(words(a), WIDTH - 2 * LEFT):
        marks.append(label(LEFT, at, line, "bad" if a.conflict else "i"))
        at += 15
    marks.append(label(LEFT, at + 2, "bank", "q"))
    for bank in range(0, BANKS, 4):
        marks.append(label(GUTTER + (bank + 0.5) * CELL, at + 2, str(bank), "q", anchor="middle"))
    at += 8
    for first, banks in a.parts:
        high = max(len(found) for _, found in banks)
        drawn = min(high, MOST_HIGH)
        last = min(first + 1024 // max(32, a.bits), threads, (a.warp + 1) * WARP) - 1
        marks.append(label(LEFT, at + 11, f"lanes {first % WARP}–{last % WARP}", "i"))
        box = rect(GUTTER, at, BANKS * CELL, drawn * ROW, "var(--app)")
        marks.append(box)
        marks.append('<g text-anchor="middle">')
        for bank, found in banks:
            for n, (word, lanes) in enumerate(found[:drawn]):
                marks += _word(bank, n, word, lanes, at)
        marks.append("</g>")
        at += drawn * ROW
        if high > drawn:
            marks.append(label(GUTTER, at + 12, f"and {high - drawn} more words of a bank", "q"))
            at += 15
        at += 4
    return marks, at + 6 - y


def _word(bank: int, n: int, word: int, lanes: tuple[int, ...], y: float) -> Iterator[str]:
    x, top = GUTTER + bank * CELL, y + n * ROW
    said = f"bank {bank}, word {word}: {_threads(lanes)}"
    yield rect(x + 0.5, top + 0.5, CELL - 1, ROW - 1, WAITS if n else FREE, title=said)
    style = ("inv" if n else "i") + (" w" if len(lanes) > 1 else "")
    yield label(x + CELL / 2, top + 11.5, str(lanes[0] % WARP), style)


def _threads(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return f"thread {lanes[0]}"
    return f"threads {', '.join(map(str, lanes[:8]))}{' …' * (len(lanes) > 8)}"


def _tile(o: Owned, y: float) -> tuple[list[str], float]:
    """The part of an output that the block makes, with what its first thread and warp make."""
    high, wide = o.owner.shape
    said = (
        f"{o.tensor}: the block makes {high} by {wide} elements, thread 0 {o.points(0)} of them"
        if high > 1
        else f"{o.tensor}: the block makes {wide} elements, thread 0 {o.points(0)} of them"
    )
    marks = [
        path(f"M{LEFT} {y + 0.5:g}H{WIDTH - LEFT}", "var(--line2)"),
        label(LEFT, y + 17, said, "i"),
    ]
    cell = min(MOST_CELL, max(2.0, min(TILE_WIDE / wide, TILE_HIGH / high)))
    shown = o.owner[: int(TILE_HIGH / cell) or 1, : int(TILE_WIDE / cell) or 1]
    top = y + 28
    x = LEFT
    for ground, name in ((MINE, "thread 0"), (WARPS, "its warp"), (OTHERS, "other threads")):
        marks += [
            rect(x, top - 2, 13, 11, ground, 'stroke="var(--edge)"'),
            label(x + 18, top + 7, name),
        ]
        x += 36 + text_width(name)
    top += 18
    for ground, mine in (
        (OTHERS, shown >= WARP),
        (WARPS, (shown > 0) & (shown < WARP)),
        (MINE, shown == 0),
    ):
        if mine.any():
            d = "".join(_runs(mine, LEFT, top, cell))
            edge = ' stroke="var(--pane)" stroke-width="0.6"' if cell >= 5 else ""
            marks.append(f'<path d="{d}" fill="{ground}"{edge}/>')
    bottom = top + shown.shape[0] * cell
    if shown.shape != o.owner.shape:
        marks.append(label(LEFT, bottom + 14, "a corner of it is drawn", "q"))
        bottom += 16
    return marks, bottom + 10 - y


def _runs(mine: np.ndarray, x: float, y: float, cell: float) -> Iterator[str]:
    """Cells as boxes, those beside each other as one, and equal rows below each other too."""
    same = np.flatnonzero((mine[1:] != mine[:-1]).any(axis=1)) + 1
    for r, end in pairwise([0, *same.tolist(), len(mine)]):
        edges = np.flatnonzero(np.diff(np.r_[0, mine[r].astype(np.int8), 0]))
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
            wide, high = (b - a) * cell, (end - r) * cell
            yield f"M{x + a * cell:.1f} {y + r * cell:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z"


PICTURE = Picture(
    name="banks",
    title="Banks",
    words="Of a GPU's thread block: which thread asks which bank of shared memory for which word, "
    "which of them wait, and which outputs each thread makes.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, figure, table),
)
