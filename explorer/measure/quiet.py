"""Waiting for a quiet machine before each turn, and counting of disturbances during it.

Threads of runtimes keep spinning after their last call, so that the next one finds them awake:
OpenMP's for 7 to 10 ms of processor time, onnxruntime's for 45 ms, ours for 1 ms. Within a
runtime's own turn this is legitimate. So before any turn, one waits until the processor time of all
other threads of the process stands still.
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
