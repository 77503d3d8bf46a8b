"""The bricks of a window as blocks: single bricks where visible, else runs of bricks.

With more units than lanes, each lane shows the calls of its busiest unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from widgets.model.brick_wall import WallRows

BLOCK, SINGLE = 21, 16  # bytes per entry
Places = NDArray[np.int64]
Times = NDArray[np.float64]


class LaneWindow(Protocol):
    """The part of a wall to draw."""

    @property
    def start_us(self) -> float:
        """The start of the window in microseconds."""

    @property
    def end_us(self) -> float:
        """The end of the window in microseconds."""

    @property
    def pixels(self) -> int:
        """The width of the window in pixels."""


@dataclass(frozen=True, eq=False)
class BrickColumns:
    """Blocks of bricks as columns, ordered by lane and start.

    `brick` is the position of the only brick, -1 for a run of `bricks`; `share` is the filled
    fraction. No single block is shorter than `least_us`; 0: every brick is a block.
    """

    lane: Places
    start: Times
    end: Times
    call: Places
    bricks: Places
    brick: Places
    share: Times
    least_us: float

    @property
    def bytes(self) -> int:
        """The size of the blocks when sent to the page."""
        return BLOCK * len(self.lane) + SINGLE * int((self.brick >= 0).sum())


def lane_blocks(rows: WallRows, view: LaneWindow, group: int, room: int) -> BrickColumns:
    """Return the finest blocks that fit into `room` bytes, or one block a lane if none do."""
    pixel = (view.end_us - view.start_us) / view.pixels
    if group > 1:
        bins = view.pixels // 2
        blocks = _bin_blocks(rows, view, group, bins)
        while blocks.bytes > room and bins > 8:
            bins = bins * 2 // 3
            blocks = _bin_blocks(rows, view, group, bins)
        return blocks
    place = _find_bricks(rows, view)
    if len(place) * (BLOCK + SINGLE) <= room:
        return _single_blocks(rows, place)
    blocks, least = _merge_short_runs(rows, place, pixel), pixel
    while blocks.bytes > room and least <= view.end_us:
        least *= 1.4
        blocks = _merge_short_blocks(blocks, least)
    return blocks


def _find_bricks(rows: WallRows, view: LaneWindow) -> Places:
    """Return the positions of the bricks in a window."""
    ranges = []
    for a, b in zip(rows.rows[:-1].tolist(), rows.rows[1:].tolist()):
        low = a + int(np.searchsorted(rows.end[a:b], view.start_us, "right"))
        high = a + int(np.searchsorted(rows.start[a:b], view.end_us))
        ranges.append(np.arange(low, max(low, high)))
    return np.concatenate(ranges) if ranges else np.zeros(0, np.int64)


def _single_blocks(rows: WallRows, place: Places) -> BrickColumns:
    ones = np.ones(len(place), np.int64)
    return BrickColumns(
        rows.unit[place].astype(np.int64),
        rows.start[place],
        rows.end[place],
        rows.call[place].astype(np.int64),
        ones,
        place,
        ones.astype(np.float64),
        0.0,
    )


def _merge_short_runs(rows: WallRows, place: Places, least: float) -> BrickColumns:
    """Merge adjacent bricks of a call whose mean length is below `least`."""
    unit, call = rows.unit[place], rows.call[place]
    new = _find_changes((unit, call))
    run = np.cumsum(new) - 1
    begin = np.flatnonzero(new)
    end = np.r_[begin[1:], len(place)] - 1
    mean = (rows.end[place[end]] - rows.start[place[begin]]) / (end - begin + 1)
    new |= (mean >= least)[run]
    begin = np.flatnonzero(new)
    return _merge_short_blocks(_merge_bricks(rows, place, begin), least)


def _merge_short_blocks(blocks: BrickColumns, least: float) -> BrickColumns:
    """Merge blocks shorter than `least` that begin in the same interval of that length.

    The merged block shows the call of the longest one.
    """
    thin = blocks.end - blocks.start < least
    stretch = np.where(thin, np.floor(blocks.start / least), -1 - np.arange(len(thin)))
    return _merge_blocks(blocks, _find_changes((blocks.lane, stretch)), least)


def _find_changes(columns: tuple[NDArray[np.generic], ...]) -> NDArray[np.bool_]:
    """Return a mask that is True where a value of any column changes."""
    new = np.zeros(len(columns[0]), bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _merge_bricks(rows: WallRows, place: Places, begin: Places) -> BrickColumns:
    """Merge the bricks from each beginning to the next one into one block."""
    if not len(begin):
        return _single_blocks(rows, place)
    last = np.r_[begin[1:], len(place)] - 1
    start, end = rows.start[place[begin]], rows.end[place[last]]
    busy = np.add.reduceat(rows.end[place] - rows.start[place], begin)
    bricks = last - begin + 1
    return BrickColumns(
        rows.unit[place[begin]].astype(np.int64),
        start,
        end,
        rows.call[place[begin]].astype(np.int64),
        bricks,
        np.where(bricks == 1, place[begin], -1),
        busy / np.maximum(end - start, 1e-12),
        0.0,
    )


def _merge_blocks(blocks: BrickColumns, new: NDArray[np.bool_], least: float) -> BrickColumns:
    begin = np.flatnonzero(new)
    if not len(begin):
        return blocks
    last = np.r_[begin[1:], len(new)] - 1
    start, end = blocks.start[begin], blocks.end[last]
    lengths = blocks.end - blocks.start
    busy = np.add.reduceat(lengths * blocks.share, begin)
    order = np.lexsort((-lengths, np.cumsum(new)))  # longest of each group first
    call = blocks.call[order[begin]]
    alone = last == begin
    return BrickColumns(
        blocks.lane[begin],
        start,
        end,
        call,
        np.add.reduceat(blocks.bricks, begin),
        np.where(alone, blocks.brick[begin], -1),
        busy / np.maximum(end - start, 1e-12),
        least,
    )


def _bin_blocks(rows: WallRows, view: LaneWindow, group: int, bins: int) -> BrickColumns:
    """Return blocks for lanes of `group` units each.

    Each time bin has the call of its busiest unit and the fraction of all units that work; equal
    neighbours are merged.
    """
    lanes = -(-rows.lanes // group)
    edges = np.linspace(view.start_us, view.end_us, bins + 1)
    width = edges[1] - edges[0]
    busy, best = np.zeros((lanes, bins)), np.zeros((lanes, bins))
    call = np.zeros((lanes, bins), np.int64)
    for unit in range(rows.lanes):
        a, b = int(rows.rows[unit]), int(rows.rows[unit + 1])
        if a == b:
            continue
        done = _work_done(rows.start[a:b], rows.end[a:b], edges)
        spent = np.diff(done)
        middle = np.searchsorted(rows.end[a:b], edges[:-1] + width / 2)
        mine = rows.call[a + np.minimum(middle, b - a - 1)]
        lane = unit // group
        busy[lane] += spent
        better = spent > best[lane]
        best[lane][better] = spent[better]
        call[lane][better] = mine[better]
    sizes = np.minimum(group, rows.lanes - group * np.arange(lanes))
    share = busy / (sizes[:, None] * width if width else 1.0)
    return _merge_bins(call, share, edges)


def _work_done(start: Times, end: Times, at: Times) -> Times:
    """Return the time that a unit has worked by each of the times `at`."""
    before = np.r_[0.0, np.cumsum(end - start)]
    n = np.searchsorted(end, at)
    partial = np.where(n < len(start), at - start[np.minimum(n, len(start) - 1)], 0.0)
    done: Times = before[n] + np.maximum(partial, 0.0)
    return done


def _merge_bins(call: Places, share: Times, edges: Times) -> BrickColumns:
    lanes, bins = call.shape
    level = np.ceil(share * 8 - 1e-9).astype(np.int64)
    lane = np.repeat(np.arange(lanes), bins)
    flat = np.where(level, call, -1).ravel()
    new = _find_changes((lane, flat, level.ravel()))
    begin = np.flatnonzero(new)
    last = np.r_[begin[1:], len(new)] - 1
    mean = np.add.reduceat(share.ravel(), begin) / (last - begin + 1)
    keep = flat[begin] >= 0
    begin, last, mean = begin[keep], last[keep], mean[keep]
    nothing = np.full(len(begin), -1)
    return BrickColumns(
        lane[begin],
        edges[begin % bins],
        edges[last % bins + 1],
        flat[begin],
        np.zeros(len(begin), np.int64),
        nothing,
        mean,
        float(edges[1] - edges[0]),
    )
