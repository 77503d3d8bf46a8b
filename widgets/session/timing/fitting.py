"""This machine measured beside, and the model's constants fitted to it; then plans are made with
that.
"""

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
from widgets.session.verdict import Step

Measured = Callable[[], tuple[Device, Disturbance]]


class Fitting:
    """One session's measurement of the machine, until it is taken."""

    def __init__(self, measured: Measured = measured_undisturbed) -> None:
        self._measured = measured
        self._found: tuple[Setting, Setting, str] | None = None

    def start(self, now: Setting, jobs: Jobs) -> dict[str, Any]:
        """Begin to measure this machine: some seconds, and what is on show compiled for what was
        found.
        """
        c = fittable(now)

        def work(job: Job) -> None:
            job.what = "measuring this machine"
            device, bore = self._measured()
            job.told(1)
            changed = explorer.compile(
                c.model, device, c.options, c.stage, c.check, donate=c.donate
            )
            self._found = now, replace(now, compiled=changed), said(device, bore)

        return {"job": jobs.start(1, work)}

    def take(self, now: Setting) -> Step:
        """The step to what was found. Raises BadOption where nothing was, or another setting is on
        show by now.
        """
        found, self._found = self._found, None
        if found is None or found[0] != now:
            raise BadOption(
                "this machine was not measured for the current plan", try_="measure it again"
            )
        return Step(found[1], found[2])


def said(device: Device, bore: Disturbance) -> str:
    """How well the constants explain what they were fitted to, and whether others disturbed it."""
    errors = [abs(f.modelled_us / f.measured_us - 1) for f in device.costs.fits if f.measured_us]
    words = f"fitted to this machine, median error of {len(errors)} probes {median(errors):.0%}"
    return f"{words}, measured while it was busy" if bore.disturbed else words


def fittable(now: Setting) -> Compilation:
    """The compilation; raises BadOption where it is not for this machine."""
    c = now.compiled
    if not isinstance(c, Compilation) or not c.device.is_this_cpu:
        name = getattr(c.device, "name", "this")
        raise BadOption(f"{name} is not this machine: nothing of it can be measured here")
    return c
