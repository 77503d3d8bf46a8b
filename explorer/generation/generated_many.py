"""Requests that run together, and the result: continuations, latencies, and the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from explorer.errors import BadOption
from explorer.generation.generated import Continuation
from explorer.generation.sampling import Sampling
from explorer.plain_text import counted
from explorer.printed import Printed

Kind = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, a text or token ids, which arrives at `arrival` and gets at most `tokens` tokens.

    `stop` are texts that end it. The other fields are those of `Sampling`.
    """

    prompt: str | Sequence[int]
    tokens: int = 128
    arrival: float = 0.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    stop: str | Sequence[str] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of range."""
        if type(self.tokens) is not int or self.tokens < 1:
            raise BadOption(f"tokens must be a whole number, 1 or more, found {self.tokens!r}")
        if not 0 <= self.arrival < np.inf:
            raise BadOption(f"arrival must be a finite number, 0 or more, found {self.arrival!r}")
        if not isinstance(self.prompt, str) and not all(
            isinstance(n, int | np.integer) for n in self.prompt
        ):
            raise BadOption("a request has one prompt, a text or token ids", where="prompt")
        _ = self.sampling

    @property
    def sampling(self) -> Sampling:
        """How its tokens are drawn."""
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts that end it."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """A run of the program, from `begin` to `end` in seconds: `rows[i]` served `requests[i]`.

    A prefill reads `tokens` tokens of one prompt. A decode step adds a token to each row.
    """

    kind: Kind
    rows: tuple[int, ...]
    requests: tuple[int, ...]
    tokens: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Latency:
    """A request's arrival, the start of its prefill, and each token, in seconds.

    They are NaN and no tokens where the request ended before them.
    """

    arrival: float
    begin: float
    tokens: tuple[float, ...]

    @property
    def to_first_token(self) -> float:
        """Seconds from arrival to the first token; NaN without one."""
        return self.tokens[0] - self.arrival if self.tokens else float("nan")

    @property
    def between_tokens(self) -> tuple[float, ...]:
        """Seconds from each token to the next one."""
        return tuple(after - before for before, after in pairwise(self.tokens))


@dataclass(frozen=True, repr=False)
class GeneratedMany(Printed):
    """The continuation and the latency of each request in order, and all steps that made them.

    Seconds count from the start. They contain sampling, text and the growth of caches; planning a
    program for shapes that are new to it is not in them. `room` is the rows of tokens that each
    cache had at the end.
    """

    continuations: tuple[Continuation, ...]
    latencies: tuple[Latency, ...]
    schedule: tuple[ScheduledStep, ...]
    room: int

    @property
    def seconds(self) -> float:
        """Seconds from the first arrival to the last token."""
        ends = [t for latency in self.latencies for t in latency.tokens[-1:]]
        begins = [latency.arrival for latency in self.latencies if latency.tokens]
        return max(ends) - min(begins) if ends else 0.0

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all requests in a second."""
        count = sum(len(c.ids) for c in self.continuations)
        return count / self.seconds if count else 0.0

    def to_first_token(self, percent: float = 50) -> float:
        """Return a percentile over requests of seconds to the first token; NaN without tokens."""
        return percentile([n.to_first_token for n in self.latencies if n.tokens], percent)

    def between_tokens(self, percent: float = 50) -> float:
        """Return a percentile over all tokens of seconds since the token before; NaN without."""
        return percentile([s for n in self.latencies for s in n.between_tokens], percent)

    @property
    def first_line(self) -> str:
        """Counts and figures of all requests."""
        count = sum(len(c.ids) for c in self.continuations)
        first, between = (
            " and ".join(_ms(of(p)) for p in (50, 95))
            for of in (self.to_first_token, self.between_tokens)
        )
        return (
            f"{counted(len(self.continuations), 'request')}: {counted(count, 'token')} in "
            f"{counted(len(self.schedule), 'step')} at {self.tokens_per_second:,.1f} tokens/s, "
            f"first token after {first}, tokens {between} apart (p50 and p95)"
        )

    def __str__(self) -> str:
        """Return the figures, then those of each request with its text or tokens."""
        rows = zip(self.continuations, self.latencies, strict=True)
        return "\n".join((self.first_line, *(f"  {n}: {_row(*row)}" for n, row in enumerate(rows))))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile, interpolated; NaN of no values."""
    return float(np.percentile(values, percent)) if values else float("nan")


def _row(continuation: Continuation, latency: Latency) -> str:
    """Describe a request in a line."""
    between = " and ".join(_ms(percentile(latency.between_tokens, p)) for p in (50, 95))
    text = continuation.text or " ".join(map(str, continuation.ids))
    return (
        f"{counted(len(continuation.ids), 'token')}, first after {_ms(latency.to_first_token)}, "
        f"{between} apart, {continuation.stopped}: {text}"
    )


def _ms(seconds: float) -> str:
    """Return milliseconds; a dash for NaN."""
    return "—" if seconds != seconds else f"{1e3 * seconds:,.1f} ms"
