"""A race: each runtime's median time with its interval, and the verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from explorer.measure.compare import Comparison
from widgets.draw.table import Table
from widgets.model.compiled import Measurement


class Ran(Protocol):
    """A runtime that ran: `explorer.tuning.race.Runner`."""

    @property
    def name(self) -> str: ...
    @property
    def time(self) -> Measurement: ...
    @property
    def max_abs_error(self) -> float: ...


class Result(Protocol):
    """What `explorer.race` returns."""

    @property
    def model(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def machine(self) -> str: ...
    @property
    def runners(self) -> Sequence[Ran]: ...
    @property
    def skipped(self) -> Sequence[tuple[str, str]]: ...
    @property
    def fastest_other(self) -> Ran | None: ...
    @property
    def versus(self) -> Comparison | None: ...
    @property
    def verdict(self) -> str: ...


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
    """The runners, fastest first; the verdict in words; the machine; who did not run, and why."""

    runners: tuple[Runner, ...]
    verdict: str
    machine: str
    skipped: tuple[tuple[str, str], ...] = ()


def data(result: Result) -> RaceRows:
    """The rows of a race."""
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
    """The verdict, where it was found, and who did not run."""
    out = "".join(f"; {name} did not run: {reason}" for name, reason in rows.skipped)
    return f"{rows.verdict}; {rows.machine}{out}"


def table(rows: RaceRows) -> Table:
    """One row a runtime; those that did not run last, with the reason."""
    ran = [(r.name, r.median_us, r.low_us, r.high_us, r.n, r.max_abs_error) for r in rows.runners]
    out = [(name, "", "", "", "", reason) for name, reason in rows.skipped]
    columns = ("runtime", "median µs", "low µs", "high µs", "n", "largest error")
    return Table(columns, (*ran, *out), (), caption(rows))
