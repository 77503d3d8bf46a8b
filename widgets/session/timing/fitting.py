"""This machine measured in the background, and plans with the fitted constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import explorer
from explorer.compilation import Compilation
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.measure.quiet import Disturbance
from explorer.measure.this_machine.in_background import measured_undisturbed
from widgets.model.knobs import Setting
from widgets.session.timing.jobs import Job, Jobs
from widgets.session.verdict import HistoryEntry

Measured = Callable[[], tuple[Device, Disturbance]]


class Fitting:
    """One session's measurement of the machine, until it is taken."""

    def __init__(self, measured: Measured = measured_undisturbed) -> None:
        """Create a record without a result; `measured` measures this machine."""
        self._measured = measured
        self._result: tuple[Setting, Setting, str] | None = None

    def start(self, now: Setting, jobs: Jobs) -> dict[str, Any]:
        """Begin to measure this machine, which takes seconds, and recompile for the result."""
        c = fittable(now)

        def work(job: Job) -> None:
            job.what = "measuring this machine"
            device, bore = self._measured()
            job.report(1)
            changed = explorer.compile(
                c.model, device, c.options, c.stage, c.check, donate=c.donate
            )
            self._result = now, replace(now, compiled=changed), describe_fit(device, bore)

        return {"job": jobs.start(1, work)}

    def take(self, now: Setting) -> HistoryEntry:
        """Return the step to the result.

        Raises BadOption if there is none, or if another setting is on show by now.
        """
        result, self._result = self._result, None
        if result is None or result[0] != now:
            raise BadOption(
                "this machine was not measured for the current plan", try_="measure it again"
            )
        return HistoryEntry(result[1], result[2])


def describe_fit(device: Device, bore: Disturbance) -> str:
    """Describe the fit's error, and whether other work disturbed the measurement."""
    errors = [abs(f.modelled_us / f.measured_us - 1) for f in device.costs.fits if f.measured_us]
    words = f"fitted to this machine, median error of {len(errors)} probes {median(errors):.0%}"
    return f"{words}, measured while it was busy" if bore.disturbed else words


def fittable(now: Setting) -> Compilation:
    """Return the compilation; raises BadOption if it is not for this machine."""
    c = now.compiled
    if not isinstance(c, Compilation) or not c.device.is_this_cpu:
        name = getattr(c.device, "name", "this")
        raise BadOption(f"{name} is not this machine: nothing of it can be measured here")
    return c
