"""Answers to questions that change the setting on show or begin work on it, and their session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from explorer.errors import BadOption
from explorer.process.cancellation import cancellable, reporting_to
from widgets.draw.table import time_text
from widgets.grinder.view import LOOPS, crossing
from widgets.model.compiled import Arrays
from widgets.model.knobs import with_tile
from widgets.model.outline import tiling_text
from widgets.model.picture import OnShow, Picture, View
from widgets.rammer import drop_tasks
from widgets.roller.view import tiled_kernel
from widgets.rooms import gallery
from widgets.session.answers import PictureContext, picture
from widgets.session.bench import Bench, tiling_of
from widgets.session.comparing import Comparing
from widgets.session.edits import EditTrials, KernelEdits, Subject
from widgets.session.history import HistoryEntry
from widgets.session.jobs import Job
from widgets.session.measurements import Clocks, Crossings, Fitting, Profiling, clock_of, profilable
from widgets.session.move_editor import MoveEditor
from widgets.session.questions import check_question, item
from widgets.session.shown import Binary, Shown
from widgets.welder import judge_moves


class MutableSession(OnShow, Protocol):
    """A session that questions may change."""

    edited: KernelEdits

    @property
    def bench(self) -> Bench:
        """The tiles that were tried by hand."""

    @property
    def clocks(self) -> Clocks:
        """The measurements for pictures."""

    @property
    def comparing(self) -> Comparing:
        """The comparisons with the baseline."""

    @property
    def crossings(self) -> Crossings:
        """The timings of loops."""

    @property
    def fitting(self) -> Fitting:
        """The measurement of this machine."""

    @property
    def move_editor(self) -> MoveEditor:
        """The editor of manual moves."""

    @property
    def inputs(self) -> Arrays:
        """The inputs of runs."""

    @property
    def profiling(self) -> Profiling:
        """The profile of tasks."""

    @property
    def shown(self) -> Shown:
        """Rows of the setting on show, computed when they are first read."""

    @property
    def trials(self) -> EditTrials:
        """The trials of edited kernels."""

    def run_once(self) -> None:
        """Measure the wall of the setting on show."""

    def show_next(self, step: HistoryEntry, *, measured: bool = True) -> Mapping[str, Any]:
        """Go one step further and describe it; the page measures it next if `measured`."""

    def with_code(self) -> None:
        """Generate the code of the setting on show if it was only planned."""


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


def tuning(s: MutableSession, op: int) -> Any:
    """Return the form of an operator's tile."""
    return s.bench.form(s.now, s.house, op)


