"""What a run does, recorded once for an arena: a replay interprets nothing and makes no array.

The CPU's twin of a CUDA graph. A recording is a flat tuple of deeds whose addresses are fixed, but
for those of inputs and outputs, which a run writes into one table. Both arms of a branch and the
body of a loop that the host decides are recorded with it: a replay makes the decision only, which
counts as `host_reads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from explorer.counters import counters
from explorer.grinder import Carried, LibraryTask
from explorer.ops.reference.evaluate import too_deep
from explorer.ops.reference.libraries import call_library
from explorer.ops.reference.library_functions import check_result
from explorer.runtime.binding.arena import Arena
from explorer.runtime.binding.decided import Decided, noted
from explorer.runtime.binding.launches.launch_code import HostBranch, HostLoop, LaunchCode, Step
from explorer.runtime.binding.views import Views
from explorer.runtime.workers import clock
from explorer.runtime.workers.launch import MOST_NOTES, Launch, Stamps
from explorer.runtime.workers.teams import Launcher

Array = np.ndarray
Deed: TypeAlias = Callable[["Run"], None]
Look: TypeAlias = Callable[[], Array]
Recording: TypeAlias = tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Called:
    """A library call, by its uTask's name, and the cycles at its beginning and end."""

    name: str
    origin: frozenset[str]
    begin: int
    end: int


