"""Many requests on one language model: rows join and leave the running batch between steps.

Scheduling by iteration is Orca's (Yu et al. 2022, section 3.1). A prompt is read in chunks between
the steps of the other rows, after Sarathi (Agrawal et al. 2023), so none waits for more than one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from os import PathLike
from time import perf_counter, sleep
from typing import Literal

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.generation.generate import (
    DECODE,
    LEAST_CHUNK,
    MOST_ROWS,
    PAGE,
    PREFILL,
    check_length,
    decoder_config,
    language_compilation,
    lengthened,
    open_vocabulary,
    plan_for,
    prompt_tokens,
    round_up,
    take_token,
)
from explorer.generation.generated import Continuation, Stopped, Token
from explorer.generation.generated_many import GeneratedMany, Kind, Latency, Request, ScheduledStep
from explorer.generation.sampling import Sampling
from explorer.generation.text_stream import TextStream

LONGEST_SLEEP = 0.01  # seconds until a cancelled request is noticed while none runs; chosen


def generate_many(
    model: str | PathLike[str] | LanguageModel | Compilation,
    requests: Iterable[Request],
    *,
    most_rows: int = 8,
    chunk: int = 64,
    arrivals: Literal["seconds", "steps"] = "seconds",
    on_token: Callable[[Token], object] | None = None,
    options: Options | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Callable[[int], bool] | None = None,
) -> GeneratedMany:
    """Continue many prompts with continuous batching: requests join and leave between steps.

    Each iteration reads at most one chunk of a prompt, of the request that has waited longest, then
    adds a token to every row whose prompt is read. A request that ends leaves its row of the caches
    to the next one. Greedy tokens are those of `explorer.generate` for the request alone, and so
    are drawn ones with the same seed, up to rounding.

    Args:
        model: As for `explorer.generate`.
        requests: In any order; they get rows in the order of their arrivals.
        most_rows: Requests that run at the same time, 1 to 16.
        chunk: Tokens of a prompt that are read between two decode steps, a multiple of 16.
        arrivals: The unit of `Request.arrival` since the start: seconds, or iterations.
        on_token: Called with each `Token` as soon as it is known; `row` is the request's index.
        options: The options to compile with.
        progress: Called as `progress(step, done, steps)` while the model is compiled.
        cancelled: Asked with the index of each unfinished request before an iteration. A request
            for which it returns True ends with the tokens so far; Ctrl-C ends all.

    Returns:
        The continuations, their latencies and the schedule.

    Raises:
        BadModelFile, BadOption, TooLarge: The file, a request or an option is wrong.
    """
    if type(most_rows) is not int or not 1 <= most_rows <= MOST_ROWS:
        raise BadOption(f"most_rows must be 1 to {MOST_ROWS}, found {most_rows!r}")
    if type(chunk) is not int or chunk < LEAST_CHUNK or chunk % LEAST_CHUNK:
        raise BadOption(f"chunk must be a multiple of {LEAST_CHUNK}, found {chunk!r}")
    if arrivals not in ("seconds", "steps"):
        raise BadOption(f'arrivals must be "seconds" or "steps", found {arrivals!r}')
    c, language = language_compilation(model, options, progress, None)
    jobs = _jobs(language, tuple(requests))
    batch = _Batch(c, language, jobs, most_rows, chunk, arrivals)
    with suppress(KeyboardInterrupt):
        batch.run(on_token, cancelled)
    return GeneratedMany(
        tuple(job.continuation for job in jobs),
        tuple(Latency(job.arrival, job.begin, tuple(job.times)) for job in jobs),
        tuple(batch.schedule),
        batch.room,
    )


@dataclass(eq=False, slots=True)
class _Job:
    """A request while it waits and runs."""

    index: int
    request: Request
    sampling: Sampling
    stream: TextStream
    random: np.random.Generator
    unread: np.ndarray  # tokens of its prompt, after padding
    at: int  # the position of its next token; negative in padding
    arrival: float = float("nan")
    begin: float = float("nan")
    times: list[float] = field(default_factory=list)  # of its tokens
    stopped: Stopped | None = None

    @property
    def is_read(self) -> bool:
        """True if the caches have all of its prompt."""
        return not len(self.unread)

    @property
    def continuation(self) -> Continuation:
        """The tokens so far."""
        return Continuation(tuple(self.stream.ids), self.stream.text, self.stopped or "cancelled")


def _jobs(language: LanguageModel, requests: Sequence[Request]) -> list[_Job]:
    """Return a job for each request; raise BadOption, naming the request that is wrong."""
    prompts = [request.prompt for request in requests]
    stops = [stop for request in requests for stop in request.stops]
    vocabulary = open_vocabulary(language, prompts, stops)
    jobs = []
    for index, request in enumerate(requests):
        try:
            (prompt,) = prompt_tokens(request.prompt, language, vocabulary)
            check_length(language, len(prompt) + request.tokens)
        except BadOption as error:
            raise BadOption(f"requests[{index}]: {error.sentence}", where="requests") from error
        has_text = isinstance(request.prompt, str) or request.stops
        stream = TextStream(vocabulary if has_text else None, request.stops)
        random = np.random.default_rng(request.seed)
        padding = -len(prompt) % LEAST_CHUNK
        unread = np.array([0] * padding + prompt, np.int64)
        jobs.append(_Job(index, request, request.sampling, stream, random, unread, -padding))
    return jobs


class _Batch:
    """The rows of the caches, the requests that wait for them, and the clock."""

    def __init__(
        self,
        c: Compilation,
        language: LanguageModel,
        jobs: Sequence[_Job],
        most_rows: int,
        chunk: int,
        arrivals: Literal["seconds", "steps"],
    ) -> None:
        """Begin with empty rows."""
        self.c, self.language, self.chunk, self.arrivals = c, language, chunk, arrivals
        self.most_rows = most_rows
        self.coming = deque(sorted(jobs, key=lambda job: job.request.arrival))
        self.waiting: deque[_Job] = deque()
        self.rows: list[_Job | None] = [None] * min(most_rows, len(jobs))
        lengths = (job.at + len(job.unread) + job.request.tokens for job in jobs)
        self.most = round_up(max(lengths, default=1), PAGE)  # tokens that a cache may need
        self.room = min(2 * PAGE, self.most)
        config = decoder_config(language)
        shape = (len(self.rows), config.groups, self.room, config.each)
        self.caches = {n: np.zeros(shape, np.float32) for n in language.caches}
        self.schedule: list[ScheduledStep] = []
        self.iterations = 0
        self.start = perf_counter()

    def run(
        self, on_token: Callable[[Token], object] | None, cancelled: Callable[[int], bool] | None
    ) -> None:
        """Serve all requests."""
        while self.coming or self.waiting or any(self.rows):
            if cancelled is not None:
                self._end_cancelled(cancelled)
            self._admit()
            if any(self.rows):
                self._read_chunk(on_token)
                self._decode(on_token)
                self.iterations += 1
            elif self.coming:
                self._wait()

    def _seconds(self) -> float:
        return perf_counter() - self.start

    def _end_cancelled(self, cancelled: Callable[[int], bool]) -> None:
        """Drop the requests that the user gave up; their rows are free."""
        self.coming = deque(job for job in self.coming if not cancelled(job.index))
        self.waiting = deque(job for job in self.waiting if not cancelled(job.index))
        self.rows = [None if job and cancelled(job.index) else job for job in self.rows]

    def _admit(self) -> None:
        """Give free rows to the requests that have arrived, in the order of their arrivals."""
        in_seconds = self.arrivals == "seconds"
        now = self._seconds()
        while self.coming and self.coming[0].request.arrival <= (
            now if in_seconds else self.iterations
        ):
            job = self.coming.popleft()
            job.arrival = job.request.arrival if in_seconds else now
            self.waiting.append(job)
        while self.waiting and None in self.rows:
            job, row = self.waiting.popleft(), self.rows.index(None)
            job.begin, self.rows[row] = now, job
            for cache in self.caches.values():
                cache[row] = 0  # a NaN of the request before would spread, as 0 * NaN

    def _wait(self) -> None:
        """Wait for the next arrival, or for the next look at cancelled requests."""
        arrival = self.coming[0].request.arrival
        if self.arrivals == "steps":
            self.iterations = ceil(arrival)
        else:
            sleep(min(LONGEST_SLEEP, max(0.0, arrival - self._seconds())))

    def _read_chunk(self, on_token: Callable[[Token], object] | None) -> None:
        """Read a chunk of the first prompt that is not read, and draw its token after the last."""
        reading = [(job.arrival, job.index, row) for row, job in self._in_use() if not job.is_read]
        if not reading:
            return
        row = min(reading)[2]
        job = self.rows[row]
        assert job is not None, "it is being read"
        count = len(job.unread) % self.chunk or self.chunk
        ids, job.unread = job.unread[:count], job.unread[count:]
        scores = self._step(PREFILL, (row,), ids[None], np.array([job.at]))
        job.at += count
        if job.is_read:
            self._take(row, job, scores, on_token)

    def _decode(self, on_token: Callable[[Token], object] | None) -> None:
        """Add a token to every row whose prompt is read.

        The rows between the first and the last of these run too, at a position outside of the
        caches.
        """
        jobs = {row: job for row, job in self._in_use() if job.is_read}
        if not jobs:
            return
        first, count = min(jobs), max(jobs) + 1 - min(jobs)
        ids, at = np.zeros((count, 1), np.int64), np.full(count, -1)
        for row, job in jobs.items():
            ids[row - first], at[row - first] = job.stream.ids[-1], job.at
        scores = self._step(DECODE, tuple(jobs), ids, at)
        for row, job in jobs.items():
            job.at += 1
            self._take(row, job, scores[row - first, None], on_token)

    def _in_use(self) -> Iterator[tuple[int, _Job]]:
        """Yield the rows in use with their requests."""
        return ((row, job) for row, job in enumerate(self.rows) if job is not None)

    def _take(
        self,
        row: int,
        job: _Job,
        scores: np.ndarray,
        on_token: Callable[[Token], object] | None,
    ) -> None:
        """Draw a request's next token, and free its row if it ends there."""
        token_id = int(job.sampling.draw(scores, job.random)[0])
        job.times.append(self._seconds())
        tokens = job.request.tokens
        job.stopped = take_token(job.stream, job.index, token_id, tokens, self.language, on_token)
        if job.stopped:
            self.rows[row] = None

    def _step(
        self, kind: Kind, rows: tuple[int, ...], ids: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Run the program on the rows from the first to the last, and return their scores."""
        self._grow(int(at.max()) + ids.shape[1])
        batch = 1 if len(ids) == 1 else self.most_rows
        parts = {n: cache[rows[0] : rows[-1] + 1] for n, cache in self.caches.items()}
        inputs = {"ids": ids, "at": at, **parts}
        planning = perf_counter()
        plan = plan_for(self.c, kind, batch, ids.shape[1], self.room)
        plan.runnable.bind(inputs)
        self.start += perf_counter() - planning
        begin = self._seconds()
        outputs = plan.run(inputs)
        for name, part in parts.items():
            if not np.may_share_memory(part, outputs[name]):  # the caches were not donated
                part[...] = outputs[name]
        requests = tuple(job.index for row, job in self._in_use() if row in rows)
        step = ScheduledStep(kind, rows, requests, ids.shape[1], begin, self._seconds())
        self.schedule.append(step)
        return outputs["scores"]

    def _grow(self, needed: int) -> None:
        """Lengthen the caches in pages, at least twofold, if a row needs more than they have."""
        if needed <= self.room:
            return
        self.room = min(round_up(max(2 * self.room, needed), PAGE), self.most)
        for name, cache in self.caches.items():
            self.caches[name] = lengthened(cache, self.room)
