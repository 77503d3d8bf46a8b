"""Recordings of runs: a replay interprets no program and creates no arrays.

The CPU's counterpart of a CUDA graph. A recording is a flat tuple of actions with fixed addresses,
except those of inputs and outputs, which a run writes into one table. Both arms of a branch and the
body of a loop that the host decides are recorded with it: a replay only makes the decision, which
counts as `host_reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from explorer.grinder import Carried, LibraryTask
from explorer.ops.interpreter.evaluate import too_deep
from explorer.ops.interpreter.libraries import call_library
from explorer.ops.interpreter.library_functions import check_result
from explorer.process.counters import counters
from explorer.runtime.binding.arena import Arena, Views
from explorer.runtime.binding.launch_code import (
    ControlEvent,
    HostBranch,
    HostLoop,
    LaunchCode,
    Step,
    decode_notes,
)
from explorer.runtime.workers import clock
from explorer.runtime.workers.launch import MOST_NOTES, Launch, Stamps
from explorer.runtime.workers.workers import Launcher

Array = np.ndarray
Action: TypeAlias = Callable[["RecordedRun"], None]
ArrayGetter: TypeAlias = Callable[[], Array]
Recording: TypeAlias = tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class LibraryCallTrace:
    """A library call by its uTask's name, with the cycles at its beginning and end."""

    name: str
    origin: frozenset[str]
    begin: int
    end: int


