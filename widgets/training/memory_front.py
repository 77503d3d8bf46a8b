"""Memory against time: the candidates of rematerialisation as a picture, and with a slider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import plotly.graph_objects as go

from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.transforms.autodiff.function_steps import steps_of
from explorer.transforms.autodiff.rematerialisation import front
from widgets.draw.plots import byte_unit, colours, styled
from widgets.draw.table import Mark, Sentence, Table, size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A point of the front, predicted: peak bytes of intermediates, time of all kernels.

    `recomputed` is the number of recomputed values; `taken`: this compilation uses it.
    """

    label: str
    peak_bytes: int
    us: float
    recomputed: int
    taken: bool

    @property
    def words(self) -> str:
        """The description in one line."""
        return (
            f"{self.label}: {size_text(self.peak_bytes)} at once, {time_text(self.us)} predicted, "
            f"{self.recomputed} value{'' if self.recomputed == 1 else 's'} computed again"
        )


def points(c: Compiled) -> tuple[FrontPoint, ...]:
    """Return the front of a compilation's main function, the fastest point first.

    It is the front that rematerialisation evaluated if it ran, else the one that it would evaluate.
    """
    main = c.program.main
    decisions = {r.function: r for r in c.program.decisions.rematerialisation}
    if main.name in decisions:
        row = decisions[main.name]
        pairs = [(p.label, p.value, p.value == row.chosen) for p in row.candidates]
        candidates = [FrontPoint(n, v.peak_bytes, v.us, len(v.recomputed), t) for n, v, t in pairs]
    else:
        candidates = [
            FrontPoint(p.label, p.run.peak_bytes, p.run.us, len(p.copies), not p.copies)
            for p in front(steps_of(c.program, main))
        ]
    return tuple(sorted(candidates, key=lambda p: (p.us, p.peak_bytes)))


def table(rows: tuple[FrontPoint, ...]) -> Table:
    """Return one row per point, the fastest first."""
    taken = next((p for p in rows if p.taken), rows[0])
    return Table(
        ("point", "at once (MiB)", "all kernels (ms)", "computed again", "taken"),
        tuple(
            (p.label, round(p.peak_bytes / 2**20, 3), round(p.us / 1e3, 3), p.recomputed,
             "yes" if p.taken else "")
            for p in rows
        ),
        (),
        f"{counted(len(rows), 'plan')} by memory and time, predicted; {taken.words}",
        see(rows),
    )  # fmt: skip


def see(rows: tuple[FrontPoint, ...]) -> tuple[Sentence, ...]:
    """Return the key sentences: the plan in use, and the plan of least memory with its cost."""
    n = next((n for n, p in enumerate(rows) if p.taken), 0)
    mine, least = rows[n], min(range(len(rows)), key=lambda i: rows[i].peak_bytes)
    peak, other = Mark(size_text(mine.peak_bytes), "taken" if mine.taken else "plan:0"), rows[least]
    takes = f" and takes {time_text(mine.us)}" if mine.us > 0 else ""
    whose = "The plan here" if mine.taken else "The fastest plan"
    sentences: list[Sentence] = [(f"{whose} holds ", peak, f" at once{takes}, predicted.")]
    if other.peak_bytes >= mine.peak_bytes:
        return (*sentences, ("No plan holds less.",))
    recomputed_text, bytes_ = (
        counted(other.recomputed, "value"),
        Mark(size_text(other.peak_bytes), f"plan:{least}"),
    )
    more = f" at the price of {other.us / mine.us - 1:.1%} more time" if mine.us > 0 else ""
    sentences.append(
        ("With ", f"{recomputed_text} computed again it would hold ", bytes_, f"{more}.")
    )
    if len(rows) > 2:
        sentences.append((Mark(f"{len(rows)} plans", "plan"), " lie between memory and time."))
    return tuple(sentences)


