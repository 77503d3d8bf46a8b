"""The Tiles picture: a panel per memory with the tile that moves nearer, banks, and traffic.

The banks of shared memory, or the sets of a cache, are those that one read hits, without and with
padding. The staircase has the memory traffic of every tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.devices.target import target_of
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.roller.construct.levels import Room
from widgets.draw.svg import Svg, fit, label, path, rect, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by, size_text
from widgets.draw.theme import family_token
from widgets.model.picture import HEIGHT, WIDTH, Drawn, OnShow, Picture, placeholder
from widgets.roller import bank_map
from widgets.roller.bank_map import BankAccess, BankRows
from widgets.roller.data_tiles import LevelPanel, PanelFrame, Storage, frames, level_panels
from widgets.roller.frame_drawing import BOLD, NARROW, PX, pair_text, panels, room_words
from widgets.roller.tiled_kernel import TiledKernel, axis_words
from widgets.roller.view import TILES, Bar, shape_text, tiled_kernel, traffic

LEAST_BELOW = 172.0  # minimum height of the banks and the staircase
MOST_ROWS, COLUMNS, MOST_CELL = 6, 8, 36.0
BANKS = 32  # banks of every GPU
MOST_WORDS = 8  # drawn words per bank
GAP, MOST_WIDE = 4.0, 100.0


@dataclass(frozen=True, slots=True)
class PanelRows:
    """The panels of the current tile, farthest level first."""

    kernel: str
    device: str
    uses_thread_blocks: bool
    extents: tuple[tuple[str, int], ...]
    levels: tuple[LevelPanel, ...]
    rank: int
    of: int
    note: str
    ops: tuple[str, ...]
    family: str = ""
    frames: tuple[PanelFrame, ...] = ()
    bars: tuple[Bar, ...] = ()
    banks: BankRows | None = None


def data(rolled: TiledKernel) -> PanelRows:
    """Return the panels of one kernel on one device."""
    choice, device = rolled.chosen, rolled.device
    panels = tuple(level_panels(choice, device)) if choice else ()
    e = choice.expression if choice else rolled.construction.expression
    return PanelRows(
        rolled.title,
        rolled.device.name,
        target_of(rolled.device).uses_thread_blocks,
        tuple(zip(e.axes, e.extents, strict=True)),
        panels,
        rolled.rank,
        len(rolled.choices),
        choice.note if choice else "no tile fits",
        rolled.ops,
        rolled.family,
        frames(choice, panels, device) if choice else (),
        traffic(rolled.choices),
        bank_map.data(rolled) if choice is not None and choice.block is not None else None,
    )


def table(rows: PanelRows) -> Table:
    """Return one row per tensor and memory level."""
    columns = (
        "level", "fed by", "tile", "tensor", "shape", "data tile", "line bytes", "lines moved",
        "bytes needed", "needed of moved", "packed by", "padding", "capacity",
        "at once from one bank or set", "without padding",
    )  # fmt: skip
    cells = []
    for p in rows.levels:
        stored = {s.tensor: s for s in p.stored}
        for t in p.tiles:
            s = stored.get(t.tensor) if not t.written else None
            cells.append(
                (
                    p.level,
                    p.source,
                    axes_words(p.axes),
                    f"{t.tensor}{' (written)' * t.written}",
                    shape_text(t.shape),
                    shape_text(t.box),
                    t.line_bytes,
                    t.lines,
                    t.used_bytes,
                    f"{t.useful:.0%}",
                    t.packed or "",
                    t.padding,
                    "; ".join(room_words(Room(*room)) for room in p.rooms),
                    f"{s.degree} ({s.kind}s, {s.associativity} at a time)" if s else "",
                    s.unpadded if s else "",
                )
            )
    return Table(columns, tuple(cells), tuple(rows.ops for _ in cells), caption(rows), see(rows))


def caption(rows: PanelRows) -> str:
    """Describe which tile of which kernel on which device is shown."""
    which = f"tile {rows.rank + 1} of {rows.of}" if rows.of else "no tile"
    note = f"; {rows.note}" if rows.note else ""
    return f"{rows.kernel} on {rows.device}, {axes_words(rows.extents)}: {which}{note}"


def axes_words(axes: Sequence[tuple[str, int]]) -> str:
    """Return sizes by axis as text."""
    return " ".join(f"{axis_words(axis)}={size}" for axis, size in axes)


def figure(rows: PanelRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """Draw the memories from left to right; below, the banks and the traffic of every tile."""
    wide, high = size
    title = f"Tiles: {caption(rows)}"
    if not rows.frames:
        lines = wrap_text("No tile of this kernel fits this device.", wide - 16, PX)
        marks = [label(8, 24 + 20 * n, line, "i") for n, line in enumerate(lines)]
        return Svg(wide, high, "".join(marks), title, px=PX)
    low = min(max(LEAST_BELOW, high * 0.44), high - 200.0) if wide >= NARROW else 0.0
    low = low if low >= LEAST_BELOW * 0.8 else 0.0
    fill = f"url(#p-{family_token(rows.family or 'matmul')})"
    marks = panels(rows.frames, wide, high - low, fill)
    if low:
        marks += _below(rows, wide, high - low, low)
    return Svg(wide, high, "".join(marks), title, px=PX)


def _below(rows: PanelRows, wide: float, y: float, low: float) -> Iterator[str]:
    yield path(f"M0 {y + 8:g}H{wide:g}", "var(--line2)")
    storage, ask = worst_storage(rows.levels), worst_access(rows.banks)
    left = banks_width(storage, ask, wide)
    yield from draw_banks(storage, ask, _no_banks(rows), y + 20, left - 16, low - 24)
    at = (left + 8, y + 20)
    source = rows.frames[0].level
    yield from draw_staircase(rows.bars, rows.rank, source, at, wide - left - 8, low - 24)


def _no_banks(rows: PanelRows) -> str:
    """Return the reason why no banks are drawn."""
    if rows.uses_thread_blocks:
        return "Threads read their operands for themselves: nothing lies in shared memory."
    return "No operand is read from several rows at once, so no two lines meet in one cache set."


def see(rows: PanelRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the tile, the capacity that its operands use, and the banks."""
    if not rows.frames:
        return (("No tile of this kernel fits this device.",),)
    first, inner = rows.frames[0], rows.frames[1]
    out = first.operands[-1]
    size = inner.shape.removeprefix("C ").split(", k ")[0]
    of = out.letter if first.product else out.tensor
    sentences: list[Sentence] = [
        (Mark(_a_tile(size), "C tile"), f" of {of} is computed at a time.")
    ]
    sentences.append(_filled(inner))
    about_banks = bank_sentence(worst_storage(rows.levels), worst_access(rows.banks))
    if about_banks is not None:
        sentences.append(about_banks)
    elif len(rows.frames) > 2:
        last = rows.frames[-1]
        sentences.append(
            ("One step takes ", Mark(room_words(last.room), f"cap{len(rows.frames) - 1}"), ".")
        )
    return tuple(sentences)


