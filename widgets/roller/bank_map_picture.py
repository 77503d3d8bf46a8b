"""Threads over banks: of each access to shared memory which lane of a warp asks which bank for
which word, and whose words wait; then the outputs that a thread makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from explorer.ir.stage import Stage
from explorer.tile.gpu.banks.requests import BANKS, WARP
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import BOLD, LINE, PX, cut_to, list_row, only, scrubbed
from widgets.draw.svg import Svg, label, rect, stepped, text_width, wrapped
from widgets.draw.table import Cell, Table, count_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, nothing
from widgets.roller import view
from widgets.roller.bank_map import Ask, BankRows, Owned, data
from widgets.roller.view import TILES

APART, LISTED, GUTTER, PITCH = 1100.0, 330.0, 28.0, 23.0  # the list of accesses
LANES, ROW, LEAST = 92.0, 22.0, 8.0  # left of the banks, a word of one, at most and at least
SHORT = 260.0  # pixels of height below which an access has no legend
OWNED = 140.0  # pixels of what threads make, below the accesses
MOST_HIGH, MOST_CELL = 8, 22.0  # words of one bank that are drawn, and pixels of an element
Place: TypeAlias = tuple[float, float, float, float]
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
    return Table(columns, tuple(found), tuple(rows.ops for _ in found), caption(rows), see(rows))


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


def see(rows: BankRows) -> tuple[Sentence, ...]:
    """The sentences: how many accesses wait for a bank, the worst of them, what a thread makes."""
    if rows.said:
        return ((f"{rows.said[0].upper()}{rows.said[1:]}.",),)
    told: list[Sentence] = []
    waits = [n for n, a in enumerate(rows.asks) if a.conflict]
    if rows.asks:
        count = count_text(len(rows.asks), "access").replace("accesss", "accesses")
        some = Mark(f"{len(waits)}", "conflict") if waits else "none"
        verb = "waits" if len(waits) < 2 else "wait"
        told.append((Mark(count, "access"), " to shared memory, ", some, f" {verb} for a bank."))
    else:
        use = "uses" if rows.threads == 1 else "use"
        told.append((f"{count_text(rows.threads, 'thread')} {use} no shared memory.",))
    if waits:
        worst = max(waits, key=lambda n: rows.asks[n].cycles / max(1, rows.asks[n].least))
        a = rows.asks[worst]
        does = "writes" if a.store else "reads"
        cycles = Mark(count_text(a.cycles, "cycle"), f"access{worst}")
        told.append((f"At worst a warp {does} {a.array} in ", cycles, f" instead of {a.least}."))
    for o in rows.owned[:1]:
        mine = Mark(count_text(o.points(0), "element"), "owned")
        told.append(("Thread 0 makes ", mine, f" of {o.owner.size:,}."))
    return tuple(told[:3])


def figure(rows: BankRows, size: tuple[int, int], at: int = -1) -> Svg:
    """The banks side by side with the words that are asked of them, one above the other where they
    wait, access below access, and what each thread makes. Where there is too little room for all,
    a list, and of the one that is gone to its banks: `at` is shown first, else the first that
    waits.
    """
    width, height = size
    said = f"Threads over banks: {caption(rows)}"
    if rows.said:
        lines = wrapped(caption(rows), width, PX)
        marks = [label(0, 16 + LINE * n, text, "i") for n, text in enumerate(lines)]
        return Svg(width, height, "".join(marks), said, px=PX)
    if at < 0 and (marks := _stacked(rows, width, height)):
        return Svg(width, height, "".join(marks), said, px=PX)
    count = len(rows.asks) + len(rows.owned)
    beside = width >= APART
    listed = count * PITCH <= (height if beside else height * 0.5)
    x = LISTED + GUTTER if beside and listed else 0.0
    y = count * PITCH + 12 if listed and not beside else 0.0
    wide_ = LISTED if beside else width
    waits = [n for n, a in enumerate(rows.asks) if a.conflict]
    first = at if at >= 0 else waits[0] if waits else 0
    marks = [scrubbed("access", first)]
    place = (x, y, width - x, height - y)
    for n in range(count):
        a = rows.asks[n] if n < len(rows.asks) else None
        o = rows.owned[n - len(rows.asks)] if a is None else None
        panel = _access(a, place, rows.threads) if a else _tile(o, place) if o else ()
        body = only("".join(panel), shown=n == first)
        told, end, style = _row_words(a, o)
        if listed:
            row = list_row(0, n * PITCH, (wide_, PITCH), told, end, on=n == first, style=style)
            body = row + body
        keys = f"access{n} access{' conflict' * a.conflict}" if a else "owned"
        marks.append(stepped(lit_by(body, keys), n, words(a) if a else told, told))
    return Svg(width, height, "".join(marks), said, px=PX)


def _stacked(rows: BankRows, width: float, height: float) -> list[str]:
    """All accesses below each other under one row of banks, and what threads make beside them or
    below; none where there is too little room.
    """
    beside = width >= APART and bool(rows.owned)
    wide_ = width * 0.62 if beside else width
    if wide_ < BANKS * 16 + LANES:
        return []
    tall = [
        LINE + 10 + sum(ROW * min(MOST_HIGH, _high(banks)) + 4 for _, banks in a.parts)
        for a in rows.asks
    ]
    below = len(rows.owned) * OWNED if not beside else 0
    if sum(tall) + below + LINE + 32 > height:
        return []
    legend = (FREE, "a bank's first word, by lane"), (WAITS, "another word of it: a cycle more")
    cell, y = int((wide_ - LANES) / BANKS * 2) / 2, LINE + 4.0
    marks = [*_banks(LANES, 13.0, cell), label(0, 13, "bank")]
    for n, a in enumerate(rows.asks):
        text = words(a)
        head = label(0, y + 16, cut_to(text, wide_, bold=True), "bad" if a.conflict else "i w",
                     title=text)  # fmt: skip
        bands = _bands(a, (0, y + LINE + 6, wide_, tall[n]), rows.threads, LANES, 0.0, ROW)
        body = lit_by(head + "".join(bands), f"access{n} access{' conflict' * a.conflict}")
        marks.append(stepped(body, n, text, _row_words(a, None)[0]))
        y += tall[n]
    floor = height - 24.0
    each = (floor - (0 if beside else y)) / max(1, len(rows.owned))
    for n, o in enumerate(rows.owned):
        x = wide_ + GUTTER if beside else 0.0
        place = (x, (0 if beside else y) + n * each, width - x, each)
        body = lit_by("".join(_tile(o, place)), "owned")
        marks.append(stepped(body, len(rows.asks) + n, f"what the threads of {o.tensor} make"))
    return [*marks, *_legend(legend, 0, height - 6, wide_)]


def _high(banks: Sequence[tuple[int, Sequence[object]]]) -> int:
    """How many words of one bank wait for each other, at most."""
    return max(len(found) for _, found in banks)


def _row_words(a: Ask | None, o: Owned | None) -> tuple[str, str, str]:
    """What a row of the list says, at its end too, and its style."""
    if a is not None:
        did = "write" if a.store else "read"
        cycles = count_text(a.cycles, "cycle")
        least = f" instead of {a.least}" if a.conflict else ""
        return f"{did} {a.array}", f"{cycles}{least}", "bad" if a.conflict else "i"
    tensor = o.tensor if o else ""
    return f"threads of {tensor}", f"{o.points(0):,} each" if o else "", "i"


def _legend(items: Sequence[tuple[str, str]], x: float, y: float, room: float) -> Iterator[str]:
    end = x + room
    for ground, said in items:
        if x + 20 + text_width(said, PX) > end:
            return
        yield rect(x, y - 11, 14, 12, ground, 'stroke="var(--edge)"')
        yield label(x + 20, y, said)
        x += 20 + text_width(said, PX) + 20


def _head(text: str, place: Place, *, bad: bool = False) -> Iterator[str]:
    """What a panel is about, in as many lines as it needs, three at most."""
    x, y, wide_, _ = place
    lines = wrapped(text, wide_ / BOLD, PX)
    lines = lines if len(lines) <= 3 else [*lines[:2], " ".join(lines[2:])]
    for n, line in enumerate(lines):
        style = "bad" if bad else "i w"
        yield label(x, y + 16 + LINE * n, cut_to(line, wide_, bold=True), style, title=text)


def _access(a: Ask, place: Place, threads: int) -> Iterator[str]:
    """An access alone: its words, the banks, and its bands."""
    x, y, wide_, high = place
    head = [*_head(words(a), place, bad=a.conflict)]
    yield from head
    top = y + 16 + LINE * len(head) + 8
    left = LANES if wide_ >= BANKS * 16 + LANES else 0.0
    if left:
        yield label(x, top + 4, "bank")
    yield from _banks(x + left, top + 4, int((wide_ - left) / BANKS * 2) / 2)
    above = 0.0 if left else LINE
    low = high < SHORT  # too low for what the marks are
    floor = y + high - (4 if low else 26)
    rows = sum(min(_high(banks), MOST_HIGH) for _, banks in a.parts)
    room = floor - top - 12 - len(a.parts) * (4 + above)
    tall = max(LEAST, min(ROW, room / max(1, rows)))
    yield from _bands(a, (x, top + 12, wide_, floor - top - 12), threads, left, above, tall)
    legend = (FREE, "a bank's first word, by lane"), (WAITS, "another word of it: a cycle more")
    if not low:
        yield from _legend(legend, x, y + high - 6, wide_)


def _banks(x: float, y: float, cell: float) -> Iterator[str]:
    """The numbers of the banks, as many as have room."""
    step = next(n for n in (1, 2, 4, 8) if n * cell >= 22)
    for bank in range(0, BANKS, step):
        yield label(x + (bank + 0.5) * cell, y, str(bank), anchor="middle")


def _bands(
    a: Ask, place: Place, threads: int, left: float, above: float, tall: float
) -> Iterator[str]:
    """For each of the threads that are served together a band of banks with their words."""
    x, top, wide_, high = place
    cell, floor = int((wide_ - left) / BANKS * 2) / 2, top + high
    for n, (first, banks) in enumerate(a.parts):
        most = _high(banks)
        drawn = min(most, MOST_HIGH)
        room = floor - (0 if n == len(a.parts) - 1 else LINE)  # for how many more there are
        if top + above + drawn * tall > room + 0.01:
            rest = f"and {count_text(len(a.parts) - n, 'more part')} of the warp"
            yield label(x, top + 13, cut_to(rest, wide_), title=rest)
            return
        last = min(first + 1024 // max(32, a.bits), threads, (a.warp + 1) * WARP) - 1
        lanes = f"lanes {first % WARP}–{last % WARP}"
        more = f", {most - drawn} more words" if most > drawn else ""
        middle = top + above - 4 if above else top + drawn * tall / 2 + 4.5
        yield label(x, middle, lanes + more if above else lanes, "i", title=lanes + more)
        top += above
        yield rect(x + left, top, BANKS * cell, drawn * tall, "var(--app)")
        yield f'<g text-anchor="middle" fill="{FREE}">'
        for bank, found in banks:
            for at, (word, asking) in enumerate(found[:drawn]):
                box = (x + left + bank * cell, top + at * tall, cell, tall)
                yield from _word(bank, at, word, asking, box)
        yield "</g>"
        top += drawn * tall + 4


def _word(
    bank: int, n: int, word: int, lanes: tuple[int, ...], box: tuple[float, float, float, float]
) -> Iterator[str]:
    x, y, w, h = box
    said = f"bank {bank}, word {word}: {_threads(lanes)}"
    fill = f' fill="{WAITS}"' if n else ""
    yield f'<rect x="{x:g}" y="{y:g}" width="{w - 1:g}" height="{h - 1:g}"{fill}>'
    yield f"<title>{said}</title></rect>"
    style, text = ("inv" if n else "i") + (" w" if len(lanes) > 1 else ""), str(lanes[0] % WARP)
    if h >= 16 and text_width(text, PX) * BOLD <= w - 1:
        yield label(x + w / 2, y + round(h / 2) + 4, text, style)


def _threads(lanes: tuple[int, ...]) -> str:
    if len(lanes) == 1:
        return f"thread {lanes[0]}"
    return f"threads {', '.join(map(str, lanes[:8]))}{' …' * (len(lanes) > 8)}"


def _tile(o: Owned, place: Place) -> Iterator[str]:
    """The part of an output that the block makes, with what its first thread and warp make."""
    x, y, room, space = place
    high, wide_ = o.owner.shape
    made = f"{high} by {wide_}" if high > 1 else f"{wide_}"
    said = f"{o.tensor}: the block makes {made} elements, thread 0 makes {o.points(0)} of them"
    head = [*_head(said, place)]
    yield from head
    top = y + 16 + LINE * len(head)
    tall = max(LEAST, y + space - 46 - top)
    cell = min(MOST_CELL, max(2.0, min(room / wide_, tall / high)))
    shown = o.owner[: int(tall / cell) or 1, : int(room / cell) or 1]
    for ground, mine in (
        (OTHERS, shown >= WARP),
        (WARPS, (shown > 0) & (shown < WARP)),
        (MINE, shown == 0),
    ):
        if mine.any():
            d = "".join(_runs(mine, x, top, cell))
            edge = ' stroke="var(--pane)" stroke-width="0.6"' if cell >= 5 else ""
            yield f'<path d="{d}" fill="{ground}"{edge}/>'
    if shown.shape != o.owner.shape:
        yield label(x, top + shown.shape[0] * cell + 14, "a corner of it is drawn")
    legend = ((MINE, "thread 0"), (WARPS, "its warp"), (OTHERS, "other threads"))
    yield from _legend(legend, x, y + space - 6, room)


def _runs(mine: np.ndarray, x: float, y: float, cell: float) -> Iterator[str]:
    """Cells as boxes, those beside each other as one, and equal rows below each other too."""
    same = np.flatnonzero((mine[1:] != mine[:-1]).any(axis=1)) + 1
    for r, end in pairwise([0, *same.tolist(), len(mine)]):
        edges = np.flatnonzero(np.diff(np.r_[0, mine[r].astype(np.int8), 0]))
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
            wide_, high = (b - a) * cell, (end - r) * cell
            yield f"M{x + a * cell:.1f} {y + r * cell:.1f}h{wide_:.1f}v{high:.1f}h-{wide_:.1f}z"


def _draw(s: OnShow, op: str) -> Drawn:
    found = view.rolled(s, op)
    if found is None:
        return nothing("Roller has tiled nothing.")
    rows = data(found)
    return rows, figure(rows, s.view.size), table(rows)


PICTURE = Picture(
    name="banks",
    title="Banks",
    words="Of a GPU's thread block: which thread asks which bank of shared memory for which word, "
    "which of them wait, and which outputs each thread makes.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
