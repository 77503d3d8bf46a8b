"""The walls on show: each as its first slice, with further slices on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.cached_property import cached_property
from explorer.errors import BadOption
from explorer.measure.walls import WallComparison
from explorer.rammer import Schedule
from widgets.model.brick_wall import WallRows
from widgets.model.on_show import Walls
from widgets.rammer import wall_slices, wall_waits
from widgets.rammer.wall_slices import Source
from widgets.rammer.wall_table import Times, compared_words, match_bricks
from widgets.session.questions import check_question

MOST_WAITING = 64  # most units with waits: a data sheet's device has millions of them
WALLS = ("wall_planned", "wall_measured", "wall_recorded", "wall_more", "wall_base")
MORE_BYTES = 60_000  # of the wall on other units, which is never zoomed


@dataclass(frozen=True)
class Binary:
    """An answer with bytes beside its JSON value."""

    data: Any
    buffers: tuple[bytes, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class WallViews:
    """The `walls` and the same program on `more` units; `schedules` give the waits of tasks."""

    walls: Walls
    more: WallRows | None = None
    schedules: Sequence[Schedule] = ()

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Return the walls by the names of the page's parts."""
        w = self.walls
        took, should = _twins(w.planned, *w.ran)
        _, recorded = _twins(w.planned, w.recorded, w.recorded_compared)
        few = w.planned is not None and w.planned.units <= MOST_WAITING
        programs = [p for s in self.schedules for p in s.programs] if few else []
        out = {}
        for name, rows, twin in (
            ("planned", w.planned, took),
            ("measured", w.measured, should),
            ("recorded", w.recorded, recorded),
        ):
            if rows is not None:
                known_programs = (
                    programs if name != "recorded" else ()
                )  # a recorded wall has no programs
                waits = wall_waits.waits(rows, known_programs)
                out[f"wall_{name}"] = Source(rows, waits, twin, self._lanes(rows))
        if self.more is not None:
            out["wall_more"] = Source(self.more)
        return out

    def _lanes(self, rows: WallRows) -> int:
        """Return at most the number of lanes of the plan: another machine may have more units."""
        planned = self.walls.planned
        return min(wall_slices.MOST_LANES, planned.lanes if planned is not None else rows.lanes)

    @cached_property
    def packed(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return descriptions by name, and the bytes of each."""
        heads: dict[str, Any] = {}
        bodies = dict.fromkeys(WALLS, b"")
        for name, source in self.sources.items():
            budget = MORE_BYTES if name == "wall_more" else wall_slices.SLICE_BYTES
            heads[name], bodies[name] = wall_slices.pack_wall(source, budget)
        both = (self.walls.compared, self.walls.recorded_compared)
        for name, comparison in zip(("wall_measured", "wall_recorded"), both):
            if comparison is not None and name in heads:
                heads[name]["compared"] = compared_words(comparison)
        return heads, bodies

    @cached_property
    def as_base(self) -> tuple[dict[str, Any], bytes]:
        """Return the wall that others are compared with: the measured one, else the planned one.

        It has the names and families of its own calls.
        """
        rows = self.walls.measured or self.walls.planned
        if rows is None:
            return {}, b""
        head, body = wall_slices.pack_wall(Source(rows, lanes=self._lanes(rows)), MORE_BYTES)
        return {**head, "calls": [[c.label, c.family] for c in rows.calls]}, body

    def slice(self, wall: str, **view: Any) -> Binary:
        """Return a part of a wall; raises BadOption for an unknown wall or an invalid window."""
        source = self.sources.get(str(wall))
        if source is None:
            raise BadOption(f"there is no wall {str(wall)[:20]!r}")
        check_question("wall", wall_slices.WallSlice, view)
        window = wall_slices.window(view, source.rows.total_us)
        window = replace(window, lanes=min(window.lanes, source.lanes))
        head, body = wall_slices.slice_wall(source, window)
        return Binary(head, (body,))


def _twins(
    planned: WallRows | None, ran: WallRows | None, comparison: WallComparison | None
) -> tuple[Times | None, Times | None]:
    """Return the measured time of each planned brick and the planned time of each that ran.

    None if either is unknown.
    """
    if planned is None or ran is None or comparison is None:
        return None, None
    return match_bricks(planned, ran, comparison)[:2]
