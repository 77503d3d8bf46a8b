"""What Python takes between launches on one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PythonTimes:
    """Microseconds of NumPy's copy of a small array (`copy_us`), of a look at a scalar (`look_us`),
    of the way to what is launched within a call that Python follows (`region_us`), and from a
    launch to a library's code and back (`library_us`).

    The defaults are those of CPython 3.11 on a Zen 5 core: `tests.benchmarks.control_schedules`.
    """

    copy_us: float = 0.5
    look_us: float = 0.2
    region_us: float = 30.0
    library_us: float = 10.0