@dataclass(slots=True)
class Traced:
    """What a traced run did, in order: launches with their stamps, and library calls; `capacity` is
    a unit's room in a launch. `path`, of the region that runs, is put before the names of its
    uTasks; `paths` those of the launches.
    """

    capacity: int
    path: str = ""
    launches: list[tuple[LaunchCode, Stamps]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    decided: list[Decided | int] = field(default_factory=list)  # by Python, or by launch n

    @property
    def needed(self) -> int:
        """The most stamps that a unit made in a launch, or notes that there may be room for."""
        found = (max(s.needed, min(s.noted, MOST_NOTES)) for _, s in self.launches)
        return max(found, default=0)

    @property
    def decisions(self) -> list[Decided]:
        """What was decided, in order, as far as there was room to note it."""
        each = ((d,) if isinstance(d, Decided) else noted(*self.launches[d]) for d in self.decided)
        return [decided for some in each for decided in some]

    @property
    def cut(self) -> bool:
        """Whether there was more."""
        return any(s.noted > max(map(len, s.notes)) for _, s in self.launches)

    @property
    def begin(self) -> int:
        """The cycles at which the first launch or call began."""
        return min([*(s.begin for _, s in self.launches[:1]), *(c.begin for c in self.calls[:1])])

    @property
    def cycles(self) -> int:
        """From then to the end of the last one."""
        if not (self.launches or self.calls):
            return 0
        ends = [*(s.end for _, s in self.launches[-1:]), *(c.end for c in self.calls[-1:])]
        return max(ends) - self.begin


@dataclass(slots=True)
class Run:
    """One run of a recording, by a team."""

    team: Launcher
    traced: Traced | None

    def trace(self, code: LaunchCode, launch: Launch, traced: Traced) -> None:
        """Follow the rows to their end and keep their stamps."""
        traced.paths.append(traced.path)
        traced.decided.append(len(traced.launches))
        traced.launches.append((code, launch.trace(self.team, traced.capacity)))

    def decided(self, kind: str, binding: str, value: int) -> None:
        """Note what Python has decided."""
        if self.traced is not None:
            self.traced.decided.append(Decided(kind, binding, value, clock.cycles()))

    def call(self, task: LibraryTask, work: Callable[[], None]) -> None:
        """Call a library."""
        if self.traced is None:
            work()
        else:
            begin = clock.cycles()
            work()
            name = self.traced.path + task.name
            self.traced.calls.append(Called(name, task.origin, begin, clock.cycles()))


def capture(steps: Sequence[Step], copied: Sequence[tuple[int, str]], arena: Arena) -> Recording:
    """The deeds of these steps in an arena, then the copies of values to outputs."""
    recorder = _Recorder(Views(arena), arena)
    ends = [recorder.output(position, name) for position, name in copied]
    return (*recorder.steps(steps), *ends)


def replay(recording: Recording, team: Launcher, traced: Traced | None = None) -> None:
    """Do the deeds; an exception of a library call reaches the caller."""
    run = Run(team, traced)
    for deed in recording:
        deed(run)


def _do(recording: Recording, run: Run) -> None:
    for deed in recording:
        deed(run)


class _Recorder:
    def __init__(self, views: Views, arena: Arena) -> None:
        self.views, self.arena = views, arena

    def steps(self, steps: Sequence[Step]) -> Recording:
        return tuple(deed for step in steps for deed in self.step(step))

    def step(self, step: Step) -> Sequence[Deed]:
        match step:
            case LaunchCode():
                return (self.launch(step),)
            case LibraryTask():
                return (self.library(step),)
            case HostBranch():
                return (self.branch(step),)
            case HostLoop():
                return (*self.enter(step), self.loop(step))

    def launch(self, step: LaunchCode) -> Deed:
        launch, recursions = self.arena.launches[id(step)], step.recursions
        block, units = launch.block, launch.units

        def deed(run: Run) -> None:  # no call more than it needs: small models do little else
            if run.traced is None:
                run.team.launch(block, units)
            else:
                run.trace(step, launch, run.traced)
            if recursions and launch.fault:
                raise too_deep(*recursions[launch.fault - 1])

        return deed

    def library(self, task: LibraryTask) -> Deed:
        call = task.call
        function = partial(call_library, call.library, call.function, call.attrs)
        args = [None if name is None else self.views.of(name) for name in task.args]
        places = [(name, self.views.of(name)) for name in task.results]

        def work() -> None:
            counters.add("library_calls")
            out = [place() for _, place in places]
            found = function([look and look() for look in args], len(places), out)
            for (name, _), place, value in zip(places, out, found, strict=True):
                if value is not place:
                    _put(task, name, place, value)

        return lambda run: run.call(task, work)

    def branch(self, step: HostBranch) -> Deed:
        task, cond = step.task, self.views.of(step.task.cond)
        then = (*self.steps(step.then), *self.copies((r, a) for r, a, _ in task.results))
        orelse = (*self.steps(step.orelse), *self.copies((r, b) for r, _, b in task.results))

        def deed(run: Run) -> None:
            counters.add("host_reads")
            taken = bool(cond())
            run.decided("branch", task.binding, taken)
            _do(then if taken else orelse, run)

        return deed

    def enter(self, step: HostLoop) -> Sequence[Deed]:
        """The values that are carried, as they are before the first trip."""
        task = step.task
        carried = task.carried
        copies = self.copies((c.param, c.initial) for c in carried if c.initial)
        truths = [self.truth(c.param) for c in carried if not c.initial]
        return (*copies, *truths, *([] if task.checked else [self.truth(task.going)]))

    def loop(self, step: HostLoop) -> Deed:
        task, of = step.task, self.views.of
        trip = of(task.trip) if task.trip else None
        once = of(task.cond) if task.cond and not task.checked else None
        going = of(task.going) if task.checked else None
        iteration = of(task.iteration)
        stacked = [(of(s.result), of(s.value)) for s in task.stacked]
        body, carry = self.steps(step.body), self.carry(task.carried)

        def deed(run: Run) -> None:
            run.decided("enter", task.binding, 0)
            if once is not None and not _number(once):
                return
            limit = None if trip is None else _number(trip)
            count = 0
            while (limit is None or count < limit) and (going is None or _number(going)):
                iteration()[...] = count
                _do(body, run)
                for result, row in stacked:
                    np.copyto(result()[count, ...], row())
                _do(carry, run)
                count += 1
                run.decided("trip", task.binding, 1)

        return deed

    def carry(self, carried: Sequence[Carried]) -> Recording:
        """The carried values, from one trip to the next; all are read before one is written."""
        staged = self.copies((c.staging, c.result) for c in carried if c.staging)
        return (*staged, *self.copies((c.param, c.staging or c.result) for c in carried))

    def truth(self, name: str) -> Deed:
        target = self.views.of(name)

        def deed(run: Run) -> None:
            target()[...] = True

        return deed

    def copies(self, pairs: Iterable[tuple[str, str]]) -> Recording:
        """Values into others, but where both are the same bytes."""
        of, apart = self.views.of, self.views.apart
        return tuple(_copy(of(a), of(b, like=a)) for a, b in pairs if apart(a, b))

    def output(self, position: int, name: str) -> Deed:
        return _copy(self.views.output(position), self.views.of(name))


def _copy(target: Look, source: Look) -> Deed:
    def deed(run: Run) -> None:
        np.copyto(target(), source())

    return deed


def _put(task: LibraryTask, name: str, place: Array, value: Array) -> None:
    call = task.call
    dtype = None if call.library == "onnx" else str(place.dtype.name)
    deduced = f"{name!r} was deduced as"
    check_result(f"{call.library}.{call.function}", deduced, value, place.shape, dtype)
    np.copyto(place, value, casting="same_kind")


def _number(look: Look) -> int:
    counters.add("host_reads")
    return int(look().item())
