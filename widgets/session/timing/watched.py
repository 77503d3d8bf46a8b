"""Progress of a comparison: in each round the turn passes once between two functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.measure.turns import LEAST_TO_COMPARE, SETTLE_NS, TURN_NS
from widgets.session.timing.jobs import Job

WARM_UP = 2  # turns before the first round


class Rounds:
    """A counter of the rounds of two functions.

    It reports to a job and ends when the job is cancelled.
    """

    def __init__(self, job: Job) -> None:
        """Create a counter at the first round of a job."""
        self.job, self.passed, self.last = job, 0, -1

    def counted(self, work: Callable[..., Any], which: int) -> Callable[..., Any]:
        """Return the same function with its calls counted."""

        def counted(*args: Any) -> Any:
            if which != self.last:
                self.last = which
                self.passed += 1
            self.job.report(max(0, min(self.passed - WARM_UP, self.job.of)))
            return work(*args)

        return counted


class Watched:
    """A compilation whose timed runs are counted; everything else is unchanged."""

    def __init__(self, compiled: Any, rounds: Rounds, which: int) -> None:
        """Wrap `compiled`, which is number `which` of the two compared."""
        self._compiled, self._rounds, self._which = compiled, rounds, which

    def __getattr__(self, name: str) -> Any:
        """Return the compilation's own attribute."""
        return getattr(self._compiled, name)

    @property
    def runnable(self) -> _Running:
        """The timed function."""
        run = self._compiled.runnable.run
        return _Running(self._rounds.counted(run, self._which))


@dataclass(frozen=True, slots=True)
class _Running:
    run: Callable[..., Any]


def rounds_in(seconds: float, run_us: float) -> int:
    """Return the number of rounds that fit into `seconds` for runs of `run_us`; at least 20."""
    turn_ns = max(TURN_NS, run_us * 1e3) + SETTLE_NS
    return max(LEAST_TO_COMPARE, int(seconds * 1e9 / (2 * turn_ns)))
