"""A compilation under a reader's hands: knobs turned, walls measured, steps undone, questions
answered. No Jupyter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

from explorer.errors import BadOption, Cancelled, IronworksError, fault
from explorer.garbage import rare_collections
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.stage import Stage
from explorer.making import Ended
from explorer.measure.compare import Comparison
from explorer.measure.recorded_run import RecordedRun
from explorer.passes.pipeline.random_inputs import random_inputs
from explorer.runtime.control.way_times import Timed
from explorer.tuning.what_if import compare
from widgets.draw.table import time_text
from widgets.model.compiled import Arrays, Compiled
from widgets.model.controls import settings
from widgets.model.controls.unasked import unasked
from widgets.model.hand import Hand
from widgets.model.house import House, knob_parts
from widgets.model.knob import Knob
from widgets.model.knob_values import shown_values, value_position
from widgets.model.knobs import Setting, first_setting, knobs, said, with_code, with_stop
from widgets.model.legal_tiles import tiles_left
from widgets.model.on_show import Times, View, Walls
from widgets.rooms import content, gallery
from widgets.session import answers, edits, ended, state, verdict
from widgets.session.asked import clocks, connections, kernels, pictures, tiles, wall
from widgets.session.history import History
from widgets.session.kept import keeping
from widgets.session.kept import replayed_moves as by_hand
from widgets.session.kept import replayed_settings as again
from widgets.session.moves import Hands
from widgets.session.questions import check_question, item, position
from widgets.session.shown import Shown, shown
from widgets.session.timing.bench import Bench, Timer
from widgets.session.timing.clocks import Clocks
from widgets.session.timing.comparing import Comparing, timed_step
from widgets.session.timing.crossings import Crossings
from widgets.session.timing.fitting import Fitting
from widgets.session.timing.jobs import make_way
from widgets.session.timing.profiling import Profiling
from widgets.session.timing.tuning import timed
from widgets.session.timing.turning import Turning
from widgets.session.verdict import Step

CHANGING = (
    "shown",
    "steps",
    "kept",
    "focus",
    "revision",
    "edited",
    "brought",
    "behind",
    "_made",
)  # by answers: all are values

QUESTIONS: Mapping[str, Callable[..., Any]] = {
    **answers.READERS,
    **pictures.ANSWERS,
    **wall.ANSWERS,
    **clocks.ANSWERS,
    **tiles.ANSWERS,
    **connections.ANSWERS,
    **kernels.ANSWERS,
}
OWN = (  # which the session answers itself: they move along its steps, or keep them
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

GOES_ON = {*answers.READERS, *pictures.ANSWERS, "wall", "focus", "job", "look_ahead"}  # beside
# what nobody waits for
STAYS = (GOES_ON - {"look_ahead"}) | {"cancel"}  # beside what is shown before it is compiled


class Session:
    """What is on show now, how it came to be, and the answers to the front end's questions."""

    def __init__(
        self,
        c: Compiled,
        *,
        sizes: Mapping[str, int] | None = None,
        inputs: Arrays | None = None,
        kept: state.State = state.State(),
        compare: Callable[..., Comparison] = compare,
        timer: Timer = timed,
        hands: Hands | None = None,
        failed: Ended | None = None,
        coded: bool | None = None,
        recorded: RecordedRun | None = None,
    ) -> None:
        """`failed`: the error that a compilation came no further for. `coded`: whether its code is
        generated when that is first asked for; where it is not told, only what has code has it.
        `recorded`: a run whose wall stands under the plan where none was measured.
        """
        self.recorded = recorded
        self.alone = True  # its reader has this machine to himself
        self.comparing = Comparing(compare)
        self.profiling = Profiling()
        self.fitting = Fitting()
        self.turning = Turning()
        self.bench = Bench(timer)
        self.hands = hands or Hands()
        self.crossings = Crossings()
        self.clocks = Clocks()
        self.trials = edits.Trials()
        self.edited = edits.Edited()
        self.view = View()
        self._made: Arrays | None = None
        self.given = inputs
        self._coded = c.program.stage is Stage.EMITTED if coded is None else coded
        asked, words = (recorded.sizes, "as recorded") if recorded else ((), "as compiled")
        at = first_setting(c, {**dict(asked), **(sizes or {})})
        first = Step(replace(at, ended=failed), words)
        self.steps = History((first,), first)
        self.kept = replace(kept, digest=c.model.digest)
        self.brought = keeping.Brought(first.setting, ())
        self.focus = kept.op
        self.revision = 0
        self.behind: Shown | None = None
        self._base: Shown | None = None
        with rare_collections():
            self._show(first)

    # What is on show

    @property
    def now(self) -> Setting:
        """The setting on show: of the last step, or while that is compiled for other hardware the
        same program on it.
        """
        return self.shown.setting if self.behind else self.steps.now.setting

    @property
    def pinned(self) -> Setting:
        """The baseline, which it is compared with."""
        return self.steps.pinned.setting

    @property
    def house(self) -> House:
        """Its parts."""
        return self.shown.house

    @property
    def walls(self) -> Walls:
        """Its walls."""
        return self.shown.walls

    @property
    def plan(self) -> MemoryPlan | None:
        """Its memory plan."""
        return self.shown.plan

    def _show(self, step: Step, *, more: bool = True) -> None:
        """Read a setting's compilation; nothing changes if that fails. `more`: with all that is
        planned beside; without where a measurement follows, which brings it.
        """
        self.shown = shown(step.setting, more=more, recorded=self.recorded)
        self.behind = None
        self.hands.clear()
        self._made = None
        self.revision += 1

    def _show_first(self, first: Setting) -> None:
        """Show what is known at once of a turn, until that is compiled or given up."""
        self.shown, self.behind = shown(first, more=False, recorded=self.recorded), self.shown
        self.revision += 1

    def _show_again(self) -> None:
        """What stood there before."""
        if self.behind is not None:
            self.shown, self.behind = self.behind, None
            self.revision += 1

    @property
    def runs(self) -> bool:
        """Return True where a run here says how long what is on show takes: an earlier stage has
        no code, and other hardware is not here. What a knob was turned to has its code when that is
        first asked for.
        """
        return self._coded and self.now.is_here and self.now.ended is None

    @property
    def inputs(self) -> Arrays:
        """What runs are given: made by the first that asks."""
        now = self.now
        if self.given is not None and now.sizes == self.steps.pinned.setting.sizes:
            return self.given
        if self._made is None:
            self._made = random_inputs(now.compiled.model.program, dict(now.sizes))
        return self._made

    def with_code(self) -> None:
        """What is on show with its code, generated now where it was only planned."""
        if self.runs and (setting := with_code(self.now)) is not self.now:
            self._take_code(replace(self.steps.now, setting=setting))

    def _take_code(self, step: Step) -> None:
        """The same step with its code, read again where it had none; A too, where it is that."""
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
        """Every JSON part of the house."""
        with rare_collections():
            found = self.house.parts
        base, _ = self._base_wall()
        return {
            **found,
            "stages": ended.marked(found["stages"], self.now.ended),
            "knobs": knob_parts(self.knobs()),
            "walls": {**self.shown.views.packed[0], **({"wall_base": base} if base else {})},
            "verdict": self.verdict(),
            "history": self.history(),
            "undo": self.steps.words,
            "revision": self.revision,
            "absent": content.absent(self),
            "no_edit": self.trials.refused,
            "kept": state.written(self.state()),
            "state": state.view(self.kept),
        }

    def buffers(self) -> dict[str, bytes]:
        """Every binary part."""
        return {**self.shown.views.packed[1], "wall_base": self._base_wall()[1]}

    def _base_wall(self) -> tuple[dict[str, Any], bytes]:
        """The baseline's wall, where that is another setting of the same sizes and device."""
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
        """The knobs at their present values."""
        return self._knobs_at(self.now)

    def _knobs_at(self, setting: Setting) -> tuple[Knob, ...]:
        return knobs(setting, self.pinned, self.focus, self.house.kernel_of(self.focus))

    # Times

    @property
    def time_us(self) -> float | None:
        """The median of the measured runs of what is on show; None before they are measured."""
        time = None if self.behind else self.steps.now.time
        return float(time.median_us) if time else None

    def verdict(self) -> dict[str, Any]:
        """The time on show, with the baseline's where that is another setting of the same sizes;
        where there is no code, how far it came and why; on other hardware, a prediction.
        """
        step, us = self.steps.now, self.shown.planned_us
        if self.behind is not None:
            device = self.now.compiled.device.name
            return verdict.before_compiled(us, self.behind.planned_us, device)
        if not self.runs and self._coded and self.now.ended is None:
            found = verdict.elsewhere(us, self._base_us(), self.now.compiled.device.name)
        elif not self.runs:
            found = verdict.without_code(step, us, self.walls.recorded)
        else:
            found = verdict.verdict(step, self.steps.pinned, us, self.walls.compared)
        return found | {"brought": self.brought.told(self.now)}

    def _base_us(self) -> float:
        """The prediction for the baseline; 0 where it is what is on show, or has other sizes."""
        base = self.pinned
        if base == self.now or base.sizes != self.now.sizes:
            return 0.0
        return base.compiled.planned_wall(dict(base.sizes)).total_us

    def history(self) -> list[dict[str, Any]]:
        """Every step since the first, with its ratio against the baseline."""
        return verdict.history(self.steps.past, self.steps.future, self.steps.pinned)

    # Answers

    def answer(self, kind: str, args: Mapping[str, Any]) -> Any:
        """The answer to one question; raises IronworksError where it is refused, or says why in
        `refused`: then the session is as it was before.
        """
        known: dict[str, Callable[..., Any]] = {
            **{name: partial(found, self) for name, found in QUESTIONS.items()},
            **{name: getattr(self, name) for name in OWN},
            "focus": self.focus_on,
        }
        if kind not in known:
            raise BadOption(f"there is no question {kind[:40]!r}")
        check_question(kind, known[kind], args)
        if kind not in GOES_ON:
            make_way()
        if kind not in STAYS:
            self._show_again()
        before = self._state()
        try:
            found = known[kind](**args)
        except BaseException as problem:
            self._back_to(before)
            if isinstance(problem, Exception) and not isinstance(problem, IronworksError):
                raise fault(problem, f"the question {kind!r}") from problem
            raise
        if isinstance(found, Mapping) and found.get("refused"):
            self._back_to(before)
        return found

    def _state(self) -> Mapping[str, Any]:
        """All that an answer may change."""
        return {name: getattr(self, name) for name in CHANGING} | {"hand": self.hands.hand}

    def _back_to(self, before: Mapping[str, Any]) -> None:
        for name in CHANGING:
            setattr(self, name, before[name])
        self.hands.hand = before["hand"]

    def focus_on(self, op: int) -> Any:
        """The tile knob follows the selection."""
        self.focus = item(self.house.operators, op, "operator").name if op >= 0 else ""
        return {}

    def begin_turn(self, knob: str, index: int, label: str = "") -> Any:
        """Begin to compile with a knob at another value, beside; `turn` then shows it. Of hardware
        the same program is shown on it meanwhile.
        """
        now, mine = self.now, self._knob(knob, index, label)
        first = self.turning.first(now, mine, index)
        if first is not None:
            self._show_first(first)
        begun = self.turning.start(now, mine, index, self.bench.jobs, told=first is not None)
        return begun | {"first": first is not None}

    def cancel(self, job: int, newer: bool = False) -> Any:
        """Ask a job to end. What is shown until it is over goes, but where `newer` is to come."""
        if not newer:
            self._show_again()
        return self.bench.jobs.cancel(job)

    def look_ahead(self) -> Any:
        """Begin to compile what knobs that take long to turn would come to, while nothing is asked;
        not where others wait for the same machine.
        """
        knobs = unasked(self.knobs()) if self.alone and self.now.ended is None else ()
        if not knobs or self.bench.jobs.busy:
            return {"job": 0}
        return self.turning.ahead(self.now, knobs, self.bench.jobs)

    def turn(self, knob: str, index: int, label: str = "") -> Any:
        """Turn a knob: compile what follows from it and plan the wall; measuring comes after."""
        mine = self._knob(knob, index, label)
        return self.show_next(Step(self.turning.take(self.now, mine, index), said(mine, index)))

    def as_far(self, knob: str, index: int, label: str = "") -> Any:
        """Show how far compiling comes with a knob at a value that it ends in an error with."""
        mine = self._knob(knob, index, label)
        at = ended.as_far(self.now, mine, index)
        self.show_next(Step(at, f"{said(mine, index)}: failed"))
        return {"said": self.verdict()["big"]}

    def _named(self, knob: str) -> Knob:
        mine = next((k for k in self.knobs() if k.name == knob), None)
        if mine is None:
            raise BadOption(f"there is no knob {knob[:40]!r}")
        return mine

    def _knob(self, knob: str, index: int, label: str) -> Knob:
        """The knob; `label` is what its value was called when chosen: it may have gone since."""
        if knob.startswith(settings.SET):
            return settings.knob(self.now.compiled, knob.removeprefix(settings.SET), label)
        mine = with_stop(self._named(knob), self.now, self.pinned, label)
        if label and mine.labels[position(index) : index + 1] != (label,):
            raise BadOption(f"{mine.label} has no value {label[:40]!r} any more", where=knob)
        position(index)
        return mine

    def knob_at(self, name: str, value: Any) -> tuple[Knob, int]:
        """Return a knob and the position of a value. Raises BadOption if it has no such value."""
        size = f"{value:.0f}" if isinstance(value, Real) else ""
        knob = with_stop(self._named(name), self.now, self.pinned, size)
        return knob, value_position(knob, value)

    def value_of(self, name: str) -> Any:
        """Return the value in use of a knob: a number, or its label."""
        knob = self._named(name)
        return shown_values(knob)[knob.now]

    def turn_to(self, name: str, value: Any) -> Any:
        """Turn a knob to a value that a program names, at once.

        Ends the compilation or the timing under way: a turn that the page has begun is refused.
        """
        knob, index = self.knob_at(name, value)
        self.turning.overtake(knob, index)
        self.bench.jobs.end()
        args = {"knob": name, "index": index, "label": knob.labels[index]}
        return self.answer("turn", args)

    def show_next(self, step: Step, *, measured: bool = True) -> dict[str, Any]:
        options = self.now.compiled.options, step.setting.compiled.options
        for what, name in tiles_left(*options):
            words = f"the {what} of {self.house.label(name)} is Roller's again"
            step = replace(step, what=f"{step.what}{verdict.AND} {words}")
        self._show(step, more=not (measured and self.runs))
        self.steps = self.steps.with_next(step)
        planned = time_text(self.shown.planned_us)
        return {"said": f"{step.what}: predicted {planned}", "measure": self.runs}

    # What was timed

    def times(self, binding: str) -> Times:
        """The tiles of a kernel that were timed."""
        return self.bench.times(self.now, binding)

    def timed(self, loop: str) -> tuple[Timed, ...]:
        """The ways of a loop that were timed."""
        return self.crossings.timed(self.now, loop)

    def clocked(self, picture: str, about: str) -> Any:
        """What the clock of a picture said of what is on show."""
        return self.clocks.said(self.now, gallery.named(picture), about)

    @property
    def hand(self) -> Hand:
        """The connections that were moved by hand."""
        return self.hands.hand

    # Steps

    def begin_measure(self, again: bool = False) -> Any:
        """Begin to compare the setting on show with the baseline, beside; `measure` then takes what
        was found. `again`: also where it was timed before.

        Nothing begins where there is nothing to compare: `measure` times it at once.
        """
        if not self.runs:
            return {}
        planned_us, jobs = self.shown.planned_us, self.bench.jobs
        return self.comparing.start(self.steps, lambda: self.inputs, jobs, planned_us, again)

    def measure(self, again: bool = False) -> Any:
        """Run and time the setting on show, in turns with the baseline where both have the same
        sizes. Raises BadOption for hardware that is not here, and for what has no code.
        """
        if not self.runs:
            raise BadOption(f"nothing is measured here: {self.verdict()['small']}")
        found = self.comparing.measured(self.steps, lambda: self.inputs, again)
        self._take_code(found)
        self.run_once()  # last: by then the page has drawn what was turned
        words = self.verdict()
        return {"said": ", ".join(filter(None, (words["big"], words.get("short"))))}

    def undo(self) -> Any:
        """The setting before this one."""
        self._show(self.steps.before, more=not self.runs)
        self.steps = self.steps.undo()
        return {"said": f"Undone: {self.steps.undone.what}", "measure": self.runs}

    def redo(self) -> Any:
        """The setting that was undone last."""
        self._show(self.steps.undone, more=not self.runs)
        self.steps = self.steps.redo()
        return {"said": f"Done again: {self.steps.now.what}", "measure": self.runs}

    def go(self, step: int) -> Any:
        """A step of the history again, as if what followed had been undone."""
        item(self.history(), step, "step")
        steps = self.steps.to(step)
        self._show(steps.now, more=not self.runs)
        self.steps = steps
        return {"said": f"Back at: {steps.now.what}", "measure": self.runs}

    def pin(self) -> Any:
        """Make the setting on show the one that others are compared with from now on."""
        if self.now.ended is not None:
            raise BadOption("nothing is compared with what failed", try_="undo it first")
        self.with_code()
        step = self.steps.now
        if step.time is None and self.runs:
            step = timed_step(step, self.inputs)
        self.steps = self.steps.pin(step)
        return {"said": "This is the baseline now."}

    # What can be kept

    def state(self) -> state.State:
        """The state of the house with the knobs by their labels, and how long a run took here, else
        where it came from.
        """
        at = self.steps.now
        time = self.brought.kept(at.setting, at.time)
        kept = replace(self.kept, edits=self.edited.kept(), time=time)
        return keeping.state_of(at.setting, self._knobs_at(at.setting), kept)

    def look(self, values: Mapping[str, Any]) -> None:
        """Remember what the front end looks at; raises SnapshotError where that is out of range."""
        self.kept = state.seen(self.kept, values)

    def link(self) -> Any:
        """The end of a link to this state; `left` says what is too long for one."""
        return keeping.link(self.state())

    def save(self) -> Any:
        """A file of this state."""
        name = f"{self.now.compiled.model.name}.ironworks.json"
        return {"text": state.written(self.state()), "name": name}

    def restore(self, text: str) -> Any:
        """Go to the state in a link: views as they were, settings, knobs where they still fit and
        compile, and what was moved by hand; what was measured there stands beside what is measured
        here. An error on show goes: the last step that ended in none is gone on from.
        """
        found = keeping.read(str(text))
        if found.digest != self.kept.digest:
            raise BadOption(
                "the link is about another model", expected=self.kept.digest, found=found.digest
            )
        self.kept, self.focus = replace(found, time=()), found.op
        self.edited = self.edited.with_saved(found.edits)
        whole = [s for s in self.steps.past if s.setting.ended is None]
        if self.now.ended is not None and whole:
            self.show_next(Step(whole[-1].setting, "back before the error"))
        if step := again.settings_of(self.now, found.knobs):
            self.show_next(step)
        left, device = [], self.now.compiled.device.name
        for name, label in found.knobs.items():
            knob = next((k for k in self.knobs() if k.name == name), None)
            knob = knob and with_stop(knob, self.now, self.pinned, label)
            if knob and label in knob.labels and knob.labels[knob.now] != label:
                try:
                    self.turn(name, knob.labels.index(label), label)
                except Cancelled:
                    raise
                except IronworksError as problem:
                    left.append(f"{knob.label} {label[:40]} ({problem.sentence})")
            elif knob and label not in knob.labels:
                left.append(f"{knob.label} {label[:40]} ({device} has no such value)")
        for setting, what in by_hand.again(self.now, found):
            self.show_next(Step(setting, what))
        self.brought = keeping.Brought(self.now, found.time)
        return {
            "said": keeping.restored(left),
            "state": state.view(found),
            "measure": self.runs,
        }
