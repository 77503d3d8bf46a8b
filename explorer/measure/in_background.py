"""Background measurement of this machine: `python -m explorer.measure.in_background`.

The process that starts it goes on with default figures; later processes have measured ones. It
waits until the machine is idle, stores a measurement that nothing disturbed, and ends; it also ends
with its parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from explorer.devices.model import Device
from explorer.measure.this_cpu import measure, remember, remembered
from explorer.measure.turns import Disturbance, Watch

IDLE_LOAD = 0.3  # of the last minute: less is nobody's work; chosen
LOOK_S = 30.0
LOOKS = 240  # two hours: after that it is left to the user


def measured_undisturbed() -> tuple[Device, Disturbance]:
    """Measure now, and store the result for later processes if nothing disturbed it."""
    watch = Watch()
    watch.begin()
    device = measure()
    bore = watch.end()
    if not bore.disturbed:
        remember(device)
    return device, bore


def when_idle(
    load: Callable[[], float] = lambda: os.getloadavg()[0],
    sleep: Callable[[float], object] = time.sleep,
    looks: int = LOOKS,
) -> bool:
    """Wait until the machine is idle and measure it; return True if it is measured in the end."""
    starter = os.getppid()
    for _ in range(looks):
        sleep(LOOK_S)
        if os.getppid() != starter:
            return False
        if remembered() is not None:
            return True
        if load() <= IDLE_LOAD and not measured_undisturbed()[1].disturbed:
            return True
    return False


if __name__ == "__main__":
    os.nice(10)  # it gives way to all that its user does
    raise SystemExit(not when_idle())
