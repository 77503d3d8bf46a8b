"""Timeline of each replica of a training run: passes, all-reduces, host reads, and updates.

All-reduces of late layers run under early layers' backward pass. The ordinary form, with sums after
the passes and host reads, can be shown next to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, median
from typing import TypeAlias

import plotly.graph_objects as go

from explorer.errors import BadOption
from explorer.plain_text import counted
from explorer.training import Fitted, Span, Timeline
from explorer.training.fitted import PASSES, What, common
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import Cell, Table, size_text

Run: TypeAlias = Sequence[Fitted | Timeline]  # one per replica
WORDS: dict[What, str] = {
    "gradients": "forward and backward pass",
    "forward": "forward pass",
    "backward": "backward pass, bucket by bucket",
    "reduce": "all-reduce of a bucket, waits included",
    "read": "the host reads whether all is finite",
    "update": "update",
}
TOKENS: dict[What, str] = {
    "gradients": "f-conv",
    "forward": "f-library-call",
    "backward": "f-conv",
    "reduce": "f-control-flow",
    "read": "bad",
    "update": "f-matmul",
}
HATCHES: dict[What, str] = {"reduce": "/", "update": "."}
LETTER, WIDE = 6.5, 560  # pixels of a letter, and of a narrow page's axis


@dataclass(frozen=True, slots=True)
class Bar:
    """One activity of a replica, from `begin_ms` on, in milliseconds since the step began."""

    replica: int
    what: What
    step: int
    begin_ms: float
    ms: float
    bytes: int
    about: str

    @property
    def beside(self) -> bool:
        """True if it runs concurrently with the passes, on a thread of its own."""
        return self.what == "reduce"

    @property
    def words(self) -> str:
        """The description in one line."""
        size = f", {size_text(self.bytes)}" if self.bytes else ""
        of = f" of {self.about}" if self.about else ""
        noun = WORDS[self.what].partition(",")[0].removesuffix(" of a bucket")
        return (
            f"replica {self.replica}, step {self.step}: {noun}{of}{size}, "
            f"{_ms(self.ms)} from {_ms(self.begin_ms)} on"
        )


@dataclass(frozen=True, slots=True)
class ReplicaRun:
    """A run: the bars of the shown steps, and medians over all its steps but the first.

    The medians are of the mean over replicas, in milliseconds: the step, its all-reduce, the part
    of that which lies within the passes of the same replica, and the reads of the host.
    """

    name: str
    replicas: int
    steps: int
    bars: tuple[Bar, ...]
    step_ms: float
    sums_ms: float
    hidden_ms: float
    read_ms: float

    @property
    def hidden(self) -> float:
        """The share of the all-reduce that lies within the passes."""
        return self.hidden_ms / self.sums_ms if self.sums_ms else 0.0

    @property
    def words(self) -> str:
        """The measurements in one line."""
        name = f"{self.name}: " if self.name else ""
        reads = f"its hosts read {_ms(self.read_ms)}" if self.read_ms else "no host reads"
        return (
            f"{name}{_ms(self.sums_ms)} of all-reduce and its waits, {self.hidden:.0%} of that "
            f"under the passes, {reads}, a step takes {_ms(self.step_ms)}"
        )


def data(
    runs: Run | Mapping[str, Run], steps: tuple[int, int] | None = None
) -> tuple[ReplicaRun, ...]:
    """Return the rows of one run, or of several by their names.

    They cover `steps`, the first and the last, else the step with the median time. Timestamps of
    processes are comparable if they have one clock (one machine). Raises BadOption if a run has no
    replica timestamps.
    """
    named_runs = runs if isinstance(runs, Mapping) else {"": runs}
    return tuple(_run(name, run, steps) for name, run in named_runs.items())


def _run(name: str, run: Run, steps: tuple[int, int] | None) -> ReplicaRun:
    lines = [r.timeline if isinstance(r, Fitted) else r for r in run]
    by_step = [_by_step(t) for t in lines]
    common_steps = sorted(set.intersection(*(set(b) for b in by_step))) if by_step else []
    timed_steps = common_steps[1:] or common_steps  # the first step includes warm-up
    if not timed_steps:
        raise BadOption(
            f"{name or 'the run'} has no stamps of replicas to show",
            where=name,
            expected="the results of `explorer.fit(..., ranks=...)` in each replica",
        )
    lengths = {n: fmean(_seconds(b[n], "run") for b in by_step) for n in timed_steps}
    middle = sorted(timed_steps, key=lambda n: lengths[n])[(len(timed_steps) - 1) // 2]
    first, last = steps or (middle, middle)
    shown = [n for n in common_steps if first <= n <= last]
    spans = [
        (r, t.start, s) for r, (t, b) in enumerate(zip(lines, by_step, strict=True))
        for n in shown for s in b[n] if s.what in WORDS
    ]  # fmt: skip
    begin = min((start + s.begin for _, start, s in spans), default=0.0)
    bars = [
        Bar(r, s.what, s.step, 1e3 * (start + s.begin - begin), 1e3 * s.seconds, s.bytes, s.about)
        for r, start, s in spans
    ]

    def typical(seconds: dict[int, list[float]]) -> float:
        return 1e3 * median(fmean(each) for each in seconds.values())

    return ReplicaRun(
        name,
        len(lines),
        len(timed_steps),
        tuple(sorted(bars, key=lambda b: (b.replica, b.beside, b.begin_ms))),
        1e3 * median(lengths.values()),
        typical({n: [_seconds(b[n], "reduce") for b in by_step] for n in timed_steps}),
        typical({n: [_hidden(b[n]) for b in by_step] for n in timed_steps}),
        typical({n: [_seconds(b[n], "read") for b in by_step] for n in timed_steps}),
    )


def _by_step(timeline: Timeline) -> dict[int, list[Span]]:
    """Return the spans of each step that was summed over replicas, ordered by their start."""
    spans_by_step: dict[int, list[Span]] = {}
    for span in sorted(tuple(timeline.spans), key=lambda s: s.begin):
        if span.what in WORDS or span.what == "run":
            spans_by_step.setdefault(span.step, []).append(span)
    required = ("run", "reduce")
    return {
        n: s for n, s in spans_by_step.items() if all(any(o.what == w for o in s) for w in required)
    }


def _seconds(spans: Sequence[Span], what: What) -> float:
    return sum(s.seconds for s in spans if s.what == what)


def _hidden(spans: Sequence[Span]) -> float:
    sums = [s for s in spans if s.what == "reduce"]
    return common(sums, [s for s in spans if s.what in PASSES])


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def caption(rows: Sequence[ReplicaRun]) -> str:
    """Describe each run in a sentence, and how they compare."""
    first = rows[0]
    of = f"medians of {counted(first.steps, 'step')}, {counted(first.replicas, 'replica')}"
    return "; ".join((*(r.words for r in rows), f"measured, {of}"))


def table(rows: Sequence[ReplicaRun]) -> Table:
    """Return one row per bar, run by run and replica by replica, the passes before the sums."""
    columns = ("run", "replica", "step", "what", "of", "begin (ms)", "took (ms)", "bytes")
    lines: list[tuple[Cell, ...]] = [
        (r.name, b.replica, b.step, WORDS[b.what], b.about, b.begin_ms, b.ms, b.bytes or "")
        for r in rows
        for b in r.bars
    ]
    return Table(columns, tuple(lines), (), caption(rows))


def replicas(
    runs: Run | Mapping[str, Run], *, steps: tuple[int, int] | None = None, theme: str = "either"
) -> go.Figure:
    """Plot two rows per replica, its passes and its sums, in milliseconds since the step began.

    They cover `steps`, the first and the last, else the step with the median time. `runs`: the
    results of `explorer.fit(..., ranks=...)` of each replica, or several such by name; their
    `timeline`s work too, as processes send them. Raises BadOption if there is nothing to show.
    """
    rows = data(runs, steps)
    head, *subtitles = escape(caption(rows), quote=False).split("; ")
    title = f'{head}<br><span style="font-size:12px">{"<br>".join(subtitles)}</span>'
    figure = chart(rows, title, theme)
    down = 18 * len(subtitles)  # pixels of the title's lines
    legend_y = 1 - (32 + down) / figure.layout.height
    return figure.update_layout(margin_t=104 + down, legend_y=legend_y)


def chart(rows: Sequence[ReplicaRun], title: str, theme: str) -> go.Figure:
    """Plot the bars of each run under its name, on one clock."""
    c, figure = colours(theme), go.Figure()
    places = dict(_places(rows))
    total = max((b.begin_ms + b.ms for r in rows for b in r.bars), default=1.0)
    for what, word in WORDS.items():
        mine = [(r, b) for r in rows for b in r.bars if b.what == what]
        if mine:
            figure.add_trace(_bars(what, word, mine, places, total, c))
    labels = {at: _label(replica, beside) for (_, replica, beside), at in places.items()}
    figure.update_xaxes(title="time since the step began (ms), measured", rangemode="tozero")
    count = sum(2 * r.replicas + 1 for r in rows)
    figure.update_yaxes(
        title="thread", tickmode="array", tickvals=list(labels), ticktext=list(labels.values()),
        range=[count - 0.3, -0.7], showgrid=False,
        zeroline=False,
    )  # fmt: skip
    for r in rows:
        figure.add_annotation(
            text=f"<b>{escape(r.name, quote=False)}</b>", x=0, y=places[r.name, 0, False] - 0.8,
            xref="paper", yref="y", xanchor="left", yanchor="middle", showarrow=False,
        )  # fmt: skip
    least = least_height(count, 26)
    return styled(figure, theme, title, 234 + 26 * count, barmode="overlay", meta=least)


def _places(rows: Sequence[ReplicaRun]) -> Iterator[tuple[tuple[str, int, bool], float]]:
    """Yield the y of each row, by run, replica, and True for the row of sums."""
    at = 1.0
    for r in rows:
        for replica in range(r.replicas):
            for beside in (False, True):
                yield (r.name, replica, beside), at - (0.14 if beside else 0)
                at += 1
        at += 1


def _label(replica: int, beside: bool) -> str:
    return "sums" if beside else f"replica {replica}"


def _bars(
    what: What,
    word: str,
    mine: Sequence[tuple[ReplicaRun, Bar]],
    places: Mapping[tuple[str, int, bool], float],
    total: float,
    c: dict[str, str],
) -> go.Bar:
    edge = c["bad"] if what == "read" else c["pane"]  # reads are short, so they are outlined
    return go.Bar(
        orientation="h",
        name=word,
        y=[places[r.name, b.replica, b.beside] for r, b in mine],
        base=[b.begin_ms for _, b in mine],
        x=[b.ms for _, b in mine],
        width=0.92 if what == "read" else 0.72,
        marker={
            "color": c[TOKENS[what]],
            "line": {"color": edge, "width": 2 if what == "read" else 1},
            "pattern": {
                "shape": HATCHES.get(what, ""),
                "fillmode": "overlay",
                "fgcolor": c["hatch"],
                "fgopacity": 0.35,
                "size": 6,
                "solidity": 0.15,
            },
        },
        text=[_fits(b, total) for _, b in mine],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"color": c["hatch" if what == "reduce" else "hatch2"], "size": 11},
        customdata=[f"{r.name}, {b.words}" if r.name else b.words for r, b in mine],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _fits(bar: Bar, total: float) -> str:
    """Return the parameters of a bar, shortened to fit, or ""."""
    first, *others = bar.about.split(", ")
    room = bar.ms / total * WIDE / LETTER
    for text in (bar.about, f"{first} and {len(others)} more", f"{first} …"):
        if len(text) + 1 <= room:
            return text
    return ""
