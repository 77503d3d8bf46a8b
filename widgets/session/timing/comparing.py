"""How long a setting's runs take, in turns with the baseline's where both have the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.ops.reference.cancellation import cancellable
from explorer.passes.pipeline.progress import telling
from widgets.model.compiled import Arrays
from widgets.model.knobs import Setting, with_code
from widgets.session.history import History
from widgets.session.timing.jobs import Job, Jobs
from widgets.session.timing.watched import Rounds, Watched, rounds_in
from widgets.session.verdict import Step

TIMING_SECONDS = 0.3


class Comparing:
    """One session's comparisons; `compare` makes one."""

    def __init__(self, compare: Callable[..., Comparison]) -> None:
        self.compare = compare
        self._ahead: tuple[Step, Step] | None = None  # as planned, as compared

    def start(
        self,
        steps: History,
        inputs: Callable[[], Arrays],
        jobs: Jobs,
        planned_us: float,
        again: bool = False,
    ) -> dict[str, Any]:
        """Begin to generate the code of the step on show where it was only planned, and to compare
        it with the baseline, beside; nothing begins where there is nothing to do beside. `again`:
        also where it was timed before.
        """
        step, base = steps.now, steps.pinned
        if (step.time is not None and not again) or not (
            _comparable(step, base) or not has_code(step.setting)
        ):
            return {}
        known = base.time.median_us if base.time else 0.0
        of = rounds_in(2 * TIMING_SECONDS, max(planned_us, known))
        given = inputs()

        def work(job: Job) -> None:
            with telling(job.compiling), cancellable(job.stop.is_set):
                coded = replace(step, setting=with_code(step.setting))
            job.what = ""
            if _comparable(step, base):
                self._ahead = step, self._compared(coded, base, given, Rounds(job))
            else:
                job.told(0)
                self._ahead = step, timed_step(coded, given)

        return {"job": jobs.start(of, work), "of": of}

    def measured(self, steps: History, inputs: Callable[[], Arrays], again: bool = False) -> Step:
        """The step on show with its time: what was found beside, or found now."""
        step, base = steps.now, steps.pinned
        ahead, self._ahead = self._ahead, None
        if step.time is not None and not again:
            return step
        if ahead is not None and ahead[0].setting == step.setting:
            return replace(ahead[1], what=step.what)
        step = replace(step, setting=with_code(step.setting))
        if _comparable(step, base):
            return self._compared(step, base, inputs())
        return timed_step(step, inputs())

    def _compared(
        self, step: Step, base: Step, inputs: Arrays, rounds: Rounds | None = None
    ) -> Step:
        both: tuple[Any, Any] = (step.setting.compiled, with_code(base.setting).compiled)
        if rounds is not None:
            both = (Watched(both[0], rounds, 0), Watched(both[1], rounds, 1))
        found = self.compare(*both, inputs, seconds=2 * TIMING_SECONDS)
        return replace(step, time=found.first, versus=found)


def timed_step(step: Step, inputs: Arrays) -> Step:
    """A step with the time of its runs alone."""
    return replace(step, time=step.setting.compiled.time(inputs, seconds=TIMING_SECONDS))


def has_code(now: Setting) -> bool:
    """Whether its kernels are machine code already."""
    return now.compiled.program.stage is not Stage.PLANNED


def _comparable(step: Step, base: Step) -> bool:
    now, other = step.setting, base.setting
    return now != other and now.sizes == other.sizes and other.is_here
