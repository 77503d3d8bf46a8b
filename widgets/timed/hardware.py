"""Other hardware: every figure of the device, and the predicted time with half and twice of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from explorer.compiler.compilation import Compilation
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.tuning.sensitivity import TIMES, Varied, varied_figures, vary_each
from widgets.draw.plots import colours, least_height, number_text, styled
from widgets.draw.table import Cell, Mark, Sentence, Table, draw_table, time_text
from widgets.model import settings
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, Family, OnShow, Picture
from widgets.model.settings import HARDWARE, Control
from widgets.timed.options import NOTHING_CHOSEN
from widgets.timed.options import caption as of_controls
from widgets.timed.options import table as of_settings

NAME = "hardware"
LEAST = 0.001  # smaller changes of the time are ignored
FACTOR_WORDS = dict(zip(TIMES, ("half", "twice")))
COLUMNS = tuple(
    f"{what}, {'half' if times < 1 else 'twice'} of it, predicted µs"
    for times in TIMES
    for what in ("same program", "compiled anew")
)
ROW = 48  # pixels of a figure: four bars


@dataclass(frozen=True, slots=True)
class VariedRows:
    """The planned time of a run, and its time with each figure at another value."""

    device: str
    us: float
    rows: tuple[Varied, ...]

    def of(self, name: str, times: float) -> Varied | None:
        """Return the row of a figure at `times` its value."""
        return next((r for r in self.rows if r.name == name and r.times == times), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The figures, those with the largest effect first."""
        names = dict.fromkeys(r.name for r in self.rows)
        return tuple(sorted(names, key=self.effect, reverse=True))

    def effect(self, name: str) -> float:
        """Return the largest change of the time among a figure's rows, as a share."""
        mine = [r for r in self.rows if r.name == name]
        times = [us for r in mine for us in (r.same_us, r.anew_us) if us is not None]
        return max((abs(us / self.us - 1) for us in times), default=0.0) if self.us else 0.0


def table(controls: tuple[Control, ...], varied: VariedRows | None) -> Table:
    """Return one row per figure: its value, and the time of a run with half and twice of it."""
    plain = of_settings(controls, of_controls(controls, "figure"))
    if varied is None:
        return plain
    rows = tuple(
        (*row, *_times(varied, c.name.removeprefix(f"{HARDWARE}.")))
        for row, c in zip(plain.rows, controls, strict=True)
    )
    return Table(
        (*plain.columns, *COLUMNS, "why not"), rows, plain.ops, caption(varied), see(varied)
    )


def _times(varied: VariedRows, name: str) -> tuple[Cell, ...]:
    rows = [varied.of(name, times) for times in TIMES]
    cells = [us for r in rows for us in ((r.same_us, r.anew_us) if r else (None, None))]
    why = "; ".join(r.refused for r in rows if r and r.refused)
    return (*("" if us is None else round(us, 2) for us in cells), why)


def caption(varied: VariedRows) -> str:
    """Return the planned time of a run, and the figure with the largest effect."""
    head = f"per run on {varied.device}: predicted {time_text(varied.us)}"
    names = [n for n in varied.names if varied.effect(n) > LEAST]
    if not names:
        return f"{head}; no figure alone changes that"
    most = names[0]
    mine = [r for r in varied.rows if r.name == most and r.same_us is not None]
    times = [f"{r.times:g} times: {time_text(r.same_us)}" for r in mine if r.same_us is not None]
    return f"{head}; {most} matters most, {', '.join(times)} for the same program"


def see(varied: VariedRows) -> tuple[Sentence, ...]:
    """Return the sentences of the picture.

    The figure with the largest effect with half and twice of it, the gain of recompiling, and the
    number of figures with any effect.
    """
    names = [n for n in varied.names if varied.effect(n) > LEAST]
    if not names:
        return ()
    name = names[0]
    variants = [(FACTOR_WORDS[t], r) for t in TIMES if (r := varied.of(name, t)) is not None]
    times: Sentence = ()
    for variant, r in variants:
        us = r.same_us if r.same_us is not None else r.anew_us
        if us is not None:
            key = "same" if r.same_us is not None else "anew"
            times += (f", {variant} of it ", Mark(time_text(us), f"{key} figure:0 {variant}"))
    sentences: list[Sentence] = [
        (Mark(name, "figure:0"), f" matters most: a run takes {time_text(varied.us)}", *times, ".")
    ]
    gains = [(r.anew_us / r.same_us, s, r.anew_us) for s, r in variants if r.same_us and r.anew_us]
    if gains and min(gains)[0] < 1 - LEAST:
        _, variant, us = min(gains)
        anew = Mark(time_text(us), f"anew figure:0 {variant}")
        sentences.append((f"Compiled anew for {variant} of it, a run takes ", anew, "."))
    count = counted(len(varied.names), "figure")
    sentences.append((Mark(f"{len(names)} of {count}", "same|anew"), " change the predicted time."))
    return tuple(sentences)


