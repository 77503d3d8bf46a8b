"""Task times measured once: from the stamps of a few runs, kept on disk for other plans.

A brick's time is its mean over the middle half of the runs, by makespan: what others did with the
machine meanwhile counts little. An operator's time is then a task's mean over its bricks; where the
part of a constant that a brick reads was still in its unit's cache, by the rule that plans go by,
it counts as a kept one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from statistics import median
from time import perf_counter

import numpy as np

from explorer import cache as store
from explorer.errors import Cancelled
from explorer.grinder import LibraryTask, OperatorTask
from explorer.ir.shapes.dims import Sizes
from explorer.measure.machine import machine
from explorer.measure.this_machine.overheads_seen import overheads_of, trips_of
from explorer.ops.reference.bind import bind_sizes
from explorer.rammer import Overheads, ROperator, TaskProfile, TaskTime
from explorer.rammer.cache_model import Kept
from explorer.runtime.binding.recording import Traced
from explorer.runtime.executable import Executable
from explorer.runtime.planning.allocations import calls_of
from explorer.runtime.planning.plan import Plan
from explorer.runtime.planning.runs.task_times import Key
from explorer.runtime.workers import clock

FORMAT = "task-times-6"
MIDDLE_RUNS = 5  # around the median, whose gaps are looked at; chosen
FEWEST, PATIENCE_SECONDS = 5, 3.0  # more runs only while there is time left
LEAST_SECONDS, MOST_RUNS = 0.1, 500  # short runs are more, to see more than a moment
Progress = Callable[[str, int, int], None]
Inputs = Mapping[str, np.ndarray]


def task_profile(
    executable: Executable,
    inputs: Inputs,
    runs: int = 15,
    fresh: bool = False,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TaskProfile:
    """The times of every call of a program under the sizes of these inputs, from `runs` runs, or
    more where they are short.

    Nothing runs where all are known from before: those of this program, else those of its kernels
    in others. `fresh` measures again. Raises Cancelled where `cancelled()` says so.
    """
    sizes = bind_sizes(executable.program, inputs)
    plan = executable.plan({**executable.program.env.hints, **sizes})
    keys = dict(_keys(executable, plan, sizes))
    about = _About(machine().line, executable.units, keys)
    found = None if fresh else about.kept()
    if found is None:
        more = _patience(runs, progress, cancelled)
        store.finish()
        traced = executable.traced(inputs, max(runs, MOST_RUNS), more)
        found = _profile(executable, plan, about, traced)
        about.keep(found)
    return found


def _profile(
    executable: Executable, plan: Plan, about: _About, traced: list[Traced]
) -> TaskProfile:
    """What the stamps of these runs say, without the fastest and the slowest quarter."""
    ordered, quarter = sorted(traced, key=lambda one: one.cycles), len(traced) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    times = tuple(_times(executable, plan, about.keys, middle))
    nearest = (len(middle) - MIDDLE_RUNS) // 2
    walls = [executable.wall_of(one) for one in middle[max(0, nearest) :][:MIDDLE_RUNS]]
    trips = tuple(trips_of(executable.tasks.parts, walls[0]))
    return TaskProfile(about.device, about.threads, times, overheads_of(walls), trips)


def _patience(
    runs: int, progress: Progress | None, cancelled: Callable[[], bool] | None
) -> Callable[[int, int], bool]:
    """Tells how far it is; whether another run is wanted, and there is time for it."""
    begin = perf_counter()

    def told(done: int, most: int) -> bool:
        if cancelled is not None and cancelled():
            raise Cancelled(f"stopped after {done} runs", where="profile")
        seconds = perf_counter() - begin
        if progress is not None:
            progress("measure tasks", min(done, runs), runs)
        wanted = done < runs or seconds < LEAST_SECONDS
        return wanted and (done < FEWEST or seconds < PATIENCE_SECONDS)

    return told


def _keys(executable: Executable, plan: Plan, sizes: Sizes) -> Iterator[tuple[str, Key]]:
    """What each call's time is kept under, by its name; where its sizes are known before a run."""
    times = executable.task_times
    for task in calls_of(executable.tasks.parts):
        if isinstance(task, LibraryTask):
            yield task.name, times.library_key(task, plan.extents)
        elif (key := times.key_of(plan.implementation(task), sizes)) is not None:
            yield task.name, key


