"""Interactive session of one compilation: knobs, walls, steps, questions. No Jupyter here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from explorer.compiler.driver import StepError
from explorer.errors import BadOption, Cancelled, IronworksError, fault
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.measure.recorded_run import RecordedRun
from explorer.passes.random_inputs import random_inputs
from explorer.process.garbage import rare_collections
from explorer.runtime.planning.schedule_times import TimedSchedule
from explorer.tuning.compare import compare
from widgets.draw.table import time_text
from widgets.model import settings
from widgets.model.compiled import Arrays, Compiled
from widgets.model.house import House, knob_parts
from widgets.model.knob import Knob, shown_values, value_position
from widgets.model.knobs import (
    Setting,
    first_setting,
    knob_with_stop,
    knobs,
    tiles_left,
    turn_text,
    with_code,
)
from widgets.model.picture import ManualMoves, Times, View, Walls
from widgets.model.pipeline_knobs import precompiled_knobs
from widgets.program.program_diff import PINNED
from widgets.rooms import content, gallery
from widgets.session import answers, compiling, edits, handlers, history, state
from widgets.session.bench import Bench, Timer, timed
from widgets.session.comparing import Comparing, timed_step
from widgets.session.compiling import Turning
from widgets.session.history import History, HistoryEntry
from widgets.session.jobs import stop_unrequested_jobs
from widgets.session.measurements import Clocks, Crossings, Fitting, Profiling
from widgets.session.move_editor import MoveEditor
from widgets.session.questions import check_question, item, position
from widgets.session.shown import Shown, shown

if TYPE_CHECKING:
    from explorer.course.worklog import WorkLog

CHANGING = (
    "shown",
    "steps",
    "saved",
    "focus",
    "revision",
    "edited",
    "loaded_time",
    "behind",
    "_random_inputs",
)  # attributes that answers change; all are immutable values

MOVES = ("undo", "redo", "go", "pin")  # written into a work log by their reply

QUESTIONS: Mapping[str, Callable[..., Any]] = {**answers.READERS, **handlers.HANDLERS}
OWN = (  # questions that the session's own methods answer
    "begin_turn",
    "look_ahead",
    "turn",
    "as_far",
    "begin_measure",
    "measure",
    "cancel",
    "undo",
    "redo",
    "go",
    "pin",
    "link",
    "save",
    "restore",
)

PARAMETERS: Mapping[tuple[str, str], str] = {  # by question and message key, where they differ
    ("begin_measure", "again"): "remeasure",
    ("measure", "again"): "remeasure",
    ("drop_edit", "again"): "restore",
}

# Questions that do not stop unrequested jobs, and questions that keep the preview of a turn.
GOES_ON = {*answers.READERS, "begin_picture", "wall", "focus", "job", "look_ahead"}
STAYS = (GOES_ON - {"look_ahead"}) | {"cancel"}


class Session:
    """The setting on show, its history, and the answers to the front end's questions."""

    def __init__(
        self,
        c: Compiled,
        *,
        sizes: Mapping[str, int] | None = None,
        inputs: Arrays | None = None,
        saved: state.State = state.State(),
        compare: Callable[..., Comparison] = compare,
        timer: Timer = timed,
        move_editor: MoveEditor | None = None,
        failed: StepError | None = None,
        coded: bool | None = None,
        recorded: RecordedRun | None = None,
        log: WorkLog | None = None,
    ) -> None:
        """Open a session on the compilation `c`.

        `failed` is the error at which the compilation stopped. `coded`: code is generated when it
        is first needed; by default only a compilation that has code does so. `recorded` is a run
        whose wall is shown under the plan until one is measured. `log` is a work log, into which
        steps and their measurements are written.
        """
        self.recorded = recorded
        self.log = log
        self.alone = True  # no other reader uses this machine
        self.comparing = Comparing(compare)
        self.profiling = Profiling()
        self.fitting = Fitting()
        self.turning = Turning()
        self.bench = Bench(timer)
        self.move_editor = move_editor or MoveEditor()
        self.crossings = Crossings()
        self.clocks = Clocks()
        self.trials = edits.EditTrials()
        self.edited = edits.KernelEdits()
        self.view = View()
        self._random_inputs: Arrays | None = None
        self.given_inputs = inputs
        self._coded = c.program.stage is Stage.EMITTED if coded is None else coded
        first_sizes, words = (recorded.sizes, "as recorded") if recorded else ((), "as compiled")
        at = first_setting(c, {**dict(first_sizes), **(sizes or {})})
        first = HistoryEntry(replace(at, ended=failed), words)
        self.steps = History((first,), first)
        self.saved = replace(saved, digest=c.model.digest)
        self.loaded_time = state.LoadedTime(first.setting, ())
        self.focus = saved.op
        self.revision = 0
        self.behind: Shown | None = None
        self._base: Shown | None = None
        with rare_collections():
            self._show(first)

    # What is on show

    @property
    def now(self) -> Setting:
        """The setting on show.

        That of the last step, or, while it is compiled for other hardware, the same program on it.
        """
        return self.shown.setting if self.behind else self.steps.now.setting

    @property
    def pinned(self) -> Setting:
        """The baseline."""
        return self.steps.pinned.setting

    @property
    def house(self) -> House:
        """The parts of the explorer."""
        return self.shown.house

    @property
    def walls(self) -> Walls:
        """The walls on show."""
        return self.shown.walls

    @property
    def plan(self) -> MemoryPlan | None:
        """The memory plan."""
        return self.shown.plan

    def _show(self, step: HistoryEntry, *, more: bool = True) -> None:
        """Read a setting's compilation; nothing changes if that fails.

        `more`: include all that is planned beside it. It is left out where a measurement follows,
        which adds it.
        """
        self.shown = shown(step.setting, more=more, recorded=self.recorded)
        self.behind = None
        self.move_editor.clear()
        self._random_inputs = None
        self.revision += 1

    def _show_first(self, first: Setting) -> None:
        """Show what is known at once of a turn, until it is compiled or cancelled."""
        self.shown, self.behind = shown(first, more=False, recorded=self.recorded), self.shown
        self.revision += 1

    def _show_again(self) -> None:
        """Restore what `_show_first` replaced."""
        if self.behind is not None:
            self.shown, self.behind = self.behind, None
            self.revision += 1

    @property
    def runs(self) -> bool:
        """True if runs on this machine time the setting on show.

        False for an earlier stage, which has no code, and for other hardware. A knob's new value
        has its code when that is first needed.
        """
        return self._coded and self.now.is_here and self.now.ended is None

    @property
    def inputs(self) -> Arrays:
        """The inputs of runs, made on first use."""
        now = self.now
        if self.given_inputs is not None and now.sizes == self.steps.pinned.setting.sizes:
            return self.given_inputs
        if self._random_inputs is None:
            self._random_inputs = random_inputs(now.compiled.model.program, dict(now.sizes))
        return self._random_inputs

    def with_code(self) -> None:
        """Generate the code of the setting on show if it was only planned."""
        if self.runs and (setting := with_code(self.now)) is not self.now:
            self._take_code(replace(self.steps.now, setting=setting))

    def _take_code(self, step: HistoryEntry) -> None:
        """Replace the step on show by the same step with its code.

        The baseline is replaced too if it is that step.
        """
        before, of_a = self.now, self.now == self.steps.pinned.setting
        self.steps = self.steps.with_now(step)
        if of_a:
            self.steps = self.steps.pin(step)
        if step.setting != before:
            self.shown = shown(step.setting, more=False, recorded=self.recorded)
            self.revision += 1

    def run_once(self) -> None:
        """Measure the wall of the setting on show."""
        self.with_code()
        time = self.steps.now.time
        ran = self.shown.run_once(self.inputs, time.median_us if time else None)
        self.shown = ran.with_more_units()

    # Parts

    def parts(self) -> dict[str, Any]:
        """Return every JSON part of the explorer."""
        with rare_collections():
            house_parts = self.house.parts
        base, _ = self._base_wall()
        return {
            **house_parts,
            "stages": compiling.mark_failed_stage(house_parts["stages"], self.now.ended),
            "knobs": knob_parts(self.knobs()),
            "walls": {**self.shown.views.packed[0], **({"wall_base": base} if base else {})},
            "verdict": self.verdict(),
            "history": self.history(),
            "undo": self.steps.words,
            "revision": self.revision,
            "absent": content.absent(self),
            "no_edit": self.trials.refused,
            "kept": state.serialise_state(self.state()),
            "state": state.view(self.saved),
        }

    def buffers(self) -> dict[str, bytes]:
        """Return every binary part."""
        return {**self.shown.views.packed[1], "wall_base": self._base_wall()[1]}

    def _base_wall(self) -> tuple[dict[str, Any], bytes]:
        """Return the baseline's wall if it is another setting of the same sizes and device."""
        now, base = self.now, self.pinned
        if self.behind is None and now == base:
            self._base = self.shown
        device, sizes = base.compiled.device.name, base.sizes
        if now == base or sizes != now.sizes or device != now.compiled.device.name:
            return {}, b""
        if self._base is None or self._base.setting != base:
            self._base = shown(base, more=False)
        return self._base.views.as_base

    def knobs(self) -> tuple[Knob, ...]:
        """Return the knobs at their present values."""
        return self._knobs_at(self.now)

    def _knobs_at(self, setting: Setting) -> tuple[Knob, ...]:
        return knobs(setting, self.pinned, self.focus, self.house.kernel_of(self.focus))

    # Times

    @property
    def time_us(self) -> float | None:
        """The median of the measured runs of the setting on show; None before they are measured."""
        time = None if self.behind else self.steps.now.time
        return float(time.median_us) if time else None

    def verdict(self) -> dict[str, Any]:
        """Return the time on show, compared with the baseline's if that has the same sizes.

        Without code, says how far the compilation came and why. On other hardware, a prediction.
        """
        step, us = self.steps.now, self.shown.planned_us
        if self.behind is not None:
            device = self.now.compiled.device.name
            return history.before_compiled(us, self.behind.planned_us, device)
        if not self.runs and self._coded and self.now.ended is None:
            words = history.predicted_elsewhere(us, self._base_us(), self.now.compiled.device.name)
        elif not self.runs:
            words = history.without_code(step, us, self.walls.recorded)
        else:
            words = history.verdict(step, self.steps.pinned, us, self.walls.compared)
        return words | {"brought": self.loaded_time.describe(self.now)}

    def _base_us(self) -> float:
        """Return the prediction for the baseline; 0 if it is on show or has other sizes."""
        base = self.pinned
        if base == self.now or base.sizes != self.now.sizes:
            return 0.0
        return base.compiled.planned_wall(dict(base.sizes)).total_us

    def history(self) -> list[dict[str, Any]]:
        """Return every step since the first, with its ratio to the baseline."""
        return history.history(self.steps.past, self.steps.future, self.steps.pinned)

    # Answers

    def answer(self, kind: str, args: Mapping[str, Any]) -> Any:
        """Answer one question.

        Raises IronworksError if it is refused, or returns the reason in `refused`. Then the session
        is as it was before.
        """
        answerers: dict[str, Callable[..., Any]] = {
            **{name: partial(handler, self) for name, handler in QUESTIONS.items()},
            **{name: getattr(self, name) for name in OWN},
            "focus": self.focus_on,
        }
        if kind not in answerers:
            raise BadOption(f"there is no question {kind[:40]!r}")
        args = {PARAMETERS.get((kind, key), key): value for key, value in args.items()}
        check_question(kind, answerers[kind], args)
        if kind not in GOES_ON:
            stop_unrequested_jobs()
        if kind not in STAYS:
            self._show_again()
        before = self._state()
        try:
            reply = answerers[kind](**args)
            if self.log is not None and kind in MOVES:
                self.log.move(reply["said"])
        except BaseException as problem:
            self._back_to(before)
            if isinstance(problem, Exception) and not isinstance(problem, IronworksError):
                raise fault(problem, f"the question {kind!r}") from problem
            raise
        if isinstance(reply, Mapping) and reply.get("refused"):
            self._back_to(before)
        return reply

    def _state(self) -> Mapping[str, Any]:
        """Return all attributes that an answer may change."""
        return {name: getattr(self, name) for name in CHANGING} | {
            "manual_moves": self.move_editor.manual_moves
        }

    def _back_to(self, before: Mapping[str, Any]) -> None:
        for name in CHANGING:
            setattr(self, name, before[name])
        self.move_editor.manual_moves = before["manual_moves"]

    def focus_on(self, op: int) -> Any:
        """Make the tile knob follow the selection."""
        self.focus = item(self.house.operators, op, "operator").name if op >= 0 else ""
        return {}

    def begin_turn(self, knob: str, index: int, label: str = "") -> Any:
        """Begin to compile with a knob at another value in the background; `turn` then shows it.

        If the knob selects hardware, the same program is shown on it meanwhile.
        """
        now, mine = self.now, self._knob(knob, index, label)
        first = self.turning.first(now, mine, index)
        if first is not None:
            self._show_first(first)
        begun = self.turning.start(now, mine, index, self.bench.jobs, has_preview=first is not None)
        return begun | {"first": first is not None}

    def cancel(self, job: int, newer: bool = False) -> Any:
        """Ask a job to end and remove its preview, unless a `newer` one follows."""
        if not newer:
            self._show_again()
        return self.bench.jobs.cancel(job)

    def look_ahead(self) -> Any:
        """Begin to compile the values of slow knobs in advance, while the session is idle.

        Does nothing where others use the same machine.
        """
        knobs = precompiled_knobs(self.knobs()) if self.alone and self.now.ended is None else ()
        if not knobs or self.bench.jobs.busy:
            return {"job": 0}
        return self.turning.ahead(self.now, knobs, self.bench.jobs)

    def turn(self, knob: str, index: int, label: str = "") -> Any:
        """Turn a knob: compile and plan the wall; the measurement comes later."""
        mine = self._knob(knob, index, label)
        return self.show_next(
            HistoryEntry(self.turning.take(self.now, mine, index), turn_text(mine, index))
        )

    def as_far(self, knob: str, index: int, label: str = "") -> Any:
        """Show how far a compilation comes with a knob at a value that ends in an error."""
        mine = self._knob(knob, index, label)
        at = compiling.setting_until_error(self.now, mine, index)
        self.show_next(HistoryEntry(at, f"{turn_text(mine, index)}: failed"))
        return {"said": self.verdict()["big"]}

    def _named(self, knob: str) -> Knob:
        mine = next((k for k in self.knobs() if k.name == knob), None)
        if mine is None:
            raise BadOption(f"there is no knob {knob[:40]!r}")
        return mine

    def _knob(self, knob: str, index: int, label: str) -> Knob:
        """Return the knob; `label` is its value's label when it was chosen, which may be gone."""
        if knob.startswith(settings.SET):
            return settings.knob(self.now.compiled, knob.removeprefix(settings.SET), label)
        mine = knob_with_stop(self._named(knob), self.now, self.pinned, label)
        if label and mine.labels[position(index) : index + 1] != (label,):
            raise BadOption(f"{mine.label} has no value {label[:40]!r} any more", where=knob)
        position(index)
        return mine

    def knob_at(self, name: str, value: Any) -> tuple[Knob, int]:
        """Return a knob and the position of a value. Raises BadOption if it has no such value."""
        size = f"{value:.0f}" if isinstance(value, Real) else ""
        knob = knob_with_stop(self._named(name), self.now, self.pinned, size)
        return knob, value_position(knob, value)

    def value_of(self, name: str) -> Any:
        """Return the value in use of a knob: a number, or its label."""
        knob = self._named(name)
        return shown_values(knob)[knob.now]

    def turn_to(self, name: str, value: Any) -> Any:
        """Turn a knob to a value by name, at once.

        Ends the compilation or timing in progress: a turn that the page has begun is refused.
        """
        knob, index = self.knob_at(name, value)
        self.turning.overtake(knob, index)
        self.bench.jobs.end()
        args = {"knob": name, "index": index, "label": knob.labels[index]}
        return self.answer("turn", args)

    def show_next(self, step: HistoryEntry, *, measured: bool = True) -> dict[str, Any]:
        """Go one step further and describe it; the page measures it next if `measured`."""
        options = self.now.compiled.options, step.setting.compiled.options
        for what, name in tiles_left(*options):
            words = f"the {what} of {self.house.label(name)} is Roller's again"
            step = replace(step, what=f"{step.what}{history.AND} {words}")
        self._show(step, more=not (measured and self.runs))
        self.steps = self.steps.with_next(step)
        if self.log is not None:
            self.log.what_if(step.what, cast(Any, step.setting.compiled))
        planned = time_text(self.shown.planned_us)
        return {"said": f"{step.what}: predicted {planned}", "measure": self.runs}

    # Timings

    def times(self, binding: str) -> Times:
        """Return the timed tiles of a kernel."""
        return self.bench.times(self.now, binding)

    def timed(self, loop: str) -> tuple[TimedSchedule, ...]:
        """Return the timed schedules of a loop."""
        return self.crossings.timed(self.now, loop)

    def clocked(self, picture: str, about: str) -> Any:
        """Return the measurement of the setting on show that belongs to a picture."""
        return self.clocks.result(self.now, gallery.find_picture(picture), about)

    @property
    def manual_moves(self) -> ManualMoves:
        """The connections that were moved by hand."""
        return self.move_editor.manual_moves

    # Steps

    def begin_measure(self, remeasure: bool = False) -> Any:
        """Begin to compare the setting on show with the baseline; `measure` then takes the result.

        `remeasure`: also if it was timed before. Nothing begins if there is nothing to compare:
        `measure` times it at once.
        """
        if not self.runs:
            return {}
        planned_us, jobs = self.shown.planned_us, self.bench.jobs
        return self.comparing.start(self.steps, lambda: self.inputs, jobs, planned_us, remeasure)

    def measure(self, remeasure: bool = False) -> Any:
        """Run and time the setting on show, in turns with the baseline if both have the same sizes.

        Raises BadOption for hardware that is not here, and for a setting without code.
        """
        if not self.runs:
            raise BadOption(f"nothing is measured here: {self.verdict()['small']}")
        measured_step = self.comparing.measured(self.steps, lambda: self.inputs, remeasure)
        if measured_step is not self.steps.now:
            self._log_time(measured_step)
        self._take_code(measured_step)
        self.run_once()  # last, when the page has drawn the new setting
        words = self.verdict()
        return {"said": ", ".join(filter(None, (words["big"], words.get("short"))))}

    def _log_time(self, step: HistoryEntry) -> None:
        """Write the time of a step, or its comparison with the baseline, into the work log."""
        if self.log is None or step.time is None:
            return
        c, sizes = cast(Any, step.setting.compiled), dict(step.setting.sizes)
        if step.versus is None:
            self.log.what_if_time(step.what, c, sizes, cast(Any, step.time))
            return
        base = cast(Any, with_code(self.pinned).compiled)
        self.log.what_if_comparison(step.what, c, sizes, step.versus, base)

    def undo(self) -> Any:
        """Go back to the setting before this one."""
        self._show(self.steps.before, more=not self.runs)
        self.steps = self.steps.undo()
        return {"said": f"Undone: {self.steps.undone.what}", "measure": self.runs}

    def redo(self) -> Any:
        """Return to the setting that was undone last."""
        self._show(self.steps.undone, more=not self.runs)
        self.steps = self.steps.redo()
        return {"said": f"Done again: {self.steps.now.what}", "measure": self.runs}

    def go(self, step: int) -> Any:
        """Go to a step of the history, as if the later ones had been undone."""
        item(self.history(), step, "step")
        steps = self.steps.to(step)
        self._show(steps.now, more=not self.runs)
        self.steps = steps
        return {"said": f"Back at: {steps.now.what}", "measure": self.runs}

    def pin(self) -> Any:
        """Make the setting on show the baseline."""
        if self.now.ended is not None:
            raise BadOption("a setting that failed cannot be the baseline", try_="undo it first")
        self.with_code()
        step = self.steps.now
        if step.time is None and self.runs:
            step = timed_step(step, self.inputs)
        self.steps = self.steps.pin(step)
        return {"said": "This is the baseline now."}

    # Saved state

    def state(self) -> state.State:
        """Return the state of the explorer.

        Holds the knobs by their labels, and the time of a run: measured here, else as it was
        loaded.
        """
        at = self.steps.now
        time = self.loaded_time.time_to_save(at.setting, at.time)
        saved_view = replace(self.saved, edits=self.edited.to_rows(), time=time)
        return state.state_of(at.setting, self._knobs_at(at.setting), saved_view)

    def look(self, values: Mapping[str, Any]) -> None:
        """Remember what the front end shows; raises SnapshotError if a value is out of range."""
        self.saved = state.with_view(self.saved, values)

    def link(self) -> Any:
        """Return the end of a link to this state; `left` says what is too long for a link."""
        return state.link(self.state())

    def save(self) -> Any:
        """Return this state as a file."""
        name = f"{self.now.compiled.model.name}.ironworks.json"
        return {"text": state.serialise_state(self.state()), "name": name}

    def restore(self, text: str) -> Any:
        """Go to the state in a link.

        Restores views, settings, manual moves, and knobs whose values still exist and compile.
        Times measured there are shown beside those measured here. An error on show is left: the
        last step that ended in none is continued.
        """
        saved = state.read(str(text))
        if saved.digest != self.saved.digest:
            raise BadOption(
                "the link is about another model", expected=self.saved.digest, actual=saved.digest
            )
        self.saved, self.focus = replace(saved, time=()), saved.op
        self.edited = self.edited.with_saved(saved.edits)
        good_steps = [s for s in self.steps.past if s.setting.ended is None]
        if self.now.ended is not None and good_steps:
            self.show_next(HistoryEntry(good_steps[-1].setting, "back before the error"))
        if step := state.settings_of(self.now, saved.knobs):
            self.show_next(step)
        left, device = [], self.now.compiled.device.name
        for name, label in saved.knobs.items():
            knob = next((k for k in self.knobs() if k.name == name), None)
            knob = knob and knob_with_stop(knob, self.now, self.pinned, label)
            if knob and label in knob.labels and knob.labels[knob.now] != label:
                try:
                    self.turn(name, knob.labels.index(label), label)
                except Cancelled:
                    raise
                except IronworksError as problem:
                    left.append(f"{knob.label} {label[:40]} ({problem.sentence})")
            elif knob and label not in knob.labels:
                left.append(f"{knob.label} {label[:40]} ({device} has no such value)")
        for setting, what in state.replay_moves(self.now, saved):
            self.show_next(HistoryEntry(setting, what))
        self.loaded_time = state.LoadedTime(self.now, saved.time)
        return {
            "said": state.restored_text(left),
            "state": state.view(saved),
            "measure": self.runs,
        }


def look_at(session: Session, step: str = "", against: Compiled | None = None) -> None:
    """Set the step that pictures show, or compare the session with the compilation `against`.

    `against` becomes A. Raises BadOption for an unknown step.
    """
    if against is not None:
        pinned = HistoryEntry(first_setting(against, None), "as compiled")
        session.steps = replace(session.steps, pinned=pinned)
    session.view = View(step=_number(session, step), against=PINNED if against else "")


def _number(session: Session, step: str) -> int:
    names = [s.name for s in session.now.compiled.snapshots]
    if step and step not in names:
        raise BadOption(f"there is no step {step[:40]!r}", where=step, expected=", ".join(names))
    return names.index(step) if step else -1
