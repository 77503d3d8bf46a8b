"""Pictures of compilations: all rooms, one room, its rows, or its chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from explorer.process.garbage import rare_collections

if TYPE_CHECKING:
    from explorer.compiler.options import Options
    from explorer.course.worklog import WorkLog
    from explorer.generation.generated_many import GeneratedMany
    from explorer.tuning.race import RaceResult
    from explorer.tuning.sweep import Sweep
    from widgets.model.compiled import Arrays, Compiled
    from widgets.model.picture import Picture
    from widgets.page.shell import House, Room, Rooms
    from widgets.rooms.own_picture import Rows
    from widgets.session.session import Session
    from widgets.timed.sweep import LiveSweep
    from widgets.training.replica_timeline import Run

__all__ = [
    "data",
    "explore",
    "figure",
    "forget_picture",
    "live_sweep",
    "picture",
    "race",
    "replicas",
    "report",
    "requests",
    "show",
    "styled",
    "sweep",
]


# Jupyter is imported by the first call that needs it: rows and reports work without it.


def explore(
    compiled_or_model: Any,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    saved: str = "",
    target: Any = "cpu",
    options: Options | None = None,
    recorded: str | Path | None = None,
    log: WorkLog | None = None,
) -> House:
    """Open the explorer: every stage, picture and knob of a compilation, linked by one selection.

    `compiled_or_model` is a compilation of any stage and for any data sheet, or a model, as
    `explorer.load` takes it. A model is compiled here for `target` with `options`: it opens with
    its plan, and its code is generated in the background before it is measured. A model whose
    compilation ends in an error is shown up to the error.

    `saved` is a saved state, the text of a snapshot file.

    `recorded` is a run that `c.record` or `c.on_gpu().record` has written, of this model on any
    machine, or the device of one of `c.recordings`. Its wall stands under the plan, always named as
    a recording, and compared with the plan if that is for the same device. By default a recording
    that comes with Ironworks is shown if it is of this program and device. Raises BadOption if the
    recording is of another model or of other sizes.

    `log` is a work log of `course.worklog`: each step of the session and each measurement is
    written into it.
    """
    from widgets.page.progress_line import progress_line

    with rare_collections(), progress_line("Loading the explorer") as line:
        from widgets.page import shell

        return shell.explore(
            compiled_or_model,
            sizes=sizes,
            inputs=inputs,
            saved=saved,
            target=target,
            options=options,
            recorded=recorded,
            log=log,
            line=line,
        )


def show(
    c: Compiled,
    room: str,
    op: str = "",
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    measured: bool = False,
    step: str = "",
    against: Compiled | None = None,
) -> Room | Rooms:
    """Show one room of a compilation (`widgets.rooms.gallery.PICTURES`).

    It is about the source operator `op` if one is named. `measured` times the tiles that Roller's
    rooms offer, and the schedules of a crossing point. `step` is the first step of "changes" and
    "side_by_side"; with `against` they compare `c` with that compilation instead.
    """
    from widgets.page import shell

    return shell.show(
        c,
        room,
        op,
        sizes=sizes,
        inputs=inputs,
        measured=measured,
        step=step,
        against=against,
    )


def data(
    c: Compiled,
    room: str,
    op: str = "",
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    measured: bool = False,
    step: str = "",
    against: Compiled | None = None,
) -> Any:
    """Return the rows behind a room's picture, without Jupyter.

    `measured`, `step` and `against` are those of `show`.
    """
    from widgets.rooms.gallery import find_picture
    from widgets.session.session import look_at

    picture = find_picture(room)
    session = _session(c, picture, op, sizes, inputs, measured)
    look_at(session, step, against)
    return picture.draw(session, op)[0]


def figure(
    c: Compiled | RaceResult | GeneratedMany | Run | Mapping[str, Run],
    room: str,
    op: str = "",
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    measured: bool = False,
    theme: str = "either",
) -> Any:
    """Return the chart of a room as a `plotly.graph_objects.Figure`, of the same rows as `data`.

    "race" takes the result of `explorer.race`, "replicas" training runs, "requests" the result of
    `explorer.generate_many`. `theme` is "light", "dark", or "either", which suits a ground of any
    colour.

    Raises BadOption if the room has no chart, naming those that have, or if it has nothing to show.
    """
    from widgets.rooms import gallery

    if room == "race":
        from widgets.timed import race_chart

        result = cast("RaceResult", c)
        title = gallery.figure_title(race_chart.caption(result))
        return race_chart.chart(result, title, theme)
    if room == "replicas":
        from widgets.training.replica_timeline import replicas as drawn

        return drawn(cast("Run", c), theme=theme)
    if room == "requests":
        from widgets.timed import request_wall

        return request_wall.figure(cast("GeneratedMany", c), theme)
    c = cast("Compiled", c)
    from widgets.rooms import own_picture

    own = own_picture.chart(room, c, theme)
    if own is not None:
        return own
    picture = gallery.find_chart_picture(room)
    session = _session(c, picture, op, sizes, inputs, measured)
    return gallery.chart(picture, session, op, theme)


def _session(
    c: Compiled,
    picture: Picture,
    op: str,
    sizes: Mapping[str, int] | None,
    inputs: Arrays | None,
    measured: bool,
) -> Session:
    """Return a session with the content of a room: a run for the wall, timings if wanted."""
    from widgets.session.handlers import time_shown
    from widgets.session.session import Session

    session = Session(c, sizes=sizes, inputs=inputs)
    if picture.live == "wall" and session.runs:
        session.run_once()
    if measured:
        time_shown(session, picture, op)
    return session


def picture(
    name: str, *, title: str, unit: str, words: str = "", stage: str = "TASKED"
) -> Callable[[Rows], Rows]:
    """Register a picture of your own: a function from a compilation to names with numbers.

    The numbers are in `unit` and shown as bars, under the tab of a stage. `words` describe it, by
    default the first line of the docstring. Registered again, as when a cell is run again, it
    replaces the first. Raises BadOption if the name is no identifier or taken, or a text is none.
    """
    from explorer.compiler.pipeline import stage_of
    from widgets.rooms import own_picture

    return own_picture.picture(name, title=title, unit=unit, words=words, stage=stage_of(stage))


def forget_picture(name: str) -> None:
    """Remove a picture of your own; raises BadOption if there is none of that name."""
    from widgets.rooms import own_picture

    own_picture.forget_picture(name)


def race(result: RaceResult) -> Room:
    """Show the chart of a result of `explorer.race`."""
    from widgets.page import shell

    return shell.race(result)


def replicas(runs: Run | Mapping[str, Run], steps: tuple[int, int] | None = None) -> Room:
    """Show the timeline of replicas of training runs: each bucket's all-reduce under the passes.

    `runs` is the result of `explorer.fit(..., ranks=...)` in each replica, or several such by name.
    It shows `steps`, from the first to the last; by default the step with the median time. Raises
    BadOption if there is nothing to show.
    """
    from widgets.page import shell

    return shell.replicas(runs, steps)


def requests(result: GeneratedMany) -> Room:
    """Show which rows ran which request at each step of `explorer.generate_many`."""
    from widgets.page import shell

    return shell.requests(result)


def report(
    c: Compiled,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    code: bool = True,
    live: bool | Sequence[str] = False,
) -> str:
    """Return one offline page about a compilation: the explorer, every picture, the timings.

    With `live` the page also runs the model in its reader's browser, offline, and compares it there
    with variants: True for all, or names such as `("fusion", "tiles")`. What cannot run there is a
    sentence in the page. `inputs` and right answers are then part of the page. `code` includes
    sources, LLVM IR and assembly.

    Raises BadOption if there is no such variant.
    """
    from widgets.page.report import page
    from widgets.session.session import Session

    session = Session(c, sizes=sizes, inputs=inputs)
    if session.runs:
        session.measure()
    programs = None
    if live is not False:
        from widgets.live.data import live_page
        from widgets.live.variants import DEFAULT

        names = DEFAULT if live is True else live
        programs = live_page(cast("Any", c), sizes, inputs, names)
    return page(session, code=code, live=programs)


def styled(figure: Any, title: str = "", *, theme: str = "either", height: int = 420) -> Any:
    """Apply the paper, ink, fonts and grid of the pictures to a plotly figure, and return it.

    `theme` "either" suits pages of any ground, light or dark.
    """
    from widgets.draw import plots

    return plots.styled(figure, theme, title, height)


def sweep(result: Sweep, theme: str = "either", *, over: tuple[str, str] | None = None) -> Any:
    """Return the result of `explorer.sweep` as a `plotly.graph_objects.Figure`.

    It shows the varied values beside the resulting times, and time over memory. `over` names two of
    the varied options: then it shows the least time for each pair of their values. Raises BadOption
    if every point failed.
    """
    from widgets.timed import sweep as charts

    if over is not None:
        return charts.surface(result, over, theme)
    return charts.chart(result, theme)


def live_sweep(theme: str = "either") -> LiveSweep:
    """Return a chart of a sweep that grows.

    Pass it to `explorer.sweep` as `arrived`, and show its `figure`, a widget.
    """
    from widgets.timed.sweep import LiveSweep

    return LiveSweep(theme)
