"""The view of one setting in a session: the explorer, its walls and recording, its memory plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from explorer.cached_property import cached_property
from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.wall import Wall
from explorer.ir.stage import Stage
from explorer.measure.recorded_run import RecordedRun
from explorer.measure.walls import WallComparison, compare_walls
from explorer.rammer import Schedule
from widgets.model import brick_wall
from widgets.model.brick_wall import WallCall, WallRows
from widgets.model.compiled import Arrays, Compiled
from widgets.model.house import House, read
from widgets.model.knobs import Setting, first_setting, threads
from widgets.model.picture import Walls
from widgets.rammer import wall_slices
from widgets.rammer.wall_slices import Source
from widgets.rammer.wall_table import Times, compared_words, match_bricks
from widgets.session.questions import check_question

MOST_WAITING = 64  # most units with waits: a data sheet's device has millions of them
WALLS = ("wall_planned", "wall_measured", "wall_recorded", "wall_more", "wall_base")
MORE_BYTES = 60_000  # of the wall on other units, which is never zoomed
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
                waits = wall_slices.waits(rows, known_programs)
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


def open_recording(
    c: Compiled, recording: str | Path | None, sizes: Mapping[str, int] | None
) -> tuple[Compiled, RecordedRun | None]:
    """Return the compilation as it is shown beside a recording, and that recording.

    On a GPU the compilation has the thread blocks that ran. `recording` names it: a file, or
    the device of one that comes with Ironworks. Without it, a shipped recording of the program that
    this compilation would run is chosen. Raises SnapshotError if the file is no recording. Raises
    BadOption if it is of another model or of other sizes, or if there is no plan to show it beside.
    """
    if recording is None:
        return _find_shipped(c, sizes)
    run = c.recorded(recording)
    if c.program.stage < Stage.PLANNED:
        raise BadOption(
            f"a recording stands beside a plan, and {c.model.name} is compiled until "
            f"{c.program.stage.name}",
            where=c.model.name,
            expected=f"{Stage.PLANNED.name} or later",
            actual=c.program.stage.name,
        )
    run.under(sizes or {})
    return c.as_recorded(run), run


def _find_shipped(
    c: Compiled, sizes: Mapping[str, int] | None
) -> tuple[Compiled, RecordedRun | None]:
    """Find a shipped recording that fits; those that do not fit are skipped silently."""
    takes_cuda = target_of(c.device).prints_cuda and c.device.takes_cuda
    if not takes_cuda or c.program.stage < Stage.PLANNED:
        return c, None
    wanted_sizes = first_setting(c, sizes).sizes
    for name in c.recordings:
        with suppress(BadOption):
            run = c.recorded(name)
            here = run.is_of(c.device) and run.wall.units == c.device.units
            if here and run.sizes == wanted_sizes:
                shown = c.as_recorded(run)
                if _is_same_wall(shown.planned_wall(dict(run.sizes)), run.wall):
                    return shown, run
    return c, None


def _is_same_wall(planned: Wall, ran: Wall) -> bool:
    """Return True if the bricks of both walls match one to one."""
    comparison = compare_walls(planned, ran)
    return not comparison.missing and all(b.planned >= 0 for b in comparison.bricks)


def recorded_wall(
    run: RecordedRun | None, setting: Setting, planned: Wall, calls: tuple[WallCall, ...]
) -> tuple[WallRows | None, WallComparison | None]:
    """Return the recorded wall if the setting has its sizes, and its comparison with the plan.

    The comparison exists only if the plan is for the same device.
    """
    if run is None or run.sizes != setting.sizes:
        return None, None
    if not run.is_of(setting.compiled.device):
        return brick_wall.data(run.wall, calls, f"{run.title}, another device"), None
    return brick_wall.data(run.wall, calls, run.title), compare_walls(planned, run.wall)
