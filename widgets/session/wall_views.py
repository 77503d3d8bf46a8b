"""The walls of what is on show, each as its first slice, and further slices as a page asks for
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.cached_property import cached_property
from explorer.errors import BadOption
from explorer.rammer import Schedule
from widgets.model.brick_wall import WallRows
from widgets.model.on_show import Walls
from widgets.rammer import wall_slices, wall_waits
from widgets.rammer.wall_slices import Source
from widgets.rammer.wall_table import compared_words, twins_us
from widgets.session.questions import check_question

MOST_WAITING = 64  # units whose waits are told: those of a data sheet's are millions
MORE_BYTES = 60_000  # of the wall on other units, which is never looked at from nearer


@dataclass(frozen=True)
class Binary:
    """An answer with bytes beside its JSON value."""

    data: Any
    buffers: tuple[bytes, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class WallViews:
    """`walls` and the same program on `more` units; `schedules` say who waits for whom."""

    walls: Walls
    more: WallRows | None = None
    schedules: Sequence[Schedule] = ()

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """The walls by the names of the page's parts."""
        planned, measured, found = self.walls.planned, self.walls.measured, self.walls.compared
        took = should = None
        if planned is not None and measured is not None and found is not None:
            took, should, _ = twins_us(planned, measured, found)
        few = planned is not None and planned.units <= MOST_WAITING
        programs = [p for s in self.schedules for p in s.programs] if few else []
        out = {}
        for name, rows, twin in (("planned", planned, took), ("measured", measured, should)):
            if rows is not None:
                out[f"wall_{name}"] = Source(rows, wall_waits.waits(rows, programs), twin)
        if self.more is not None:
            out["wall_more"] = Source(self.more)
        return out

    @cached_property
    def packed(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Descriptions by name, and the bytes of each."""
        heads: dict[str, Any] = {}
        bodies = dict.fromkeys(("wall_planned", "wall_measured", "wall_more"), b"")
        for name, source in self.sources.items():
            budget = MORE_BYTES if name == "wall_more" else wall_slices.SLICE_BYTES
            heads[name], bodies[name] = wall_slices.packed(source, budget)
        if self.walls.compared is not None and "wall_measured" in heads:
            heads["wall_measured"]["compared"] = compared_words(self.walls.compared)
        return heads, bodies

    def slice(self, wall: str, **view: Any) -> Binary:
        """A part of a wall; raises BadOption for a wall or a window that there is not."""
        source = self.sources.get(str(wall))
        if source is None:
            raise BadOption(f"there is no wall {str(wall)[:20]!r}")
        check_question("wall", wall_slices.Window, view)
        asked = wall_slices.window(view, source.rows.total_us)
        head, body = wall_slices.sliced(source, asked)
        return Binary(head, (body,))
