"""The part of a wall that a view shows, in few bytes.

Bricks that can be distinguished are sent one by one, others as runs, and many units as one lane.
The size depends on the screen, not on the length of the wall. A wait links the last awaited brick
to the brick that waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.errors import BadOption
from explorer.ir.decisions.wall import Instruction, RProgram, Wait
from widgets.model.brick_wall import CAUSES, WallRows, kind_text
from widgets.rammer.wall_lanes import BrickColumns, lane_blocks

Places = NDArray[np.int64]
VIEW_BYTES = 1_000_000  # limit for all walls of a view
SLICE_BYTES = 380_000  # limit for one wall
MOST_WAITS = 1000
MOST_SPANS = 4000
GAP, WAIT, SPAN = 13, 24, 20  # bytes per entry
WIDEST = 1 << 16  # pixels
MOST_LANES = 160


@dataclass(frozen=True, eq=False)
class Waits:
    """One entry per Wait: the position of the waiting brick and of the awaited one."""

    reader: Places
    awaited: Places

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self.reader)


NONE = Waits(np.zeros(0, np.int64), np.zeros(0, np.int64))


def waits(rows: WallRows, programs: Sequence[RProgram]) -> Waits:
    """Return the waits of all launches of a wall; `programs` are in launch order."""
    if not rows.bricks:
        return NONE
    order = np.lexsort((rows.unit, rows.trip, rows.launch))  # stable: by start within a unit
    launch, trip = rows.launch[order].astype(np.int64), rows.trip[order].astype(np.int64)
    begins = np.flatnonzero(np.r_[True, (np.diff(launch) != 0) | (np.diff(trip) != 0)])
    ends = np.r_[begins[1:], len(order)]
    templates = {n: _template(p.units) for n, p in enumerate(programs)}
    readers, awaited = [], []
    for a, b in zip(begins.tolist(), ends.tolist()):
        template = templates.get(int(launch[a]))
        if template is None or not len(template):
            continue
        unit_begins = np.searchsorted(rows.unit[order[a:b]], np.arange(rows.units + 1))
        reader_places, awaited_places = (
            unit_begins[template[:, n]] + template[:, n + 1] for n in (0, 2)
        )
        present = (reader_places < unit_begins[template[:, 0] + 1]) & (
            awaited_places < unit_begins[template[:, 2] + 1]
        )
        readers.append(order[a:b][reader_places[present]])
        awaited.append(order[a:b][awaited_places[present]])
    if not readers:
        return NONE
    return Waits(np.concatenate(readers), np.concatenate(awaited))


def _template(units: Sequence[Sequence[Instruction]]) -> Places:
    """Return for each Wait: unit and number of the Run after it, then those of the awaited Run."""
    return np.array(list(_rows(units)), np.int64).reshape(-1, 4)


def _rows(units: Sequence[Sequence[Instruction]]) -> Iterator[tuple[int, int, int, int]]:
    for unit, rows in enumerate(units):
        runs = 0
        for row in rows:
            if isinstance(row, Wait):
                yield unit, runs, row.unit, row.step - 1
            else:
                runs += 1


@dataclass(frozen=True, slots=True)
class WallSlice:
    """The requested part of a wall: microseconds, a width in pixels, and a maximum of lanes.

    `lit`: calls whose waits are sent even if there are too many waits.
    """

    start_us: float
    end_us: float
    pixels: int = 1600
    lanes: int = MOST_LANES
    lit: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Source:
    """A wall with its waits, its counterpart's times and its lanes.

    `twin_us` holds for each brick its time in the other wall, NaN where it has none; `lanes` is the
    maximum of lanes that the wall is shown as.
    """

    rows: WallRows
    waits: Waits = NONE
    twin_us: NDArray[np.float64] | None = None
    lanes: int = MOST_LANES

    @property
    def full_window(self) -> WallSlice:
        """A window over the entire wall."""
        return WallSlice(0.0, self.rows.total_us, lanes=self.lanes)


def window(args: dict[str, Any], total_us: float) -> WallSlice:
    """Build a window from a page's arguments; raises BadOption for an invalid one."""
    request = WallSlice(**args)
    if not isinstance(request.lit, list | tuple) or not all(
        isinstance(n, int) for n in request.lit
    ):
        raise BadOption("the selected calls must be given by their positions, as whole numbers")
    numbers = (request.start_us, request.end_us, request.pixels, request.lanes)
    if not all(isinstance(n, int | float) and abs(n) < 1e15 for n in numbers):
        raise BadOption(f"the window of a wall must be given by numbers, not {numbers}")
    start = min(max(float(request.start_us), 0.0), total_us)
    end = min(max(float(request.end_us), start), total_us)
    pixels = min(max(int(request.pixels), 1), WIDEST)
    lanes = min(max(int(request.lanes), 1), MOST_LANES)
    lit = tuple(int(n) for n in request.lit[:MOST_SPANS])
    return WallSlice(start, end, pixels, lanes, lit)


