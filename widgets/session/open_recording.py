"""Recorded runs shown beside the plan of the same program."""

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
from widgets.model.brick_wall import WallCall, WallRows
from widgets.model.compiled import Compiled
from widgets.model.knobs import Setting, first_setting


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
    if not c.device.takes_cuda or c.program.stage < Stage.PLANNED:
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
