"""Task times from the stamps of a few runs, stored on disk for other plans.

A brick's time is its mean over the middle half of the runs, by makespan, which limits the effect of
disturbances. An operator's time is a task's mean over its bricks. If the part of a constant that a
brick reads was still in its unit's cache, by the rule that plans use, the brick counts as a cached
one. Overheads are the medians of the gaps between bricks: launches, barriers, steps.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from statistics import median
from time import perf_counter

import numpy as np

from explorer import cache as store
from explorer.errors import Cancelled
from explorer.grinder import (
    BranchTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UTask,
)
from explorer.grinder.model import calls_of, key_of
from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.ir.dims import Sizes
from explorer.measure.machine import machine
from explorer.ops.interpreter.frame import bind_sizes
from explorer.rammer import Overheads, ROperator, TaskProfile, TaskTime
from explorer.rammer.cache_model import UnitCache
from explorer.runtime.binding.recording import RunTrace
from explorer.runtime.executable import Executable
from explorer.runtime.planning.plan import Plan
from explorer.runtime.planning.task_times import Key
from explorer.runtime.workers import clock

FORMAT = "task-times-6"
MIDDLE_RUNS = 5  # around the median, whose gaps are looked at; chosen
FEWEST, PATIENCE_SECONDS = 5, 3.0  # more runs only while there is time left
LEAST_SECONDS, MOST_RUNS = 0.1, 500  # short runs are more, to see more than a moment
Progress = Callable[[str, int, int], None]
Inputs = Mapping[str, np.ndarray]
WAITED = ("dependency", "imbalance")


def task_profile(
    executable: Executable,
    inputs: Inputs,
    runs: int = 15,
    fresh: bool = False,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TaskProfile:
    """Return the times of every call of a program under the sizes of these inputs.

    They come from `runs` runs, or more if these are short. Nothing runs if all are stored: those of
    this program, else those of its kernels in other programs. `fresh` measures again.

    Raises:
        Cancelled: `cancelled()` returned True.
    """
    sizes = bind_sizes(executable.program, inputs)
    plan = executable.plan({**executable.program.env.hints, **sizes})
    keys = dict(_keys(executable, plan, sizes))
    about = _StoredTimes(machine().line, executable.units, keys)
    profile = None if fresh else about.stored()
    if profile is None:
        more = _patience(runs, progress, cancelled)
        store.finish()
        traced = executable.traced(inputs, max(runs, MOST_RUNS), more)
        profile = _profile(executable, plan, about, traced)
        about.store(profile)
    return profile


def _profile(
    executable: Executable, plan: Plan, about: _StoredTimes, traced: list[RunTrace]
) -> TaskProfile:
    """Return the times from the stamps of these runs, without the fastest and slowest quarter."""
    ordered, quarter = sorted(traced, key=lambda trace: trace.cycles), len(traced) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    times = tuple(_times(executable, plan, about.keys, middle))
    nearest = (len(middle) - MIDDLE_RUNS) // 2
    walls = [executable.wall_of(trace) for trace in middle[max(0, nearest) :][:MIDDLE_RUNS]]
    trips = tuple(trips_of(executable.tasks.parts, walls[0]))
    return TaskProfile(about.device, about.threads, times, overheads_of(walls), trips)


def _patience(
    runs: int, progress: Progress | None, cancelled: Callable[[], bool] | None
) -> Callable[[int, int], bool]:
    """Return a function that reports progress and tells if another run is wanted."""
    begin = perf_counter()

    def wants_more(done: int, most: int) -> bool:
        """Report progress; return True if another run is wanted and time remains."""
        if cancelled is not None and cancelled():
            raise Cancelled(f"stopped after {done} runs", where="profile")
        seconds = perf_counter() - begin
        if progress is not None:
            progress("measure tasks", min(done, runs), runs)
        wanted = done < runs or seconds < LEAST_SECONDS
        return wanted and (done < FEWEST or seconds < PATIENCE_SECONDS)

    return wants_more


def _keys(executable: Executable, plan: Plan, sizes: Sizes) -> Iterator[tuple[str, Key]]:
    """Yield each call's name and key, for calls whose sizes are known before a run."""
    times = executable.task_times
    for task in calls_of(executable.tasks.parts):
        if isinstance(task, LibraryTask):
            yield task.name, times.library_key(task, plan.extents)
        elif (key := times.key_of(plan.implementation(task), sizes)) is not None:
            yield task.name, key


