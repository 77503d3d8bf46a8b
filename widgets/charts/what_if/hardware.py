"""The predicted time with half and with twice of each hardware figure, as a plotly figure."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.stepping.other_hardware import TIMES, Varied
from widgets.draw.plots import colours, least_height, number_text, styled
from widgets.draw.table import time_text
from widgets.what_if.hardware import FACTOR_WORDS, LEAST, VariedRows

ROW = 48  # pixels of a figure: four bars


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
