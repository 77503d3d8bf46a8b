"""A race: each runtime's median time with its interval, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from explorer.measure.compare import Comparison
from widgets.draw.table import Table
from widgets.model.compiled import Measurement


class Ran(Protocol):
    """A runtime that took part: `explorer.tuning.race.Runner`."""

    @property
    def name(self) -> str:
        """The runtime's name."""

    @property
    def time(self) -> Measurement:
        """The measured time of a run."""

    @property
    def max_abs_error(self) -> float:
        """The largest absolute difference from the reference output."""


class Result(Protocol):
    """The result of `explorer.race`."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def threads(self) -> int:
        """The number of threads of each runtime."""

    @property
    def machine(self) -> str:
        """The description of the machine."""

    @property
    def runners(self) -> Sequence[Ran]:
        """The runtimes that took part."""

    @property
    def skipped(self) -> Sequence[tuple[str, str]]:
        """The runtimes that were skipped, each with the reason."""

    @property
    def fastest_other(self) -> Ran | None:
        """The fastest runtime besides ours, None if no other ran."""

    @property
    def versus(self) -> Comparison | None:
        """The comparison of ours with the fastest other one."""

    @property
    def verdict(self) -> str:
        """The verdict in words."""


@dataclass(frozen=True, slots=True)
class Runner:
    """One runtime's time: median and 99 % interval of n runs, in microseconds."""

    name: str
    median_us: float
    low_us: float
    high_us: float
    n: int
    max_abs_error: float


@dataclass(frozen=True, slots=True)
class RaceRows:
    """The runners, fastest first; the verdict; the machine; the skipped runtimes with reasons."""

    runners: tuple[Runner, ...]
    verdict: str
    machine: str
    skipped: tuple[tuple[str, str], ...] = ()


def data(result: Result) -> RaceRows:
    """Return the rows of a race."""
    runners = [
        Runner(r.name, r.time.median_us, r.time.low_us, r.time.high_us, r.time.n, r.max_abs_error)
        for r in result.runners
    ]
    return RaceRows(
        tuple(sorted(runners, key=lambda r: r.median_us)),
        f"{result.model}: {_verdict(result)}",
        f"{result.machine}, {result.threads} threads",
        tuple(result.skipped),
    )


def _verdict(result: Result) -> str:
    other, versus = result.fastest_other, result.versus
    if other is None or versus is None:
        return result.verdict
    if versus.verdict not in ("faster", "slower"):
        return f"{versus.verdict} from {other.name}"
    ratio, low, high = versus.factor
    interval = f"99% interval {low:.2f} to {high:.2f}"
    return f"{ratio:.2f}× {versus.verdict} than {other.name}, {interval}"


def caption(rows: RaceRows) -> str:
    """Describe the verdict, the machine, and the runtimes that were skipped."""
    out = "".join(f"; {name} did not run: {reason}" for name, reason in rows.skipped)
    return f"{rows.verdict}; {rows.machine}{out}"


def table(rows: RaceRows) -> Table:
    """Return one row per runtime; skipped ones come last, with the reason."""
    ran = [(r.name, r.median_us, r.low_us, r.high_us, r.n, r.max_abs_error) for r in rows.runners]
    out = [(name, "", "", "", "", reason) for name, reason in rows.skipped]
    columns = ("runtime", "median µs", "low µs", "high µs", "n", "largest error")
    return Table(columns, (*ran, *out), (), caption(rows))
