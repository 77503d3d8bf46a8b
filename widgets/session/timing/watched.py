"""How far a comparison is: in each round the turn passes once from one of two functions to the
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.measure.turns import LEAST_TO_COMPARE, SETTLE_NS, TURN_NS
from widgets.session.timing.jobs import Job

WARM_UP = 2  # turns before the first round


class Rounds:
    """Tells a job of the rounds of two functions; ends them where it is cancelled."""

    def __init__(self, job: Job) -> None:
        self.job, self.passed, self.last = job, 0, -1

    def counted(self, work: Callable[..., Any], which: int) -> Callable[..., Any]:
        """The same function, counted."""

        def counted(*args: Any) -> Any:
            if which != self.last:
                self.last = which
                self.passed += 1
            self.job.told(max(0, min(self.passed - WARM_UP, self.job.of)))
            return work(*args)

        return counted


class Watched:
    """A compilation whose timed runs are counted; all else is as it was."""

    def __init__(self, compiled: Any, rounds: Rounds, which: int) -> None:
        self._compiled, self._rounds, self._which = compiled, rounds, which

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    @property
    def runnable(self) -> _Running:
        """What is timed."""
        run = self._compiled.runnable.run
        return _Running(self._rounds.counted(run, self._which))


@dataclass(frozen=True, slots=True)
class _Running:
    run: Callable[..., Any]


def rounds_in(seconds: float, run_us: float) -> int:
    """How many rounds fit into the seconds where a run takes that long; 20 at least."""
    turn_ns = max(TURN_NS, run_us * 1e3) + SETTLE_NS
    return max(LEAST_TO_COMPARE, int(seconds * 1e9 / (2 * turn_ns)))
