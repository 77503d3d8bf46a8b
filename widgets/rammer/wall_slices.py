"""What of a wall a view shows, as few bytes: bricks that can be told apart one by one, the others
as runs, many units as one lane. A wall of any length costs what a screen shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.errors import BadOption
from widgets.model.brick_wall import CAUSES, WallRows, kind_text
from widgets.rammer.wall_lanes import Blocks, lane_blocks
from widgets.rammer.wall_waits import NONE, Waits

VIEW_BYTES = 1_000_000  # of all walls of one view
SLICE_BYTES = 380_000  # of one of them
MOST_WAITS = 1000
MOST_SPANS = 4000
GAP, WAIT, SPAN = 13, 24, 20  # bytes of one
WIDEST = 1 << 16  # pixels
MOST_LANES = 160


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a wall that is asked for: microseconds, over so many pixels and at most so many
    lanes. `lit`: calls whose waits are told even where there are too many.
    """

    start_us: float
    end_us: float
    pixels: int = 1600
    lanes: int = MOST_LANES
    lit: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Source:
    """A wall with what belongs to it: its waits, for each brick the time that the other wall gives
    it (NaN where it has none), and the most lanes that it is shown as.
    """

    rows: WallRows
    waits: Waits = NONE
    twin_us: NDArray[np.float64] | None = None
    lanes: int = MOST_LANES

    @property
    def whole(self) -> Window:
        """All of it."""
        return Window(0.0, self.rows.total_us, lanes=self.lanes)


def window(args: dict[str, Any], total_us: float) -> Window:
    """A window that came from outside; raises BadOption where it is none."""
    found = Window(**args)
    if not isinstance(found.lit, list | tuple) or not all(isinstance(n, int) for n in found.lit):
        raise BadOption("the selection of a schedule is positions of calls")
    numbers = (found.start_us, found.end_us, found.pixels, found.lanes)
    if not all(isinstance(n, int | float) and abs(n) < 1e15 for n in numbers):
        raise BadOption(f"a window of a wall is made of numbers, not {numbers}")
    start = min(max(float(found.start_us), 0.0), total_us)
    end = min(max(float(found.end_us), start), total_us)
    pixels = min(max(int(found.pixels), 1), WIDEST)
    lanes = min(max(int(found.lanes), 1), MOST_LANES)
    lit = tuple(int(n) for n in found.lit[:MOST_SPANS])
    return Window(start, end, pixels, lanes, lit)


