"""Memory traffic of a whole operator by its tile: bytes read for every tile, and bytes written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.roller.construct.rtile import whole_tile
from widgets.draw.see import lit_by
from widgets.draw.svg import fit, label, rect, text_width
from widgets.draw.table import size_text
from widgets.roller.tiled_kernel import TileChoice

PX, BOLD, GAP, MOST_WIDE = 13, 1.07, 4.0, 100.0


@dataclass(frozen=True, slots=True)
class Bar:
    """The bytes moved with one output tile; `ranks` are the choices that have that tile."""

    tile: str
    moved_bytes: int
    ranks: tuple[int, ...]


def traffic(choices: Sequence[TileChoice]) -> tuple[Bar, ...]:
    """Return the tiles by the bytes that they move, the most first, smaller ones before larger."""
    ranks_by_tile: dict[tuple[int, str, int], list[int]] = {}
    for rank, choice in enumerate(choices):
        tile = choice.levels[0].tile
        moved = tile.traffic_bytes * whole_tile(tile.expression).count(tile)
        size = "×".join(str(n) for n in tile.output_tile if n > 1) or "1"
        ranks_by_tile.setdefault((-moved, size, tile.points), []).append(rank)
    order = sorted(ranks_by_tile, key=lambda key: (key[0], key[2], key[1]))
    return tuple(Bar(key[1], -key[0], tuple(ranks_by_tile[key])) for key in order)


def order(bars: Sequence[Bar]) -> list[int]:
    """Return the choices along the staircase."""
    return [rank for bar in bars for rank in bar.ranks]


def staircase(
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
