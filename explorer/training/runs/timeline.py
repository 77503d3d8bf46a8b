"""What each thread of a training run did when."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Literal

What = Literal[
    "load", "wait", "compile", "run", "read", "save", "validate",
    "gradients", "forward", "backward", "reduce", "update",
]  # fmt: skip
PASSES: tuple[What, ...] = ("gradients", "forward", "backward")  # of a step of replicas
MOST = 20_000  # spans that are kept, the latest


@dataclass(frozen=True, slots=True)
class Span:
    """One thread did one thing for step `step`, from `begin` to `end`, in seconds since the start.

    "load": the next batch was made; "wait": for a batch that was not ready; "read": the host waited
    for a value that decides, while it ran the step. Of replicas also what a step did: "forward",
    "backward" ("gradients" where both are one program), "reduce" and "update"; `part` counts the
    parts of each, `bytes` are those that were summed, and `about` names the parameters.
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
        """How long it took."""
        return self.end - self.begin


@dataclass(slots=True)
class Timeline:
    """The spans of a run as they end, from any thread."""

    start: float = field(default_factory=perf_counter)
    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=MOST))

    @contextmanager
    def span(
        self, lane: str, what: What, step: int, part: int = 0, count: int = 0, about: str = ""
    ) -> Iterator[None]:
        """Notes how long the block takes, and that it is about `count` bytes; also where it
        raises.
        """
        begin = perf_counter() - self.start
        try:
            yield
        finally:
            end = perf_counter() - self.start
            self.spans.append(Span(lane, what, step, begin, end, part, count, about))

    def busy(self, *what: What) -> float:
        """Seconds that were spent on these."""
        return sum(s.seconds for s in tuple(self.spans) if s.what in what)

    @property
    def overlap(self) -> float:
        """The share of the shorter of both, making batches and running steps, that lies within the
        other; 0 where either took none.
        """
        spans = tuple(self.spans)
        loads, runs = ([s for s in spans if s.what == what] for what in ("load", "run"))
        shorter = min(sum(s.seconds for s in part) for part in (loads, runs))
        return common(loads, runs) / shorter if shorter > 0 else 0.0

    @property
    def hidden(self) -> float:
        """Of a replica: the share of its all-reduce that lies within its forward and backward
        passes; 0 where it took none.
        """
        spans = sorted(tuple(self.spans), key=lambda s: s.begin)
        sums = [s for s in spans if s.what == "reduce"]
        total = sum(s.seconds for s in sums)
        return common(sums, [s for s in spans if s.what in PASSES]) / total if total > 0 else 0.0


def common(first: Sequence[Span], second: Sequence[Span]) -> float:
    """Seconds that lie in a span of both; spans of one kind follow each other."""
    total, n = 0.0, 0
    for span in first:
        while n < len(second) and second[n].end <= span.begin:
            n += 1
        for other in islice(second, n, None):
            if other.begin >= span.end:
                break
            total += min(span.end, other.end) - max(span.begin, other.begin)
    return total
