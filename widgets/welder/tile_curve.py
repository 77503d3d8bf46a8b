"""Memory traffic by the size of the output tile, up to the capacity (Welder, section 3).

It also holds the bytes of every memory level before and after fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.tile_costs import TileCost, holder
from widgets.draw.table import size_text
from widgets.welder.welded_group import WeldedGroup, level_name, tile_words


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One tile of the curve.

    `elements` is the size of its output tile, `traffic` the bytes that all tasks move, and
    `footprint` the bytes that one task holds.
    """

    tile: str
    elements: int
    traffic: int
    footprint: int
    fits: bool
    grid: int
    waves: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes between a level and the next farther one, by separate kernels and by the group."""

    level: str
    farther: str
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class CurveRows:
    """The curve of one group on one device; `level` holds a task's tile, `farther` feeds it.

    `cut` is between the largest tile that fits and the next larger one, 0 where all fit.
    """

    group: str
    device: str
    own: bool
    level: str
    farther: str
    capacity: int | None
    points: tuple[CurvePoint, ...]
    rank: int
    cut: float
    moved: tuple[Moved, ...]
    ops: tuple[str, ...]

    @property
    def frontier(self) -> tuple[CurvePoint, ...]:
        """The least traffic of each size that fits, small tiles first."""
        best: dict[int, CurvePoint] = {}
        for p in self.points:
            if p.fits and (p.elements not in best or p.traffic < best[p.elements].traffic):
                best[p.elements] = p
        return tuple(best[size] for size in sorted(best))


def data(welded: WeldedGroup) -> CurveRows:
    """Return the curve of a group and its bytes per level."""
    memory = holder(welded.device)
    names = [m.name for m in memories(welded.device)]
    full_sizes = _largest(welded.points)
    points = tuple(_point(cost, full_sizes) for cost in welded.points)
    return CurveRows(
        welded.title,
        welded.device.name,
        welded.own,
        memory.name,
        names[min(names.index(memory.name) + 1, len(names) - 1)],
        memory.capacity,
        points,
        rank_of(welded),
        cut_off(points),
        tuple(moved(welded.plan, welded.apart)),
        welded.ops,
    )


def rank_of(welded: WeldedGroup) -> int:
    """Return the position of the current tile among the points, -1 if no point has it."""
    shown = dict(welded.plan.tile)
    return next((n for n, p in enumerate(welded.points) if dict(p.tile) == shown), -1)


def _largest(costs: Iterable[TileCost]) -> dict[str, int]:
    """Return the greatest size of each axis, which a tile that does not name the axis has."""
    sizes: dict[str, int] = {}
    for cost in costs:
        sizes |= {axis: max(size, sizes.get(axis, 0)) for axis, size in cost.tile}
    return sizes


def _point(cost: TileCost, full_sizes: Mapping[str, int]) -> CurvePoint:
    return CurvePoint(
        tile_words(cost.tile),
        prod((dict(full_sizes) | dict(cost.tile)).values()),
        cost.traffic,
        cost.footprint,
        cost.valid,
        cost.grid,
        cost.waves,
    )


def cut_off(points: Sequence[CurvePoint]) -> float:
    """Return the size at which tiles no longer fit, in elements; 0 if no larger tile exists."""
    fit = [p.elements for p in points if p.fits]
    larger = [p.elements for p in points if p.elements > max(fit, default=0)]
    if not larger:
        return 0.0
    return sqrt(max(fit, default=min(larger) / 2) * min(larger))


def moved(plan: GroupPlan, apart: Sequence[GroupPlan]) -> Iterator[Moved]:
    """Yield the bytes between neighbouring levels, of separate kernels and of the group."""
    for near, far in zip(plan.levels, plan.levels[1:]):
        before = sum(m.traffic for p in apart for m in p.levels if m.level == near.level)
        yield Moved(near.level, far.level, before if apart else None, near.traffic)


def point_words(rows: CurveRows, n: int) -> str:
    """Describe a tile in a sentence."""
    p = rows.points[n]
    room = f" of {size_text(rows.capacity)}" if rows.capacity else ""
    return (
        f"tile {p.tile}: {size_text(p.traffic)} from {level_name(rows.farther)}, "
        f"{size_text(p.footprint)}{room} held in {level_name(rows.level)}"
        f"{'' if p.fits else ', does not fit'}, {p.grid:,} tasks in {p.waves:,} waves"
    )
