"""Questions about timings, fits and profiles of pictures: begin one, then take its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from widgets.grinder.view import LOOPS, crossing
from widgets.model.compiled import Arrays
from widgets.model.on_show import View
from widgets.model.picture import Picture
from widgets.roller.view import tiled_kernel
from widgets.rooms import gallery
from widgets.session.answers import PictureContext
from widgets.session.mutable_session import MutableSession
from widgets.session.questions import item
from widgets.session.timing.clocks import clock_of
from widgets.session.timing.profiling import profilable
from widgets.session.verdict import HistoryEntry


def begin_profile(s: MutableSession) -> Any:
    """Begin to measure the time of each task in the background; `profile` then plans with it."""
    s.with_code()
    return s.profiling.start(s.now, s.inputs, s.bench.jobs)


def profile(s: MutableSession) -> Any:
    """Plan with measured times of tasks, which are measured now if that was not begun.

    Raises BadOption if they were measured for another setting than the one on show.
    """
    setting = s.profiling.take(s.now)
    if setting is None:
        s.with_code()
        setting = replace(s.now, compiled=profilable(s.now).profiled(s.inputs))
    return s.show_next(HistoryEntry(setting, "task times measured"))


def begin_fit(s: MutableSession) -> Any:
    """Begin to fit the cost model to this machine in the background; `fit` then plans with it."""
    return s.fitting.start(s.now, s.bench.jobs)


def fit(s: MutableSession) -> Any:
    """Plan with the fitted constants."""
    return s.show_next(s.fitting.take(s.now))


def begin_clock(s: MutableSession, room: str, op: int = -1, symbol: str = "") -> Any:
    """Begin to measure the subject of a picture in the background; `clock` returns the result."""
    picture, about = _measurable(s, room, op, symbol)
    return s.clocks.start(s.now, s.house, picture, about, inputs_of(s, picture), s.bench.jobs)


def clock(s: MutableSession, room: str, op: int = -1, symbol: str = "") -> Any:
    """Return the result of a picture's measurement."""
    picture, about = _measurable(s, room, op, symbol)
    return {"said": s.clocks.words(s.now, picture, about)}


def begin_crossing(s: MutableSession, loop: str) -> Any:
    """Begin to time the schedules of a loop in the background; `crossing` returns the result."""
    s.with_code()
    return s.crossings.start(s.now, s.inputs, s.bench.jobs, loop)


def crossing_result(s: MutableSession, loop: str) -> Any:
    """Return the result of timing a loop's schedules."""
    return {"said": s.crossings.describe(s.now, loop)}


def job(s: MutableSession, job: int) -> Any:
    """Return the progress of a job."""
    return s.bench.jobs.progress(job)


def time_shown(s: MutableSession, picture: Picture, op: str) -> None:
    """Time the subject of a picture now: the schedules of its loop, or the tiles of its kernel.

    A picture of what control flow did gets a run.
    """
    if picture.of_run:
        s.run_once()
    elif picture.clock is not None:
        if (about := picture.clock.about(s, op)) is not None:
            s.clocks.measure(s.now, s.house, picture, about, inputs_of(s, picture))
    elif picture.family is not LOOPS:
        kernel_call = tiled_kernel(s, op)
        if kernel_call is not None and kernel_call.ops[0] in s.house.order:
            s.bench.time_all(s.now, s.house, s.house.order[kernel_call.ops[0]])
    elif (loop := crossing(s, op)) is not None:
        s.with_code()
        s.crossings.time(s.now, s.inputs, loop.loop)


def inputs_of(s: MutableSession, picture: Picture) -> Arrays:
    """Return the inputs for a picture's clock; empty if it evaluates the plan only."""
    if not s.runs or clock_of(picture).code == "none":
        return {}
    s.with_code()
    return s.inputs


def _measurable(s: MutableSession, room: str, op: int, symbol: str) -> tuple[Picture, str]:
    """Return a picture and its measurable subject; raises BadOption if nothing can be measured."""
    picture = gallery.find_picture(room)
    name = item(s.house.operators, op, "operator").name if op >= 0 else ""
    about = clock_of(picture).about(PictureContext(s, View(symbol=symbol)), name)
    if about is None or not (s.runs or clock_of(picture).code != "needed"):
        problem = f"nothing of {picture.title} can be measured here"
        raise BadOption(problem, where=room, try_="compile for this-cpu, through PLANNED at least")
    return picture, about


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "begin_profile": begin_profile,
    "profile": profile,
    "begin_fit": begin_fit,
    "fit": fit,
    "begin_clock": begin_clock,
    "clock": clock,
    "begin_crossing": begin_crossing,
    "crossing": crossing_result,
    "job": job,
}