def slice_wall(
    source: Source, view: WallSlice, budget: int = SLICE_BYTES
) -> tuple[dict[str, Any], bytes]:
    """Return a header and the columns one after the other; `canvas/wall_data.js` reads them.

    `least_us` 0: every brick of the window is there, so zooming in shows no more.
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
            _uint32(blocks.lane),
            _float32(blocks.start - view.start_us),
            _float32(blocks.end - view.start_us),
            _uint32(blocks.call),
            _single_columns(source, single),
            _wait_columns(rows, waits, view),
            _uint32(rows.gap_unit[gaps] // group),
            _float32(rows.gap_start[gaps] - view.start_us),
            _float32(rows.gap_end[gaps] - view.start_us),
            _uint32(np.minimum(blocks.bricks, 0xFFFFFFFF)),
            _shares(blocks).tobytes(),
            rows.cause[gaps].astype(np.uint8).tobytes(),
        )
    )


def _shares(blocks: BrickColumns) -> NDArray[np.uint8]:
    """Return the fill of each block, 254 for full; 255 marks a single brick."""
    full = np.clip(np.ceil(blocks.share * 254), 1, 254)
    return np.where(blocks.brick >= 0, 255, full).astype(np.uint8)


def _single_columns(source: Source, single: NDArray[np.int64]) -> bytes:
    rows = source.rows
    twin = np.full(len(single), np.nan) if source.twin_us is None else source.twin_us[single]
    columns = (rows.first[single], rows.last[single], rows.launch[single])
    return b"".join((*map(_uint32, columns), _float32(twin)))


def _wait_columns(rows: WallRows, waits: Waits, view: WallSlice) -> bytes:
    a, b = waits.awaited, waits.reader
    return b"".join(
        (
            _uint32(rows.unit[a]),
            _float32(rows.end[a] - view.start_us),
            _uint32(rows.call[a]),
            _uint32(rows.unit[b]),
            _float32(rows.start[b] - view.start_us),
            _uint32(rows.call[b]),
        )
    )


def _waits(source: Source, view: WallSlice, group: int) -> tuple[Waits, bool]:
    """Return the waits that reach into the window, and True if they are complete.

    Of too many waits, only those of the `lit` calls are returned.
    """
    rows, waits = source.rows, source.waits
    if group > 1 or not len(waits):
        return NONE, group == 1
    inside = (rows.start[waits.reader] < view.end_us) & (rows.end[waits.awaited] > view.start_us)
    places = np.flatnonzero(inside)
    everything = len(places) <= MOST_WAITS
    if not everything:
        lit = np.isin(rows.call[waits.reader[places]], view.lit)
        places = places[lit][:MOST_WAITS]
    return Waits(waits.reader[places], waits.awaited[places]), everything


def _gaps(
    rows: WallRows, view: WallSlice, group: int, room: int
) -> tuple[NDArray[np.int64], float]:
    """Return the gaps of the window and the length up to which gaps are omitted.

    There are no gaps if units share lanes.
    """
    if group > 1:
        return np.zeros(0, np.int64), 0.0
    places = np.flatnonzero((rows.gap_end > view.start_us) & (rows.gap_start < view.end_us))
    least = 0.0
    lengths = rows.gap_end[places] - rows.gap_start[places]
    if len(places) * GAP > room:
        pixel = (view.end_us - view.start_us) / view.pixels
        least = max(pixel, float(np.sort(lengths)[-max(1, room // GAP)]))
        places = places[lengths > least]
    return places, least


def spans(rows: WallRows, most: int = MOST_SPANS) -> tuple[int, bytes]:
    """Return the first start, last end, time and number of tasks of each call.

    Only the `most` calls that take longest are included.
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
    times = (_float32(column[there]) for column in (start, end, busy))
    return len(there), b"".join((_uint32(there), *times, _uint32(bricks[there])))


def pack_wall(source: Source, budget: int = SLICE_BYTES) -> tuple[dict[str, Any], bytes]:
    """Return the initial data of a canvas: statistics of the wall, its spans, and a full slice."""
    rows = source.rows
    count, span_bytes = spans(rows, min(MOST_SPANS, budget // (4 * SPAN)))
    head, body = slice_wall(source, source.full_window, budget - len(span_bytes))
    about = {
        "kind": kind_text(rows.kind),
        "said": rows.title,
        "units": rows.units,
        "total_us": rows.total_us,
        "bricks": rows.bricks,
        "cuts_us": _thin_cuts(rows.cuts_us, rows.total_us),
        "device": rows.device,
        "policy": rows.policy,
        "shares": rows.shares(),
        "areas_us": rows.areas_us(),
        "busy": [round(b, 5) for b in rows.busy_by_unit()],
        "launch_us": _launch_us(rows),
        "spans": count,
        "slice": head,
    }
    return about, span_bytes + body


def _launch_us(rows: WallRows) -> float:
    """Return the total time that the first unit spends launching."""
    cause = rows.cause[rows.gap_rows[0] : rows.gap_rows[1]] if rows.units else rows.cause[:0]
    lengths = (rows.gap_end - rows.gap_start)[: len(cause)]
    return float(lengths[cause == CAUSES.index("launch")].sum())


def _thin_cuts(cuts: tuple[float, ...], total: float, most: int = 2000) -> list[float]:
    """Return the cuts; of too many, only those that are far enough apart to see."""
    if len(cuts) <= most:
        return list(cuts)
    places = (np.array(cuts) / total * most).astype(int)
    keep = np.flatnonzero(np.diff(places, prepend=-1))
    return [float(cuts[n]) for n in keep]


def _uint32(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, "<u4").tobytes()


def _float32(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, "<f4").tobytes()