def _a_tile(size: str) -> str:
    """Return an output tile's size with the article that fits the number."""
    if "×" not in size:
        return f"A tile of {size} element{'s' * (size != '1')}"
    return f"{'An' if size.startswith(('8', '11×', '18×')) else 'A'} {size} tile"


def _filled(f: PanelFrame) -> Sentence:
    room = f.room
    lights = "cap1|A tile lev0|B tile lev0"
    if "bytes" not in room.limit:
        return "It takes ", Mark(room_words(room), lights), "."
    where = f" of {f.level}" if not room.limit.endswith("a block") else " of shared memory"
    used = Mark(pair_text(room.used, room.capacity), lights)
    return "Its operands fill ", used, f"{where}."


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


def storage_words(s: Storage) -> str:
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


def bank_sentence(storage: Storage | None, access: BankAccess | None) -> Sentence | None:
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
    number_text = f"{counted(reads, 'read')} hit {counted(places, storage.kind)}"
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


def draw_banks(
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
        body = _bank_cells(s, padding, x, y + 28, cell, rows, columns)
        under = [
            label(x, y + 45 + rows * cell + 17 * i, line, "i")
            for i, line in enumerate(wrap_text(summary, wide / len(grids) - 12, PX)[:2])
        ]
        lit = "bank" if padding == s.padding else "plain"
        yield lit_by("".join((*body, *under)), lit)


def _describe_storage(s: Storage, padding: int) -> str:
    reads, places, most = count_conflicts(s, padding)
    head = f"padded by {padding}" if padding else "plain" if s.padding else "as it lies"
    summary = f"{head}: {counted(reads, 'read')}, {counted(places, s.kind)}"
    return f"{summary}, {_verdict(s, most)}"


def _bank_cells(
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
    most = max((len(storage_words) for _, storage_words in bank_words), default=1)
    drawn = min(most, MOST_WORDS)
    cell = min(18.0, (wide - 24) / BANKS, (high - 84) / drawn)
    floor = y + 34 + drawn * cell
    for bank, stacked_words in bank_words:
        for n, (word, lanes) in enumerate(stacked_words[:drawn]):
            ground = "var(--ink)" if n else "var(--soft)"
            tip = f"bank {bank}, word {word}: {counted(len(lanes), 'thread')}"
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


def draw_staircase(
    bars: Sequence[Bar], rank: int, source: str, at: tuple[float, float], wide: float, high: float
) -> Iterator[str]:
    """Draw a bar per tile at the lower right of the Tiles picture.

    The current tile is in the accent colour, larger ones are dashed.
    """
    x, y = at
    most = max((bar.moved_bytes for bar in bars), default=0)
    unit, name = size_text(most).split()[1], text_width("Staircase", 16) * BOLD + 8
    note = _note(bars, unit, source)
    yield label(x, y + 16, "Staircase", "big")
    yield label(x + name, y + 16, fit(note, wide - name, PX), title=note)
    now = next((n for n, bar in enumerate(bars) if rank in bar.ranks), 0)
    shown = _shown(bars, now, wide, unit)
    each = min(MOST_WIDE, wide / len(shown))
    with_units = all(
        text_width(f"{_in(b.moved_bytes, unit)} {unit}", PX) * BOLD < each for b in bars
    )
    top, floor = y + 48, y + high - 28
    for place, n in enumerate(shown):
        bar, left = bars[n], x + place * each
        tall = max(3.0, (floor - top) * bar.moved_bytes / max(1, most))
        ink = "var(--accent)" if n == now else "var(--ink2)" if n < now else "var(--pane)"
        edge = f'stroke="var(--{"accent" if n == now else "edge"})"'
        edge += ' stroke-dasharray="3 3"' if n > now else ""
        middle, style = left + (each - GAP) / 2, "a" if n == now else "i"
        tip = f"tile {bar.tile}: {size_text(bar.moved_bytes)} moved"
        value = _in(bar.moved_bytes, unit) + f" {unit}" * with_units
        marks = rect(left, floor - tall, each - GAP, tall, ink, edge, title=tip)
        marks += label(middle, floor - tall - 6, value, style, anchor="middle")
        marks += label(middle, floor + 18, bar.tile, style, anchor="middle")
        chosen = rank if n == now else bar.ranks[0]
        words = f'aria-label="{tip}" data-rank="{chosen}" tabindex="0" role="button"'
        yield lit_by(marks, "bar now" if n == now else "bar", words)


def _in(count: int, unit: str) -> str:
    """Return a number of bytes in a unit."""
    value = count / {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}[unit]
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _shown(bars: Sequence[Bar], now: int, wide: float, unit: str) -> list[int]:
    """Return the bars that fit, with the current one and both ends among them."""
    words = [*(b.tile for b in bars), *(_in(b.moved_bytes, unit) for b in bars)]
    least = max(text_width(w, PX) for w in words) * BOLD + 8
    most = max(1, int(wide / least))
    if len(bars) <= most:
        return list(range(len(bars)))
    spread = {round(n * (len(bars) - 1) / max(1, most - 1)) for n in range(most)}
    if now not in spread:
        spread.discard(min(spread, key=lambda n: abs(n - now)))
        spread.add(now)
    return sorted(spread)


def _note(bars: Sequence[Bar], unit: str, source: str) -> str:
    if len({bar.moved_bytes for bar in bars}) < 2:
        return f"{unit} from {source} and back, the same for every tile"
    return f"{unit} from {source} and back, by tile of the output"


def _draw(s: OnShow, op: str) -> Drawn:
    kernel_tiles = tiled_kernel(s, op)
    if kernel_tiles is None:
        return placeholder("Roller has tiled nothing.")
    rows = panel_rows(s, kernel_tiles)
    return rows, figure(rows, s.view.size), table(rows)


def panel_rows(s: OnShow, kernel_tiles: TiledKernel) -> PanelRows:
    """Return the memoized rows of a tile; those of a thread block need its code."""
    key = repr(("tiles", kernel_tiles.binding, kernel_tiles.device.name, kernel_tiles.rank))
    return s.house.cached(key, s.now.sizes, lambda: data(kernel_tiles))


PICTURE = Picture(
    name="roller",
    title="Roller's layouts through the memories",
    short="Tiles",
    words="The tile of every operand in each memory, its banks, and the bytes each tile moves.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=_draw,
)
