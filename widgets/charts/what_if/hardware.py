"""What a run would take with half and with twice of each figure of the hardware, as a plotly
figure.
"""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.stepping.other_hardware import TIMES, Varied
from widgets.draw.plots import colours, number_text, rows_high, styled
from widgets.draw.table import time_text
from widgets.what_if.hardware import LEAST, SIDE, VariedRows

ROW = 48  # pixels of a figure: four bars


def chart(found: VariedRows, title: str, theme: str) -> go.Figure:
    """A row a figure: from the time as it is to the time with half of it and with twice of it, of
    the same program (hatched) and of one compiled anew (filled). All are predictions.
    """
    c, figure = colours(theme), go.Figure()
    names = [n for n in found.names if found.effect(n) > LEAST]
    fills, hatches = dict(zip(TIMES, (c["t1"], c["t2"]))), dict(zip(TIMES, "/."))
    for times in TIMES:
        rows = [r for n in names if (r := found.of(n, times)) is not None]
        word = "half of it" if times < 1 else "twice of it"
        figure.add_bar(
            **_bars([(r, r.anew_us) for r in rows], found, "anew"),
            name=f"{word}, compiled anew",
            marker={"color": fills[times], "line": {"color": c["line2"], "width": 1}},
            offsetgroup=str(times),
        )
        figure.add_bar(
            **_bars([(r, r.same_us) for r in rows], found, "same"),
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
    meta = rows_high(len(names), ROW)
    return styled(figure, theme, title, height, bargap=0.3, barmode="group", meta=meta)


def _bars(
    times: list[tuple[Varied, float | None]], found: VariedRows, key: str
) -> dict[str, object]:
    have = [(r, us) for r, us in times if us is not None]
    return {
        "x": [us / found.us - 1 for _, us in have],
        "base": 1.0,
        "y": [r.name for r, _ in have],
        "orientation": "h",
        "customdata": [_words(r, us, found) for r, us in have],
        "meta": {
            "k": [f"{key} figure:{found.names.index(r.name)} {SIDE[r.times]}" for r, _ in have]
        },
        "hovertemplate": "%{customdata}<extra>%{fullData.name}</extra>",
    }


def _words(r: Varied, us: float, found: VariedRows) -> str:
    us_text, instead = time_text(us), time_text(found.us)
    return f"{r.name} {number_text(r.value)}: predicted {us_text} instead of {instead}"
