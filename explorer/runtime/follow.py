"""One run: launches, library calls, and the decisions that are made in Python, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.counters import counters
from explorer.errors import ShapeError
from explorer.grinder import Carried, LibraryTask
from explorer.ops.libraries import call_library
from explorer.runtime.assemble import HostBranch, HostLoop, LaunchCode, Step
from explorer.runtime.bound import Arena
from explorer.runtime.launch import Launch, Stamps
from explorer.runtime.workers import Team


@dataclass(slots=True)
class Traced:
    """What a traced run did: each launch with its stamps, in order; `capacity` is a unit's room."""

    capacity: int
    launches: list[tuple[LaunchCode, Stamps]] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """The most stamps that a unit made in a launch."""
        return max((stamps.needed for _, stamps in self.launches), default=0)


def follow(steps: Sequence[Step], arena: Arena, team: Team, traced: Traced | None = None) -> None:
    """Do the steps; an exception of a library call reaches the caller."""
    launch = _launcher(arena, team, traced)
    _follow(steps, arena, launch)


def _launcher(arena: Arena, team: Team, traced: Traced | None) -> Callable[[LaunchCode], None]:
    def run(code: LaunchCode) -> None:
        launch: Launch = arena.launches[id(code)]
        if traced is None:
            launch.run(team)
        else:
            traced.launches.append((code, launch.trace(team, traced.capacity)))

    return run


def _follow(steps: Sequence[Step], arena: Arena, launch: Callable[[LaunchCode], None]) -> None:
    for step in steps:
        match step:
            case LaunchCode():
                launch(step)
            case LibraryTask():
                _library(step, arena)
            case HostLoop():
                _loop(step, arena, launch)
            case HostBranch():
                _branch(step, arena, launch)


def _library(task: LibraryTask, arena: Arena) -> None:
    counters.add("library_calls")
    call = task.call
    args = [None if name is None else arena.array(name) for name in task.args]
    found = call_library(call.library, call.function, call.attrs, args, len(task.results))
    for name, value in zip(task.results, found, strict=True):
        place = arena.array(name)
        if value.shape != place.shape:
            raise ShapeError(
                f"{call.library}.{call.function} gave {name} the shape {value.shape}, "
                f"which was deduced as {place.shape}",
                where=name,
                expected=place.shape,
                found=value.shape,
            )
        np.copyto(place, value, casting="same_kind")


def _branch(step: HostBranch, arena: Arena, launch: Callable[[LaunchCode], None]) -> None:
    counters.add("host_reads")
    taken = bool(arena.array(step.task.cond))
    _follow(step.then if taken else step.orelse, arena, launch)
    for result, then, orelse in step.task.results:
        _copy(arena, result, then if taken else orelse)


def _loop(step: HostLoop, arena: Arena, launch: Callable[[LaunchCode], None]) -> None:
    task = step.task
    for carried in task.carried:
        if carried.initial:
            _copy(arena, carried.param, carried.initial)
        else:
            arena.array(carried.param)[...] = True
    going = True
    if not task.checked:
        going = not task.cond or _truth(arena, task.cond)
        arena.array(task.going)[...] = True
    trip = _number(arena, task.trip) if task.trip else None
    count = 0
    while going and (trip is None or count < trip):
        if task.checked and not _truth(arena, task.going):
            break
        arena.array(task.iteration)[...] = count
        _follow(step.body, arena, launch)
        _carry(task.carried, arena)
        count += 1


def _carry(carried: Sequence[Carried], arena: Arena) -> None:
    for c in carried:
        if c.staging:
            _copy(arena, c.staging, c.result)
    for c in carried:
        _copy(arena, c.param, c.staging or c.result)


def _copy(arena: Arena, target: str, source: str) -> None:
    values = arena.bound.plan.program.values
    a, b = values[target], values[source]
    if (a.root, a.offset) != (b.root, b.offset):
        np.copyto(arena.array(target), arena.array(source).reshape(arena.array(target).shape))


def _truth(arena: Arena, name: str) -> bool:
    counters.add("host_reads")
    return bool(arena.array(name).reshape(-1)[0])


def _number(arena: Arena, name: str) -> int:
    counters.add("host_reads")
    return int(arena.array(name).reshape(-1)[0])
