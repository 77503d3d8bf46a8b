"""Drawing and text of Roller's tiles: a panel per memory, its banks, and the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from explorer.roller.construct.levels import Room
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg, label, path, wrap_text
from widgets.draw.table import Table
from widgets.draw.theme import family_token
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture, placeholder
from widgets.roller.frame_drawing import NARROW, PX, pair_text, panels, room_words
from widgets.roller.panel_frames import PanelFrame
from widgets.roller.storage_picture import banks, banks_width, sentence, worst_access, worst_storage
from widgets.roller.tile_panels import PanelRows, data
from widgets.roller.tiled_kernel import TiledKernel, axis_words
from widgets.roller.traffic import staircase
from widgets.roller.view import TILES, tiled_kernel

LEAST_BELOW = 172.0  # minimum height of the banks and the staircase


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
                    _by(t.shape),
                    _by(t.box),
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


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"


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
    yield from banks(storage, ask, _no_banks(rows), y + 20, left - 16, low - 24)
    at = (left + 8, y + 20)
    source = rows.frames[0].level
    yield from staircase(rows.bars, rows.rank, source, at, wide - left - 8, low - 24)


def _no_banks(rows: PanelRows) -> str:
    """Return the reason why no banks are drawn."""
    if rows.kind == "gpu":
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
    bank_sentence = sentence(worst_storage(rows.levels), worst_access(rows.banks))
    if bank_sentence is not None:
        sentences.append(bank_sentence)
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
