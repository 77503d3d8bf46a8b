"""The wall of requests that run together: rows of the caches down, time along, a colour each."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby

import plotly.graph_objects as go

from explorer.errors import BadOption
from explorer.generation.generated_many import GeneratedMany, Kind
from explorer.plain_text import counted
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import Table

TOKENS = (
    "f-conv",
    "f-control-flow",
    "f-matmul",
    "f-reduction",
    "f-layout",
    "f-elementwise",
    "f-library-call",
)  # of requests in turn; two that follow one another in a row differ
INKS = {"f-conv": "hatch2", "f-library-call": "hatch2"}  # "hatch" on the others
KINDS: dict[Kind, str] = {"prefill": "prefill, a chunk", "decode": "decode, a token"}
MOST_BRICKS = 1500  # above, steps without a pause are joined: each is an element of the page
MOST_NAMES = 12  # requests in the legend; the numbers of others stand on their bricks
LETTER, WIDE = 7.5, 560  # pixels of a digit, and of a narrow page's axis


@dataclass(frozen=True, slots=True)
class Brick:
    """Steps of a request in a row, from `begin_ms` on: `tokens` are read or added by `steps`."""

    row: int
    request: int
    kind: Kind
    steps: int
    tokens: int
    begin_ms: float
    ms: float

    @property
    def words(self) -> str:
        """The description in one line."""
        steps = f" in {counted(self.steps, 'step')}" if self.steps > 1 else ""
        return (
            f"request {self.request}, row {self.row}: {self.kind} of "
            f"{counted(self.tokens, 'token')}{steps}, {_ms(self.ms)} from {_ms(self.begin_ms)} on"
        )


def data(result: GeneratedMany, most: int = MOST_BRICKS) -> tuple[Brick, ...]:
    """Return a brick for each row of each step, by request and then by time.

    If there are more than `most`, decode steps without a chunk between are one brick. Raises
    BadOption if no step was run.
    """
    bricks = [
        Brick(row, request, s.kind, 1, s.tokens, 1e3 * s.begin, 1e3 * (s.end - s.begin))
        for s in result.schedule
        for row, request in zip(s.rows, s.requests, strict=True)
    ]
    if not bricks:
        raise BadOption(
            "there are no steps to show", expected="a result of `explorer.generate_many`"
        )
    bricks.sort(key=lambda b: (b.request, b.begin_ms))
    return tuple(bricks) if len(bricks) <= most else joined(result, bricks)


def joined(result: GeneratedMany, bricks: Sequence[Brick]) -> tuple[Brick, ...]:
    """Join the decode steps of a request between which no chunk was read."""
    chunks = [1e3 * s.begin for s in result.schedule if s.kind == "prefill"]

    def run(brick: Brick) -> tuple[int, Kind, int]:
        return brick.request, brick.kind, bisect(chunks, brick.begin_ms)

    runs = (list(run) for _, run in groupby(bricks, key=run))
    return tuple(
        replace(
            run[0],
            steps=sum(b.steps for b in run),
            tokens=sum(b.tokens for b in run),
            ms=run[-1].begin_ms + run[-1].ms - run[0].begin_ms,
        )
        for run in runs
    )


def _ms(value: float) -> str:
    return f"{value:,.1f} ms" if value >= 10 else f"{value:.2f} ms"


def caption(result: GeneratedMany) -> str:
    """Describe the figures, and what the time went to."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for step in result.schedule:
        seconds[step.kind] += step.end - step.begin
    total = result.schedule[-1].end if result.schedule else 0.0
    other = total - sum(seconds.values())
    parts = ", ".join(f"{_ms(1e3 * s)} of {kind}" for kind, s in seconds.items())
    return (
        f"{result.first_line}; measured: {parts}, {_ms(1e3 * other)} of sampling, text and waits "
        "for arrivals"
    )


