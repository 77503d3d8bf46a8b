"""A compilation under a reader's hands: knobs turned, walls measured, steps undone, questions
answered. No Jupyter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from explorer.errors import BadOption, IronworksError, fault
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.wall import Wall
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.measure.walls import compare_walls
from explorer.passes.pipeline.random_inputs import random_inputs
from explorer.runtime.control.way_times import Timed
from explorer.tuning.what_if import compare
from widgets.draw.table import time_text
from widgets.grinder.view import LOOPS, crossing
from widgets.model import brick_wall
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Arrays, Compiled
from widgets.model.hand import Hand
from widgets.model.house import House, knob_parts, program_parts, read
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, first_setting, knobs, said, threads, turned, with_tile
from widgets.model.on_show import Times, View, Walls
from widgets.model.outline import tiling_text
from widgets.model.picture import Picture
from widgets.rammer import wall_hand
from widgets.roller.view import rolled
from widgets.session import answers, state, verdict
from widgets.session import replayed_moves as by_hand
from widgets.session.bench import Bench, Timer
from widgets.session.crossings import Crossings
from widgets.session.jobs import Job
from widgets.session.moves import Hands
from widgets.session.questions import check_question, item, position
from widgets.session.tuning import tiling_of, timed
from widgets.session.verdict import Step
from widgets.session.wall_views import Binary, WallViews
from widgets.session.watched import Rounds, Watched, rounds_in

MORE_UNITS = 8
TIMING_SECONDS = 0.3
TRACING_SECONDS = 0.05
MOST_TRACED = 40
MOST_STEPS = 50
CHANGING = ("house", "walls", "views", "plan", "pinned", "kept", "focus", "revision", "_made")


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
        failed: IronworksError | None = None,
    ) -> None:
        """`failed`: the error that a compilation came no further for."""
        self.failed = failed
        self.compare = compare
        self.bench = Bench(timer)
        self.hands = hands or Hands()
        self.crossings = Crossings()
        self.view = View()
        self._made: Arrays | None = None
        self._ahead: Step | None = None
        # The setting whose tasks were measured, and what came of it.
        self._profiled: tuple[Setting | None, Any] = (None, None)
        self.given = inputs
        self.pinned = Step(first_setting(c, sizes), "as compiled")
        self.past: list[Step] = [self.pinned]
        self.future: list[Step] = []
        self.kept = replace(kept, digest=c.model.digest)
        self.focus = kept.op
        self.revision = 0
        self._take(self.pinned)

    # What is on show

    @property
    def now(self) -> Setting:
        """The setting on show."""
        return self.past[-1].setting

    def _take(self, step: Step) -> None:
        """Read a setting's compilation, and run it once; nothing changes if that fails."""
        c, sizes = step.setting.compiled, dict(step.setting.sizes)
        house = read(c)
        scheduled = c.program.stage >= Stage.PLANNED
        self.house: House = house
        self.walls = Walls(None, None)
        self.views = WallViews(self.walls, None, ())
        self.plan: MemoryPlan | None = None
        if scheduled:
            self.walls = Walls(brick_wall.data(c.planned_wall(sizes), house.calls), None)
            more = self._more_units(step.setting, house)
            self.views = WallViews(self.walls, more, tuple(c.schedules(sizes)))
            self.plan = c.memory(sizes)
        self.hands.clear()
        self._made = None
        self.revision += 1

    @property
    def runs(self) -> bool:
        """Whether what is on show can be run here: a data sheet or an earlier stage has no code."""
        return self.now.compiled.program.stage is Stage.EMITTED

    @property
    def inputs(self) -> Arrays:
        """What runs are given: made by the first that asks."""
        now = self.now
        if self.given is not None and now.sizes == self.pinned.setting.sizes:
            return self.given
        if self._made is None:
            self._made = random_inputs(now.compiled.model.program, dict(now.sizes))
        return self._made

    def _more_units(self, now: Setting, house: House) -> WallRows | None:
        """The same program planned for more units than this machine may have."""
        if threads(now.compiled) >= MORE_UNITS:
            return None
        options = replace(now.compiled.options.rammer, threads=MORE_UNITS)
        other = now.compiled.with_options(rammer=options)
        return brick_wall.data(other.planned_wall(dict(now.sizes)), house.calls)

    def run_once(self) -> None:
        """Measure the wall of the setting on show: of several runs the one nearest to the median
        that was timed, or to their own.
        """
        runs: list[Wall] = []
        end = perf_counter() + TRACING_SECONDS
        while len(runs) < 3 or (len(runs) < MOST_TRACED and perf_counter() < end):
            runs.append(self.now.compiled.measured_wall(self.inputs))
        timed = self.past[-1].time
        middle = timed.median_us if timed else sorted(w.total_us for w in runs)[len(runs) // 2]
        wall = min(runs, key=lambda w: abs(w.total_us - middle))
        compiled, calls = self.now.compiled, self.house.calls
        compared = compare_walls(compiled.planned_wall(dict(self.now.sizes)), wall)
        self.walls = Walls(self.walls.planned, brick_wall.data(wall, calls), compared)
        self.views = replace(self.views, walls=self.walls)

    # Parts

    def parts(self) -> dict[str, Any]:
        """Every JSON part of the house."""
        return {
            **program_parts(self.house),
            "knobs": knob_parts(self.knobs()),
            "walls": self.views.packed[0],
            "verdict": self.verdict(),
            "history": self.history(),
            "undo": self._undo(),
            "revision": self.revision,
            "state": state.view(self.kept),
        }

    def buffers(self) -> dict[str, bytes]:
        """Every binary part."""
        return self.views.packed[1]

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs at their present values."""
        return knobs(self.now, self.pinned.setting, self.focus)

    def _undo(self) -> list[str]:
        back = f"Undo {self.past[-1].what} (U)" if len(self.past) > 1 else ""
        return [back, f"Redo {self.future[-1].what} (Shift U)" if self.future else ""]

    # Times

    def verdict(self) -> dict[str, Any]:
        """The time on show, against A where that is another setting of the same sizes; where there
        is no code, how far it came and why.
        """
        if not self.runs:
            return verdict.without_code(self.past[-1], self._planned_us(), self.failed)
        return verdict.verdict(self.past[-1], self.pinned, self._planned_us())

    def _planned_us(self) -> float:
        return self.walls.planned.total_us if self.walls.planned else 0.0

    def history(self) -> list[dict[str, Any]]:
        """Every step since the first, with its ratio against A."""
        return verdict.history(self.past, self.future, self.pinned)

    # Answers

    def answer(self, kind: str, args: Mapping[str, Any]) -> Any:
        """The answer to one question; raises IronworksError where it is refused, or says why in
        `refused`: then the session is as it was before.
        """
        known: dict[str, Callable[..., Any]] = {
            **{name: partial(reader, self) for name, reader in answers.READERS.items()},
            "turn": self.turn,
            "wall": self.slice,
            "move_brick": self.move_brick,
            "begin_profile": self.begin_profile,
            "profile": self.profile,
            "begin_crossing": self.begin_crossing,
            "crossing": self.crossing,
            "begin_measure": self.begin_measure,
            "measure": self.measure,
            "undo": self.undo,
            "redo": self.redo,
            "pin": self.pin,
            "focus": self.focus_on,
            "tuning": self.form,
            "judge": self.judge,
            "time_tile": self.time_tile,
            "job": self.bench.jobs.told,
            "cancel": self.bench.jobs.cancel,
            "take": self.take,
            "hand": partial(self.hands.told, self.now),
            "move": partial(self.hands.move, self.now),
            "join": partial(self.hands.join, self.now),
            "unmove": partial(self.hands.unmove, self.now),
            "time_hand": self.time_hand,
            "take_hand": self.take_hand,
            "link": self.link,
            "save": self.save,
            "restore": self.restore,
        }
        if kind not in known:
            raise BadOption(f"there is no question {kind[:40]!r}")
        check_question(kind, known[kind], args)
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
        """All that an answer may change: values, and lists of them, here as copies."""
        found = {name: getattr(self, name) for name in CHANGING}
        return found | {"past": [*self.past], "future": [*self.future], "hand": self.hands.hand}

    def _back_to(self, before: Mapping[str, Any]) -> None:
        for name in (*CHANGING, "past", "future"):
            setattr(self, name, before[name])
        self.hands.hand = before["hand"]

    def focus_on(self, op: int) -> Any:
        """The tile knob follows the selection."""
        self.focus = item(self.house.operators, op, "operator").name if op >= 0 else ""
        return {}

    def turn(self, knob: str, index: int, label: str = "") -> Any:
        """Turn a knob: compile what follows from it and plan the wall; measuring comes after.

        `label` is what the value was called when it was chosen: it may have gone since.
        """
        mine = next((k for k in self.knobs() if k.name == knob), None)
        if mine is None:
            raise BadOption(f"there is no knob {knob[:40]!r}")
        if label and mine.labels[position(index) : index + 1] != (label,):
            raise BadOption(f"{mine.label} has no value {label[:40]!r} any more", where=knob)
        return self._go(Step(turned(self.now, mine, position(index)), said(mine, index)))

    def _go(self, step: Step) -> Any:
        self._take(step)
        self.past = [*self.past, step][-MOST_STEPS:]
        self.future = []
        return {
            "said": f"{step.what}: planned {time_text(self._planned_us())}",
            "measure": self.runs,
        }

    # The wall

    def slice(self, wall: str, **view: Any) -> Binary:
        """A part of a wall."""
        return self.views.slice(wall, **view)

    def move_brick(self, **drop: Any) -> Any:
        """A brick to another place, planned at once; the dependency that this would break."""
        if self.walls.planned is None:
            raise BadOption("nothing is scheduled: compile through Rammer")
        check_question("move_brick", wall_hand.Drop, drop)
        found = wall_hand.dropped(self.now, self.walls.planned, wall_hand.Drop(**drop))
        if isinstance(found, dict):
            return found
        setting, move = found
        before = self._planned_us()
        told = self._go(Step(setting, move.words))
        us = self._planned_us()
        change = f", {us / before - 1:+.1%}" if before else ""
        said = f"{move.words}: planned {time_text(us)}{change}"
        return told | {"said": said, "measure": False}

    def begin_profile(self) -> Any:
        """Begin to measure how long each task takes, beside; `profile` then plans with that."""
        found = self._profilable()
        setting, inputs = self.now, self.inputs

        def work(job: Job) -> None:
            def told(what: str, done: int, of: int) -> None:
                job.what, job.of = what, of
                job.told(done)

            self._profiled = setting, found.profiled(inputs, progress=told)

        return {"job": self.bench.jobs.start(1, work)}

    def profile(self) -> Any:
        """Plan with measured times of tasks; they are measured now where that was not begun.

        Raises BadOption where they were measured for another setting than the one on show.
        """
        found = self._profilable()
        (measured, made), self._profiled = self._profiled, (None, None)
        if measured is not None and measured != self.now:
            raise BadOption(
                "what is on show has changed since its tasks were measured",
                try_="measure them again",
            )
        changed = made if measured is not None else found.profiled(self.inputs)
        return self._go(Step(replace(self.now, compiled=changed), "task times measured"))

    def _profilable(self) -> Any:
        found: Any = self.now.compiled
        if not hasattr(found, "profiled"):
            raise BadOption(f"{found.model.name} cannot be measured")
        return found

    # Tiles tried by hand

    def times(self, binding: str) -> Times:
        """The tiles of a kernel that were timed."""
        return self.bench.times(self.now, binding)

    def time_tiles(self, op: str) -> None:
        """Time every tile to choose from of the kernel that Roller's pictures are about."""
        found = rolled(self, op)
        if found is not None and found.ops[0] in self.house.order:
            self.bench.time_all(self.now, self.house, self.house.order[found.ops[0]])

    def time_shown(self, picture: Picture, op: str) -> None:
        """Time what a picture is about: the ways of its loop, or the tiles of its kernel; a run
        where it shows what control flow did.
        """
        if picture.stage is Stage.TASKED and picture.name != "crossing":
            self.run_once()
        elif picture.family is not LOOPS:
            self.time_tiles(op)
        elif (found := crossing(self, op)) is not None:
            self.crossings.time(self.now, self.inputs, found.loop)

    def timed(self, loop: str) -> tuple[Timed, ...]:
        """The ways of a loop that were timed."""
        return self.crossings.timed(self.now, loop)

    def begin_crossing(self, loop: str) -> Any:
        """Begin to time the ways of a loop, beside; `crossing` then says what came of it."""
        return self.crossings.start(self.now, self.inputs, self.bench.jobs, loop)

    def crossing(self, loop: str) -> Any:
        """What came of timing a loop's ways."""
        return {"said": self.crossings.said(self.now, loop)}

    def form(self, op: int) -> Any:
        """What of an operator's tile may be edited."""
        return self.bench.form(self.now, self.house, op)

    def judge(self, op: int, fields: Mapping[str, Any]) -> Any:
        """The rule that a tile breaks, or what the model says of it."""
        return self.bench.judge(self.now, self.house, op, fields)

    def time_tile(self, op: int, fields: Mapping[str, Any]) -> Any:
        """Begin to time a tile against the one in use."""
        return self.bench.start(self.now, self.house, op, fields)

    def take(self, op: int, fields: Mapping[str, Any]) -> Any:
        """Pin a tile and compile through; raises BadOption where it is not legal."""
        subject = self.bench.subject(self.now, self.house, op)
        tiling = tiling_of(fields, subject)
        what = f"tile of {subject.binding} → {tiling_text(tiling)}"
        return self._go(Step(with_tile(self.now, subject.binding, tiling), what))

    # Connections moved by hand

    @property
    def hand(self) -> Hand:
        """The connections that were moved by hand."""
        return self.hands.hand

    def time_hand(self, device: str = "") -> Any:
        """Begin to compile what was moved by hand, and to time it against what is on show."""
        us = self._planned_us()
        return self.hands.start(self.now, self.inputs, self.bench.jobs, self.compare, us)

    def take_hand(self, device: str = "") -> Any:
        """Compile what was moved by hand, and go on with it."""
        what = ", ".join(f"{value} → {level}" for value, level in self.hand.moves)
        changed = self.hands.compiled(self.now)
        return self._go(Step(replace(self.now, compiled=changed), what))

    def begin_measure(self) -> Any:
        """Begin to compare the setting on show with A, beside; `measure` then takes what was found.

        Nothing begins where there is nothing to compare: `measure` times it at once.
        """
        step = self.past[-1]
        if step.time is not None or not self._comparable(step):
            return {}
        known = self.pinned.time.median_us if self.pinned.time else 0.0
        of = rounds_in(2 * TIMING_SECONDS, max(self._planned_us(), known))
        inputs = self.inputs

        def work(job: Job) -> None:
            self._ahead = self._compared(step, inputs, Rounds(job))

        return {"job": self.bench.jobs.start(of, work), "of": of}

    def measure(self) -> Any:
        """Run and time the setting on show, in turns with A where both have the same sizes."""
        step, base = self.past[-1], self.pinned
        ahead, self._ahead = self._ahead, None
        if step.time is None:
            if ahead is not None and ahead.setting == step.setting:
                step = replace(ahead, what=step.what)
            else:
                step = (
                    self._compared(step, self.inputs)
                    if self._comparable(step)
                    else self._timed(step)
                )
            self.past[-1] = step
        if step.setting == base.setting:
            self.pinned = replace(step, what=base.what)
        self.run_once()  # last: by then the page has drawn what was turned
        return {"said": self.verdict()["big"]}

    def _comparable(self, step: Step) -> bool:
        base = self.pinned.setting
        return step.setting != base and step.setting.sizes == base.sizes

    def _compared(self, step: Step, inputs: Arrays, rounds: Rounds | None = None) -> Step:
        both: tuple[Any, Any] = (step.setting.compiled, self.pinned.setting.compiled)
        if rounds is not None:
            both = (Watched(both[0], rounds, 0), Watched(both[1], rounds, 1))
        found = self.compare(*both, inputs, seconds=2 * TIMING_SECONDS)
        return replace(step, time=found.first, versus=found)

    def _timed(self, step: Step) -> Step:
        timed = step.setting.compiled.time(self.inputs, seconds=TIMING_SECONDS)
        return replace(step, time=timed)

    def undo(self) -> Any:
        """The setting before this one."""
        if len(self.past) < 2:
            raise BadOption("there is nothing to undo")
        self._take(self.past[-2])
        self.future = [*self.future, self.past[-1]]
        self.past = self.past[:-1]
        return {"said": f"Undone: {self.future[-1].what}", "measure": self.runs}

    def redo(self) -> Any:
        """The setting that was undone last."""
        if not self.future:
            raise BadOption("there is nothing to redo")
        self._take(self.future[-1])
        self.past = [*self.past, self.future[-1]]
        self.future = self.future[:-1]
        return {"said": f"Done again: {self.past[-1].what}", "measure": self.runs}

    def pin(self) -> Any:
        """Make the setting on show the one that others are compared with from now on."""
        step = self.past[-1]
        if step.time is None and self.runs:
            step = self._timed(step)
        self.past = [replace(s, versus=None) for s in (*self.past[:-1], step)]
        self.future = [replace(s, versus=None) for s in self.future]
        self.pinned = self.past[-1]
        return {"said": "This is A now."}

    # What can be kept

    def state(self) -> state.State:
        """The state of the house with the knobs by their labels."""
        turned_ = {
            k.name: k.labels[k.now] for k in self.knobs() if k.now != k.pinned or k.name != "tile"
        }
        return by_hand.told(self.now, replace(self.kept, knobs=turned_))

    def look(self, values: Mapping[str, Any]) -> None:
        """Remember what the front end looks at; raises SnapshotError where that is out of range."""
        self.kept = state.seen(self.kept, values)

    def link(self) -> Any:
        """The end of a link to this state."""
        return {"text": state.fragment(self.state())}

    def save(self) -> Any:
        """A file of this state."""
        return {
            "text": state.written(self.state()),
            "name": f"{self.now.compiled.model.name}.ironworks.json",
        }

    def restore(self, text: str) -> Any:
        """Go to the state in a link: views as they were, knobs where they still fit, and what was
        moved by hand.
        """
        found = (
            state.from_fragment(str(text))
            if not str(text).startswith("{")
            else state.parsed(str(text))
        )
        if found.digest != self.kept.digest:
            raise BadOption(
                "the link is about another model", expected=self.kept.digest, found=found.digest
            )
        self.kept, self.focus = found, found.op
        for name, label in found.knobs.items():
            knob = next((k for k in self.knobs() if k.name == name), None)
            if knob and label in knob.labels and knob.labels[knob.now] != label:
                self.turn(name, knob.labels.index(label))
        for setting, what in by_hand.again(self.now, found):
            self._go(Step(setting, what))
        return {
            "said": "The state of the link is restored.",
            "state": state.view(found),
            "measure": self.runs,
        }