def chart(rows: tuple[FrontPoint, ...], title: str, theme: str) -> go.Figure:
    """Plot the front: predicted bytes of intermediates against predicted time.

    The point in use is filled.
    """
    colour, figure, ((size_unit, size), (time_unit, us)) = colours(theme), go.Figure(), units(rows)
    figure.add_scatter(
        x=[p.peak_bytes / size for p in rows],
        y=[p.us / us for p in rows],
        name="no other has less of both",
        mode="lines+markers",
        line={"color": colour["line2"], "width": 1.5, "shape": "hv"},
        marker={"color": colour["ink2"], "size": 7, "symbol": "circle-open"},
        customdata=[p.words for p in rows],
        meta={"k": [f"plan plan:{n}" for n in range(len(rows))]},
        hovertemplate="%{customdata}<extra></extra>",
    )
    mark(figure, [p for p in rows if p.taken], "taken here", colour, units(rows))
    at_once = f"intermediates at once, predicted ({size_unit})"
    figure.update_xaxes(title=at_once, rangemode="tozero")
    figure.update_yaxes(title=f"all kernels, predicted ({time_unit})", rangemode="tozero")
    return styled(figure, theme, title, 420)


Units: TypeAlias = tuple[tuple[str, int], tuple[str, float]]  # (unit, its size)


def units(rows: Sequence[FrontPoint]) -> Units:
    """Return the unit of the bytes of a front, and that of its times in microseconds."""
    longest = max((p.us for p in rows), default=0.0)
    time = ("ms", 1e3) if longest >= 1e3 else ("µs", 1.0)
    return byte_unit(max((p.peak_bytes for p in rows), default=0)), time


def mark(
    figure: go.Figure,
    rows: Sequence[FrontPoint],
    name: str,
    c: dict[str, str],
    units: Units,
    visible: bool = True,
) -> None:
    """Add a marker for each of some points."""
    (_, size), (_, us) = units
    figure.add_scatter(
        x=[p.peak_bytes / size for p in rows],
        y=[p.us / us for p in rows],
        name=name,
        mode="markers",
        marker={"color": c["accent"], "size": 12, "symbol": "circle"},
        customdata=[p.words for p in rows],
        meta={"k": "taken"},
        hovertemplate="%{customdata}<extra></extra>",
        visible=visible,
    )


def memory_time(c: Compilation, *, theme: str = "either") -> go.Figure:
    """Plot the front, with a slider or arrow keys that go through its points."""
    colour, rows = colours(theme), points(c)
    taken = next((n for n, p in enumerate(rows) if p.taken), 0)
    figure = chart(rows, rows[taken].words, theme)
    figure.data = figure.data[:1]
    for n, p in enumerate(rows):
        mark(figure, [p], "taken here" if p.taken else "evaluated", colour, units(rows), n == taken)
    figure.update_layout(margin_b=124, sliders=[_slider(rows, taken, colour)])
    return figure


def _slider(rows: tuple[FrontPoint, ...], taken: int, c: dict[str, str]) -> dict[str, object]:
    steps = [
        {
            "label": size_text(p.peak_bytes),
            "method": "update",
            "args": [
                {"visible": [True, *(n == m for m in range(len(rows)))]},
                {"title.text": p.words},
            ],
        }
        for n, p in enumerate(rows)
    ]
    paint = {"bgcolor": c["line"], "bordercolor": c["line2"], "activebgcolor": c["accent"]}
    now = {"prefix": "at once: ", "font": {"color": c["ink2"]}}
    return paint | {
        "active": taken,
        "steps": steps,
        "currentvalue": now,
        "tickcolor": c["line2"],
        "pad": {"t": 62},
    }


def _draw(s: OnShow, op: str) -> Drawn:
    c = s.now.compiled
    if c.program.stage < Stage.ROLLED:
        raise BadOption(
            "kernels have no predicted times before they are tiled: compile through ROLLED"
        )
    rows = s.house.cached("memory_time", s.now.sizes, lambda: points(c))
    return rows, None, table(rows)


PICTURE = Picture(
    name="memory_time",
    title="Memory by time",
    words="The peak bytes of intermediates if more values were recomputed, and the time.",
    draw=_draw,
    chart=chart,
    stage=Stage.DIFFERENTIATED,
)
