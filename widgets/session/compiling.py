"""Compilations of a session: of a model to open, of a turned knob, and up to an error.

A knob is turned in the background, with progress; the old picture stays meanwhile. A model is
planned first, so its picture comes before its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from explorer.compiler.driver import StepError
from explorer.compiler.options import Options
from explorer.compiler.pipeline import Progress, compile_until_error
from explorer.compiler.pipeline import compile as compile_model
from explorer.errors import BadOption, Cancelled, IronworksError
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.stage import Stage
from explorer.process.cancellation import cancellable, raise_if_cancelled, reporting_to
from widgets.model.compiled import Compiled
from widgets.model.knob import Knob
from widgets.model.knobs import (
    Setting,
    changed_options,
    same_program,
    turn_knob,
    without_refused_tile,
)
from widgets.session.jobs import AT_ONCE, Job, Jobs

AHEAD_SECONDS = 20.0  # seconds of compilation in advance; chosen


class Turning:
    """The results of turns, until one is taken or the setting changes."""

    def __init__(self) -> None:
        """Create a record without results."""
        self._before: Setting | None = None
        self._results: list[tuple[str, Any, Setting | IronworksError]] = []
        self._begun: tuple[str, int] | None = None
        self._overtaken: tuple[str, int] | None = None

    def start(
        self, now: Setting, knob: Knob, index: int, jobs: Jobs, *, has_preview: bool = False
    ) -> dict[str, Any]:
        """Begin to compile with one knob at another of its values; `over` is set if that is done.

        `has_preview`: a preview is shown meanwhile, so the answer does not wait.
        """

        def work(job: Job) -> None:
            if self._result_of(now, knob, index) is None:
                with reporting_to(job.at), cancellable(job.stop.is_set):
                    self._compile(now, knob, index)

        job = jobs.start(1, work)
        self._begun, self._overtaken = (knob.name, index), None
        return {"job": job, "over": jobs.wait(job, 0.0 if has_preview else AT_ONCE)["over"]}

    def ahead(self, now: Setting, knobs: Sequence[Knob], jobs: Jobs) -> dict[str, Any]:
        """Compile other values of knobs in advance, while the reader looks."""
        todo = [(k, i) for k in knobs for i in range(len(k.values)) if i != k.now]

        def work(job: Job) -> None:
            end = monotonic() + AHEAD_SECONDS
            with cancellable(lambda: job.stop.is_set() or monotonic() > end):
                for knob, index in todo:
                    raise_if_cancelled(knob.label)
                    if self._result_of(now, knob, index) is None:
                        self._compile(now, knob, index)

        return {"job": jobs.start(1, work, aside=True)}

    def first(self, now: Setting, knob: Knob, index: int) -> Setting | None:
        """Return the same program on the hardware that a knob selects, which is available at once.

        None if the result is already known, if the knob selects no hardware, or if this program has
        no plan for it.
        """
        if self._result_of(now, knob, index) is not None:
            return None
        try:
            preview = same_program(now, knob, index)
            if preview is not None:
                preview.compiled.planned_wall(dict(preview.sizes))
        except IronworksError:
            return None  # the compilation for it will report or fix it
        return preview

    def take(self, now: Setting, knob: Knob, index: int) -> Setting:
        """Return the setting compiled in the background; compile it now if that was not begun.

        Raises Cancelled for a turn that a newer one overtook.
        """
        self._begun = None
        if (knob.name, index) == self._overtaken:
            self._overtaken = None
            raise Cancelled("a newer change came first")
        result = self._result_of(now, knob, index)
        if isinstance(result, IronworksError):
            raise result
        return turn_knob(now, knob, index) if result is None else result

    def overtake(self, knob: Knob, index: int) -> None:
        """Refuse the turn that was begun, in favour of this newer one."""
        begun, self._begun = self._begun, None
        self._overtaken = begun if begun != (knob.name, index) else None

    def _result_of(self, now: Setting, knob: Knob, index: int) -> Setting | IronworksError | None:
        if self._before != now or not 0 <= index < len(knob.values):
            return None
        request = knob.name, knob.values[index]  # a user's values may have no hash
        return next((result for *of, result in self._results if tuple(of) == request), None)

    def _compile(self, now: Setting, knob: Knob, index: int) -> None:
        """Compile a turn and the plan that is drawn first.

        An error is stored and raised by `take`, so it is not compiled twice.
        """
        try:
            result: Setting | IronworksError = turn_knob(now, knob, index)
            if isinstance(result, Setting) and result.compiled.program.stage >= Stage.PLANNED:
                result.compiled.planned_wall(dict(result.sizes))
        except Cancelled:
            raise
        except IronworksError as problem:
            result = problem
        if self._before != now:
            self._before, self._results = now, []
        if 0 <= index < len(knob.values):
            self._results.append((knob.name, knob.values[index], result))


def setting_until_error(now: Setting, knob: Knob, index: int) -> Setting:
    """Compile a setting with a knob at a value that ends in an error, up to that error.

    Raises BadOption if the compilation succeeds.
    """
    c = now.compiled
    options = replace(c.options, **changed_options(now, knob, index))
    check, donate = getattr(c, "check", False), getattr(c, "donate", ())
    while failure := compile_until_error(c.model, c.device, options, check=check, donate=donate):
        legal = without_refused_tile(options.roller, failure[1].problem)
        if legal == options.roller:
            break
        options = replace(options, roller=legal)
    if failure is None:
        raise BadOption(
            f"compiling with {knob.label} {knob.labels[index]} succeeds: there is no error to show",
            where=knob.name,
        )
    compiled, ended = failure
    return replace(now, compiled=compiled, ended=ended)


def error_part(ended: StepError | None) -> dict[str, Any] | None:
    """Return the error that a page shows over the program before the failed step."""
    if ended is None:
        return None
    return {"step": ended.step, "stage": ended.stage.name, **ended.problem.fields()}


def mark_failed_stage(
    stages: list[dict[str, Any]], ended: StepError | None
) -> list[dict[str, Any]]:
    """Return the cells of the stage strip with a cross at the stage that was not finished."""
    if ended is None:
        return stages
    words = f"stopped at {ended.step}: {ended.problem.sentence}"
    mine = {"checked": words, "failed": True}
    return [{**c, **mine} if c["stage"] == ended.stage.name else c for c in stages]


def compile_for_display(
    source: Any,
    target: Any = "cpu",
    options: Options | None = None,
    progress: Progress | None = None,
) -> tuple[Compiled, StepError | None]:
    """Return a compilation as it is; plan a model, up to its error if there is one.

    The error is returned with the compilation before the failed step. `progress` gets the steps.
    Raises BadModelFile, UnsupportedOperator or TraceError if there is no program to show.
    """
    if hasattr(source, "snapshots"):
        return source, None
    model = source if isinstance(source, Model) else load(source)
    try:
        planned = compile_model(model, target, options, until=Stage.PLANNED, progress=progress)
        return planned, None
    except Cancelled:
        raise
    except IronworksError:
        ended = compile_until_error(model, target, options)
        if ended is None:
            raise
        return ended
