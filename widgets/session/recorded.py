"""A run that somebody recorded, opened beside the plan of the same program."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from explorer.errors import BadOption
from explorer.ir.decisions.wall import Wall
from explorer.ir.stage import Stage
from explorer.measure.recorded_run import RecordedRun
from explorer.measure.walls import WallComparison, compare_walls
from widgets.model import brick_wall
from widgets.model.brick_wall import Call, WallRows
from widgets.model.compiled import Compiled
from widgets.model.knobs import Setting, first_setting


def opened(
    c: Compiled, given: str | Path | None, sizes: Mapping[str, int] | None
) -> tuple[Compiled, RecordedRun | None]:
    """A recording to be shown, and the compilation as it is shown beside: on a GPU with the
    blocks that ran. `given` names one, by a file or by the device of one that comes with Ironworks;
    where none is named one that comes with Ironworks is found, if what it recorded is the program
    that this compilation would run.

    Raises SnapshotError where the file is none, BadOption where it is of another model, of other
    sizes than were asked for, or has no plan to stand beside.
    """
    if given is None:
        return _found(c, sizes)
    run = c.recorded(given)
    if c.program.stage < Stage.PLANNED:
        raise BadOption(
            f"a recording stands beside a plan, and {c.model.name} is compiled until "
            f"{c.program.stage.name}",
            where=c.model.name,
            expected=f"{Stage.PLANNED.name} or later",
            found=c.program.stage.name,
        )
    run.under(sizes or {})
    return c.as_recorded(run), run


def _found(c: Compiled, sizes: Mapping[str, int] | None) -> tuple[Compiled, RecordedRun | None]:
    """Nothing is said of a recording that does not fit: nobody asked for it."""
    if not c.device.takes_cuda or c.program.stage < Stage.PLANNED:
        return c, None
    asked = first_setting(c, sizes).sizes
    for name in c.recordings:
        with suppress(BadOption):
            run = c.recorded(name)
            here = run.is_of(c.device) and run.wall.units == c.device.units
            if here and run.sizes == asked:
                shown = c.as_recorded(run)
                if _same(shown.planned_wall(dict(run.sizes)), run.wall):
                    return shown, run
    return c, None


def _same(planned: Wall, ran: Wall) -> bool:
    """Whether every brick of either wall is one of the other."""
    found = compare_walls(planned, ran)
    return not found.missing and all(b.planned >= 0 for b in found.bricks)


def recorded_wall(
    run: RecordedRun | None, setting: Setting, planned: Wall, calls: tuple[Call, ...]
) -> tuple[WallRows | None, WallComparison | None]:
    """Return the recorded wall where the setting has the sizes of that run, and it beside the plan
    where that is for the same device.
    """
    if run is None or run.sizes != setting.sizes:
        return None, None
    if not run.is_of(setting.compiled.device):
        return brick_wall.data(run.wall, calls, f"{run.said}, another device"), None
    return brick_wall.data(run.wall, calls, run.said), compare_walls(planned, run.wall)