def table(result: GeneratedMany) -> Table:
    """Return a row for each step."""
    columns = ("step", "kind", "rows", "requests", "tokens", "begin (ms)", "took (ms)")
    lines = tuple(
        (n, s.kind, _list(s.rows), _list(s.requests), s.tokens * len(s.rows), 1e3 * s.begin,
         1e3 * (s.end - s.begin))
        for n, s in enumerate(result.schedule)
    )  # fmt: skip
    return Table(columns, lines, (), caption(result))


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def figure(result: GeneratedMany, theme: str = "either") -> go.Figure:
    """Plot the wall with its caption as title."""
    head, *subtitles = escape(caption(result), quote=False).split("; ")
    title = f'{head}<br><span style="font-size:12px">{"<br>".join(subtitles)}</span>'
    drawn = chart(result, title, theme)
    down = 18 * len(subtitles)  # pixels of the title's lines
    legend_y = 1 - (32 + down) / drawn.layout.height
    return drawn.update_layout(margin_t=104 + down, legend_y=legend_y)


def chart(result: GeneratedMany, title: str, theme: str) -> go.Figure:
    """Plot bricks in the rows of the caches, in milliseconds; those of a prefill are hatched."""
    bricks, c, figure = data(result), colours(theme), go.Figure()
    requests = sorted({b.request for b in bricks})
    named = len(requests) <= MOST_NAMES
    for kind, word in KINDS.items():
        figure.add_trace(_bars([], kind, c["idle"], c["pane"], c, name=word, showlegend=True))
    for request in requests:
        token = TOKENS[request % len(TOKENS)]
        ink, name = c[INKS.get(token, "hatch")], f"request {request}"
        by_kind = {k: [b for b in bricks if (b.request, b.kind) == (request, k)] for k in KINDS}
        last = [kind for kind, mine in by_kind.items() if mine][-1]
        for kind, mine in by_kind.items():
            if mine:
                trace = _bars(
                    mine, kind, c[token], ink, c, name=name, legendgroup=name,
                    showlegend=named and kind == last,
                )  # fmt: skip
                figure.add_trace(trace)
    _add_numbers(figure, joined(result, bricks), c)
    count = 1 + max(b.row for b in bricks)
    figure.update_xaxes(title="time since the start (ms), measured", rangemode="tozero")
    figure.update_yaxes(
        title="row of the caches", tickmode="array", tickvals=list(range(count)),
        ticktext=[f"row {n}" for n in range(count)], range=[count - 0.4, -0.6], showgrid=False,
        zeroline=False,
    )  # fmt: skip
    least = least_height(count, 30)
    return styled(figure, theme, title, 234 + 30 * count, barmode="overlay", meta=least)


def _bars(
    bricks: Sequence[Brick], kind: Kind, colour: str, ink: str, c: dict[str, str], **more: object
) -> go.Bar:
    """Return bricks of a kind as bars; none are an entry of the legend."""
    return go.Bar(
        orientation="h",
        y=[b.row for b in bricks] or [0],
        base=[b.begin_ms for b in bricks] or [0],
        x=[b.ms for b in bricks] or [0],
        width=0.76,
        marker={
            "color": colour,
            "line": {"color": c["pane"], "width": 0.5},
            "pattern": {
                "shape": "/" if kind == "prefill" else "",
                "fillmode": "overlay",
                "fgcolor": ink,
                "fgopacity": 0.5,
                "size": 6,
                "solidity": 0.2,
            },
        },
        customdata=[b.words for b in bricks] or None,
        hovertemplate="%{customdata}<extra></extra>" if bricks else None,
        hoverinfo=None if bricks else "skip",
        **more,
    )


def _add_numbers(figure: go.Figure, runs: Sequence[Brick], c: dict[str, str]) -> None:
    """Write each request's number over the widest of its bricks, if that has the room."""
    total = max(b.begin_ms + b.ms for b in runs)
    widest = {b.request: b for b in sorted(runs, key=lambda b: b.ms)}
    fitting = {
        n: (b.row, b.begin_ms + b.ms / 2)
        for n, b in sorted(widest.items())
        if b.ms / total * WIDE >= LETTER * len(str(n))
    }
    inks = [c[INKS.get(TOKENS[n % len(TOKENS)], "hatch")] for n in fitting]
    figure.add_scatter(
        x=[x for _, x in fitting.values()],
        y=[row for row, _ in fitting.values()],
        text=[f"<b>{n}</b>" for n in fitting],
        mode="text",
        textfont={"size": 13, "color": inks},
        hoverinfo="skip",
        showlegend=False,
    )