def judge(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Return the rule that a tile breaks, or the model's prediction."""
    return s.bench.judge(s.now, s.house, op, fields)


def time_tile(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Begin to time a tile against the one in use."""
    return s.bench.start(s.now, s.house, op, fields)


def take(s: MutableSession, op: int, fields: Mapping[str, Any]) -> Any:
    """Pin a tile and compile; raises BadOption if it is not legal."""
    subject = s.bench.subject(s.now, s.house, op)
    tiling = tiling_of(fields, subject)
    what = f"tile of {subject.label} → {tiling_text(tiling)}"
    return s.show_next(HistoryEntry(with_tile(s.now, subject.binding, tiling), what))


def wall(s: MutableSession, wall: str, **view: Any) -> Binary:
    """Return a part of a wall."""
    return s.shown.views.slice(wall, **view)


def move_brick(s: MutableSession, **drop: Any) -> Any:
    """Move a brick and plan at once, or return the dependency that this would break."""
    if s.walls.planned is None:
        raise BadOption("nothing is scheduled: compile through Rammer")
    check_question("move_brick", drop_tasks.Drop, drop)
    dropped = drop_tasks.drop_tasks(s.now, s.walls.planned, drop_tasks.Drop(**drop))
    if isinstance(dropped, dict):
        return dropped
    setting, move = dropped
    before = s.shown.planned_us
    reply = s.show_next(HistoryEntry(setting, move.text), measured=False)
    us = s.shown.planned_us
    change = f", {us / before - 1:+.1%}" if before else ""
    description = f"{move.text}: predicted {time_text(us)}{change}"
    return {**reply, "said": description, "measure": False}


def hand(s: MutableSession, device: str = "") -> Any:
    """Return the moves and their effect."""
    return s.move_editor.moves_part(s.now, device)


def move(s: MutableSession, value: str, level: str, device: str = "") -> Any:
    """Move one value to another level; return the reason if that is refused."""
    return s.move_editor.move(s.now, value, level, device)


def join(s: MutableSession, value: str, device: str = "") -> Any:
    """Move one value to the nearest level with room for it; return the reason if none has."""
    return s.move_editor.join(s.now, value, device)


def unmove(s: MutableSession, device: str = "", everything: bool = False) -> Any:
    """Undo the last move, or all of them."""
    return s.move_editor.unmove(s.now, device, everything)


def time_hand(s: MutableSession, device: str = "") -> Any:
    """Begin to compile the manual moves and to time them against the setting on show."""
    s.with_code()
    us = s.shown.planned_us
    return s.move_editor.start(s.now, s.inputs, s.bench.jobs, s.comparing.compare, us)


def take_hand(s: MutableSession, device: str = "") -> Any:
    """Compile the manual moves and continue with them."""
    what = ", ".join(f"{value} → {level}" for value, level in s.manual_moves.moves)
    changed = s.move_editor.compiled(s.now)
    return s.show_next(HistoryEntry(replace(s.now, compiled=changed), what))


def force(s: MutableSession, value: str) -> Any:
    """Fuse a value that Welder's policy left apart; return the reason if that is not legal."""
    changed = replace(s.now, compiled=judge_moves.force_fusion(s.now, value))
    return s.show_next(HistoryEntry(changed, f"{value} joined by hand"))


def edit(s: MutableSession, call: int) -> Any:
    """Return the edited source of a kernel; raises BadOption if none can be run."""
    return s.trials.edit_part(_subject(s, call), s.edited)


def keep_edit(s: MutableSession, call: int, source: str) -> Any:
    """Store another text for a kernel in the state; nothing runs."""
    mine = _subject(s, call)
    s.edited = s.trials.with_source(mine, s.edited, source)
    return s.trials.edit_part(mine, s.edited)


def drop_edit(s: MutableSession, call: int, restore: bool = False) -> Any:
    """Discard a kernel's edit, or with `restore` restore the one that was discarded last."""
    mine = _subject(s, call)
    gone = s.edited.dropped.get(mine.name) if restore else None
    edits = s.edited.without(mine.name) if gone is None else s.edited.with_edit(mine.name, gone)
    s.edited = edits
    return s.trials.edit_part(mine, s.edited)


def try_edit(s: MutableSession, call: int) -> Any:
    """Begin to run an edited kernel in its own process, against the compiled one."""
    return s.trials.start(_subject(s, call), s.edited, s.bench.jobs)


def _subject(s: MutableSession, call: int) -> Subject:
    s.with_code()
    return s.trials.subject(s.now, s.house, call)


def begin_picture(
    s: MutableSession, room: str, op: int = -1, device: str = "", rank: int = -1, **more: Any
) -> Any:
    """Draw a picture in a thread; a quick one is in this answer, others in that of `job`."""
    now = copy(s)  # a knob may be turned meanwhile

    def work(job: Job) -> Any:
        with reporting_to(job.at), cancellable(job.stop.is_set):
            return picture(now, room, op, device, rank, **more)

    return s.bench.jobs.beside(work)


HANDLERS: Mapping[str, Callable[..., Any]] = {
    "begin_profile": begin_profile,
    "profile": profile,
    "begin_fit": begin_fit,
    "fit": fit,
    "begin_clock": begin_clock,
    "clock": clock,
    "begin_crossing": begin_crossing,
    "crossing": crossing_result,
    "job": job,
    "tuning": tuning,
    "judge": judge,
    "time_tile": time_tile,
    "take": take,
    "hand": hand,
    "move": move,
    "join": join,
    "unmove": unmove,
    "time_hand": time_hand,
    "take_hand": take_hand,
    "force": force,
    "edit": edit,
    "keep_edit": keep_edit,
    "drop_edit": drop_edit,
    "try_edit": try_edit,
    "wall": wall,
    "move_brick": move_brick,
    "begin_picture": begin_picture,
}
