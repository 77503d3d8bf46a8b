"""Functions in turns, each in a process of its own that is stopped between its turns: a pool of
threads that waits for its next run by spinning, some for 100 ms, would take the cores of the next.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from explorer.measure.turns import Series
from tests.benchmarks.rows import series_of

Run = Callable[[], Any]
Turn = Callable[[int], list[float]]  # from a number of calls to the seconds of each
COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROUNDS, TURN, CALLS = 8, 0.05, 500  # least rounds; seconds of a turn, or one run; most runs in it


class Racer:
    """A process that runs what `make()` returned, on as many cores as it has threads."""

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
        """Return the results of so many runs."""
        return self._ask(("values", calls))

    def seconds(self, calls: int) -> list[float]:
        """Return how long each of so many runs took."""
        return self._ask(("seconds", calls))

    def _ask(self, request: tuple[str, int]) -> list[Any]:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)
        self.pipe.send(request)
        answer: list[Any] = self.pipe.recv()
        os.kill(self.process.pid, signal.SIGSTOP)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, make: Callable[[], Run], threads: int) -> None:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    run = make()
    while True:
        what, calls = pipe.recv()
        if what == "seconds" and hasattr(run, "seconds"):  # it times itself
            pipe.send(run.seconds(calls))
            continue
        results = []
        for _ in range(calls):
            begin = perf_counter()
            value = run()
            results.append(value if what == "values" else perf_counter() - begin)
        pipe.send(results)


def racers(
    stack: ExitStack, makes: Mapping[str, Callable[[], Run]], threads: int
) -> dict[str, Racer]:
    """Start a process for each function; the stack ends them."""
    started = {}
    for name, make in makes.items():
        started[name] = Racer(make, threads)
        stack.callback(started[name].close)
    return started


def turns_of(runners: Mapping[str, Racer | Turn], seconds: float) -> dict[str, Series]:
    """Time all in rounds of one turn each, in an order that goes back and forth."""
    turns = {n: r.seconds if isinstance(r, Racer) else r for n, r in runners.items()}
    calls = {n: _calls(turn) for n, turn in turns.items()}
    taken: dict[str, list[list[float]]] = {name: [] for name in turns}
    end, rounds = perf_counter() + seconds, 0
    while rounds < ROUNDS or perf_counter() < end:
        for name in reversed(turns) if rounds % 2 else turns:
            taken[name].append(turns[name](calls[name]))
        rounds += 1
    return {name: series_of(each) for name, each in taken.items()}


def _calls(turn: Turn) -> int:
    return max(1, min(CALLS, int(TURN / min(turn(1)[0] for _ in range(3)))))
