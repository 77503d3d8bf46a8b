"""What pictures have timed, fitted and profiled: begun beside, then taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from widgets.grinder.view import LOOPS, crossing
from widgets.model.compiled import Arrays
from widgets.model.on_show import View
from widgets.model.picture import Picture
from widgets.roller.view import rolled
from widgets.rooms import gallery
from widgets.session.answers import Seen
from widgets.session.changing import Changing
from widgets.session.questions import item
from widgets.session.timing.clocks import clock_of
from widgets.session.timing.profiling import profilable
from widgets.session.verdict import Step


def begin_profile(s: Changing) -> Any:
    """Begin to measure how long each task takes, beside; `profile` then plans with that."""
    s.with_code()
    return s.profiling.start(s.now, s.inputs, s.bench.jobs)


def profile(s: Changing) -> Any:
    """Plan with measured times of tasks; they are measured now where that was not begun.

    Raises BadOption where they were measured for another setting than the one on show.
    """
    setting = s.profiling.take(s.now)
    if setting is None:
        s.with_code()
        setting = replace(s.now, compiled=profilable(s.now).profiled(s.inputs))
    return s.show_next(Step(setting, "task times measured"))


def begin_fit(s: Changing) -> Any:
    """Begin to fit the cost model to this machine, beside; `fit` then plans with that."""
    return s.fitting.start(s.now, s.bench.jobs)


def fit(s: Changing) -> Any:
    """Plan with the constants that were fitted."""
    return s.show_next(s.fitting.take(s.now))


def begin_clock(s: Changing, room: str, op: int = -1, symbol: str = "") -> Any:
    """Begin to measure what a picture is about, beside; `clock` then says what came of it."""
    picture, about = _measurable(s, room, op, symbol)
    return s.clocks.start(s.now, s.house, picture, about, inputs_of(s, picture), s.bench.jobs)


def clock(s: Changing, room: str, op: int = -1, symbol: str = "") -> Any:
    """What came of measuring for a picture."""
    picture, about = _measurable(s, room, op, symbol)
    return {"said": s.clocks.words(s.now, picture, about)}


def begin_crossing(s: Changing, loop: str) -> Any:
    """Begin to time the ways of a loop, beside; `crossing` then says what came of it."""
    s.with_code()
    return s.crossings.start(s.now, s.inputs, s.bench.jobs, loop)


def crossing_said(s: Changing, loop: str) -> Any:
    """What came of timing a loop's ways."""
    return {"said": s.crossings.said(s.now, loop)}


def job(s: Changing, job: int) -> Any:
    """How far a piece of work is."""
    return s.bench.jobs.told(job)


def time_shown(s: Changing, picture: Picture, op: str) -> None:
    """Time what a picture is about, now: the ways of its loop, or the tiles of its kernel; a run
    where it shows what control flow did.
    """
    if picture.of_run:
        s.run_once()
    elif picture.clock is not None:
        if (about := picture.clock.about(s, op)) is not None:
            s.clocks.measure(s.now, s.house, picture, about, inputs_of(s, picture))
    elif picture.family is not LOOPS:
        found = rolled(s, op)
        if found is not None and found.ops[0] in s.house.order:
            s.bench.time_all(s.now, s.house, s.house.order[found.ops[0]])
    elif (loop := crossing(s, op)) is not None:
        s.with_code()
        s.crossings.time(s.now, s.inputs, loop.loop)


def inputs_of(s: Changing, picture: Picture) -> Arrays:
    """What a picture's clock runs on; none where it asks the plan."""
    if not s.runs or clock_of(picture).code == "none":
        return {}
    s.with_code()
    return s.inputs


def _measurable(s: Changing, room: str, op: int, symbol: str) -> tuple[Picture, str]:
    """A picture, and what of it can be measured; raises BadOption where nothing can."""
    picture = gallery.named(room)
    name = item(s.house.operators, op, "operator").name if op >= 0 else ""
    about = clock_of(picture).about(Seen(s, View(symbol=symbol)), name)
    if about is None or not (s.runs or clock_of(picture).code != "needed"):
        said = f"nothing of {picture.title} can be measured here"
        raise BadOption(said, where=room, try_="compile for this-cpu, through PLANNED at least")
    return picture, about


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "begin_profile": begin_profile,
    "profile": profile,
    "begin_fit": begin_fit,
    "fit": fit,
    "begin_clock": begin_clock,
    "clock": clock,
    "begin_crossing": begin_crossing,
    "crossing": crossing_said,
    "job": job,
}