@dataclass(frozen=True, slots=True)
class _StoredTimes:
    """Owner of times, and their place in the cache.

    Times of a program are stored together, and each kernel's alone for other programs.
    """

    device: str
    threads: int
    keys: Mapping[str, Key]

    def stored(self) -> TaskProfile | None:
        """Return all stored times, or None if one is missing."""
        stored = store.get(self._of_program())
        if stored is not None:
            rows, overheads, trips = json.loads(stored)
            times = tuple(map(_read, rows))
            pairs = tuple((str(name), int(count)) for name, count in trips)
            return TaskProfile(self.device, self.threads, times, Overheads(*overheads), pairs)
        kernel_times = []
        for key in dict.fromkeys(self.keys.values()):
            stored_time = store.get(self._of_kernel(key))
            if stored_time is None:
                return None
            kernel_times.append(_read(json.loads(stored_time)))
        return TaskProfile(self.device, self.threads, tuple(kernel_times))

    def store(self, profile: TaskProfile) -> None:
        """Store times for other processes."""
        assert profile.overheads is not None
        rows = list(map(_written, profile.times))
        content = [rows, astuple(profile.overheads), profile.trips]
        store.put(self._of_program(), json.dumps(content).encode(), "measurement")
        for t, row in zip(profile.times, rows):
            if not t.place:
                store.put(
                    self._of_kernel((t.kernel, t.sizes)), json.dumps(row).encode(), "measurement"
                )

    def _of_program(self) -> str:
        """Return the key of a program's times."""
        return self._key("program", repr(sorted(self.keys.items())))

    def _of_kernel(self, key: Key) -> str:
        """Return the key of a kernel's time."""
        return self._key("kernel", repr(key))

    def _key(self, kind: str, text: str) -> str:
        """Return a key for the cache."""
        return store.content_key(FORMAT, kind, self.device, str(self.threads), text)


def _written(t: TaskTime) -> list[object]:
    """Return a time as JSON values."""
    return [t.kernel, t.sizes, t.place, t.us, t.cached_us, t.runs]


def _read(row: list[object]) -> TaskTime:
    """Read a time from JSON values."""
    kernel, sizes, place, us, cached_us, runs = row
    assert isinstance(sizes, list)
    pairs = tuple((str(n), int(size)) for n, size in sizes)
    return TaskTime(
        str(kernel), pairs, str(place), float(str(us)), float(str(cached_us)), int(str(runs))
    )


@dataclass(slots=True)
class _Spent:
    """Tasks and microseconds of one call's bricks, with cold and with cached constants."""

    cold: list[float] = field(default_factory=lambda: [0.0, 0.0])
    cached: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, tasks: int, hits: int, us: float) -> None:
        """Add a brick; one with a partly cached constant counts as the larger part."""
        mine = self.cached if 2 * hits > tasks else self.cold
        mine[0] += tasks
        mine[1] += us

    def us(self, ratio: float) -> tuple[float, float]:
        """Return the time of a task with cold, and with cached constants (0 if none was seen).

        `ratio` is that of the two by the model, used if only cached ones were seen.
        """
        cold, cached = (us / tasks if tasks else 0.0 for tasks, us in (self.cold, self.cached))
        return (cold or cached / ratio), cached


def _times(
    executable: Executable, plan: Plan, keys: Mapping[str, Key], traced: list[RunTrace]
) -> Iterator[TaskTime]:
    """Yield the times of calls, then those of kernels."""
    operators = {o.name: o for s in plan.schedules.values() for o in s.facts.operators}
    spent = _spent(traced, operators, executable)
    by_kernel: dict[Key, list[TaskTime]] = defaultdict(list)
    tasks = {t.name: t for t in calls_of(executable.tasks.parts)}
    for name, bricks in spent.items():
        task, key = tasks.get(name), keys.get(name)
        if key is None or task is None:
            continue
        ratio = 1.0
        if isinstance(task, OperatorTask):
            fact = executable.task_times.modelled(plan.implementation(task), plan.sizes)
            ratio = fact.cached_us / fact.us if fact.cached_us else 1.0
        time = TaskTime(*key, name, *bricks.us(ratio), len(traced))
        by_kernel[key].append(time)
        yield time
    for key, times in by_kernel.items():
        cached = [t.cached_us for t in times if t.cached_us]
        us = median(t.us for t in times)
        yield TaskTime(*key, "", us, min(us, median(cached)) if cached else 0.0, len(traced))


def _spent(
    traced: list[RunTrace], operators: Mapping[str, ROperator], executable: Executable
) -> dict[str, _Spent]:
    """Return the time of every call; brick times are means over the runs."""
    rate = clock.cycles_per_us()
    spent: dict[str, _Spent] = defaultdict(_Spent)
    size = executable.planner.units.cache_bytes
    caches = [UnitCache(size) for _ in range(executable.units)]
    for number, (code, stamps) in enumerate(traced[0].launches):
        path = traced[0].paths[number]
        for place, unit in enumerate(code.units):
            every = [t.launches[number][1].units[place] for t in traced if _has(t, number)]
            length = min(len(rows) for rows in every)
            cycles = np.mean([rows[:length, 2] - rows[:length, 1] for rows in every], axis=0)
            for row, us in zip(stamps.units[place][:length, 0].tolist(), (cycles / rate).tolist()):
                run = code.runs[place][row]
                name = path + run.operator.name
                operator = operators.get(name)
                tasks, hits = run.last - run.first, 0
                if operator is not None and operator.constant:
                    operator_tasks = operator.tasks
                    hits = caches[unit].hits(operator.constant, operator_tasks, run.first, run.last)
                    caches[unit].read(
                        operator.constant,
                        operator.constant_bytes,
                        operator_tasks,
                        run.first,
                        run.last,
                    )
                spent[name].add(tasks, hits, us)
    for call, us in _calls(traced, rate):
        spent[call].add(1, 0, us)
    return dict(spent)


