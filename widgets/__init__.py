"""The pictures: `explore` shows a whole compilation, `show` one room of it, `data` the rows behind
a room, `figure` its chart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from explorer.garbage import rare_collections

if TYPE_CHECKING:
    from explorer.options import Options
    from explorer.tuning.sweep import Sweep
    from widgets.charts.sweeps.live import LiveSweep
    from widgets.model.compiled import Arrays, Compiled
    from widgets.model.picture import Picture
    from widgets.page.shell import House, Room, Rooms
    from widgets.rammer.race_chart import Result
    from widgets.rooms.own_picture import Rows
    from widgets.session.session import Session
    from widgets.training.replica_rows import Run

__all__ = [
    "data",
    "explore",
    "figure",
    "forget_picture",
    "live_sweep",
    "picture",
    "race",
    "replicas",
    "show",
    "styled",
    "sweep",
]


# Jupyter is imported by the first call that needs it, so that rows and reports do without, and
# nothing before a call does.


def explore(
    given: Any,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    kept: str = "",
    target: Any = "cpu",
    options: Options | None = None,
    recorded: str | Path | None = None,
) -> House:
    """The whole house: every stage, picture and knob of a compilation, linked by one selection.

    `given`: a compilation, of any stage and for any data sheet; or a model, what `explorer.load`
    takes, which is compiled here for `target` with `options`: it opens with its plan, and its code
    is generated beside, before it is measured. A model whose compilation ends in an error is shown
    as far as it came, with the error.

    `recorded`: a run that `c.record` or `c.on_gpu().record` has written, of this model on whatever
    machine, or the device of one of `c.recordings`: its wall stands under the plan, always named
    as a recording, and compared with the plan if that is for the same device. Where none is named,
    one that comes with Ironworks stands there if it is of the program and device. Raises BadOption
    where it is of another model or of other sizes.
    """
    from widgets.page.progress_line import progress_line

    with rare_collections(), progress_line("Loading the explorer") as line:
        from widgets.page import shell

        return shell.explore(
            given,
            sizes=sizes,
            inputs=inputs,
            kept=kept,
            target=target,
            options=options,
            recorded=recorded,
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
    """One room (`widgets.rooms.gallery.PICTURES`), about a source operator where one is named;
    `measured` times the tiles that Roller's rooms offer, and the ways of a crossing point. `step`
    is what "changes" and "side_by_side" begin with, or they compare `c` with `against`.
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
    """The rows behind a room's picture, without Jupyter; `measured`, `step` and `against` as in
    `show`.
    """
    from widgets.rooms.gallery import named
    from widgets.session.looked_at import look_at

    picture = named(room)
    session = _session(c, picture, op, sizes, inputs, measured)
    look_at(session, step, against)
    return picture.draw(session, op)[0]


def figure(
    c: Compiled | Result | Run | Mapping[str, Run],
    room: str,
    op: str = "",
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: Arrays | None = None,
    measured: bool = False,
    theme: str = "either",
) -> Any:
    """The chart of a room, "race" of what `explorer.race` found, or "replicas" of training runs, as
    a `plotly.graph_objects.Figure`, of the same rows as `data`; `theme` is "light", "dark", or
    "either", on a ground of any.

    Raises BadOption where the room has no chart, naming those that have, or nothing to show.
    """
    from widgets.rooms import gallery

    if room == "race":
        from widgets.charts import race as charts
        from widgets.rammer import race_chart

        rows = race_chart.data(cast("Result", c))
        return charts.chart(rows, gallery.titled(race_chart.caption(rows)), theme)
    if room == "replicas":
        from widgets.training.replicas import replicas as drawn

        return drawn(cast("Run", c), theme=theme)
    c = cast("Compiled", c)
    picture = gallery.charted(room)
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
    """A session with what a room shows: a run where it is the wall, the clock where wanted."""
    from widgets.session.asked.clocks import time_shown
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
    """Register a picture of one's own: a function from a compilation to pairs of a name and a
    number of a `unit`, a bar each, under the tab of a stage. Registered again, as when a cell is
    run again, it takes the place of the first. Raises BadOption where the name is none, or taken.
    """
    from explorer.compiler import stage_of
    from widgets.rooms import own_picture

    return own_picture.picture(name, title=title, unit=unit, words=words, stage=stage_of(stage))


def forget_picture(name: str) -> None:
    """A picture of one's own is gone; BadOption where there is none of that name."""
    from widgets.rooms import own_picture

    own_picture.forget_picture(name)


def race(result: Result) -> Room:
    """The chart of what `explorer.race` found."""
    from widgets.page import shell

    return shell.race(result)


def replicas(runs: Run | Mapping[str, Run], steps: tuple[int, int] | None = None) -> Room:
    """What replicas of training runs did when: the all-reduce of each bucket under the passes.

    `runs`: what `explorer.fit(..., ranks=...)` gave in each replica, or several such by name. It
    shows the `steps` from the first to the last, else the one that takes the median of all.
    Raises BadOption where there is nothing to show.
    """
    from widgets.page import shell

    return shell.replicas(runs, steps)


def styled(figure: Any, title: str = "", *, theme: str = "either", height: int = 420) -> Any:
    """A plotly figure of one's own with the paper, ink, fonts and grid of the pictures; "either" is
    for pages of any ground, light or dark. It is the same figure.
    """
    from widgets.draw import plots

    return plots.styled(figure, theme, title, height)


def sweep(found: Sweep, theme: str = "either", *, over: tuple[str, str] | None = None) -> Any:
    """What `explorer.sweep` found as a `plotly.graph_objects.Figure`: the values that were varied
    beside the time that came of each, and time over memory. `over` names two of what was varied:
    then it is the least time for each pair of their values. BadOption where every point failed.
    """
    if over is not None:
        from widgets.charts.sweeps import surface

        return surface.chart(found, over, theme)
    from widgets.charts.sweeps import lines

    return lines.chart(found, theme)


def live_sweep(theme: str = "either") -> LiveSweep:
    """The chart of a sweep that grows: give it to `explorer.sweep` as `arrived`, and show its
    `figure`, a widget.
    """
    from widgets.charts.sweeps import live

    return live.LiveSweep(theme)
