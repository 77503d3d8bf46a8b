"""Timeline of each replica of a training run: passes, all-reduces, host reads, and updates.

Several runs are compared from the start of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeAlias

from explorer.errors import BadOption
from explorer.training import Fitted, Span, Timeline
from explorer.training.runs.timeline import PASSES, What, common
from widgets.draw.table import Cell, Table, count_text, size_text

Run: TypeAlias = Sequence[Fitted | Timeline]  # one per replica
WORDS: dict[What, str] = {
    "gradients": "forward and backward pass",
    "forward": "forward pass",
    "backward": "backward pass, bucket by bucket",
    "reduce": "all-reduce of a bucket, waits included",
    "read": "the host reads whether all is finite",
    "update": "update",
}


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
    counted = common_steps[1:] or common_steps  # the first step includes warm-up
    if not counted:
        raise BadOption(
            f"{name or 'the run'} has no stamps of replicas to show",
            where=name,
            expected="the results of `explorer.fit(..., ranks=...)` in each replica",
        )
    lengths = {n: fmean(_seconds(b[n], "run") for b in by_step) for n in counted}
    middle = sorted(counted, key=lambda n: lengths[n])[(len(counted) - 1) // 2]
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
        len(counted),
        tuple(sorted(bars, key=lambda b: (b.replica, b.beside, b.begin_ms))),
        1e3 * median(lengths.values()),
        typical({n: [_seconds(b[n], "reduce") for b in by_step] for n in counted}),
        typical({n: [_hidden(b[n]) for b in by_step] for n in counted}),
        typical({n: [_seconds(b[n], "read") for b in by_step] for n in counted}),
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
    of = f"medians of {count_text(first.steps, 'step')}, {count_text(first.replicas, 'replica')}"
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