@dataclass(frozen=True, slots=True)
class _About:
    """What times belong to, and where they are kept: those of a program together, and each kernel's
    by itself, for other programs.
    """

    device: str
    threads: int
    keys: Mapping[str, Key]

    def kept(self) -> TaskProfile | None:
        """All times; None where one is not known."""
        whole = store.get(self._of_program())
        if whole is not None:
            rows, overheads, trips = json.loads(whole)
            times = tuple(map(_read, rows))
            pairs = tuple((str(name), int(count)) for name, count in trips)
            return TaskProfile(self.device, self.threads, times, Overheads(*overheads), pairs)
        found = []
        for key in dict.fromkeys(self.keys.values()):
            one = store.get(self._of_kernel(key))
            if one is None:
                return None
            found.append(_read(json.loads(one)))
        return TaskProfile(self.device, self.threads, tuple(found))

    def keep(self, found: TaskProfile) -> None:
        """Let other processes find it."""
        assert found.overheads is not None
        rows = list(map(_written, found.times))
        whole = [rows, astuple(found.overheads), found.trips]
        store.put(self._of_program(), json.dumps(whole).encode(), "measurement")
        for t, row in zip(found.times, rows):
            if not t.place:
                store.put(
                    self._of_kernel((t.kernel, t.sizes)), json.dumps(row).encode(), "measurement"
                )

    def _of_program(self) -> str:
        return self._key("program", repr(sorted(self.keys.items())))

    def _of_kernel(self, key: Key) -> str:
        return self._key("kernel", repr(key))

    def _key(self, kind: str, text: str) -> str:
        return store.content_key(FORMAT, kind, self.device, str(self.threads), text)


def _written(t: TaskTime) -> list[object]:
    return [t.kernel, t.sizes, t.place, t.us, t.kept_us, t.runs]


def _read(row: list[object]) -> TaskTime:
    kernel, sizes, place, us, kept_us, runs = row
    assert isinstance(sizes, list)
    pairs = tuple((str(n), int(size)) for n, size in sizes)
    return TaskTime(
        str(kernel), pairs, str(place), float(str(us)), float(str(kept_us)), int(str(runs))
    )


@dataclass(slots=True)
class _Spent:
    """The bricks of one call: tasks and microseconds; apart, those that found their constant."""

    cold: list[float] = field(default_factory=lambda: [0.0, 0.0])
    kept: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, tasks: int, hits: int, us: float) -> None:
        """A brick; one that is kept in part counts as what most of it is."""
        mine = self.kept if 2 * hits > tasks else self.cold
        mine[0] += tasks
        mine[1] += us

    def us(self, ratio: float) -> tuple[float, float]:
        """(of a task whose constants were not kept, of one whose were, 0 where none was seen).

        `ratio`: of the two by the model, for what was seen only kept.
        """
        cold, kept = (us / tasks if tasks else 0.0 for tasks, us in (self.cold, self.kept))
        return (cold or kept / ratio), kept


def _times(
    executable: Executable, plan: Plan, keys: Mapping[str, Key], traced: list[Traced]
) -> Iterator[TaskTime]:
    operators = {o.name: o for s in plan.schedules.values() for o in s.facts.operators}
    spent = _spent(traced, operators, executable)
    by_kernel: dict[Key, list[TaskTime]] = defaultdict(list)
    tasks = {t.name: t for t in calls_of(executable.tasks.parts)}
    for name, one in spent.items():
        task, key = tasks.get(name), keys.get(name)
        if key is None or task is None:
            continue
        ratio = 1.0
        if isinstance(task, OperatorTask):
            fact = executable.task_times.modelled(plan.implementation(task), plan.sizes)
            ratio = fact.kept_us / fact.us if fact.kept_us else 1.0
        time = TaskTime(*key, name, *one.us(ratio), len(traced))
        by_kernel[key].append(time)
        yield time
    for key, times in by_kernel.items():
        kept = [t.kept_us for t in times if t.kept_us]
        us = median(t.us for t in times)
        yield TaskTime(*key, "", us, min(us, median(kept)) if kept else 0.0, len(traced))


def _spent(
    traced: list[Traced], operators: Mapping[str, ROperator], executable: Executable
) -> dict[str, _Spent]:
    """The time of every call; its bricks' are means over the runs."""
    rate = clock.cycles_per_us()
    spent: dict[str, _Spent] = defaultdict(_Spent)
    size = executable.planner.units.cache_bytes
    caches = [Kept(size) for _ in range(executable.units)]
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
                    of = operator.tasks
                    hits = caches[unit].hits(operator.constant, of, run.first, run.last)
                    caches[unit].read(
                        operator.constant, operator.constant_bytes, of, run.first, run.last
                    )
                spent[name].add(tasks, hits, us)
    for call, us in _calls(traced, rate):
        spent[call].add(1, 0, us)
    return dict(spent)


def _has(traced: Traced, number: int) -> bool:
    return number < len(traced.launches)


def _calls(traced: list[Traced], rate: float) -> Iterator[tuple[str, float]]:
    """Library calls, each with its median over all runs and trips."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in traced:
        for call in one.calls:
            found[call.name].append((call.end - call.begin) / rate)
    for name, us in found.items():
        yield name, median(us)