def _has(traced: RunTrace, number: int) -> bool:
    """Return True if a run has launch `number`."""
    return number < len(traced.launches)


def _calls(traced: list[RunTrace], rate: float) -> Iterator[tuple[str, float]]:
    """Yield each library call with its median time over all runs and trips."""
    by_name: dict[str, list[float]] = defaultdict(list)
    for trace in traced:
        for call in trace.calls:
            by_name[call.name].append((call.end - call.begin) / rate)
    for name, us in by_name.items():
        yield name, median(us)


def overheads_of(walls: Sequence[Wall]) -> Overheads:
    """Return medians over all gaps of measured walls; 0 where there was no such gap."""
    launches: list[float] = []
    barriers: list[float] = []
    steps: list[float] = []
    for wall in walls:
        for before, gap in _gaps(wall):
            us = gap.end_us - gap.start_us
            if gap.cause == "barrier":
                waited = before is not None and before.cause in WAITED
                (barriers if waited else steps).append(us)
            elif gap.cause == "launch" and gap.unit == 0 and gap.start_us > 0.0:
                if before is not None and before.cause == "launch":
                    launches[-1] += us
                else:
                    launches.append(us)
    launch_us = median([_launch_us(wall) for wall in walls])
    return Overheads(
        launch_us, *(median(series or [0.0]) for series in (launches, barriers, steps))
    )


def _gaps(wall: Wall) -> Iterator[tuple[Gap | None, Gap]]:
    """Yield each gap with the one that ends where it begins, if any."""
    for unit in range(wall.units):
        mine = sorted((g for g in wall.gaps if g.unit == unit), key=lambda g: g.start_us)
        for before, gap in zip([None, *mine], mine):
            touches = before is not None and before.end_us == gap.start_us
            yield (before if touches else None), gap


def _launch_us(wall: Wall) -> float:
    """Return the time before the first brick plus that after the last one."""
    if not wall.bricks:
        return wall.total_us
    first = min(b.start_us for b in wall.bricks)
    return first + wall.total_us - max(b.end_us for b in wall.bricks)


def trips_of(parts: Sequence[UTask], wall: Wall) -> Iterator[tuple[str, int]]:
    """Yield each loop with its mean trip count per entry, at least 1.

    The calls of a loop tell how often it ran. Recursions are yielded with their number of calls and
    their depth, and each branch inside one with how often its first arm ran.
    """
    deepest = {ran.binding: ran.depth for ran in wall.ran}
    bricks: dict[str, list[Brick]] = defaultdict(list)
    for b in wall.bricks:
        bricks[b.call].append(b)

    def times(calls: Sequence[str]) -> int:
        """Return how often the first of these calls that ran did."""
        arm_count = ([b.iteration for b in bricks[c]] for c in calls)
        return next((1 + max(iterations) for iterations in arm_count if iterations), 0)

    def walk(
        inside: Sequence[UTask], entered: int, outermost: int = 0
    ) -> Iterator[tuple[str, int]]:
        """Visit the tasks inside a part that was entered so many times."""
        for part in inside:
            match part:
                case LoopTask(name=name, body=body):
                    count = times(_calls_of_trip(body))
                    if count and entered:
                        yield name, max(1, round(count / entered))
                    yield from walk(body, count, outermost)
                case RecursionTask(name=name, body=body, binding=binding):
                    count = times(_calls_of_trip(body))
                    if count and entered:
                        yield name, max(1, round(count / entered))
                        if deepest.get(binding):
                            yield f"{name}/depth", deepest[binding]
                        yield from walk(body, count, entered)
                case BranchTask(name=name, then=then, orelse=orelse):
                    arms = [times(_calls_of_trip(arm)) for arm in (then, orelse)]
                    if outermost:
                        first = arms[0] if _calls_of_trip(then) else entered - arms[1]
                        yield f"{name}/then", round(first / outermost)
                    for arm, arm_count in zip((then, orelse), arms, strict=True):
                        yield from walk(arm, arm_count or entered, outermost)
                case _:
                    continue

    yield from walk(parts, 1)


def _calls_of_trip(parts: Sequence[UTask]) -> list[str]:
    """Return the calls that every trip makes."""
    out: list[str] = []
    for part in parts:
        match part:
            case Straight():
                out.append(key_of(part))
            case LibraryTask(name=name):
                out.append(name)
            case _:
                continue
    return out
