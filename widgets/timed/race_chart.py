"""A race: each runtime's median time with its interval, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from widgets.draw.plots import colours, styled
from widgets.draw.table import Table, time_text
from widgets.model.compiled import whiskers

if TYPE_CHECKING:
    from explorer.tuning.race import RaceResult, Runner


def runners(result: RaceResult) -> list[Runner]:
    """Return the runtimes that took part, fastest first."""
    return sorted(result.runners, key=lambda r: r.time.median_us)


def caption(result: RaceResult) -> str:
    """Describe the verdict, the machine, and the runtimes that were skipped."""
    out = "".join(f"; {name} did not run: {reason}" for name, reason in result.skipped)
    machine = f"{result.machine}, {result.threads} threads"
    return f"{result.model}: {_verdict(result)}; {machine}{out}"


def _verdict(result: RaceResult) -> str:
    other, versus = result.fastest_other, result.versus
    if other is None or versus is None:
        return result.verdict
    if versus.verdict not in ("faster", "slower"):
        return f"{versus.verdict} from {other.name}"
    ratio, low, high = versus.factor
    interval = f"99% interval {low:.2f} to {high:.2f}"
    return f"{ratio:.2f}× {versus.verdict} than {other.name}, {interval}"


def table(result: RaceResult) -> Table:
    """Return one row per runtime; skipped ones come last, with the reason."""
    ran = [
        (r.name, r.time.median_us, r.time.low_us, r.time.high_us, r.time.n, r.max_abs_error)
        for r in runners(result)
    ]
    out = [(name, "", "", "", "", reason) for name, reason in result.skipped]
    columns = ("runtime", "median µs", "low µs", "high µs", "n", "largest error")
    return Table(columns, (*ran, *out), (), caption(result))


def chart(result: RaceResult, title: str, theme: str) -> go.Figure:
    """Draw a dot per runtime at its median, with its interval, from zero; the fastest on top."""
    c, figure, ran = colours(theme), go.Figure(), runners(result)
    figure.add_scatter(
        x=[r.time.median_us for r in ran],
        y=[r.name for r in ran],
        name="median, 99 % interval",
        mode="markers",
        marker={"color": c["ink"], "size": 10},
        error_x=whiskers([r.time for r in ran], c["ink"], thickness=2, width=5),
        customdata=[_words(r) for r in ran],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(title="time per run (µs), measured", rangemode="tozero")
    figure.update_yaxes(title="runtime", autorange="reversed")
    return styled(figure, theme, title, 160 + 40 * max(3, len(ran)), showlegend=True)


def _words(r: Runner) -> str:
    time = r.time
    interval = f"{time_text(time.low_us)} to {time_text(time.high_us)}"
    error = f"largest error {r.max_abs_error:.2g}"
    return f"{r.name}: {time_text(time.median_us)}, {interval}, n = {time.n}, {error}"