@dataclass(slots=True)
class RunTrace:
    """The trace of a run in order: launches with their stamps, library calls, control-flow events.

    `capacity` is a unit's room for stamps in a launch. `path`, of the region that runs, is the
    prefix of the names of its uTasks; `paths` are those of the launches.
    """

    capacity: int
    path: str = ""
    launches: list[tuple[LaunchCode, Stamps]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    calls: list[LibraryCallTrace] = field(default_factory=list)
    # of Python, or the number of a launch
    events: list[ControlEvent | int] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """The most stamps of a unit in a launch, or notes (at most those with room)."""
        counts = (max(s.needed, min(s.noted, MOST_NOTES)) for _, s in self.launches)
        return max(counts, default=0)

    @property
    def decisions(self) -> list[ControlEvent]:
        """The control-flow events in order, as far as there was room to note them."""
        each = (
            (d,) if isinstance(d, ControlEvent) else decode_notes(*self.launches[d])
            for d in self.events
        )
        return [decided for some in each for decided in some]

    @property
    def cut(self) -> bool:
        """True if events were lost for lack of room."""
        return any(s.noted > max(map(len, s.notes)) for _, s in self.launches)

    @property
    def begin(self) -> int:
        """The cycles at which the first launch or call began."""
        return min([*(s.begin for _, s in self.launches[:1]), *(c.begin for c in self.calls[:1])])

    @property
    def cycles(self) -> int:
        """The cycles from the first begin to the last end."""
        if not (self.launches or self.calls):
            return 0
        ends = [*(s.end for _, s in self.launches[-1:]), *(c.end for c in self.calls[-1:])]
        return max(ends) - self.begin


@dataclass(slots=True)
class RecordedRun:
    """One run of a recording, by a team."""

    team: Launcher
    traced: RunTrace | None

    def trace(self, code: LaunchCode, launch: Launch, traced: RunTrace) -> None:
        """Run a launch and keep its stamps."""
        traced.paths.append(traced.path)
        traced.events.append(len(traced.launches))
        traced.launches.append((code, launch.trace(self.team, traced.capacity)))

    def record_decision(self, kind: str, binding: str, value: int) -> None:
        """Record a decision of Python."""
        if self.traced is not None:
            self.traced.events.append(ControlEvent(kind, binding, value, clock.cycles()))

    def call(self, task: LibraryTask, work: Callable[[], None]) -> None:
        """Call a library."""
        if self.traced is None:
            work()
        else:
            begin = clock.cycles()
            work()
            name = self.traced.path + task.name
            self.traced.calls.append(LibraryCallTrace(name, task.origin, begin, clock.cycles()))


def capture(steps: Sequence[Step], copied: Sequence[tuple[int, str]], arena: Arena) -> Recording:
    """Return the actions of these steps in an arena, then the copies of values to outputs."""
    recorder = _Recorder(Views(arena), arena)
    ends = [recorder.output(position, name) for position, name in copied]
    return (*recorder.steps(steps), *ends)


def replay(recording: Recording, team: Launcher, traced: RunTrace | None = None) -> None:
    """Run the actions; an exception of a library call reaches the caller."""
    run = RecordedRun(team, traced)
    for action in recording:
        action(run)


def _run_actions(recording: Recording, run: RecordedRun) -> None:
    for action in recording:
        action(run)


class _Recorder:
    """Recorder of steps as actions on the views of an arena."""

    def __init__(self, views: Views, arena: Arena) -> None:
        self.views, self.arena = views, arena

    def steps(self, steps: Sequence[Step]) -> Recording:
        return tuple(action for step in steps for action in self.step(step))

    def step(self, step: Step) -> Sequence[Action]:
        match step:
            case LaunchCode():
                return (self.launch(step),)
            case LibraryTask():
                return (self.library(step),)
            case HostBranch():
                return (self.branch(step),)
            case HostLoop():
                return (*self.enter(step), self.loop(step))

    def launch(self, step: LaunchCode) -> Action:
        launch, recursions = self.arena.launches[id(step)], step.recursions
        block, units = launch.block, launch.units

        def action(
            run: RecordedRun,
        ) -> None:  # as few calls as possible: they dominate small models
            if run.traced is None:
                run.team.launch(block, units)
            else:
                run.trace(step, launch, run.traced)
            if recursions and launch.fault:
                raise too_deep(*recursions[launch.fault - 1])

        return action

    def library(self, task: LibraryTask) -> Action:
        call = task.call
        function = partial(call_library, call.library, call.function, call.attrs)
        args = [None if name is None else self.views.of(name) for name in task.args]
        places = [(name, self.views.of(name)) for name in task.results]

        def work() -> None:
            counters.add("library_calls")
            out = [place() for _, place in places]
            values = function([look and look() for look in args], len(places), out)
            for (name, _), place, value in zip(places, out, values, strict=True):
                if value is not place:
                    _put(task, name, place, value)

        return lambda run: run.call(task, work)

    def branch(self, step: HostBranch) -> Action:
        task, cond = step.task, self.views.of(step.task.cond)
        then = (*self.steps(step.then), *self.copies((r, a) for r, a, _ in task.results))
        orelse = (*self.steps(step.orelse), *self.copies((r, b) for r, _, b in task.results))

        def action(run: RecordedRun) -> None:
            counters.add("host_reads")
            taken = bool(cond())
            run.record_decision("branch", task.binding, taken)
            _run_actions(then if taken else orelse, run)

        return action

    def enter(self, step: HostLoop) -> Sequence[Action]:
        """Return the copies of the initial values of a loop."""
        task = step.task
        carried = task.carried
        copies = self.copies((c.param, c.initial) for c in carried if c.initial)
        truths = [self.set_true(c.param) for c in carried if not c.initial]
        return (*copies, *truths, *([] if task.checked else [self.set_true(task.going)]))

    def loop(self, step: HostLoop) -> Action:
        task, of = step.task, self.views.of
        trip = of(task.trip) if task.trip else None
        once = of(task.cond) if task.cond and not task.checked else None
        going = of(task.going) if task.checked else None
        iteration = of(task.iteration)
        stacked = [(of(s.result), of(s.value)) for s in task.stacked]
        body, carry = self.steps(step.body), self.carry(task.carried)

        def action(run: RecordedRun) -> None:
            run.record_decision("enter", task.binding, 0)
            if once is not None and not _number(once):
                return
            limit = None if trip is None else _number(trip)
            count = 0
            while (limit is None or count < limit) and (going is None or _number(going)):
                iteration()[...] = count
                _run_actions(body, run)
                for result, row in stacked:
                    np.copyto(result()[count, ...], row())
                _run_actions(carry, run)
                count += 1
                run.record_decision("trip", task.binding, 1)

        return action

    def carry(self, carried: Sequence[Carried]) -> Recording:
        """Return the copies from one trip to the next; all are read before one is written."""
        staged = self.copies((c.staging, c.result) for c in carried if c.staging)
        return (*staged, *self.copies((c.param, c.staging or c.result) for c in carried))

    def set_true(self, name: str) -> Action:
        target = self.views.of(name)

        def action(run: RecordedRun) -> None:
            target()[...] = True

        return action

    def copies(self, pairs: Iterable[tuple[str, str]]) -> Recording:
        """Return copies between values, except where both are the same bytes."""
        of, apart = self.views.of, self.views.apart
        return tuple(_copy(of(a), of(b, like=a)) for a, b in pairs if apart(a, b))

    def output(self, position: int, name: str) -> Action:
        return _copy(self.views.output(position), self.views.of(name))


def _copy(target: ArrayGetter, source: ArrayGetter) -> Action:
    def action(run: RecordedRun) -> None:
        np.copyto(target(), source())

    return action


def _put(task: LibraryTask, name: str, place: Array, value: Array) -> None:
    call = task.call
    dtype = None if call.library == "onnx" else str(place.dtype.name)
    deduced = f"{name!r} was deduced as"
    check_result(f"{call.library}.{call.function}", deduced, value, place.shape, dtype)
    np.copyto(place, value, casting="same_kind")


def _number(look: ArrayGetter) -> int:
    counters.add("host_reads")
    return int(look().item())
