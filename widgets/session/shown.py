"""The view of one setting in a session: the explorer, its walls, its memory plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.wall import Wall
from explorer.ir.stage import Stage
from explorer.measure.recorded_run import RecordedRun
from explorer.measure.walls import compare_walls
from widgets.model import brick_wall
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Arrays
from widgets.model.house import House, read
from widgets.model.knobs import Setting, threads
from widgets.model.on_show import Walls
from widgets.session.open_recording import recorded_wall
from widgets.session.wall_views import WallViews

MORE_UNITS = 8
MOST_CALLS = 4000  # larger programs are not planned for more units: no task would be visible
TRACING_SECONDS = 0.05
MOST_TRACED = 40


@dataclass(frozen=True)
class Shown:
    """One setting as it is shown; before there is a schedule, without walls and plan."""

    setting: Setting
    house: House
    views: WallViews
    plan: MemoryPlan | None

    @property
    def walls(self) -> Walls:
        """The planned wall, and the measured one after a run."""
        return self.views.walls

    @property
    def planned_us(self) -> float:
        """The predicted time of a run; 0 without a schedule."""
        return self.walls.planned.total_us if self.walls.planned else 0.0

    def run_once(self, inputs: Arrays, median_us: float | None) -> Shown:
        """Return the same with a measured wall.

        Of several runs, the one nearest to the timed median `median_us`, or to their own median.
        """
        compiled, runs = self.setting.compiled, list[Wall]()
        end = perf_counter() + TRACING_SECONDS
        while len(runs) < 3 or (len(runs) < MOST_TRACED and perf_counter() < end):
            runs.append(compiled.measured_wall(inputs))
        middle = median_us
        if middle is None:
            middle = sorted(w.total_us for w in runs)[len(runs) // 2]
        wall = min(runs, key=lambda w: abs(w.total_us - middle))
        compared = compare_walls(compiled.planned_wall(dict(self.setting.sizes)), wall)
        measured = brick_wall.data(wall, self.house.calls)
        walls = replace(self.walls, measured=measured, compared=compared)
        return replace(self, views=replace(self.views, walls=walls))

    def with_more_units(self) -> Shown:
        """Return the same with the wall of more units, if that was left for later."""
        if self.views.more is not None or self.walls.planned is None:
            return self
        more = _more_units(self.setting, self.house)
        return replace(self, views=replace(self.views, more=more))


def shown(setting: Setting, *, more: bool = True, recorded: RecordedRun | None = None) -> Shown:
    """Read a setting's compilation without running it.

    `more`: include the wall of more units. `recorded`: include that of a recording, if it has the
    same sizes.
    """
    c, sizes = setting.compiled, dict(setting.sizes)
    house = read(c)
    if c.program.stage < Stage.PLANNED:
        return Shown(setting, house, WallViews(Walls(None, None), None, ()), None)
    planned = c.planned_wall(sizes)
    recorded_rows, beside = recorded_wall(recorded, setting, planned, house.calls)
    rows = brick_wall.data(planned, house.calls)
    walls = Walls(rows, None, recorded=recorded_rows, recorded_compared=beside)
    others = _more_units(setting, house) if more else None
    views = WallViews(walls, others, tuple(c.schedules(sizes)))
    return Shown(setting, house, views, c.memory(sizes))


def _more_units(now: Setting, house: House) -> WallRows | None:
    """Plan the same program for more units than this machine may have.

    Skips a program so large that its wall would show no task.
    """
    if threads(now.compiled) >= MORE_UNITS or len(house.calls) > MOST_CALLS:
        return None
    options = replace(now.compiled.options.rammer, threads=MORE_UNITS)
    other = now.compiled.with_options(rammer=options)
    return brick_wall.data(other.planned_wall(dict(now.sizes)), house.calls)
