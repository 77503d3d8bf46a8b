"""Races of one model in several runtimes: outputs are compared first, then times in turns.

Each other runtime has a process of its own, which is stopped outside of its turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import compile as compile_model
from explorer.frontends.model import Model
from explorer.measure.compare import (
    Comparison,
    Measurement,
    checked_seconds,
    comparison,
    measurement,
)
from explorer.measure.machine import machine
from explorer.measure.turns import Clock, Disturbance, Series, Watch, Watcher, take_turns
from explorer.printed import Printed
from explorer.tuning.compare import check_answers
from explorer.tuning.peers.peer_process import prepare_peers_apart
from explorer.tuning.peers.runtimes import check_peer_names, own_version

OURS = "ironworks"
ALONE = "no other runtime ran"


@dataclass(frozen=True, slots=True)
class Runner:
    """One runtime: its time, its largest error against our outputs, and our time against its.

    In `versus` ours is the first: its ratio is their time over ours. It is None for our own runner.
    `turns` records the disturbances of each turn.
    """

    name: str
    version: str
    time: Measurement
    max_abs_error: float
    versus: Comparison | None = None
    turns: tuple[Disturbance, ...] = ()

    @property
    def disturbed(self) -> float:
        """The share of its turns that other processes disturbed."""
        return sum(t.disturbed for t in self.turns) / max(1, len(self.turns))

    @property
    def waited_us(self) -> float:
        """The median time that a turn waited for the machine to be idle."""
        return median([t.waited_us for t in self.turns] or [0.0])


@dataclass(frozen=True, slots=True, repr=False)
class RaceResult(Printed):
    """All runners, ours first, and those that were skipped, with the reason.

    `ratio`: the time of the fastest other over ours, with its 99 % interval; `verdict` is ours:
    "faster", "slower", or "not distinguishable".
    """

    model: str
    threads: int
    machine: str
    runners: tuple[Runner, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def ours(self) -> Runner:
        """Our runner."""
        return self.runners[0]

    @property
    def fastest_other(self) -> Runner | None:
        """The other runtime whose time over ours is the least, None if none ran.

        A ratio is of neighbouring turns: medians of minutes differ more by the machine's load.
        """
        raced = (r for r in self.runners if r.versus is not None)
        return min(raced, key=lambda r: r.versus.ratio if r.versus else 0.0, default=None)

    @property
    def versus(self) -> Comparison | None:
        """The comparison with the fastest other runtime."""
        other = self.fastest_other
        return None if other is None else other.versus

    @property
    def ratio(self) -> float | None:
        """Our speedup over the fastest other runtime."""
        return None if self.versus is None else self.versus.ratio

    @property
    def verdict(self) -> str:
        """The verdict on our runner against the fastest other."""
        return ALONE if self.versus is None else self.versus.verdict

    def to_json(self) -> dict[str, object]:
        """Return the output of `ironworks race --json`."""
        versus, other = self.versus, self.fastest_other
        return {
            "model": self.model,
            "threads": self.threads,
            "machine": self.machine,
            "runtimes": {r.name: _fields(r) for r in self.runners},
            "skipped": dict(self.skipped),
            "fastest_other": None if other is None else other.name,
            "ratio": None if versus is None else versus.ratio,
            "ratio_low": None if versus is None else versus.low,
            "ratio_high": None if versus is None else versus.high,
            "wide": None if versus is None else versus.wide,
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        """Return the race as a table."""
        head = f"{self.model}, {self.threads} threads, {self.machine}"
        lines = [f"  {r.name:14} {_milliseconds(r.time)}{_against(r)}" for r in self.runners]
        lines += [f"  {name:14} skipped: {reason}" for name, reason in self.skipped]
        return "\n".join((f"{head}: {self.verdict}", *lines))


def race(
    model: Model | Compilation | str | Path,
    inputs: Mapping[str, np.ndarray],
    against: Sequence[str] = ("onnxruntime", "torch"),
    threads: int | None = None,
    seconds: float = 2.0,
    compilation: Compilation | None = None,
    clock: Clock = perf_counter_ns,
    watch: Watcher | None = None,
) -> RaceResult:
    """Race our compilation of a model against other runtimes with the same number of threads.

    It lasts `seconds`, or up to three times as long if an interval stays wide. A turn begins when
    all threads of the others are idle.

    Raises:
        AnswerMismatch: a runtime differs by more than 1e-4 of the largest output; nothing was
            timed then.
        BadOption: a runtime is unknown.
    """
    check_peer_names(against)
    checked_seconds(seconds)
    ours = with_threads(compilation or _compiled(model), threads)
    named_inputs = {n: np.asarray(a, order="C") for n, a in ours.named(inputs).items()}
    answer = ours.run(named_inputs)
    with ExitStack() as stack:
        entering = dict.fromkeys(against)
        peers, skipped = prepare_peers_apart(
            entering, ours.model, named_inputs, threads_of(ours), stack
        )
        errors = [check_answers(answer, peer.run(), peer.name) for peer in peers]
        works = [lambda: ours.run(named_inputs), *(peer.run for peer in peers)]
        first, *others = take_turns(works, seconds, clock, watch or Watch(), _is_narrow)
    runners = [Runner(OURS, own_version(), measurement(first), 0.0, None, _disturbances(first))]
    for peer, error, series in zip(peers, errors, others, strict=True):
        versus = comparison(first, series)
        runners.append(
            Runner(peer.name, peer.version, versus.second, error, versus, _disturbances(series))
        )
    return RaceResult(
        ours.model.name, threads_of(ours), machine().line, tuple(runners), tuple(skipped.items())
    )


def _is_narrow(series: Sequence[Series]) -> bool:
    """Return True if no interval is wide."""
    first, *others = series
    return not any(comparison(first, other).wide for other in others)


def _disturbances(series: Series) -> tuple[Disturbance, ...]:
    return tuple(series.disturbances)


def with_threads(c: Compilation, threads: int | None) -> Compilation:
    """Return the compilation with this number of workers; no kernel depends on it."""
    if threads is None or threads == threads_of(c):
        return c
    return c.with_options(rammer=replace(c.options.rammer, threads=threads))


def threads_of(c: Compilation) -> int:
    """Return the number of workers of a compilation."""
    return c.options.rammer.threads or c.device.units


def _compiled(model: Model | Compilation | str | Path) -> Compilation:
    return model if isinstance(model, Compilation) else compile_model(model)


def _fields(r: Runner) -> dict[str, object]:
    time = r.time
    return {
        "median_us": time.median_us,
        "low_us": time.low_us,
        "high_us": time.high_us,
        "n": time.n,
        "max_abs_error": r.max_abs_error,
        "version": r.version,
        "waited_us": r.waited_us,
        "disturbed": r.disturbed,
        "turns": [asdict(t) for t in r.turns],
    }


def _milliseconds(time: Measurement) -> str:
    low, high = time.low_us / 1e3, time.high_us / 1e3
    return f"{time.median_us / 1e3:9.3f} ms ({low:.3f} to {high:.3f}, n = {time.n})"


def _against(r: Runner) -> str:
    disturbed = f"  {r.disturbed:.0%} of its turns disturbed" if r.turns else ""
    return disturbed if r.versus is None else f"  {r.versus}{disturbed}"
