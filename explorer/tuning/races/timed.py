"""What a race writes down of a runtime: its time, and its ratio to ours, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.measure.compare import Comparison, Measurement


@dataclass(frozen=True, slots=True)
class Timed:
    """A runtime's time in microseconds with its 99 % interval; `how` is its version, and the form
    of the model that was fastest in it.
    """

    name: str
    median_us: float
    low_us: float
    high_us: float
    n: int
    how: str = ""
    max_abs_error: float = 0.0

    @classmethod
    def of(cls, name: str, time: Measurement, how: str = "", error: float = 0.0) -> Timed:
        """A measurement under a name."""
        return cls(name, time.median_us, time.low_us, time.high_us, time.n, how, error)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A time over ours, round by round, with its 99 % interval, and what may be said of us."""

    ratio: float
    low: float
    high: float
    verdict: str

    @classmethod
    def of(cls, found: Comparison) -> Ratio:
        """Of a comparison in which we are the first."""
        return cls(found.ratio, found.low, found.high, found.verdict)
