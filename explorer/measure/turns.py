"""Functions that take turns on one machine, so that disturbances affect all of them alike.

Before each turn one waits for a quiet machine, and during it disturbances are counted. Threads of
runtimes keep spinning after their last call, so that the next one finds them awake: OpenMP's for 7
to 10 ms of processor time, onnxruntime's for 45 ms, ours for 1 ms. Within a runtime's own turn this
is legitimate. So before any turn, one waits until the processor time of all other threads of the
process stands still.
"""

from __future__ import annotations

import os
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from explorer import cache

Clock = Callable[[], int]  # nanoseconds, never backwards
Work = Callable[[], object]

SETTLE_NS = 1_000_000  # untimed at the start of a turn: other threads stop, caches fill; chosen
TURN_NS = 3_000_000  # timed in a turn, at least one call; chosen
SAMPLE_NS = 50_000  # shorter calls are timed several at once: the clock itself takes 50 ns
LONG_NS = 20 * SETTLE_NS  # such a call is settled before it has done a twentieth
LEAST_WARM_UP, MOST_WARM_UP = 2, 10  # calls; the first may have to allocate or compile
LEAST_TO_MEASURE = 8  # rounds; fewer give no 99 % interval
LEAST_TO_COMPARE = 20  # rounds that find a tenth under the noise of a shared machine; chosen
MOST_ROUNDS = 4096  # chosen
MOST_TIMES_LONGER = 3  # than asked for, where what was seen is not enough; chosen
FAR_TIMES = 3  # the fastest's time: 8 rounds tell that, so it sits out the others; chosen
Seconds = Callable[[], float]
LOOK_S = 0.001  # between two looks
STILL_SHARE = 0.03  # of a core: less is nobody's spinning; chosen
STILL_LOOKS = 2  # in a row; chosen
MOST_WAIT_S = 0.5  # longer than any runtime spins; chosen
TASKS = Path("/proc/self/task")
DISTURBED_SHARE = 0.05  # of a turn's time; chosen


class Watcher(Protocol):
    """Watcher of turns: `explorer.measure.turns.Watch`."""

    def begin(self) -> None:
        """Prepare for a turn."""

    def end(self) -> Disturbance:
        """Return what disturbed the turn."""


@dataclass(slots=True)
class Series:
    """Turns of one function in order: each a list of nanoseconds per call."""

    work: Work | Elsewhere
    calls: int  # in one sample
    samples: int  # in one turn
    settles: bool  # whether a turn begins untimed
    length: int  # nanoseconds of the quickest call of the warm-up
    turns: list[list[float]] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)  # of each turn, where watched


class Elsewhere(ABC):
    """A function in another process, which warms up and takes its turns there."""

    @abstractmethod
    def warm_up(self, patience_ns: int) -> Series:
        """Call the function as often as `warmed` does; return a series without turns."""

    @abstractmethod
    def turn(self) -> tuple[list[float], Disturbance]:
        """Take one turn; return the nanoseconds of each call, and what disturbed the turn."""


Enough = Callable[[Sequence[Series]], bool]


def take_turns(
    works: Sequence[Work | Elsewhere],
    seconds: float,
    clock: Clock,
    watch: Watcher | None = None,
    enough: Enough | None = None,
) -> tuple[Series, ...]:
    """Time every function in rounds of one turn each until the seconds are over.

    There are at least 20 rounds; 8 for one function alone, and 8 for a function that is far slower
    than the fastest. If the result is not `enough`, it takes up to three times as long.

    A turn begins untimed, then times calls one by one, each function as if it were alone. The order
    changes from round to round so that each function follows each other one equally often (Williams
    1949, Experimental designs balanced for the estimation of residual effects of treatments).
    `watch` waits before every turn for threads that still spin, and counts disturbances during it.
    A function in another process watches its own turns.
    """
    cache.finish()
    patience_ns = int(seconds * 1e9) // (5 * max(1, len(works)))
    series = tuple(
        work.warm_up(patience_ns)
        if isinstance(work, Elsewhere)
        else warmed(work, patience_ns, clock)
        for work in works
    )
    orders = balanced_orders(len(series))
    least = LEAST_TO_MEASURE if len(works) == 1 else LEAST_TO_COMPARE
    begin, wanted = clock(), int(seconds * 1e9)
    rounds, resting = 0, frozenset[int]()

    def go_on() -> bool:
        """Return True while more rounds are wanted."""
        passed = clock() - begin
        if passed < wanted or enough is None:
            return passed < wanted
        return passed < MOST_TIMES_LONGER * wanted and not enough(series)

    while rounds < least or (rounds < MOST_ROUNDS and go_on()):
        if rounds == LEAST_TO_MEASURE:
            resting = _far_behind(series)
        for n in orders[rounds % len(orders)]:
            if n not in resting:
                take_turn(series[n], clock, watch)
        rounds += 1
    return series


