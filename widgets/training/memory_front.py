"""Memory against time: the points that rematerialisation weighs, as a picture of the house."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import plotly.graph_objects as go

from explorer.autodiff.rematerialisation.facts import steps_of
from explorer.autodiff.rematerialisation.policy import front
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from widgets.draw.plots import byte_unit, colours, styled
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, size_text, time_text
from widgets.model.compiled import Compiled
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture


@dataclass(frozen=True, slots=True)
class Weighed:
    """A point of the front, predicted: what intermediates need at once, the time of all kernels,
    and how many values are computed again; `taken`: this compilation is it.
    """

    label: str
    peak_bytes: int
    us: float
    again: int
    taken: bool

    @property
    def words(self) -> str:
        """What it is, in a line."""
        return (
            f"{self.label}: {size_text(self.peak_bytes)} at once, {time_text(self.us)} predicted, "
            f"{self.again} value{'' if self.again == 1 else 's'} computed again"
        )


def points(c: Compiled) -> tuple[Weighed, ...]:
    """The front of a compilation's main function, the fastest point first: that which was weighed
    where something is computed again already, or what would be.
    """
    main = c.program.main
    known = {r.function: r for r in c.program.decisions.rematerialisation}
    if main.name in known:
        row = known[main.name]
        pairs = [(p.label, p.value, p.value == row.chosen) for p in row.candidates]
        found = [Weighed(n, v.peak_bytes, v.us, len(v.again), t) for n, v, t in pairs]
    else:
        found = [
            Weighed(p.label, p.run.peak_bytes, p.run.us, len(p.copies), not p.copies)
            for p in front(steps_of(c.program, main))
        ]
    return tuple(sorted(found, key=lambda p: (p.us, p.peak_bytes)))


def table(rows: tuple[Weighed, ...]) -> Table:
    """A row for each point, the fastest first."""
    taken = next((p for p in rows if p.taken), rows[0])
    return Table(
        ("point", "at once (MiB)", "all kernels (ms)", "computed again", "taken"),
        tuple(
            (p.label, round(p.peak_bytes / 2**20, 3), round(p.us / 1e3, 3), p.again,
             "yes" if p.taken else "")
            for p in rows
        ),
        (),
        f"{count_text(len(rows), 'plan')} by memory and time, predicted; {taken.words}",
        see(rows),
    )  # fmt: skip


def see(rows: tuple[Weighed, ...]) -> tuple[Sentence, ...]:
    """The sentences: the plan that was taken, and the one of least memory with what that costs."""
    n = next((n for n, p in enumerate(rows) if p.taken), 0)
    mine, least = rows[n], min(range(len(rows)), key=lambda i: rows[i].peak_bytes)
    held, other = Mark(size_text(mine.peak_bytes), "taken" if mine.taken else "plan:0"), rows[least]
    takes = f" and takes {time_text(mine.us)}" if mine.us > 0 else ""
    whose = "The plan here" if mine.taken else "The fastest plan"
    found: list[Sentence] = [(f"{whose} holds ", held, f" at once{takes}, predicted.")]
    if other.peak_bytes >= mine.peak_bytes:
        return (*found, ("No plan holds less.",))
    again, bytes_ = (
        count_text(other.again, "value"),
        Mark(size_text(other.peak_bytes), f"plan:{least}"),
    )
    more = f" at the price of {other.us / mine.us - 1:.1%} more time" if mine.us > 0 else ""
    found.append(("With ", f"{again} computed again it would hold ", bytes_, f"{more}."))
    if len(rows) > 2:
        found.append((Mark(f"{len(rows)} plans", "plan"), " lie between memory and time."))
    return tuple(found)


def chart(rows: tuple[Weighed, ...], title: str, theme: str) -> go.Figure:
    """The front as a curve: predicted bytes of intermediates against predicted time, the point that
    was taken filled.
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


Units: TypeAlias = tuple[tuple[str, int], tuple[str, float]]  # each with what it holds


def units(rows: Sequence[Weighed]) -> Units:
    """Return the unit of the bytes of a front, and that of its times in microseconds."""
    longest = max((p.us for p in rows), default=0.0)
    time = ("ms", 1e3) if longest >= 1e3 else ("µs", 1.0)
    return byte_unit(max((p.peak_bytes for p in rows), default=0)), time


def mark(
    figure: go.Figure,
    rows: Sequence[Weighed],
    name: str,
    c: dict[str, str],
    units: Units,
    visible: bool = True,
) -> None:
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


def _draw(s: OnShow, op: str) -> Drawn:
    c = s.now.compiled
    if c.program.stage < Stage.ROLLED:
        raise BadOption("no kernel has tiles yet, so none has a time: compile through ROLLED")
    rows = s.house.kept("memory_time", s.now.sizes, lambda: points(c))
    return rows, None, table(rows)


PICTURE = Picture(
    name="memory_time",
    title="Memory by time",
    words="What intermediates would take at once if more values were computed again, and the time.",
    draw=_draw,
    stage=Stage.DIFFERENTIATED,
)
