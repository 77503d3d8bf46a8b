"""A race: each runtime's median time with its interval, and the verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table, time_text
from widgets.model.compiled import Measurement
from widgets.rammer.brick_wall_picture import tick_step


class Ran(Protocol):
    """A runtime that ran: `explorer.tuning.races.race.Runner`."""

    @property
    def name(self) -> str: ...
    @property
    def time(self) -> Measurement: ...
    @property
    def max_abs_error(self) -> float: ...


class Versus(Protocol):
    """Our time against another's, as a ratio with its interval."""

    @property
    def ratio(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def verdict(self) -> str: ...


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
    def versus(self) -> Versus | None: ...
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
    interval = f"99% interval {versus.low:.2f} to {versus.high:.2f}"
    return f"{versus.ratio:.2f}× {versus.verdict} than {other.name}, {interval}"


def table(rows: RaceRows) -> Table:
    """One row a runtime; those that did not run last, with the reason."""
    ran = [(r.name, r.median_us, r.low_us, r.high_us, r.n, r.max_abs_error) for r in rows.runners]
    out = [(name, "", "", "", "", reason) for name, reason in rows.skipped]
    columns = ("runtime", "median µs", "low µs", "high µs", "n", "largest error")
    return Table(columns, (*ran, *out), (), rows.verdict)


def figure(rows: RaceRows) -> Svg:
    """A dot for the median and a bar for the interval, on one axis that starts at zero."""
    left, right, top = 130, 520, 52
    most = max((r.high_us for r in rows.runners), default=1) * 1.05 or 1

    def x(us: float) -> float:
        return left + us / most * (right - left)

    floor = top + 28 * len(rows.runners)
    marks = [label(12, 20, rows.verdict, "i w"), label(12, 37, fit(rows.machine, 656), "q")]
    step = tick_step(most, 6)
    for i in range(int(most / step) + 1):
        at = x(i * step)
        marks += [
            path(f"M{at:.1f} {top}V{floor}", "var(--line)"),
            label(at, floor + 15, time_text(i * step) if i else "0", "q", anchor="middle"),
        ]
    for i, runner in enumerate(rows.runners):
        marks += _runner(runner, x, top + 28 * i + 14)
    for i, (name, reason) in enumerate(rows.skipped):
        said = fit(f"{name} did not run: {reason}", 650)
        marks.append(label(12, floor + 36 + 16 * i, said, "q"))
    height = floor + 28 + 16 * len(rows.skipped)
    return Svg(680, height, "".join(marks), f"Race. {rows.verdict}")


def _runner(runner: Runner, x: Callable[[float], float], y: float) -> list[str]:
    low, mid, high = x(runner.low_us), x(runner.median_us), x(runner.high_us)
    return [
        label(120, y + 4, runner.name, "i", anchor="end"),
        rect(x(0), y - 0.5, mid - x(0), 1, "var(--line2)"),
        path(
            f"M{low:.1f} {y}H{high:.1f}M{low:.1f} {y - 4}v8M{high:.1f} {y - 4}v8",
            "var(--ink)",
            'stroke-width="2"',
        ),
        f'<circle cx="{mid:.1f}" cy="{y}" r="4" fill="var(--ink)"/>',
        label(532, y + 4, f"{time_text(runner.median_us)}, n = {runner.n}", "i"),
    ]