def _far_behind(series: Sequence[Series]) -> frozenset[int]:
    """Return the functions that are far slower than the fastest one, by their best turns."""
    best = [min(median(turn) for turn in s.turns) for s in series]
    return frozenset(n for n, time in enumerate(best) if time > FAR_TIMES * min(best))


def balanced_orders(count: int) -> tuple[tuple[int, ...], ...]:
    """Return orders of `count` things that are balanced for position and for predecessor."""
    zigzag = [(n + 1) // 2 if n % 2 else -(n // 2) % count for n in range(count)]
    rows = [tuple((n + shift) % count for n in zigzag) for shift in range(count)]
    if count % 2 and count > 1:
        rows += [tuple(reversed(row)) for row in rows]
    return tuple(rows)


def warmed(work: Work, patience_ns: int, clock: Clock) -> Series:
    """Call a function until it is warm; return a series without turns, with their length."""
    start = clock()
    lengths: list[int] = []
    while len(lengths) < LEAST_WARM_UP or (
        len(lengths) < MOST_WARM_UP and clock() - start < patience_ns
    ):
        begin = clock()
        work()
        lengths.append(max(1, clock() - begin))
    length = min(lengths)  # whatever else the machine did in the others
    calls = max(1, -(-SAMPLE_NS // length))
    return Series(work, calls, max(1, TURN_NS // (calls * length)), length < LONG_NS, length)


def take_turn(series: Series, clock: Clock, watch: Watcher | None = None) -> None:
    """Add one turn to a series, with its disturbance if it is watched."""
    work = series.work
    if isinstance(work, Elsewhere):
        times, disturbance = work.turn()
        series.turns.append(times)
        series.disturbances.append(disturbance)
        return
    if watch is not None:
        watch.begin()
    begin = clock()
    while series.settles and clock() - begin < SETTLE_NS:
        work()
    series.turns.append([_sample(work, series.calls, clock) for _ in range(series.samples)])
    if watch is not None:
        series.disturbances.append(watch.end())


def _sample(work: Work, calls: int, clock: Clock) -> float:
    """Return nanoseconds per call of some calls."""
    begin = clock()
    for _ in range(calls):
        work()
    return (clock() - begin) / calls


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Disturbance of a turn.

    `waited_us`: wait for a quiet machine; `quiet`: it became quiet. `switches`: involuntary context
    switches of the process. `in_line`: share of the turn during which runnable threads waited for a
    core (more than 1 if several did; 0 if the system does not report it).
    """

    waited_us: float
    quiet: bool
    switches: int
    in_line: float

    @property
    def disturbed(self) -> bool:
        """True if others affected the time of the turn."""
        return not self.quiet or self.in_line > DISTURBED_SHARE


class Watch:
    """Waits before a turn, and counts disturbances during it."""

    def __init__(self, most_wait_s: float = MOST_WAIT_S) -> None:
        """Wait at most `most_wait_s` seconds before a turn."""
        self.most_wait_s = most_wait_s
        self._waited_s, self._quiet = 0.0, True
        self._at, self._switches, self._in_line_ns = 0.0, 0, 0

    def begin(self) -> None:
        """Wait until the other threads of the process are idle, or patience is over."""
        before = time.perf_counter()
        self._quiet = wait_until_quiet(self.most_wait_s)
        self._switches, self._in_line_ns = _switches(), in_line_ns()
        self._at = time.perf_counter()
        self._waited_s = self._at - before

    def end(self) -> Disturbance:
        """Return what disturbed the turn."""
        seconds = max(1e-9, time.perf_counter() - self._at)
        stood = max(0, in_line_ns() - self._in_line_ns) / 1e9
        switches = max(0, _switches() - self._switches)
        return Disturbance(self._waited_s * 1e6, self._quiet, switches, stood / seconds)


def wait_until_quiet(
    most_s: float = MOST_WAIT_S,
    clock: Seconds = time.perf_counter,
    others: Seconds | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Wait for the process's other threads to stop computing; return False if they do not."""
    used = others or _used_by_others
    begin = clock()
    at, before, still = begin, used(), 0
    while still < STILL_LOOKS:
        if clock() - begin > most_s:
            return False
        sleep(LOOK_S)
        now, after = clock(), used()
        still = still + 1 if after - before < STILL_SHARE * (now - at) else 0
        at, before = now, after
    return True


def _used_by_others() -> float:
    """Return the processor time of the process's other threads."""
    return time.process_time() - time.thread_time()


def _switches() -> int:
    """Return the number of involuntary context switches."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def in_line_ns() -> int:
    """Return how long runnable threads of this process have waited for a core, in total."""
    total = 0
    try:
        for name in os.listdir(TASKS):
            try:
                total += int((TASKS / name / "schedstat").read_text("ascii").split()[1])
            except (OSError, ValueError, IndexError):  # a thread that has just ended
                continue
    except OSError:
        return 0
    return total
