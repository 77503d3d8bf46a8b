"""Times of a setting's runs, in turns with the baseline's if both have the same sizes.

The progress of a comparison is counted in rounds: in each, the turn passes once between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.measure.turns import LEAST_TO_COMPARE, SETTLE_NS, TURN_NS
from explorer.process.cancellation import cancellable, reporting_to
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting, with_code
from widgets.session.history import History, HistoryEntry
from widgets.session.jobs import Job, Jobs

TIMING_SECONDS = 0.3
WARM_UP = 2  # turns before the first round


class Comparing:
    """One session's comparisons; `compare` makes one."""

    def __init__(self, compare: Callable[..., Comparison]) -> None:
        """Create a record without a pending comparison."""
        self.compare = compare
        self._ahead: tuple[HistoryEntry, HistoryEntry] | None = None  # as planned, as compared

    def start(
        self,
        steps: History,
        inputs: Callable[[], Arrays],
        jobs: Jobs,
        planned_us: float,
        remeasure: bool = False,
    ) -> dict[str, Any]:
        """Begin to generate missing code and to compare the step on show with the baseline.

        Both run in the background; nothing begins if there is nothing to do. `remeasure`: also if
        it was timed before.
        """
        step, base = steps.now, steps.pinned
        if (step.time is not None and not remeasure) or not (
            _comparable(step, base) or not has_code(step.setting)
        ):
            return {}
        base_us = base.time.median_us if base.time else 0.0
        of = rounds_in(2 * TIMING_SECONDS, max(planned_us, base_us))
        run_inputs = inputs()

        def work(job: Job) -> None:
            with reporting_to(job.compiling), cancellable(job.stop.is_set):
                coded = replace(step, setting=with_code(step.setting))
            job.what = ""
            if _comparable(step, base):
                self._ahead = step, self._compared(coded, base, run_inputs, Rounds(job))
            else:
                job.report(0)
                self._ahead = step, timed_step(coded, run_inputs)

        return {"job": jobs.start(of, work), "of": of}

    def measured(
        self, steps: History, inputs: Callable[[], Arrays], remeasure: bool = False
    ) -> HistoryEntry:
        """Return the step on show with its time, from the background job or measured now."""
        step, base = steps.now, steps.pinned
        ahead, self._ahead = self._ahead, None
        if step.time is not None and not remeasure:
            return step
        if ahead is not None and ahead[0].setting == step.setting:
            return replace(ahead[1], what=step.what)
        step = replace(step, setting=with_code(step.setting))
        if _comparable(step, base):
            return self._compared(step, base, inputs())
        return timed_step(step, inputs())

    def _compared(
        self, step: HistoryEntry, base: HistoryEntry, inputs: Arrays, rounds: Rounds | None = None
    ) -> HistoryEntry:
        both: tuple[Any, Any] = (step.setting.compiled, with_code(base.setting).compiled)
        if rounds is not None:
            both = (Watched(both[0], rounds, 0), Watched(both[1], rounds, 1))
        comparison = self.compare(*both, inputs, seconds=2 * TIMING_SECONDS)
        return replace(step, time=comparison.first, versus=comparison)


def timed_step(step: HistoryEntry, inputs: Arrays) -> HistoryEntry:
    """Return a step with the time of its own runs."""
    return replace(step, time=step.setting.compiled.time(inputs, seconds=TIMING_SECONDS))


def has_code(now: Setting) -> bool:
    """Return True if the setting's kernels are machine code."""
    return now.compiled.program.stage is not Stage.PLANNED


def _comparable(step: HistoryEntry, base: HistoryEntry) -> bool:
    now, other = step.setting, base.setting
    return now != other and now.sizes == other.sizes and other.is_here


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
