"""A turn begins when the machine is quiet, and what it had to bear all the same is counted.

Threads of other runtimes, and ours, hold their cores for a while after their last call, so that the
next one finds them awake: OpenMP's for 7 to 10 ms of processor time, onnxruntime's for 45, ours for
1. Within its own turn that is each one's good right. So nobody is told to do without it: before any
turn, whoever's it is, one waits until the processor time of all other threads of the process stands
still.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Seconds = Callable[[], float]

LOOK_S = 0.001  # between two looks
STILL_SHARE = 0.03  # of a core: less is nobody's spinning; chosen
STILL_LOOKS = 2  # in a row; chosen
MOST_WAIT_S = 0.5  # longer than any runtime spins; chosen
TASKS = Path("/proc/self/task")
DISTURBED_SHARE = 0.05  # of a turn's time; chosen


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What a turn bore: how long it waited for the machine, whether that became quiet, how often a
    thread of the process lost its core to another, and for which part of the turn threads that
    could run stood in line (more than 1 where several did; 0 where the system does not tell).
    """

    waited_us: float
    quiet: bool
    switches: int
    in_line: float

    @property
    def disturbed(self) -> bool:
        """Whether others had a part in the time of the turn."""
        return not self.quiet or self.in_line > DISTURBED_SHARE


class Watch:
    """Waits before a turn, and counts during it."""

    def __init__(self, most_wait_s: float = MOST_WAIT_S) -> None:
        self.most_wait_s = most_wait_s
        self._waited_s, self._quiet = 0.0, True
        self._at, self._switches, self._in_line_ns = 0.0, 0, 0

    def begin(self) -> None:
        """Returns when the other threads of the process are at rest, or patience is over."""
        before = time.perf_counter()
        self._quiet = wait_until_quiet(self.most_wait_s)
        self._switches, self._in_line_ns = _switches(), in_line_ns()
        self._at = time.perf_counter()
        self._waited_s = self._at - before

    def end(self) -> Disturbance:
        """What there was since."""
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
    """Whether the processor time of the process's other threads came to stand still in time."""
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
    return time.process_time() - time.thread_time()


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def in_line_ns() -> int:
    """How long threads of this process that could run have waited for a core, all together."""
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
