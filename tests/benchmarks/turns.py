"""What is raced, each in a process of its own that is stopped between its turns: a pool of threads
that waits for its next run by spinning, some for 100 ms, would take the cores of whoever is next.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from math import exp, log
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import numpy as np

from explorer.measure.compare import verdict
from explorer.measure.interval import median_interval

Run = Callable[[], Any]
COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROUNDS, TURN = 8, 0.1  # at least so many rounds; a turn lasts so many seconds, or one run


class Racer:
    """A process that runs what `make()` gave, on as many cores as it has threads."""

    def __init__(self, make: Callable[[], Run], threads: int) -> None:
        here, there = get_context("spawn").Pipe()
        before = {n: os.environ.get(n) for n in COUNTS}
        os.environ.update(dict.fromkeys(COUNTS, str(threads)))
        self.process = get_context("spawn").Process(
            target=_serve, args=(there, make, threads), daemon=True
        )
        self.process.start()
        there.close()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        self.pipe = here

    def values(self, calls: int) -> list[Any]:
        """What so many runs gave."""
        return self._asked(("values", calls))

    def seconds(self, calls: int) -> list[float]:
        """How long each of so many runs took."""
        return self._asked(("seconds", calls))

    def _asked(self, what: tuple[str, int]) -> list[Any]:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send(what)
        found: list[Any] = self.pipe.recv()
        os.kill(self.process.pid, signal.SIGSTOP)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, make: Callable[[], Run], threads: int) -> None:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    run = make()
    while True:
        what, calls = pipe.recv()
        found = []
        for _ in range(calls):
            begin = perf_counter()
            value = run()
            found.append(value if what == "values" else perf_counter() - begin)
        pipe.send(found)


def race(first: Racer, second: Racer, seconds: float) -> str:
    """Both medians, the second's time over the first's with its 99 % interval, and the verdict."""
    racers = [first, second]
    once = [min(r.seconds(1)[0] for _ in range(3)) for r in racers]
    calls = [max(1, min(500, int(TURN / t))) for t in once]
    end, rounds = perf_counter() + seconds, []
    while len(rounds) < ROUNDS or perf_counter() < end:
        order = (0, 1) if len(rounds) % 2 else (1, 0)
        taken = {n: float(np.median(racers[n].seconds(calls[n]))) for n in order}
        rounds.append((taken[0], taken[1]))
    found = median_interval([log(b / a) for a, b in rounds])
    ratio, low, high = (exp(v) for v in (found.median, found.low, found.high))
    us = [1e6 * float(np.median(times)) for times in zip(*rounds)]
    said = verdict(ratio, low, high)
    return f"{us[0]:.0f} and {us[1]:.0f} us, {ratio:.2f} [{low:.2f}, {high:.2f}], {said}"
