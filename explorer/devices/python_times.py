"""Times that Python takes between launches on one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PythonTimes:
    """Overheads of Python in microseconds.

    `copy_us`: NumPy's copy of a small array. `look_us`: reading a scalar. `region_us`: launching
    within a call that Python executes. `library_us`: calling a library and returning.

    The defaults are those of CPython 3.11 on a Zen 5 core: `tests.benchmarks.control_schedules`.
    """

    copy_us: float = 0.5
    look_us: float = 0.2
    region_us: float = 30.0
    library_us: float = 10.0