def sliced(source: Source, view: Window, budget: int = SLICE_BYTES) -> tuple[dict[str, Any], bytes]:
    """A description, and columns one after the other; `canvas/wall_data.js` reads them.

    `least_us` 0: every brick of the window is there, so no nearer look shows more.
    """
    rows = source.rows
    group = -(-rows.lanes // view.lanes)
    waits, everything = _waits(source, view, group)
    room = budget - WAIT * len(waits)
    gaps, least_gap = _gaps(rows, view, group, room // 4)
    blocks = lane_blocks(rows, view, group, room - GAP * len(gaps))
    single = blocks.brick[blocks.brick >= 0]
    head = {
        "from": view.start_us,
        "to": view.end_us,
        "least_us": max(blocks.least_us, least_gap),
        "group": group,
        "lanes": -(-rows.lanes // group),
        "blocks": len(blocks.start),
        "singles": len(single),
        "gaps": len(gaps),
        "waits": len(waits),
        "all_waits": everything,
    }
    return head, b"".join(
        (
            _whole(blocks.lane),
            _times(blocks.start - view.start_us),
            _times(blocks.end - view.start_us),
            _whole(blocks.call),
            _single_columns(source, single),
            _wait_columns(rows, waits, view),
            _whole(rows.gap_unit[gaps] // group),
            _times(rows.gap_start[gaps] - view.start_us),
            _times(rows.gap_end[gaps] - view.start_us),
            _whole(np.minimum(blocks.bricks, 0xFFFFFFFF)),
            _shares(blocks).tobytes(),
            rows.cause[gaps].astype(np.uint8).tobytes(),
        )
    )


def _shares(blocks: Blocks) -> NDArray[np.uint8]:
    """How full each block is, 254 for all of it; 255: it is one brick."""
    full = np.clip(np.ceil(blocks.share * 254), 1, 254)
    return np.where(blocks.brick >= 0, 255, full).astype(np.uint8)


def _single_columns(source: Source, single: NDArray[np.int64]) -> bytes:
    rows = source.rows
    twin = np.full(len(single), np.nan) if source.twin_us is None else source.twin_us[single]
    columns = (rows.first[single], rows.last[single], rows.launch[single])
    return b"".join((*map(_whole, columns), _times(twin)))


def _wait_columns(rows: WallRows, waits: Waits, view: Window) -> bytes:
    a, b = waits.awaited, waits.reader
    return b"".join(
        (
            _whole(rows.unit[a]),
            _times(rows.end[a] - view.start_us),
            _whole(rows.call[a]),
            _whole(rows.unit[b]),
            _times(rows.start[b] - view.start_us),
            _whole(rows.call[b]),
        )
    )


def _waits(source: Source, view: Window, group: int) -> tuple[Waits, bool]:
    """The waits that reach into the window, and whether they are all; of too many those of the
    calls that are lit.
    """
    rows, waits = source.rows, source.waits
    if group > 1 or not len(waits):
        return NONE, group == 1
    inside = (rows.start[waits.reader] < view.end_us) & (rows.end[waits.awaited] > view.start_us)
    found = np.flatnonzero(inside)
    everything = len(found) <= MOST_WAITS
    if not everything:
        lit = np.isin(rows.call[waits.reader[found]], view.lit)
        found = found[lit][:MOST_WAITS]
    return Waits(waits.reader[found], waits.awaited[found]), everything


def _gaps(rows: WallRows, view: Window, group: int, room: int) -> tuple[NDArray[np.int64], float]:
    """The gaps of the window, none shorter than the time that is returned; none where units share
    lanes.
    """
    if group > 1:
        return np.zeros(0, np.int64), 0.0
    found = np.flatnonzero((rows.gap_end > view.start_us) & (rows.gap_start < view.end_us))
    least = 0.0
    lengths = rows.gap_end[found] - rows.gap_start[found]
    if len(found) * GAP > room:
        pixel = (view.end_us - view.start_us) / view.pixels
        least = max(pixel, float(np.sort(lengths)[-max(1, room // GAP)]))
        found = found[lengths > least]
    return found, least


def spans(rows: WallRows, most: int = MOST_SPANS) -> tuple[int, bytes]:
    """Return the first start, the last end, the time and the number of the tasks of each call, or
    of the `most` calls that take longest.
    """
    size = len(rows.calls)
    bricks = np.bincount(rows.call, minlength=size)
    busy = np.bincount(rows.call, weights=rows.end - rows.start, minlength=size)
    start, end = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(start, rows.call, rows.start)
    np.maximum.at(end, rows.call, rows.end)
    there = np.flatnonzero(bricks)
    if len(there) > most:
        there = there[np.argsort(start[there] - end[there])[:most]]
    times = (_times(column[there]) for column in (start, end, busy))
    return len(there), b"".join((_whole(there), *times, _whole(bricks[there])))


def packed(source: Source, budget: int = SLICE_BYTES) -> tuple[dict[str, Any], bytes]:
    """What a canvas begins with: the wall's own numbers, its spans, and a slice of all of it."""
    rows = source.rows
    count, told = spans(rows, min(MOST_SPANS, budget // (4 * SPAN)))
    head, body = sliced(source, source.whole, budget - len(told))
    about = {
        "kind": kind_text(rows.kind),
        "said": rows.said,
        "units": rows.units,
        "total_us": rows.total_us,
        "bricks": rows.bricks,
        "cuts_us": _thinned(rows.cuts_us, rows.total_us),
        "device": rows.device,
        "policy": rows.policy,
        "shares": rows.shares(),
        "areas_us": rows.areas_us(),
        "busy": [round(b, 5) for b in rows.busy_by_unit()],
        "launch_us": _launches(rows),
        "spans": count,
        "slice": head,
    }
    return about, told + body


def _launches(rows: WallRows) -> float:
    """Time that the first unit spends launching, in all."""
    cause = rows.cause[rows.gap_rows[0] : rows.gap_rows[1]] if rows.units else rows.cause[:0]
    lengths = (rows.gap_end - rows.gap_start)[: len(cause)]
    return float(lengths[cause == CAUSES.index("launch")].sum())


def _thinned(cuts: tuple[float, ...], total: float, most: int = 2000) -> list[float]:
    """Of too many cuts those that stand apart."""
    if len(cuts) <= most:
        return list(cuts)
    places = (np.array(cuts) / total * most).astype(int)
    keep = np.flatnonzero(np.diff(places, prepend=-1))
    return [float(cuts[n]) for n in keep]


def _whole(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, "<u4").tobytes()


def _times(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, "<f4").tobytes()