def chart(varied: VariedRows, title: str, theme: str) -> go.Figure:
    """Draw a row per figure: from the present time to the times with half and twice of it.

    Hatched for the same program, filled for a recompiled one. All are predictions.
    """
    c, figure = colours(theme), go.Figure()
    names = [n for n in varied.names if varied.effect(n) > LEAST]
    fills, hatches = dict(zip(TIMES, (c["t1"], c["t2"]))), dict(zip(TIMES, "/."))
    for times in TIMES:
        rows = [r for n in names if (r := varied.of(n, times)) is not None]
        word = "half of it" if times < 1 else "twice of it"
        figure.add_bar(
            **_bars([(r, r.anew_us) for r in rows], varied, "anew"),
            name=f"{word}, compiled anew",
            marker={"color": fills[times], "line": {"color": c["line2"], "width": 1}},
            offsetgroup=str(times),
        )
        figure.add_bar(
            **_bars([(r, r.same_us) for r in rows], varied, "same"),
            name=f"{word}, same program",
            marker={
                "color": c["pane"],
                "line": {"color": c["ink"], "width": 1},
                "pattern": {"shape": hatches[times], "fgcolor": c["ink"], "size": 6},
            },
            offsetgroup=f"{times} same",
        )
    figure.update_xaxes(title="predicted time per run ÷ as the hardware is")
    figure.update_yaxes(title="figure changed alone", autorange="reversed")
    figure.add_vline(x=1.0, line={"color": c["ink"], "width": 1})
    height = 170 + ROW * max(3, len(names))
    meta = least_height(len(names), ROW)
    return styled(figure, theme, title, height, bargap=0.3, barmode="group", meta=meta)


def _bars(
    times: list[tuple[Varied, float | None]], varied: VariedRows, key: str
) -> dict[str, object]:
    have = [(r, us) for r, us in times if us is not None]
    return {
        "x": [us / varied.us - 1 for _, us in have],
        "base": 1.0,
        "y": [r.name for r, _ in have],
        "orientation": "h",
        "customdata": [_words(r, us, varied) for r, us in have],
        "meta": {
            "k": [
                f"{key} figure:{varied.names.index(r.name)} {FACTOR_WORDS[r.times]}"
                for r, _ in have
            ]
        },
        "hovertemplate": "%{customdata}<extra>%{fullData.name}</extra>",
    }


def _words(r: Varied, us: float, varied: VariedRows) -> str:
    us_text, instead = time_text(us), time_text(varied.us)
    return f"{r.name} {number_text(r.value)}: predicted {us_text} instead of {instead}"


def _draw(s: OnShow, op: str) -> Drawn:
    controls = settings.figures(s.now.compiled, s.pinned.compiled)
    varied = s.clocked(NAME, "")
    words = table(controls, varied)
    return (varied, None, words) if varied is not None else ((), draw_table(words), words)


def _varied(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Halve and double each figure in turn."""
    c: Any = now.compiled  # `about` said that it is one of ours
    sizes, rows = dict(now.sizes), tuple[Varied, ...]()
    us, count = c.planned_wall(sizes).total_us, len(TIMES) * len(varied_figures(c))
    for row in vary_each(c, sizes):
        rows = (*rows, row)
        yield len(rows), count, VariedRows(c.device.name, us, rows)


def _about(s: OnShow, op: str) -> str | None:
    c = s.now.compiled
    return "" if isinstance(c, Compilation) and c.program.stage >= Stage.PLANNED else None


def _controls(s: OnShow, op: str) -> dict[str, Any]:
    """Return the controls: this machine can be measured."""
    c = s.now.compiled
    if not isinstance(c, Compilation) or not c.device.is_this_cpu:
        return dict(NOTHING_CHOSEN)
    why = "Measure its peak, its memory and what its kernels cost: some seconds"
    return {**NOTHING_CHOSEN, "actions": [["fit", "Fit to this machine", {}, why]]}


PICTURE = Picture(
    name=NAME,
    title="Hardware",
    words="Every figure of the device, to change, and its predicted effect on the time per run.",
    draw=_draw,
    chart=chart,
    family=Family("whatif", _controls),
    live="settings",
    clock=Clock("Halve and double each", _about, _varied, caption, code="none"),
    every="What if",
)
