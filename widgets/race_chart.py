"""A race: each runtime's median time with its interval, and the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from widgets.brick_wall import tick_step
from widgets.compiled import Measurement
from widgets.svg import Svg, label, path, rect
from widgets.table import Table, time_text


@dataclass(frozen=True, slots=True)
class Runner:
    """One runtime's time: median and 99 % interval of n runs, in microseconds."""

    name: str
    median_us: float
    low_us: float
    high_us: float
    n: int


@dataclass(frozen=True, slots=True)
class RaceRows:
    """The runners, and the verdict of the race over them with the machine it was run on."""

    runners: tuple[Runner, ...]
    verdict: str
    machine: str = ""


def data(times: Mapping[str, Measurement], verdict: str = "", machine: str = "") -> RaceRows:
    """The rows, fastest first."""
    runners = [Runner(n, m.median_us, m.low_us, m.high_us, m.n) for n, m in times.items()]
    return RaceRows(tuple(sorted(runners, key=lambda r: r.median_us)), verdict, machine)


def table(rows: RaceRows) -> Table:
    """One row a runtime."""
    return Table(
        ("runtime", "median µs", "low µs", "high µs", "n"),
        tuple((r.name, r.median_us, r.low_us, r.high_us, r.n) for r in rows.runners),
        (),
        rows.verdict,
    )


def figure(rows: RaceRows) -> Svg:
    """A dot for the median and a bar for the interval, on one axis that starts at zero."""
    left, right, top = 130, 560, 34
    most = max((r.high_us for r in rows.runners), default=1) * 1.05 or 1

    def x(us: float) -> float:
        return left + us / most * (right - left)

    floor = top + 28 * len(rows.runners)
    marks = [label(12, 20, rows.verdict, "i w"), label(668, 20, rows.machine, "q", anchor="end")]
    step = tick_step(most, 6)
    for i in range(int(most / step) + 1):
        at = x(i * step)
        marks += [
            path(f"M{at:.1f} {top}V{floor}", "var(--line)"),
            label(at, floor + 15, time_text(i * step) if i else "0", "q", anchor="middle"),
        ]
    for i, runner in enumerate(rows.runners):
        marks += _runner(runner, x, top + 28 * i + 14)
    return Svg(
        680, floor + 28, "".join(marks), "Race: " + (rows.verdict or "times of each runtime")
    )


def _runner(runner: Runner, x: object, y: float) -> list[str]:
    assert callable(x)
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
        label(572, y + 4, f"{time_text(runner.median_us)}, n = {runner.n}", "i"),
    ]
