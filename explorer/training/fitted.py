"""Results of a training run, and the timeline of its threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any, Literal

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.printed import Printed

What = Literal[
    "load", "wait", "compile", "run", "read", "save", "validate",
    "gradients", "forward", "backward", "reduce", "update",
]  # fmt: skip
PASSES: tuple[What, ...] = ("gradients", "forward", "backward")  # passes of a replica's step
MOST_SPANS = 20_000  # latest spans that are stored


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data: the mean loss of its steps, and the validation results after it."""

    number: int
    loss: float
    validated: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """An activity of one thread for step `step`, from `begin` to `end`, in seconds since the start.

    "load": making the next batch; "wait": for a batch that was not ready; "read": the host waits
    for a value that decides the step. Replicas also have "forward", "backward" ("gradients" if both
    are one program), "reduce" and "update"; `part` numbers the parts of each, `bytes` were summed,
    `about` names the parameters.
    """

    lane: str
    what: What
    step: int
    begin: float
    end: float
    part: int = 0
    bytes: int = 0
    about: str = ""

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end - self.begin


@dataclass(slots=True)
class Timeline:
    """The spans of a run in the order of their ends, from any thread."""

    start: float = field(default_factory=perf_counter)
    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=MOST_SPANS))

    @contextmanager
    def span(
        self, lane: str, what: What, step: int, part: int = 0, count: int = 0, about: str = ""
    ) -> Iterator[None]:
        """Record the duration of the block, also if it raises; it processes `count` bytes."""
        begin = perf_counter() - self.start
        try:
            yield
        finally:
            end = perf_counter() - self.start
            self.spans.append(Span(lane, what, step, begin, end, part, count, about))

    def busy(self, *what: What) -> float:
        """Return the seconds spent on these activities."""
        return sum(s.seconds for s in tuple(self.spans) if s.what in what)

    @property
    def overlap(self) -> float:
        """The overlap of making batches and running steps, as a share of the shorter of both.

        It is 0 if either took no time.
        """
        spans = tuple(self.spans)
        loads, runs = ([s for s in spans if s.what == what] for what in ("load", "run"))
        shorter = min(sum(s.seconds for s in part) for part in (loads, runs))
        return common(loads, runs) / shorter if shorter > 0 else 0.0

    @property
    def hidden(self) -> float:
        """The share of a replica's all-reduce within its forward and backward passes.

        It is 0 without an all-reduce.
        """
        spans = sorted(tuple(self.spans), key=lambda s: s.begin)
        sums = [s for s in spans if s.what == "reduce"]
        total = sum(s.seconds for s in sums)
        return common(sums, [s for s in spans if s.what in PASSES]) / total if total > 0 else 0.0


def common(first: Sequence[Span], second: Sequence[Span]) -> float:
    """Return the seconds of overlap between two sequences of disjoint, sorted spans."""
    total, n = 0.0, 0
    for span in first:
        while n < len(second) and second[n].end <= span.begin:
            n += 1
        for other in islice(second, n, None):
            if other.begin >= span.end:
                break
            total += min(span.end, other.end) - max(span.begin, other.begin)
    return total


@dataclass(slots=True, repr=False)
class Fitted(Printed):
    """Parameters and state after `step` steps, with the run's history.

    The last step was in epoch `epoch`, `batch` batches into it. `losses` has one entry a step;
    `epochs` holds validation results; `timeline` shows which thread did what when. `stopped` is why
    the run ended: "done", "cancelled" or "no better". `program` is the compiled step of the last
    batch, None before the first; it is the gradient program if the update is another one, and the
    first of these if a replica has several.
    """

    params: Any
    state: Any
    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    step: int = 0
    epoch: int = 0
    batch: int = 0
    stopped: str = ""
    timeline: Timeline = field(default_factory=Timeline)
    program: Compilation | None = None

    @property
    def skipped(self) -> int:
        """The number of steps that were skipped because a gradient was not finite."""
        return self.step - int(np.asarray(self.state["optimizer"]["step"]))

    @property
    def loss(self) -> float:
        """The loss of the last step; NaN before the first."""
        return self.losses[-1] if self.losses else float("nan")

    def __str__(self) -> str:
        """Return steps, epochs and the last loss in a line."""
        after = f"{self.step} steps, {self.epoch} epochs"
        return f"{after}: loss {self.loss:.6g}{f', {self.skipped} skipped' if self.skipped else ''}"
